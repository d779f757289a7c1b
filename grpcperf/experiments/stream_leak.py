"""Whether streams that somebody forgets to close show: cycles that open streams and end all but a few, and
what each cycle leaves in the server, by the slope over the cycles.

The same judgement is `assert_no_leak` of the pytest plugin, for any target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.readings import KIB
from grpcperf.experiments.report import Report
from grpcperf.findings import finding
from grpcperf.hold import hold
from grpcperf.leaks import WARM_CYCLES, LeakReport, find_leaks
from grpcperf.plot import lines
from grpcperf.stats import Line, common_slope
from grpcperf.targets import Measurable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def measure(
    kit: Kit, *, servers: Sequence[Any], leaked: Sequence[int], streams: int, cycles: int, kind: str
) -> Iterator[Row]:
    """A fresh server for each number of streams that a cycle forgets, of `streams` that it opens."""
    for server in kit.servers(servers):
        for forgotten in leaked:
            kit.say(server=server.name, leaked_per_cycle=forgotten)
            with server.start() as target:
                found = _cycles(target, kind, streams, forgotten, cycles)
            if found.unsettled:
                told = f"{found.unsettled} of {cycles} readings did not come to rest"
                kit.note(finding("not_settled", told), f"{server.name}, {forgotten} forgotten")
            about = {"server": server.name, "kind": kind, "leaked_per_cycle": forgotten, "cycles": cycles}
            yield about | _row(found)


def _cycles(target: Measurable, kind: str, streams: int, forgotten: int, cycles: int) -> LeakReport:
    """Streams that are forgotten stay open to the end, on a connection that was there before."""
    if not forgotten:
        return find_leaks(target, lambda: _open_and_end(target, kind, streams), cycles=cycles)
    lost = hold(target, calls=(cycles + WARM_CYCLES) * forgotten, kind=kind, timeout=30)
    lost.calls = 0
    with lost:

        def cycle() -> None:
            if streams > forgotten:
                _open_and_end(target, kind, streams - forgotten)
            lost.grow(lost.calls + forgotten)

        return find_leaks(target, cycle, cycles=cycles)


def _open_and_end(target: Measurable, kind: str, streams: int) -> None:
    with hold(target, calls=streams, kind=kind):
        pass  # leaving cancels them


def _row(found: LeakReport) -> Row:
    row: Row = {}
    for column, line in (
        ("streams_per_cycle", found.slopes.get("streams")),
        ("tasks_per_cycle", found.slopes.get("tasks")),
        ("kib_per_cycle", _memory(found)),
    ):
        scale = KIB if column == "kib_per_cycle" else 1
        bounds = (None, None, None) if line is None else (line.slope, line.low, line.high)
        for name, value in zip((column, f"{column}_low", f"{column}_high"), bounds, strict=True):
            row[name] = None if value is None else value / scale
    return row | {"leak": found.leak, "leaks": ", ".join(found.leaks)}


def _memory(found: LeakReport) -> Line | None:
    """Heap and stacks together; what is resident, of a server that does not tell its heap."""
    fields = ("heap_alloc", "stack_inuse") if found.readings[0].heap_alloc is not None else ("rss_anon",)
    sums = [sum(getattr(one, name) or 0 for name in fields) for one in found.readings]
    return common_slope([[(float(at), float(value)) for at, value in enumerate(sums)]])


def verdict(report: Report) -> str:
    """All in short when every leak is told rightly; else those rows that are not."""
    wrong = [row for row in report.rows if row["leak"] != bool(row["leaked_per_cycle"])]
    most = max(row["leaked_per_cycle"] for row in report.rows)
    rows = wrong or report.select(leaked_per_cycle=most)
    summary = "Not every verdict is right" if wrong else "Every leak was found and none was made up"
    return f"{summary}: {'; '.join(map(_told, rows))}."


def _told(row: Mapping[str, Any]) -> str:
    grown = [
        f"{row[name]:.2f} {name.removesuffix('_per_cycle').replace('kib', 'KiB')}"
        for name in ("streams_per_cycle", "tasks_per_cycle", "kib_per_cycle")
        if row[name] is not None
    ]
    return f"{row['server']} with {row['leaked_per_cycle']} forgotten gains {', '.join(grown)} per cycle"


def figures(report: Report) -> list[Figure]:
    drawn = [
        Figure(
            title="What a cycle leaves behind",
            draw=lambda ax: _draw(report, ax),
            caption="Streams that the server gains per cycle, over those that the client forgot to close.",
        )
    ]
    return drawn if has(report, "streams_per_cycle") else []


def _draw(report: Report, ax: Axes) -> None:
    lines(ax, report.rows, "leaked_per_cycle", "streams_per_cycle", by="server")
    ax.set_xlabel("forgotten per cycle")
    ax.set_ylabel("streams gained per cycle")


EXPERIMENT = Experiment(
    name="stream-leak",
    question="Do streams that are never closed show?",
    columns=(
        *("server", "kind", "leaked_per_cycle", "cycles"),
        *("streams_per_cycle", "tasks_per_cycle", "kib_per_cycle", "leak", "leaks"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "leaked": [0, 2],
        "streams": 20,
        "cycles": 10,
        "kind": "bidi",
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "leaked": [0, 1, 5],
        "streams": 100,
        "cycles": 30,
        "kind": "bidi",
    },
    source="goroutines that do not come back are the leak that the article warns of",
)
