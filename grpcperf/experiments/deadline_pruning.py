"""A chain of servers under a deadline: what is done for nobody once it has passed, and what refusing early
saves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.histogram import Histogram
from grpcperf.load import load
from grpcperf.targets import Measurable, PruneBelow
from grpcperf.units import count, one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRATEGIES = ("none", "on_cancel", "prune")


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    strategies: Sequence[str],
    hops: int,
    hop_ms: float,
    deadline_hops: Sequence[float],
    calls: int,
    concurrency: int,
    repeats: int,
) -> Iterator[Row]:
    """A chain of servers of one kind. Each hop waits for hop_ms and then calls the next. Deadlines are given
    in hops: with 4 hops one of 2.5 passes in the third. "none": handlers go on after it; "on_cancel": they
    stop; "prune": they stop, and a hop refuses what has less left than it needs."""
    hops = count(hops, "hops")
    strategies = [one_of(strategy, "strategies", STRATEGIES) for strategy in strategies]
    for server in kit.servers(servers):
        if not (server.is_native or server.is_go):
            kit.skip(server.name, "it is not told which server to call next")
            continue
        for deadline_s, strategy in product((each * hop_ms / 1e3 for each in deadline_hops), strategies):
            about = {"server": server.name, "strategy": strategy, "deadline_ms": deadline_s * 1e3}
            kit.say(**about)
            one = partial(_one, kit, server, strategy, hops, hop_ms, deadline_s, calls, concurrency)
            yield about | kit.repeat(repeats, one)


def _one(
    kit: Kit,
    server: ServerKind,
    strategy: str,
    hops: int,
    hop_ms: float,
    deadline_s: float,
    calls: int,
    concurrency: int,
) -> Row:
    behaviour = {"delay-us": round(hop_ms * 1e3), "observe-cancel": int(strategy != "none")}
    limits = [PruneBelow(hop_ms / 1e3)] if strategy == "prune" else []
    with ExitStack() as stack:
        chain: list[Measurable] = []
        for _ in range(hops):
            following = chain[0] if chain else None
            hop = server.start(behaviour=behaviour, limits=limits, forward=following)
            chain.insert(0, stack.enter_context(hop))
        result = load(
            chain[0], calls=calls, warmup=0, concurrency=concurrency, deadline=deadline_s, progress=False
        )
        time.sleep(hops * hop_ms / 1e3)  # what goes on for nobody is to be counted
        counters = [hop.counters() for hop in chain]
    # Deadlines are meant to pass.
    kit.note(result, f"{server.name}, {strategy}", ignore=("all_failed", "few_samples"))
    if not result.calls:
        return {}  # nothing is known of any
    both: Histogram = result.latency + result.error_latency
    return {
        "latency_mean_ms": None if both.mean is None else both.mean * 1e3,
        "ok_share": result.status["OK"] / result.calls,
        "pruned_share": sum(one.pruned for one in counters) / result.calls,
        "work_after_deadline_ms": sum(one.work_after_cancel_us for one in counters) / 1e3 / result.calls,
        "handlers_per_call": sum(one.started for one in counters) / result.calls,
    }


def verdict(report: Report) -> str:
    parts = []
    for server, deadline in dict.fromkeys((row["server"], row["deadline_ms"]) for row in report.rows):
        told = [_told(row) for row in report.select(server=server, deadline_ms=deadline)]
        parts.append(f"{server} under a deadline of {deadline:.0f} ms: {'; '.join(told)}")
    return "For each call on " + ". On ".join(parts) + "."


def _told(row: Mapping[str, Any]) -> str:
    if None in (row["latency_mean_ms"], row["work_after_deadline_ms"], row["pruned_share"]):
        return f"{row['strategy']} unknown"
    return (
        f"{row['strategy']} {row['latency_mean_ms']:.0f} ms, {row['work_after_deadline_ms']:.0f} ms of "
        f"work for nobody, {row['pruned_share']:.0%} pruned"
    )


def figures(report: Report) -> list[Figure]:
    return [
        Figure(title=f"{title}, {server}", draw=partial(_draw, report, server, metric, unit))
        for title, metric, unit in (
            ("Work after the deadline", "work_after_deadline_ms", "ms per call"),
            ("Mean latency", "latency_mean_ms", "ms"),
        )
        for server in dict.fromkeys(row["server"] for row in report.rows)
    ]


def _draw(report: Report, server: str, metric: str, unit: str, ax: Axes) -> None:
    deadlines = list(dict.fromkeys(row["deadline_ms"] for row in report.rows))
    names = list(dict.fromkeys(row["strategy"] for row in report.rows))
    width = 0.8 / len(names)
    for at, name in enumerate(names):
        rows = report.select(server=server, strategy=name)
        places = [deadlines.index(row["deadline_ms"]) + (at - len(names) / 2 + 0.5) * width for row in rows]
        ax.bar(
            places,
            [row[metric] or 0 for row in rows],
            width,
            color=look(at)["color"],
            label=name,
            hatch=("", "//", "..")[at % 3],
        )
    ax.set_xticks(range(len(deadlines)), [f"{deadline:.0f} ms" for deadline in deadlines])
    ax.set_ylim(0, 1.05 * max(row[metric] or 0 for row in report.rows) or 1)  # servers compare by eye
    ax.set_xlabel("deadline")
    ax.set_ylabel(unit)
    ax.legend()


EXPERIMENT = Experiment(
    name="deadline-pruning",
    question="What does it save to refuse calls that cannot make their deadline?",
    columns=(
        "server",
        "strategy",
        "deadline_ms",
        "latency_mean_ms",
        "ok_share",
        "pruned_share",
        "work_after_deadline_ms",
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "strategies": list(STRATEGIES),
        "hops": 4,
        "hop_ms": 20.0,
        "deadline_hops": [2.5, 5.0],
        "calls": 50,
        "concurrency": 25,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go@1.46.2", "grpc-go"],
        "strategies": list(STRATEGIES),
        "hops": 4,
        "hop_ms": 50.0,
        "deadline_hops": [1.5, 2.5, 3.5, 5.0],
        "calls": 250,
        "concurrency": 50,
        "repeats": 3,
    },
    source="none 128 ms, 0 % pruned; stop when cancelled 96 ms, 32 %; refuse under 50 ms left 41 ms, 89 %",
)
