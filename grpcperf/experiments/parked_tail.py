"""Whether calls that only wait slow others down: the latency of a light load while ever more calls are parked
in the same server, and beside it the pauses of Go's garbage collector, which has to look through their
stacks.

Left open by the article, which counted what parked calls take but not what they do to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.places import Places, places
from grpcperf.experiments.readings import microseconds, pause_mean_us, require_running
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero
from grpcperf.hold import hold
from grpcperf.load import load
from grpcperf.memory import memory_at_rest
from grpcperf.plot import lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINEAR = 100  # parked calls up to which the axis of a figure is linear


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    calls: Sequence[int],
    rate: float,
    duration: float,
    pinned: bool,
    repeats: int,
) -> Iterator[Row]:
    """A fresh server for each number of parked calls, which are on a connection of their own; the probe is an
    open loop of `rate` calls per second, whose latency is from the intended time. Pinned: server and
    client on CPUs of their own."""
    where = places(kit, pinned=pinned)
    for server in kit.servers(servers):
        for count in calls:
            kit.say(server=server.name, calls=count)
            row = kit.repeat(repeats, lambda: _one(kit, server, count, where, rate, duration))  # noqa: B023
            yield {"server": server.name, "calls": count} | row


def _one(kit: Kit, server: ServerKind, calls: int, where: Places, rate: float, duration: float) -> Row:
    with (
        server.start(cpus=where.server) as target,
        hold(target, calls=calls, timeout=60) if calls else nullcontext() as held,
    ):
        if held is not None:
            require_running(kit, server.name, held.running, calls)
        start = target.memstats()
        result = load(target, rate=rate, cpus=where.client, duration=duration, warmup=duration / 4)
        after = target.memstats()
        settled = memory_at_rest(target)  # of a Go server two collections, with all those calls there
    kit.note(result, f"{server.name}, {calls:,} parked")
    return {
        "latency_p50_us": microseconds(result.latency.p50),
        "latency_p99_us": microseconds(result.latency.p99),
        "latency_max_us": microseconds(result.latency.max),
        "gc_cycles": None if start.num_gc is None else (after.num_gc or 0) - start.num_gc,
        "gc_pause_mean_us": pause_mean_us(start, settled),
        "server_cpu_us_per_call": result.server_cpu_us_per_call,
    }


def verdict(report: Report) -> str:
    """Of the servers that were measured with the fewest and with the most."""
    few, most = (pick(row["calls"] for row in report.rows) for pick in (min, max))
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = [row for calls in (few, most) for row in report.select(server=server, calls=calls)]
        if few == most or len(rows) < 2:
            continue
        told = (
            f"{server} {_change(rows, 'latency_p50_us')} at p50 and {_change(rows, 'latency_p99_us')} at p99"
        )
        if rows[0]["gc_pause_mean_us"] is not None:
            told += f", collections pausing it for {_change(rows, 'gc_pause_mean_us')}"
        parts.append(told)
    if not parts:
        return "Too little was measured for a verdict."
    if not report.valid:
        parts.append("the run was disturbed, so that these latencies are not the server's alone")
    return f"A light load, from {few:,} to {most:,} calls parked: {'; '.join(parts)}."


def _change(rows: Sequence[Mapping[str, Any]], column: str) -> str:
    """From the first to the last; whether they differ is told where there are intervals."""
    first, last = rows[0], rows[-1]
    told = " to ".join("unknown" if row[column] is None else f"{row[column]:,.0f}" for row in (first, last))
    low, high = f"{column}_low", f"{column}_high"
    if None in (first.get(low), last.get(low)):
        return f"{told} µs"
    apart = first[high] < last[low] or last[high] < first[low]
    return f"{told} µs" + ("" if apart else " (alike within the intervals)")


def figures(report: Report) -> list[Figure]:
    drawn = {
        "latency_p99_us": Figure(
            title="A light load beside parked calls",
            draw=lambda ax: _draw(report, ax, "latency_p99_us", "latency p99 (µs)"),
            caption="With the interval over repeats, where there are any.",
        ),
        "gc_pause_mean_us": Figure(
            title="Pauses of the garbage collector",
            draw=lambda ax: _draw(report, ax, "gc_pause_mean_us", "mean pause (µs)"),
            caption="Of Go servers.",
        ),
    }
    return [figure for column, figure in drawn.items() if has(report, column)]


def _draw(report: Report, ax: Axes, column: str, label: str) -> None:
    lines(ax, report.rows, "calls", column, by="server")
    ax.set_xscale("symlog", linthresh=LINEAR)  # from none to thousands
    ticks = dict.fromkeys(row["calls"] for row in report.rows)
    ax.set_xticks(list(ticks), [f"{calls:,}" for calls in ticks], minor=False)
    ax.set_xlim(-0.5 * LINEAR, 1.5 * max(*ticks, LINEAR))
    ax.set_xlabel("parked calls")
    from_zero(ax, label)


EXPERIMENT = Experiment(
    name="parked-tail",
    question="Do calls that only wait slow others down?",
    columns=(
        *("server", "calls", "latency_p50_us", "latency_p99_us", "latency_max_us"),
        *("gc_cycles", "gc_pause_mean_us", "server_cpu_us_per_call"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "calls": [0, 2000],
        "rate": 2000.0,
        "duration": 0.7,
        "pinned": True,
        "repeats": 1,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "calls": [0, 100, 1000, 10_000],
        "rate": 2000.0,
        "duration": 3.0,
        "pinned": True,
        "repeats": 3,
    },
    source="left open by the article",
)
