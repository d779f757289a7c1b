"""Figures of experiments: what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.report import Report
from grpcperf.figures import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def has(report: Report, column: str) -> bool:
    """Whether there is anything to draw of it."""
    return any(row.get(column) is not None for row in report.rows)


def over_names(
    ax: Axes,
    rows: Sequence[Mapping[str, Any]],
    groups: Mapping[str, Sequence[Mapping[str, Any]]],
    name: Callable[[Mapping[str, Any]], str],
    y: str,
) -> None:
    """A line of column `y` for each group, over places that have names: those of all `rows`, as they
    come."""
    names = list(dict.fromkeys(map(name, rows)))
    for at, (label, group) in enumerate(groups.items()):
        known = [row for row in group if row[y] is not None]
        ax.plot([names.index(name(row)) for row in known], [row[y] for row in known], label=label, **look(at))
    ax.set_xticks(range(len(names)), names)
    ax.legend()
