"""More calls than a server can do: what becomes of those that it accepts, with different limits in front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from grpcperf.errors import InvalidRequest
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.readings import microseconds
from grpcperf.experiments.report import Report
from grpcperf.figures import logarithmic
from grpcperf.labels import label
from grpcperf.load import load
from grpcperf.plot import lines
from grpcperf.targets import Measurable, Pool, Rate, Semaphore
from grpcperf.units import count, one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REJECTING = "pool with rejection"
LIMITS = ("none", "bucket", REJECTING, "degrade")
SHARE = 0.9  # of the capacity that the bucket lets through


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    limits: Sequence[str],
    offered: Sequence[float],
    threads: int,
    work_ms: float,
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """Handlers take work_ms each, without CPU, and `threads` run at once, so that the capacity is known:
    threads / work_ms. "native" has a pool of so many threads, other servers a semaphore behind the bucket.
    Offered: that capacity times a ratio, Poisson arrivals."""
    if work_ms <= 0:
        raise InvalidRequest("work_ms must be more than 0: it is the capacity")
    threads = count(threads, "threads")
    limits = [one_of(limit, "limits", LIMITS) for limit in limits]
    capacity = threads / work_ms * 1e3
    for server in kit.servers(servers):
        if not (server.is_native or server.is_go):
            kit.skip(server.name, "its capacity is not known")
            continue
        if REJECTING in limits and not _has_pool(server):
            why = "grpc-go has no pool" if server.is_go else "how its calls get threads is given"
            kit.skip(f"{REJECTING} on {server.name}", why)
        can = [limit for limit in limits if limit != REJECTING or _has_pool(server)]
        for limit, ratio in product(can, offered):
            kit.say(server=server.name, limit=limit, offered_ratio=ratio)
            about = {"server": server.name, "limit": limit, "offered_ratio": ratio, "capacity_rps": capacity}
            one = partial(_one, kit, server, limit, capacity, ratio, threads, work_ms, duration)
            yield about | kit.repeat(repeats, one)


def _has_pool(server: ServerKind) -> bool:
    """One whose model was left open."""
    return server.name == "native"


def _start(server: ServerKind, limit: str, capacity: float, threads: int, work_ms: float) -> Measurable:
    bucket = Rate(capacity * SHARE, burst=threads, on_excess="degrade" if limit == "degrade" else "reject")
    before = [bucket] if limit in ("bucket", "degrade") else []
    behaviour = {"delay-us": round(work_ms * 1e3)}
    if not _has_pool(server):
        return server.start(limits=[*before, Semaphore(threads)], behaviour=behaviour)
    queue = threads * 2 if limit == REJECTING else 1_000_000
    return server.start(model=Pool(threads, queue=queue), limits=before, behaviour=behaviour)


def _one(
    kit: Kit,
    server: ServerKind,
    limit: str,
    capacity: float,
    ratio: float,
    threads: int,
    work_ms: float,
    duration: float,
) -> Row:
    with _start(server, limit, capacity, threads, work_ms) as target:
        before = target.counters()
        result = load(
            target,
            rate=capacity * ratio,
            duration=duration,
            warmup=duration / 4,
            max_in_flight=1_000_000,
            drain=duration * 4,
            progress=False,
        )
        after = target.counters()
    kit.note(result, f"{server.name}, {limit} at {ratio:g}")
    degraded = after.degraded - before.degraded
    seen_before = before.started + before.rejected + before.degraded
    # The counters hold the warm-up too; of its calls as large a share is degraded as of those measured.
    measured = result.calls / max(1, after.started + after.rejected + after.degraded - seen_before)
    cheap = min(degraded * measured, result.status["OK"])
    share = cheap / max(1, result.status["OK"])

    def accepted(q: float) -> float | None:
        """Cheap answers are the fastest by far: what is above their share are the handlers'."""
        return microseconds(result.latency.quantile(share + (1 - share) * q))

    return {
        "goodput_rps": result.throughput_rps * (1 - share),
        "accepted_p50_us": accepted(0.5),
        "accepted_p99_us": accepted(0.99),
        "rejected": result.status["RESOURCE_EXHAUSTED"],
        "degraded": round(cheap),
        "rejected_share": result.status["RESOURCE_EXHAUSTED"] / result.calls if result.calls else None,
    }


def verdict(report: Report) -> str:
    ratios = [row["offered_ratio"] for row in report.rows]
    least, most = min(ratios), max(ratios)
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        limits = dict.fromkeys(row["limit"] for row in report.select(server=server))
        told = ", ".join(filter(None, (_told(report, server, limit, least, most) for limit in limits)))
        if told:
            parts.append(f"{server} {told}")
    if not parts:
        return "Too little was measured for a verdict."
    return (
        f"Goodput at {most:g} times the capacity, as a share of it, and the median of the accepted, as a "
        f"multiple of that at {least:g} times: {'; '.join(parts)}."
    )


def _told(report: Report, server: str, limit: str, least: float, most: float) -> str:
    ends = [report.select(server=server, limit=limit, offered_ratio=ratio) for ratio in (least, most)]
    if not all(rows and rows[0]["accepted_p50_us"] for rows in ends):
        return ""
    calm, full = ends[0][0], ends[1][0]
    growth = full["accepted_p50_us"] / calm["accepted_p50_us"]
    share = full["goodput_rps"] / full["capacity_rps"]
    return f"{limit} {share:.0%} and {growth:.1f}"


def figures(report: Report) -> list[Figure]:
    return [
        Figure(title=f"{title}, {server}", draw=partial(_draw, report, server, metric))
        for title, metric in (
            ("Goodput", "goodput_rps"),
            ("Latency of accepted calls, median", "accepted_p50_us"),
        )
        for server in dict.fromkeys(row["server"] for row in report.rows)
    ]


def _draw(report: Report, server: str, metric: str, ax: Axes) -> None:
    lines(ax, report.select(server=server), "offered_ratio", metric, by="limit")
    ax.set_xlabel("offered rate (times the capacity)")
    if metric.endswith("_us"):
        ax.autoscale(axis="y")  # away from 0, which has no logarithm
        logarithmic(ax, label(metric))


EXPERIMENT = Experiment(
    name="overload",
    question="What happens to accepted calls when more come than the server can do?",
    columns=("server", "limit", "offered_ratio", "goodput_rps", "accepted_p99_us", "rejected", "degraded"),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "limits": list(LIMITS),
        "offered": [0.5, 1.5, 3.0],
        "threads": 8,
        "work_ms": 4.0,
        "duration": 0.2,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "limits": list(LIMITS),
        "offered": [0.5, 1.0, 1.25, 1.5, 2.0, 3.0],
        "threads": 16,
        "work_ms": 10.0,
        "duration": 1.2,
        "repeats": 3,
    },
    source="a limit of 1,500 calls/s; at the peak 12.7 % of the less important calls were degraded",
)
