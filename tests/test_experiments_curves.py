"""The experiments of the throughput curves, in very small sizes: their rows, and shapes by ratio or count."""

import math
import os
from dataclasses import replace

import pytest
from experiment_reports import report_of

import grpcperf as gp
from grpcperf import experiments
from grpcperf.experiments import Kit, Report, curves
from grpcperf.experiments.kit import server_kind
from grpcperf.experiments.places import Places, places
from grpcperf.progress import SweepProgress

SMALL = {"duration": 0.08, "repeats": 1}


@pytest.mark.parametrize("server", ["native", "grpc-go"])
def test_connections_curve(server: str) -> None:
    report = report_of(
        "connections-curve", servers=[server], connections=[1, 2], request_sizes=[16, "64KiB"], **SMALL
    )
    assert [(row["connections"], row["request_size"]) for row in report.rows] == [
        (1, 16),
        (2, 16),
        (1, 65536),
        (2, 65536),
    ]
    small, large = report.select(request_size=16), report.select(request_size=65536)
    assert max(row["mib_per_s"] for row in large) > 5 * max(row["mib_per_s"] for row in small)
    assert all(row["errors"] == 0 for row in report.rows)


def test_concurrency_is_bought_by_queueing() -> None:
    report = report_of(
        "concurrency-curve", servers=["native"], concurrency=[1, 4, 16, 128], fractions=[0.3], **SMALL
    )
    closed = report.select(loop="closed")
    assert closed[-1]["latency_p50_us"] > 3 * closed[0]["latency_p50_us"]
    assert closed[-1]["throughput_rps"] > 1.2 * closed[0]["throughput_rps"]
    assert {"contention", "coherency", "r2", "knee"} <= set(report.data["native"])
    (opened,) = report.select(loop="open")
    assert opened["rate"] == round(0.3 * max(row["throughput_rps"] for row in closed))


@pytest.mark.parametrize("server", ["native", "grpc-go"])
def test_streams_are_decomposed(server: str) -> None:
    report = report_of("unary-vs-stream", servers=[server], messages=[1, 10, 40], **SMALL)
    assert report.rows[0]["kind"] == "unary"
    fit = report.data[server]
    assert fit["per_message_us"] > 0
    assert fit["r2"] > 0.5  # a median of a busy machine; a quiet one has 0.99
    assert fit["per_stream_us_low"] < fit["per_stream_us"] < fit["per_stream_us_high"]
    assert f"[{fit['per_stream_us_low']:.0f}, {fit['per_stream_us_high']:.0f}]" in report.verdict
    assert all(row["errors"] == 0 for row in report.rows)


def test_server_threads() -> None:
    report = report_of(
        "server-threads", servers=["native", "grpc-go"], threads=[1, 2], pinned=[False], **SMALL
    )
    assert [(row["server"], row["threads"]) for row in report.rows] == [
        *(("native", 1), ("native", 2)),
        *(("grpc-go", 1), ("grpc-go", 2)),
    ]
    assert all(row["throughput_rps"] > 0 for row in report.rows)


def threads_report(cpus: int, *rates: tuple[int, float]) -> Report:
    """Measured as if each had an interval of 10 either way."""
    rows = [
        {"server": "native", "threads": threads, "pinned": False, "cpus": cpus, "throughput_rps": rate}
        | {"throughput_rps_low": rate - 10, "throughput_rps_high": rate + 10}
        for threads, rate in rates
    ]
    experiment = experiments.find("server-threads")
    return Report(name=experiment.name, rows=rows, data={}, findings=(), skipped={}, answered_by=experiment)


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        (130, "1.30 times what 8 (one a CPU) do, which is better"),
        (115, "the same as far"),
        (70, "which is worse"),
    ],
)
def test_the_advice_on_threads_is_judged_by_intervals(rate: float, told: str) -> None:
    report = threads_report(8, (4, 60), (8, 100), (10, rate), (16, 900))
    assert report.verdict.count("as advised") == 1  # 16 are two for each CPU
    assert f"10 as advised do {rate / 100:.2f} times" in report.verdict
    assert told in report.verdict


def test_threads_are_counted_by_cpu() -> None:
    report = report_of(
        "server-threads", servers=["native"], threads=[], per_cpu=[1, 1.5], pinned=[False], **SMALL
    )
    cpus = len(os.sched_getaffinity(0))
    assert [row["threads"] for row in report.rows] == [cpus, math.floor(1.5 * cpus + 0.5)]
    assert "one repeat cannot tell" in report.verdict


