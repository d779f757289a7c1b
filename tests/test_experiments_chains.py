"""The experiments on chains under deadlines and on overload, in very small sizes."""

from experiment_reports import report_of


def test_pruning_saves_work_after_the_deadline() -> None:
    report = report_of("deadline-pruning", hops=3, hop_ms=30.0, deadline_hops=[1.5], calls=24, concurrency=8)
    none, on_cancel, prune = report.rows
    assert [row["strategy"] for row in report.rows] == ["none", "on_cancel", "prune"]
    assert none["work_after_deadline_ms"] > 5
    assert on_cancel["work_after_deadline_ms"] < none["work_after_deadline_ms"] / 3
    assert prune["pruned_share"] > 0.5
    assert none["pruned_share"] == on_cancel["pruned_share"] == 0
    assert prune["latency_mean_ms"] < none["latency_mean_ms"]
    assert prune["handlers_per_call"] < on_cancel["handlers_per_call"] + 0.1


def test_a_deadline_that_suffices_prunes_nothing() -> None:
    (row,) = report_of(
        "deadline-pruning",
        strategies=["prune"],
        hops=2,
        hop_ms=10.0,
        deadline_hops=[30.0],
        calls=10,
        concurrency=2,
    ).rows
    assert (row["pruned_share"], row["ok_share"]) == (0, 1)


def test_the_bucket_keeps_accepted_latency_flat() -> None:
    report = report_of("overload", offered=[0.5, 3.0], threads=4, work_ms=10.0, duration=0.4)
    rows = {(row["limit"], row["offered_ratio"]): row for row in report.rows}
    assert len(rows) == 8
    queue, bucket = rows["none", 3.0], rows["bucket", 3.0]
    assert queue["accepted_p50_us"] > 5 * rows["none", 0.5]["accepted_p50_us"]
    assert bucket["accepted_p50_us"] < queue["accepted_p50_us"] / 3
    assert bucket["rejected"] > 0
    assert rows["pool with rejection", 3.0]["rejected"] > 0
    assert rows["degrade", 3.0]["degraded"] > 0
    assert rows["degrade", 3.0]["rejected"] == 0
    assert queue["rejected"] == 0
