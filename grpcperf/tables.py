"""Results of a sweep as a table, for notebooks and for the shell: a row for each point, repeats brought
together, what is amiss above the numbers."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpcperf.remarks import COLOURS, MARKS, Remark, html_remark, told
from grpcperf.summary import Summary, summarise
from grpcperf.units import format_interval

if TYPE_CHECKING:
    from grpcperf.results import Results

# Columns shown where they were measured: name, heading.
COLUMNS = {
    "throughput_rps": "calls/s",
    "latency_p50_us": "p50 µs",
    "latency_p99_us": "p99 µs",
    "errors": "errors",
    "client_cpu_us_per_call": "client CPU µs/call",
    "server_cpu_us_per_call": "server CPU µs/call",
}
MOST_ROWS = 200
MOST_COLUMNS = 8
_CELL = "padding:2px 12px 2px 0;border-top:1px solid rgba(128,128,128,.3);text-align:right"


@dataclass(frozen=True)
class Row:
    cells: list[str]
    valid: bool


def table(results: Results) -> tuple[list[str], list[Row]]:
    """Headings, and a row of texts for each point."""
    metrics = _metrics(results)
    columns = [summarise(results, metric) for metric in metrics]
    points = columns[0] if columns else summarise(results, "repeat")
    rows = []
    for at, point in enumerate(points):
        axes = [str(point.point[axis]) for axis in results.axes]
        rows.append(
            Row([*axes, f"{point.repeats:,}", *(_value(column[at]) for column in columns)], point.valid)
        )
    return [*results.axes, "n", *(COLUMNS.get(name, name) for name in metrics)], rows


def _metrics(results: Results) -> list[str]:
    """What is worth a column: the usual metrics, or what a function of its own returned."""
    numbers: dict[str, None] = {}
    for record in results:
        numbers |= dict.fromkeys(
            name for name, value in record.cells().items() if isinstance(value, int | float)
        )
    usual = [name for name in COLUMNS if name in numbers]
    own = [name for name in numbers if name not in (*results.axes, "repeat", "valid")]
    return usual or own[:MOST_COLUMNS]


def _value(one: Summary) -> str:
    if one.value is None:
        return "-"
    return format_interval(one.value, one.low, one.high)


def remarks(results: Results) -> Iterable[Remark]:
    """What was found, each once with the number of records it is of, worst first; then what failed."""
    counts = Counter((one.severity, one.code) for record in results for one in record.findings)
    worst_first = sorted(counts.items(), key=lambda item: (item[0][0] != "invalid", -item[1]))
    for (severity, code), count in worst_first:
        found = (one for record in results for one in record.findings)
        example = next(one for one in found if (one.severity, one.code) == (severity, code))
        yield Remark(severity, code, f"in {count:,} of {len(results):,}, as: {told(example)}")
    for error, count in Counter(record.error for record in results.failed).most_common():
        yield Remark("invalid", f"{count:,} failed", str(error))


def results_text(results: Results) -> str:
    """Lines for a terminal."""
    headings, rows = table(results)
    lines = [headings, *(row.cells for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    texts = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    marks = ["", *("" if row.valid else "  NOT VALID" for row in rows)]
    above = [f"{MARKS[one.severity]} {one.title}: {one.text}" for one in remarks(results)]
    return "\n".join([*above, *(text + mark for text, mark in zip(texts, marks, strict=True))])


def results_table(results: Results) -> str:
    """HTML whose colours are translucent, so that it reads on light and on dark."""
    headings, rows = table(results)
    more = f"<div>and {len(rows) - MOST_ROWS:,} more points</div>" if len(rows) > MOST_ROWS else ""
    amiss = {at for at, row in enumerate(rows) if not row.valid}
    return (
        f'<div style="color:inherit">{"".join(html_remark(one) for one in remarks(results))}'
        f"<div><b>{html.escape(repr(results).strip('<>'))}</b></div>"
        f"{html_rows(headings, [row.cells for row in rows[:MOST_ROWS]], amiss)}{more}</div>"
    )


def html_rows(headings: Sequence[str], rows: Sequence[Sequence[str]], amiss: Container[int] = ()) -> str:
    """A table of texts; rows whose index is in `amiss` are marked as not valid."""
    head = "".join(f'<th style="{_CELL}">{html.escape(name)}</th>' for name in headings)
    body = ""
    for at, row in enumerate(rows):
        mark = f";border-left:4px solid rgb({COLOURS['invalid']})" if at in amiss else ""
        cells = "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row)
        body += f'<tr style="background:none{mark}">{cells}</tr>'
    return (
        f'<table style="border-collapse:collapse;color:inherit"><tr style="background:none">{head}</tr>'
        f"{body}</table>"
    )
