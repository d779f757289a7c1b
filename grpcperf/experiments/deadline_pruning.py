"""A chain of servers under a deadline: what is done for nobody once it has passed, and what refusing early
saves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.histogram import Histogram
from grpcperf.load import load
from grpcperf.targets import PruneBelow, Server

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRATEGIES = ("none", "on_cancel", "prune")


def measure(
    kit: Kit,
    *,
    strategies: Sequence[str],
    hops: int,
    hop_ms: float,
    deadline_hops: Sequence[float],
    calls: int,
    concurrency: int,
    repeats: int,
) -> Iterator[Row]:
    """Each hop waits for hop_ms and then calls the next. Deadlines are given in hops: with 4 hops one of 2.5
    passes in the third. "none": handlers go on after it; "on_cancel": they stop; "prune": they stop, and a
    hop refuses what has less left than it needs."""
    for hops_left in deadline_hops:
        deadline_s = hops_left * hop_ms / 1e3
        for strategy in strategies:
            kit.say(strategy=strategy, deadline_ms=deadline_s * 1e3)

            def one(strategy: str = strategy, deadline_s: float = deadline_s) -> Row:
                return _one(kit, strategy, hops, hop_ms, deadline_s, calls, concurrency)

            yield {"strategy": strategy, "deadline_ms": deadline_s * 1e3, **kit.repeat(repeats, one)}


def _one(
    kit: Kit, strategy: str, hops: int, hop_ms: float, deadline_s: float, calls: int, concurrency: int
) -> Row:
    behaviour = {"delay-us": round(hop_ms * 1e3), "observe-cancel": int(strategy != "none")}
    limits = [PruneBelow(hop_ms / 1e3)] if strategy == "prune" else []
    with ExitStack() as stack:
        chain: list[Server] = []
        for _ in range(hops):
            following = chain[0] if chain else None
            server = Server(behaviour=behaviour, limits=limits, forward=following)
            chain.insert(0, stack.enter_context(server))
        result = load(
            chain[0], calls=calls, warmup=0, concurrency=concurrency, deadline=deadline_s, progress=False
        )
        time.sleep(hops * hop_ms / 1e3)  # what goes on for nobody is to be counted
        counters = [server.counters() for server in chain]
    kit.note(result, strategy, ignore=("all_failed", "few_samples"))  # deadlines are meant to pass
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
    for deadline in dict.fromkeys(row["deadline_ms"] for row in report.rows):
        rows = {row["strategy"]: row for row in report.select(deadline_ms=deadline)}
        told = [
            f"{name} {row['latency_mean_ms']:.0f} ms, {row['work_after_deadline_ms']:.0f} ms of work for "
            f"nobody, {row['pruned_share']:.0%} pruned"
            for name, row in rows.items()
        ]
        parts.append(f"under a deadline of {deadline:.0f} ms: {'; '.join(told)}")
    return "For each call, " + ". ".join(parts) + "."


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Work after the deadline",
            draw=lambda ax: _draw(report, ax, "work_after_deadline_ms", "ms per call"),
        ),
        Figure(title="Mean latency", draw=lambda ax: _draw(report, ax, "latency_mean_ms", "ms")),
    ]


def _draw(report: Report, ax: Axes, metric: str, unit: str) -> None:
    deadlines = list(dict.fromkeys(row["deadline_ms"] for row in report.rows))
    names = list(dict.fromkeys(row["strategy"] for row in report.rows))
    width = 0.8 / len(names)
    for at, name in enumerate(names):
        rows = report.select(strategy=name)
        places = [deadlines.index(row["deadline_ms"]) + (at - len(names) / 2 + 0.5) * width for row in rows]
        hatch = ("", "//", "..")[at % 3]
        ax.bar(
            places,
            [row[metric] or 0 for row in rows],
            width,
            color=look(at)["color"],
            label=name,
            hatch=hatch,
        )
    ax.set_xticks(range(len(deadlines)), [f"{deadline:.0f} ms" for deadline in deadlines])
    ax.set_xlabel("deadline")
    ax.set_ylabel(unit)
    ax.legend()


EXPERIMENT = Experiment(
    name="deadline-pruning",
    question="What does it save to refuse calls that cannot make their deadline?",
    columns=(
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
        "strategies": list(STRATEGIES),
        "hops": 4,
        "hop_ms": 20.0,
        "deadline_hops": [2.5, 5.0],
        "calls": 100,
        "concurrency": 20,
        "repeats": 1,
    },
    full={
        "strategies": list(STRATEGIES),
        "hops": 4,
        "hop_ms": 50.0,
        "deadline_hops": [1.5, 2.5, 3.5, 5.0],
        "calls": 1000,
        "concurrency": 50,
        "repeats": 5,
    },
    source="none 128 ms, 0 % pruned; stop when cancelled 96 ms, 32 %; refuse under 50 ms left 41 ms, 89 %",
)
