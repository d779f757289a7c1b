"""Results of a sweep as a table for notebooks: a row for each point, repeats brought together, what is amiss
above the numbers."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpcperf.summary import Summary, summarise
from grpcperf.units import format_number

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
_COLOURS = {"warning": "204,136,0", "invalid": "221,51,51"}


def results_table(results: Results) -> str:
    """HTML whose colours are translucent, so that it reads on light and on dark."""
    metrics = _metrics(results)
    columns = [summarise(results, metric) for metric in metrics]
    points = columns[0] if columns else summarise(results, "repeat")
    rows = "".join(
        _row(results, points[at], [column[at] for column in columns]) for at in range(len(points[:MOST_ROWS]))
    )
    names = [*results.axes, "n", *(COLUMNS.get(name, name) for name in metrics)]
    head = "".join(f'<th style="{_CELL}">{html.escape(name)}</th>' for name in names)
    more = f"<div>and {len(points) - MOST_ROWS:,} more points</div>" if len(points) > MOST_ROWS else ""
    return (
        f'<div style="color:inherit">{"".join(_remarks(results))}'
        f"<div><b>{html.escape(repr(results).strip('<>'))}</b></div>"
        f'<table style="border-collapse:collapse;color:inherit"><tr style="background:none">{head}</tr>'
        f"{rows}</table>{more}</div>"
    )


def _metrics(results: Results) -> list[str]:
    """What is worth a column: the usual metrics, or what a function of its own returned."""
    if not results:
        return []
    cells = [record.cells() for record in results]
    there = dict.fromkeys(
        name for row in cells for name, value in row.items() if isinstance(value, int | float)
    )
    usual = [name for name in COLUMNS if name in there]
    own = [name for name in there if name not in (*results.axes, "repeat", "valid")]
    return usual or own[:MOST_COLUMNS]


def _row(results: Results, point: Summary, metrics: Iterable[Summary]) -> str:
    cells = [html.escape(str(point.point[axis])) for axis in results.axes] + [f"{point.repeats:,}"]
    for one in metrics:
        text = "-" if one.value is None else format_number(one.value)
        if one.value is not None and one.low is not None and one.high is not None and one.high > one.low:
            text += f' <span style="opacity:.65">± {format_number((one.high - one.low) / 2)}</span>'
        cells.append(text)
    mark = "" if point.valid else f";border-left:4px solid rgb({_COLOURS['invalid']})"
    return (
        f'<tr style="background:none{mark}">'
        + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
        + "</tr>"
    )


def _remarks(results: Results) -> Iterable[str]:
    """What was found, each once with the number of records it is of, worst first; then what failed."""
    counts = Counter((one.severity, one.code) for record in results for one in record.findings)
    for (severity, code), count in sorted(
        counts.items(), key=lambda item: (item[0][0] != "invalid", -item[1])
    ):
        example = next(one for record in results for one in record.findings if one.code == code)
        told = str(example).removeprefix(f"{code}: ")
        yield remark(severity, code, f"in {count:,} of {len(results):,}, as: {told}")
    failed = Counter(record.error for record in results.failed)
    for error, count in failed.most_common():
        yield remark("invalid", f"{count:,} failed", str(error))


def remark(severity: str, title: str, text: str) -> str:
    """A line with a coloured edge, by severity ("warning", "invalid")."""
    colour = _COLOURS[severity]
    style = f"border-left:4px solid rgb({colour});background:rgba({colour},.12);padding:2px 8px"
    return f'<div style="{style}"><b>{html.escape(title)}</b> {html.escape(text)}</div>'
