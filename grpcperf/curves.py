"""Curves of a sweep: a metric over an axis, with what is known of its spread. Every function takes and
returns matplotlib Axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpcperf.report import require_extras
from grpcperf.summary import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.results import Results


def curve(results: Results, x: str, y: str, *, by: str | None = None, ax: Axes | None = None) -> Axes:
    """See Results.plot."""
    require_extras()
    import matplotlib.pyplot as plt

    axes: Axes = plt.subplots(layout="constrained")[1] if ax is None else ax
    lines: dict[object, list[tuple[object, float, float, float]]] = {}
    for one in summarise(results, y, [x] if by is None else [by, x]):
        if one.value is not None:
            low, high = (
                (one.low, one.high) if one.low is not None and one.high is not None else (one.value,) * 2
            )
            group = None if by is None else one.point[by]
            lines.setdefault(group, []).append((one.point[x], one.value, one.value - low, high - one.value))
    for group, points in lines.items():
        at, value, below, above = zip(*points, strict=True)
        label = None if by is None else f"{by} {group}"
        axes.errorbar(at, value, yerr=[below, above], marker="o", capsize=3, label=label)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if by is not None:
        axes.legend()
    return axes
