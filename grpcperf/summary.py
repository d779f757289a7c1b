"""Repeats brought together: for each point the middle of a metric and how sure it is. What tables and curves
show."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpcperf.stats import mean_interval

if TYPE_CHECKING:
    from grpcperf.results import Record, Results

FEWEST_REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A metric at one point. `value` is the mean over the repeats that have one; `low` and `high` bound it
    with 95 % confidence (None: fewer than three repeats; of two the interval would be true, and as wide as
    the world), not below 0 where nothing is. `valid`: all that were measured are."""

    point: Mapping[str, Any]
    value: float | None
    low: float | None = None
    high: float | None = None
    repeats: int = 0
    valid: bool = True


def summarise(results: Results, metric: str, axes: Sequence[str] | None = None) -> list[Summary]:
    """The metric at each value of `axes` (all of the sweep's, if None), in rising order where they are
    numbers. Raises InvalidRequest for a name that is in no row."""
    axes = results.axes if axes is None else axes
    results.require([*axes, metric])
    groups: dict[str, tuple[list[Any], list[Record]]] = {}
    for record in results:
        values = [record.value(axis) for axis in axes]
        groups.setdefault(json.dumps(values, sort_keys=True, default=str), (values, []))[1].append(record)
    ordered = sorted(groups.values(), key=lambda group: [_rank(value) for value in group[0]])
    return [_summary(dict(zip(axes, values, strict=True)), metric, group) for values, group in ordered]


def _summary(point: dict[str, Any], metric: str, group: list[Record]) -> Summary:
    known = [record.value(metric) for record in group]
    values = [float(value) for value in known if isinstance(value, int | float)]
    bounds = mean_interval(values) if len(values) >= FEWEST_REPEATS else None
    floor = 0.0 if min(values, default=0) >= 0 else float("-inf")
    return Summary(
        point=point,
        value=statistics.fmean(values) if values else None,
        low=None if bounds is None else max(floor, bounds.low),
        high=None if bounds is None else bounds.high,
        repeats=len(values),
        valid=all(record.valid for record in group),
    )


def _rank(value: Any) -> tuple[int, float, str]:
    """Numbers by size, then all else by its text."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (0, float(value), "") if number else (1, 0.0, str(value))
