"""More calls than a server can do: what becomes of those that it accepts, with different limits in front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import logarithmic
from grpcperf.labels import label
from grpcperf.load import load
from grpcperf.plot import lines
from grpcperf.targets import Pool, Rate, Server

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMITS = ("none", "bucket", "pool with rejection", "degrade")
SHARE = 0.9  # of the capacity that the bucket lets through


def measure(
    kit: Kit,
    *,
    limits: Sequence[str],
    offered: Sequence[float],
    threads: int,
    work_ms: float,
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """A pool of threads whose calls take work_ms each, without CPU, so that its capacity is known: threads /
    work_ms. Offered: that capacity times a ratio, Poisson arrivals."""
    capacity = threads / work_ms * 1e3
    for limit in limits:
        for ratio in offered:
            kit.say(limit=limit, offered_ratio=ratio)

            def one(limit: str = limit, ratio: float = ratio) -> Row:
                return _one(kit, limit, capacity, ratio, threads, work_ms, duration)

            yield {
                "limit": limit,
                "offered_ratio": ratio,
                "capacity_rps": capacity,
                **kit.repeat(repeats, one),
            }


def _server(limit: str, capacity: float, threads: int, work_ms: float) -> Server:
    bucket = Rate(capacity * SHARE, burst=threads, on_excess="degrade" if limit == "degrade" else "reject")
    queue = threads * 2 if limit == "pool with rejection" else 1_000_000
    return Server(
        model=Pool(threads, queue=queue),
        limits=[bucket] if limit in ("bucket", "degrade") else [],
        behaviour={"delay-us": round(work_ms * 1e3)},
    )


def _one(
    kit: Kit, limit: str, capacity: float, ratio: float, threads: int, work_ms: float, duration: float
) -> Row:
    with _server(limit, capacity, threads, work_ms) as server:
        before = server.counters()
        result = load(
            server,
            rate=capacity * ratio,
            duration=duration,
            warmup=duration / 4,
            max_in_flight=1_000_000,
            drain=duration * 4,
            progress=False,
        )
        after = server.counters()
    kit.note(result, f"{limit} at {ratio:g}")
    degraded = after.degraded - before.degraded
    seen_before = before.started + before.rejected + before.degraded
    # The counters hold the warm-up too; of its calls as large a share is degraded as of those measured.
    measured = result.calls / max(1, after.started + after.rejected + after.degraded - seen_before)
    cheap = min(degraded * measured, result.status["OK"])
    share = cheap / max(1, result.status["OK"])

    def accepted(q: float) -> float | None:
        """Cheap answers are the fastest by far: what is above their share are the handlers'."""
        value = result.latency.quantile(share + (1 - share) * q)
        return None if value is None else value * 1e6

    return {
        "goodput_rps": result.throughput_rps * (1 - share),
        "accepted_p50_us": accepted(0.5),
        "accepted_p99_us": accepted(0.99),
        "rejected": result.status["RESOURCE_EXHAUSTED"],
        "degraded": round(cheap),
        "rejected_share": result.status["RESOURCE_EXHAUSTED"] / result.calls if result.calls else None,
    }


def verdict(report: Report) -> str:
    most = max(row["offered_ratio"] for row in report.rows)
    least = min(row["offered_ratio"] for row in report.rows)
    parts = []
    for limit in dict.fromkeys(row["limit"] for row in report.rows):
        ends = [report.select(limit=limit, offered_ratio=ratio) for ratio in (least, most)]
        if not all(rows and rows[0]["accepted_p50_us"] for rows in ends):
            continue
        calm, full = ends[0][0], ends[1][0]
        growth = full["accepted_p50_us"] / calm["accepted_p50_us"]
        share = full["goodput_rps"] / full["capacity_rps"]
        told = f"{limit}: goodput {share:.0%} of the capacity, median of the accepted {growth:.1f} times"
        parts.append(f"{told} that at {least:g}")
    if not parts:
        return "Too little was measured for a verdict."
    return f"At {most:g} times the capacity, {'; '.join(parts)}."


def figures(report: Report) -> list[Figure]:
    return [
        Figure(title="Goodput", draw=lambda ax: _draw(report, ax, "goodput_rps")),
        Figure(
            title="Latency of accepted calls, median", draw=lambda ax: _draw(report, ax, "accepted_p50_us")
        ),
    ]


def _draw(report: Report, ax: Axes, metric: str) -> None:
    lines(ax, report.rows, "offered_ratio", metric, by="limit")
    ax.set_xlabel("offered rate (times the capacity)")
    if metric.endswith("_us"):
        ax.autoscale(axis="y")  # away from 0, which has no logarithm
        logarithmic(ax, label(metric))


EXPERIMENT = Experiment(
    name="overload",
    question="What happens to accepted calls when more come than the server can do?",
    columns=("limit", "offered_ratio", "goodput_rps", "accepted_p99_us", "rejected", "degraded"),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "limits": list(LIMITS),
        "offered": [0.5, 1.5, 3.0],
        "threads": 8,
        "work_ms": 4.0,
        "duration": 0.4,
        "repeats": 1,
    },
    full={
        "limits": list(LIMITS),
        "offered": [0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0],
        "threads": 16,
        "work_ms": 10.0,
        "duration": 3.0,
        "repeats": 3,
    },
    source="a limit of 1,500 calls/s; at the peak 12.7 % of the less important calls were degraded",
)
