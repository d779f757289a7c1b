"""The experiments on chains under deadlines and on overload, in very small sizes."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from experiment_reports import report_of

from grpcperf import load

SERVERS = ("native", "grpc-go")
pytestmark = pytest.mark.timeout(400)  # the first Go server is built


def test_pruning_saves_work_after_the_deadline() -> None:
    report = report_of("deadline-pruning", hops=3, hop_ms=30.0, deadline_hops=[1.5], calls=24, concurrency=8)
    assert len(report.rows) == 6
    for server in SERVERS:
        none, on_cancel, prune = report.select(server=server)
        assert [row["strategy"] for row in (none, on_cancel, prune)] == ["none", "on_cancel", "prune"]
        assert none["work_after_deadline_ms"] > 5
        assert on_cancel["work_after_deadline_ms"] < none["work_after_deadline_ms"] / 2
        assert prune["work_after_deadline_ms"] < none["work_after_deadline_ms"] / 3
        assert prune["pruned_share"] > 0.5
        assert none["pruned_share"] == on_cancel["pruned_share"] == 0
        assert prune["latency_mean_ms"] < none["latency_mean_ms"]
        assert prune["handlers_per_call"] < on_cancel["handlers_per_call"] + 0.1
        assert server in report.verdict


def test_a_deadline_that_suffices_prunes_nothing() -> None:
    report = report_of(
        "deadline-pruning",
        strategies=["prune"],
        hops=2,
        hop_ms=10.0,
        deadline_hops=[30.0],
        calls=10,
        concurrency=2,
    )
    assert [(row["server"], row["pruned_share"], row["ok_share"]) for row in report.rows] == [
        (server, 0, 1) for server in SERVERS
    ]
    assert all(row["handlers_per_call"] == 2 for row in report.rows)


def test_a_chain_of_which_no_call_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*where: Any, **how: Any) -> Any:
        result = load(*where, **how)
        return replace(result, status=dict.fromkeys(result.status, 0))

    monkeypatch.setattr(import_module("grpcperf.experiments.deadline_pruning"), "load", none)
    small = {"servers": ["native"], "strategies": ["none"], "hops": 1, "calls": 2, "hop_ms": 10.0}
    report = report_of("deadline-pruning", **small, deadline_hops=[3])
    assert report.rows[0]["pruned_share"] is None
    assert report.verdict == "For each call on native under a deadline of 30 ms: none unknown."


def test_the_bucket_keeps_accepted_latency_flat() -> None:
    report = report_of("overload", offered=[0.5, 3.0], threads=4, work_ms=10.0, duration=0.25)
    rows = {(row["server"], row["limit"], row["offered_ratio"]): row for row in report.rows}
    assert len(rows) == 8 + 6
    assert report.skipped == {"pool with rejection on grpc-go": "grpc-go has no pool"}
    for server in SERVERS:
        queue, bucket = rows[server, "none", 3.0], rows[server, "bucket", 3.0]
        assert queue["accepted_p50_us"] > 5 * rows[server, "none", 0.5]["accepted_p50_us"]
        assert bucket["accepted_p50_us"] < queue["accepted_p50_us"] / 3
        assert bucket["goodput_rps"] < bucket["capacity_rps"] * 1.2
        assert 0.4 < bucket["rejected_share"] < 0.9
        assert rows[server, "degrade", 3.0]["degraded"] > 0
        assert rows[server, "degrade", 3.0]["rejected"] == 0
        assert queue["rejected"] == queue["degraded"] == 0
    assert rows["native", "pool with rejection", 3.0]["rejected"] > 0


def test_servers_of_somebody_elses_are_left_out() -> None:
    def mine() -> None:
        raise AssertionError("is not started")

    small = {"servers": [mine, "native:thread"], "repeats": 1}
    chains = report_of("deadline-pruning", **small, strategies=["prune"], hops=2, calls=4, deadline_hops=[9])
    assert chains.skipped == {"mine": "it is not told which server to call next"}
    limits = report_of("overload", **small, limits=["bucket", "pool with rejection"], offered=[0.5])
    assert limits.skipped == {
        "mine": "its capacity is not known",
        "pool with rejection on native:thread": "how its calls get threads is given",
    }
    assert [row["limit"] for row in limits.rows] == ["bucket"]
