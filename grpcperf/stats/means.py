"""Intervals over repeats: of a mean, and of the ratio of two things that were measured in pairs or apart.

Student (1908), The probable error of a mean, Biometrika 6, 1-25. Ratios are judged by their logarithms, so
that twice as much and half as much are equally far from the same; the interval of a mean logarithm is that
of a geometric mean ratio (Fleming and Wallace 1986, How not to lie with statistics: the correct way to
summarize benchmark results, CACM 29, 218-221). Welch (1947), The generalization of Student's problem when
several different population variances are involved, Biometrika 34, 28-35.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from grpcperf.errors import InvalidRequest
from grpcperf.stats.intervals import CONFIDENCE, Interval, student_t


def mean_interval(values: Iterable[float], *, confidence: float = CONFIDENCE) -> Interval | None:
    """Interval of the mean of independent values, by Student's t; None for fewer than two."""
    given = list(values)
    if len(given) < 2:
        return None
    mean = statistics.fmean(given)
    half = student_t(confidence, len(given) - 1) * statistics.stdev(given) / math.sqrt(len(given))
    return Interval(mean - half, mean + half, f"Student's t over {len(given)} repeats", confidence)


def paired_ratio(
    a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE
) -> tuple[float, Interval] | None:
    """The geometric mean of b / a over pairs, and its interval by Student's t over the logarithms. What both
    of a pair met (a slow minute of the machine) drops out. None for fewer than two pairs of positive values;
    raises InvalidRequest when they are not pairs."""
    if len(a) != len(b):
        raise InvalidRequest(f"pairs need as many of one as of the other, not {len(a)} and {len(b)}")
    logs = [math.log(y / x) for x, y in zip(a, b, strict=True) if x > 0 and y > 0]
    found = mean_interval(logs, confidence=confidence)
    if found is None:
        return None
    label = f"Student's t over the logarithms of {len(logs)} paired ratios"
    bounds = Interval(math.exp(found.low), math.exp(found.high), label, confidence)
    return math.exp(statistics.fmean(logs)), bounds


def ratio_of_means(
    a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE
) -> tuple[float, Interval] | None:
    """The ratio of the geometric means of b and a, which were measured apart, and its interval by Welch's t
    over the logarithms. None with fewer than two positive values on either side."""
    logs = [[math.log(value) for value in side if value > 0] for side in (a, b)]
    if min(map(len, logs)) < 2:
        return None
    means = [statistics.fmean(side) for side in logs]
    parts = [statistics.variance(side) / len(side) for side in logs]
    spread = sum(parts)
    ratio = means[1] - means[0]
    freedom = 1.0
    if spread > 0:
        freedom = spread**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, logs, strict=True))
    half = student_t(confidence, max(1, math.floor(freedom))) * math.sqrt(spread)
    label = f"Welch's t over the logarithms of {len(logs[0])} and {len(logs[1])} repeats"
    return math.exp(ratio), Interval(math.exp(ratio - half), math.exp(ratio + half), label, confidence)
