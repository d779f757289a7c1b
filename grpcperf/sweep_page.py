"""The page of a sweep: its curves, its table, what was found, and the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpcperf import figures, tables
from grpcperf.plot import curve
from grpcperf.report import Page, Picture, Section, Table

if TYPE_CHECKING:
    from grpcperf.results import Results

METRICS = {"throughput_rps": "Throughput", "latency_p99_us": "Latency, p99"}


def page_of(results: Results) -> Page:
    """What `grpcperf report` writes. Raises EngineError naming the command when an extra is missing."""
    headings, rows = tables.table(results)
    section = Section(
        title="Over " + " and ".join(results.axes),
        verdict=f"{len(rows):,} points, {len(results):,} measurements",
        text="Values are means over repeats; ± and whiskers are 95 % intervals of them.",
        pictures=_pictures(results),
        table=Table(
            columns=headings,
            rows=[row.cells for row in rows],
            amiss=frozenset(at for at, row in enumerate(rows) if not row.valid),
        ),
        notes=[f"{one.title}: {one.text}" for one in tables.remarks(results)],
    )
    environment = {
        name: str(value) for name, value in results.header.environment.items() if value is not None
    }
    return Page(
        title="grpcperf sweep",
        lead=f"Measured from {results.header.created or 'an unknown time'} on.",
        sections=[section],
        facts=environment,
    )


def _pictures(results: Results) -> list[Picture]:
    x, by = _axes(results)
    if x is None:
        return []
    pictures = []
    numbers = {name for record in results for name, value in record.cells().items() if _is_number(value)}
    for metric in [name for name in METRICS if name in numbers] or sorted(
        numbers - {"repeat", *results.axes}
    )[:2]:
        with figures.style():
            figure, (ax,) = figures.figure()
            curve(results, x, metric, by=by, ax=ax)
        title = METRICS.get(metric, metric)
        pictures.append(Picture(title=title, svg=figures.to_svg(figure, f"{title} over {x}")))
    return pictures


def _axes(results: Results) -> tuple[str | None, str | None]:
    """The axis of numbers with most values along x, another as lines."""
    cells = [record.cells() for record in results]
    values: dict[str, set[Any]] = {axis: {row.get(axis) for row in cells} for axis in results.axes}
    numeric = [axis for axis in results.axes if all(_is_number(value) for value in values[axis])]
    x = max(numeric, key=lambda axis: len(values[axis]), default=None)
    others = [axis for axis in results.axes if axis != x and 1 < len(values[axis]) <= len(figures.SERIES)]
    return x, others[0] if others else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