@pytest.mark.parametrize("name", ["concurrency-curve", "unary-vs-stream"])
def test_curves_take_a_size(name: str) -> None:
    """4 MiB with its framing is more than servers take by default."""
    few = {"concurrency": [1], "fractions": [0.5]} if name == "concurrency-curve" else {"messages": [2]}
    report = report_of(name, servers=["native", "grpc-go"], request_size="4MiB", **few, **SMALL)
    assert [row["request_size"] for row in report.rows] == [4_194_304] * 4
    assert all(row["errors"] == 0 for row in report.rows)


def test_a_knee_is_told_where_it_was_measured() -> None:
    report = report_of("concurrency-curve", servers=["native"], concurrency=[1], fractions=[], **SMALL)
    row = {**report.rows[0], "throughput_rps": 1000.0}
    report = replace(report, rows=[row, {**row, "concurrency": 64}])
    fit = {"r2": 0.9, "knee": 40.4, "knee_low": 30.0, "knee_high": 200.0}
    assert "knee is at 40 [30, 200]" in replace(report, data={"native": fit}).verdict
    assert "beyond what was measured" in replace(report, data={"native": fit | {"knee": 900.0}}).verdict
    assert "no knee" in replace(report, data={"native": fit | {"knee": None}}).verdict


def test_options_are_held_against_the_defaults() -> None:
    report = report_of(
        "transport-tuning",
        options=["none", "client: core, no retries"],
        sizes=[16],
        duration=0.1,
        repeats=3,
        concurrency=8,
    )
    none, core = report.rows
    assert none["value"] == "defaults"
    assert core["client_cpu_us_per_call"] > 2 * none["client_cpu_us_per_call"]
    assert none["throughput_ratio_low"] < 1.5  # one in twenty such intervals is beside 1
    assert none["throughput_ratio_high"] > 0.7
    assert "syscalls_per_call" in report.skipped
    assert "no switch" in report.skipped["coalescing in the client"]


def test_retries_are_held_against_the_same_client_without() -> None:
    """The other client takes several times the throughput of this one, which would be told of retries."""
    report = report_of(
        "transport-tuning",
        options=["client: core, retries"],
        sizes=[16],
        duration=0.15,
        repeats=2,
        concurrency=8,
    )
    (row,) = report.rows
    assert row["baseline"] == "client: core, no retries"
    assert row["throughput_ratio"] > 0
    assert "(against client: core, no retries)" in report.verdict


def test_an_option_that_is_none_is_refused() -> None:
    with pytest.raises(gp.InvalidRequest, match="option must be one of"):
        experiments.find("transport-tuning")(progress=False, options=["none", "foo"])


def test_curves_under_other_conditions() -> None:
    """TLS, compression, one thread, work in the handler, and a line of 5 ms each way: the trip takes all of
    it."""
    report = report_of(
        "concurrency-curve",
        servers=["native", "grpc-go"],
        concurrency=[1],
        fractions=[],
        tls=True,
        compression="gzip",
        threads=1,
        busy_us=100,
        delay_us=1000,
        distance_ms=5.0,
        duration=0.6,
        repeats=1,
    )
    assert all(row["latency_p50_us"] > 11_000 and row["errors"] == 0 for row in report.rows)
    assert all(row["tls"] is True and row["distance_ms"] == 5.0 for row in report.rows)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")
@pytest.mark.parametrize("name", ["native", "grpc-go"])
def test_pinned_servers_leave_the_client_a_cpu(name: str) -> None:
    """The affinity is the kernel's word, not ours."""
    with (
        SweepProgress(None, False) as bar,
        curves.under(
            Kit("quick", bar), {**curves.CONDITIONS, "pinned": True}, server_kind(name), largest=0
        ) as (
            target,
            asked,
        ),
    ):
        assert target.pid
        all_tasks = [os.sched_getaffinity(int(one)) for one in os.listdir(f"/proc/{target.pid}/task")]
        assert gp.load(target, duration=0.05, **asked).errors == 0
    assert not set.union(*all_tasks) & set(asked["cpus"])
    assert set.union(*all_tasks) | set(asked["cpus"]) == os.sched_getaffinity(0)


def test_one_cpu_cannot_be_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with SweepProgress(None, False) as bar:
        kit = Kit("quick", bar)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
        assert places(kit, pinned=True) == Places()
        assert list(kit.skipped) == ["pinned"]
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5})
        assert places(kit, pinned=True) == Places(server=[3, 5], client=[1])
        assert places(kit, pinned=False) == Places()
