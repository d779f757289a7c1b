"""What a call in flight costs the server: memory and tasks, by kind of call.

The published figures are of grpc-go 1.84 on macOS arm64: 11.7 KiB per call with 1,000 in flight, 10.7 with
10,000, and one goroutine for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.readings import held_calls, keep_goroutines, known, told_kib
from grpcperf.experiments.report import Report
from grpcperf.figures import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.targets import Measurable


def measure(
    kit: Kit, *, servers: Sequence[Any], kinds: Sequence[str], calls: Sequence[int], repeats: int
) -> Iterator[Row]:
    """A fresh server for each number of calls, read at rest before, while they are held, and after. A Go
    server tells its goroutines by function while it holds most."""
    for server in kit.servers(servers):
        for kind in kinds:
            for count in calls:
                kit.say(server=server.name, kind=kind, calls=count)
                row = kit.repeat(repeats, lambda: _one(kit, server, kind, count, max(calls)))  # noqa: B023
                yield {"server": server.name, "kind": kind, "calls": count, **row}


def _one(kit: Kit, server: ServerKind, kind: str, calls: int, most: int) -> Row:
    def tell(target: Measurable) -> None:
        if calls == most:
            keep_goroutines(kit, f"{server.name}, {kind}, {calls:,} calls", target)

    readings = held_calls(kit, server, kind=kind, calls=calls, look=tell)
    return readings.memory("call") | {
        "tasks_before": readings.before.tasks,
        "tasks_held": readings.held.tasks,
        "tasks_after": readings.after.tasks,
    }


def verdict(report: Report) -> str:
    """The largest number of calls speaks, for it is least disturbed by what a server does once."""
    most = max(row["calls"] for row in report.rows)
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = report.select(server=server, calls=most)
        if not rows:
            continue
        totals = known(row["total_kib_per_call"] for row in rows)
        ends = dict.fromkeys(f"{end:,.1f}" for end in (min(totals), max(totals))) if totals else ()
        spread = f"{' to '.join(ends)} KiB" if totals else told_kib(None)
        parts.append(f"{server} holds {spread} and {_tasks(rows, most)}")
    return f"With {most:,} calls {'; '.join([*parts, *_goroutines(report)])}."


def _tasks(rows: Sequence[Mapping[str, Any]], calls: int) -> str:
    """How many for each call, and whether they ended with it."""
    counts = [(row["tasks_before"], row["tasks_held"], row["tasks_after"]) for row in rows]
    if any(None in one for one in counts):
        return "an unknown number of tasks for each call in flight"
    mean = sum(held - before for before, held, _ in counts) / len(counts) / calls
    back = all(abs(after - before) <= 20 for before, _, after in counts)
    return (
        f"{mean:.2f} tasks for each call in flight, and is {'back' if back else 'NOT back'} at its tasks "
        "afterwards"
    )


def _goroutines(report: Report) -> Iterator[str]:
    """What the goroutines of a server are, for the first kind of calls: those that began with one function,
    and the others."""
    told: dict[str, str] = {}
    for name, rows in report.data.get("goroutines", {}).items():
        first, *others = rows
        rest = sum(row["count"] for row in others)
        told.setdefault(
            name.partition(",")[0],
            f"of {name} {first['count']:,} goroutines began with {first['function']} and {rest:,} elsewhere",
        )
    yield from told.values()


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Memory of a call in flight",
            draw=lambda ax: _draw(report, ax),
            caption="Heap and, on top, stacks, for the largest number of calls.",
        )
    ]


def _draw(report: Report, ax: Axes) -> None:
    most = max(row["calls"] for row in report.rows)
    rows = [row for row in report.rows if row["calls"] == most]
    names = [f"{row['server']}, {row['kind']}" for row in rows]
    heaps = [row["heap_kib_per_call"] or 0.0 for row in rows]
    stacks = [row["stack_kib_per_call"] or 0.0 for row in rows]
    places = range(len(rows))
    ax.barh(places, heaps, color=look(0)["color"], label="heap")
    ax.barh(places, stacks, left=heaps, color=look(1)["color"], label="stacks", hatch="//", edgecolor="white")
    ax.set_yticks(list(places), names)
    ax.invert_yaxis()
    ax.set_xlabel("KiB per call")
    ax.legend()


EXPERIMENT = Experiment(
    name="in-flight-cost",
    question="What does a call in flight cost the server?",
    columns=(
        *("server", "kind", "calls", "heap_kib_per_call", "stack_kib_per_call", "total_kib_per_call"),
        *("sys_kib_per_call", "tasks_before", "tasks_held", "tasks_after"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "native:thread", "grpc-go"],
        "kinds": ["unary", "bidi"],
        "calls": [250, 1000],
        "repeats": 1,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "kinds": ["unary", "server_stream", "bidi"],
        "calls": [1000, 10_000],
        "repeats": 3,
    },
    source="grpc-go 1.84, macOS: 11.7 KiB per call with 1,000 in flight, 10.7 with 10,000; a goroutine each",
)
