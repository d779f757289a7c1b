"""What a call in flight costs the server when its handler holds memory of its own: what it asked for, and
what that comes to with the allocator's rounding.

Left open by the article, whose handlers held nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.readings import KIB, held_calls, known, told_kib
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero
from grpcperf.plot import lines
from grpcperf.result import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOO_LITTLE = -0.05  # of what was asked for: not to be explained by an allocator, nor by noise


def measure(
    kit: Kit, *, servers: Sequence[Any], sizes: Sequence[int | str], calls: int, repeats: int
) -> Iterator[Row]:
    """Parked unary calls whose handlers have allocated, and touched, so much for as long as they last."""
    for server in kit.servers(servers):
        bare = None
        for size in (units.size_bytes(one, "sizes") for one in sizes):
            kit.say(server=server.name, held=size)
            row = kit.repeat(repeats, lambda: _one(kit, server, size, calls))  # noqa: B023
            if size == 0:
                bare = row["kib_per_call"]
            overhead = _overhead(row["kib_per_call"], bare, size / KIB)
            if overhead is not None and overhead < TOO_LITTLE:
                kit.note(_too_little(f"{server.name}, {units.format_bytes(size)} held", overhead))
            about = {"server": server.name, "calls": calls, "held_kib": size / KIB}
            yield about | row | {"overhead": overhead}


def _one(kit: Kit, server: ServerKind, size: int, calls: int) -> Row:
    metadata = {"grpcperf-hold": 1, "grpcperf-alloc-bytes": size}
    row = held_calls(kit, server, kind="unary", calls=calls, metadata=metadata).memory("call")
    return {"kib_per_call": row.pop("total_kib_per_call"), **row}


def _overhead(total: float | None, bare: float | None, held: float) -> float | None:
    """The share that holding it added beyond what was asked for."""
    return None if total is None or bare is None or held == 0 else (total - bare) / held - 1


def _too_little(where: str, overhead: float) -> Finding:
    return Finding(
        code="less_than_held",
        severity="warning",
        message=f"{where}: it added {-overhead:.0%} less, so something else was given back meanwhile",
        measured=overhead,
        threshold=TOO_LITTLE,
    )


def verdict(report: Report) -> str:
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = sorted(report.select(server=server), key=lambda row: row["held_kib"])
        ends = rows[:1] + rows[1:][-1:]
        told = [f"{told_kib(row['kib_per_call'])} with {row['held_kib']:g} KiB held" for row in ends]
        extra = known(row["overhead"] for row in rows)
        ends_told = [f"{round(end, 3) + 0.0:+.1%}" for end in (min(extra), max(extra))] if extra else []
        spread = " to ".join(dict.fromkeys(ends_told))
        more = f", {spread} beyond what was asked for" if extra else ""
        parts.append(f"{server} needs {' and '.join(told)}{more}")
    return f"For a call in flight {'; '.join(parts)}."


def figures(report: Report) -> list[Figure]:
    drawn = [
        Figure(
            title="A call whose handler holds memory",
            draw=lambda ax: _draw(report, ax),
            caption="Heap and stacks of the server for each call. The grey line is what handlers asked for.",
        )
    ]
    return drawn if has(report, "kib_per_call") else []


def _draw(report: Report, ax: Axes) -> None:
    sizes = sorted({row["held_kib"] for row in report.rows})
    ax.plot(sizes, sizes, color="gray", linewidth=1)
    lines(ax, report.rows, "held_kib", "kib_per_call", by="server")
    ax.set_xlabel("held by a handler (KiB)")
    from_zero(ax, "KiB per call")


EXPERIMENT = Experiment(
    name="handler-alloc",
    question="What does a call in flight cost when its handler holds memory?",
    columns=(
        *("server", "calls", "held_kib", "kib_per_call", "overhead"),
        *("heap_kib_per_call", "stack_kib_per_call", "sys_kib_per_call"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "native:thread", "grpc-go"],
        "sizes": [0, "4KiB", "64KiB"],
        "calls": 500,
        "repeats": 1,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "sizes": [0, "4KiB", "64KiB"],
        "calls": 5000,
        "repeats": 3,
    },
    source="left open by the article, whose handlers held nothing",
)
