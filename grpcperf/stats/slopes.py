"""Lines through points: the slope of a cost over a level, with its interval.

Draper, N. R. and Smith, H. (1998), Applied Regression Analysis, 1.4: the intervals of a slope and of an
intercept, 9.2: weighted least squares; Snedecor, G.
W. and Cochran, W. G. (1989), Statistical Methods, 18: one slope over groups that have an intercept each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from grpcperf.stats.intervals import CONFIDENCE, Interval, student_t


@dataclass(frozen=True)
class Line:
    """A slope by least squares. The bounds are None where no degree of freedom is left to tell them from,
    `r2` where the values do not differ."""

    slope: float
    low: float | None
    high: float | None
    r2: float | None
    freedom: int
    confidence: float = CONFIDENCE


@dataclass(frozen=True)
class Cost:
    """A fixed part and one for each x: y = fixed + each * x. The intervals are None where no degree of
    freedom is left to tell them from, `r2` (of the weighted values) where the values do not differ."""

    fixed: float
    each: float
    fixed_interval: Interval | None
    each_interval: Interval | None
    r2: float | None


def common_slope(
    groups: Sequence[Sequence[tuple[float, float]]], *, confidence: float = CONFIDENCE
) -> Line | None:
    """The slope that groups of points (x, y) share while each has an intercept of its own, by ordinary least
    squares, with Student's interval; None where x does not differ inside any group.

    With one group this is the simple regression; `r2` is the share of the variance inside the groups that the
    slope explains.
    """
    centred = [(x - mean_x, y - mean_y) for group in groups for mean_x, mean_y, x, y in _with_means(group)]
    spread = math.fsum(x * x for x, _ in centred)
    if spread == 0:
        return None
    slope = math.fsum(x * y for x, y in centred) / spread
    left = math.fsum((y - slope * x) ** 2 for x, y in centred)
    total = math.fsum(y * y for _, y in centred)
    r2 = 1 - left / total if total > 0 else None
    freedom = len(centred) - sum(1 for group in groups if group) - 1
    if freedom < 1:
        return Line(slope, None, None, r2, 0, confidence)
    half = student_t(confidence, freedom) * math.sqrt(left / freedom / spread)
    return Line(slope, slope - half, slope + half, r2, freedom, confidence)


def _with_means(group: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, float, float]]:
    if group:
        mean_x, mean_y = fmean(x for x, _ in group), fmean(y for _, y in group)
        yield from ((mean_x, mean_y, x, y) for x, y in group)


def fit_cost(points: Sequence[tuple[float, float]], *, confidence: float = CONFIDENCE) -> Cost | None:
    """Split a cost y > 0 into what is fixed and what each x adds, by least squares of the relative errors
    (weights 1 / y²): or the largest points, whose errors are large as well, would bury the fixed part. None
    with fewer than two x, or a y that is not above 0."""
    if len({x for x, _ in points}) < 2 or any(y <= 0 for _, y in points):
        return None
    weighted = [(1 / y**2, x, y) for x, y in points]
    total = math.fsum(w for w, _, _ in weighted)
    mean_x, mean_y = (math.fsum(w * value[at] for w, *value in weighted) / total for at in (0, 1))
    spread = math.fsum(w * (x - mean_x) ** 2 for w, x, _ in weighted)
    each = math.fsum(w * (x - mean_x) * (y - mean_y) for w, x, y in weighted) / spread
    fixed = mean_y - each * mean_x
    left = math.fsum(w * (y - fixed - each * x) ** 2 for w, x, y in weighted)
    about = math.fsum(w * (y - mean_y) ** 2 for w, _, y in weighted)
    r2 = 1 - left / about if about > 0 else None
    freedom = len(points) - 2
    if freedom < 1:
        return Cost(fixed, each, None, None, r2)
    unit = student_t(confidence, freedom) * math.sqrt(left / freedom)
    halves = (unit * math.sqrt(1 / total + mean_x**2 / spread), unit / math.sqrt(spread))
    label = f"Student's t, {len(points)} points weighted by 1 / y²"
    of_fixed, of_each = (
        Interval(value - half, value + half, label, confidence)
        for value, half in zip((fixed, each), halves, strict=True)
    )
    return Cost(fixed, each, of_fixed, of_each, r2)
