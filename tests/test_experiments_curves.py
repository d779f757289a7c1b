"""The experiments of the throughput curves, in very small sizes: their rows, and shapes by ratio or count."""

import os

import pytest
from experiment_reports import report_of

import grpcperf as gp
from grpcperf.experiments import Kit, curves
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
    assert report.data["per_message_us"] > 0
    assert report.data[server]["r2"] > 0.5  # a median of a busy machine; a quiet one has 0.99
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
        curves.under(Kit("quick", bar), {**curves.CONDITIONS, "pinned": True}, server_kind(name)) as (
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
