"""Lines through points: the slope of a cost over a level, with its interval.

Draper, N. R. and Smith, H. (1998), Applied Regression Analysis, 1.4: the interval of a slope; Snedecor, G.
W. and Cochran, W. G. (1989), Statistical Methods, 18: one slope over groups that have an intercept each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from grpcperf.stats.intervals import CONFIDENCE, student_t


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
