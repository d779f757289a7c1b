"""Intervals of percentiles and rates, from what one run holds.

Calls that follow each other are not independent (a stall delays hundreds at once), so the windows of a run
are resampled in blocks rather than the calls one by one:

- Künsch, H. R. (1989). The jackknife and the bootstrap for general stationary observations. Annals of
  Statistics 17, 1217-1241: blocks of neighbours keep the dependence inside them.
- Politis, D. N. and Romano, J. P. (1992). A circular block-resampling procedure for stationary data. In:
  Exploring the Limits of Bootstrap, 263-270: blocks that wrap round the end give each window the same weight.
- Clopper, C. and Pearson, E. (1934); Conover, W. J. (1999), Practical Nonparametric Statistics, 3.2: the
  interval of a quantile from two order statistics, whose ranks come from the binomial distribution. It takes
  calls for independent, and is therefore used, and labelled, only where there are too few windows.

numpy is imported when an interval is asked for, never with the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from grpcperf.histogram import Histogram, slot_high

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from grpcperf.result import Window

CONFIDENCE = 0.95
RESAMPLES = 1000
FEWEST_WINDOWS = 10  # below this the order-statistic interval is used
MOST_WINDOWS = 200  # more are joined with their neighbours first


@dataclass(frozen=True)
class Interval:
    """A confidence interval, in the unit of its metric."""

    low: float
    high: float
    method: str  # where it comes from, for people
    confidence: float = CONFIDENCE

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def quantile_interval(
    windows: Sequence[Window], total: Histogram, q: float, *, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval | None:
    """Interval of the quantile `q` of `total`, in seconds, by block bootstrap over the run's windows.

    With fewer than ten windows the order-statistic interval. None where the quantile itself is None. It
    always holds the quantile itself, also where calls that ended after the last window moved that.
    Deterministic for a seed.
    """
    value = total.quantile(q)
    if value is None:
        return None
    if len(windows) < FEWEST_WINDOWS or not any(window.entries for window in windows):
        return order_statistic_interval(total, q, confidence=confidence)
    slots, counts = _counts(windows)
    weights = _block_weights(len(counts), RESAMPLES, seed)
    low, high = _spread(_resampled_quantiles(slots, counts, weights, q), confidence, len(counts))
    return Interval(min(low, value), max(high, value), _bootstrap_label(windows), confidence)


def rate_interval(
    windows: Sequence[Window], value: float, *, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval | None:
    """Interval of the OK completions per second, by block bootstrap over the run's windows.

    With three to nine windows Student's t over their rates, with fewer None. Deterministic for a seed.
    """
    import numpy as np

    if len(windows) < 3:
        return None
    ok = np.array([window.ok for window in windows], dtype=float)
    length = np.array([window.length_s for window in windows])
    if len(windows) < FEWEST_WINDOWS:
        # Only whole windows: in a short last one a single call more or less is a large rate.
        rates = (ok / length)[length > 0.5 * length.max()]
        if len(rates) < 3:
            return None
        half = student_t(confidence, len(rates) - 1) * float(rates.std(ddof=1)) / math.sqrt(len(rates))
        label = f"Student's t over {len(rates)} windows"
        return Interval(max(0.0, value - half), value + half, label, confidence)
    weights = _block_weights(len(windows), RESAMPLES, seed)
    low, high = _spread(weights @ ok / (weights @ length), confidence, len(windows))
    return Interval(min(low, value), max(high, value), _bootstrap_label(windows), confidence)


def order_statistic_interval(
    total: Histogram, q: float, *, confidence: float = CONFIDENCE
) -> Interval | None:
    """Interval of a quantile between two order statistics, in seconds. Takes the calls for independent, which
    they seldom are. None where the quantile is None."""
    if total.quantile(q) is None:
        return None
    below, above = _binomial_ranks(total.count, q, confidence)
    low, high = total.at_rank(max(1, below)), total.at_rank(min(total.count, above))
    assert low is not None
    assert high is not None
    return Interval(low, high, "order statistics, calls taken for independent", confidence)


def block_length(windows: int) -> int:
    """Windows in a block: the cube root of their number, the order that minimises the error of a variance
    (Hall, Horowitz and Jing 1995, Biometrika 82, 561-574)."""
    return max(1, round(math.cbrt(windows)))


def _bootstrap_label(windows: Sequence[Window]) -> str:
    return f"block bootstrap over {len(windows)} windows"


def _counts(windows: Sequence[Window]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The slots in use, and how often each window has each, shape (windows, slots). Very many windows are
    joined with their neighbours first, which bounds the work."""
    import numpy as np

    step = math.ceil(len(windows) / MOST_WINDOWS)
    pairs = [
        np.frombuffer(window.entries, dtype=np.uint64).reshape(-1, 2).astype(np.int64) for window in windows
    ]
    slots = np.unique(np.concatenate([part[:, 0] for part in pairs]))
    counts = np.zeros((math.ceil(len(windows) / step), len(slots)), dtype=np.int64)
    for index, part in enumerate(pairs):
        counts[index // step, np.searchsorted(slots, part[:, 0])] += part[:, 1]
    return slots, counts


@lru_cache(maxsize=2)
def _block_weights(windows: int, resamples: int, seed: int) -> NDArray[np.int64]:
    """How often each window is drawn in each resample, shape (resamples, windows): circular blocks, laid end
    to end until there are as many windows as before."""
    import numpy as np

    length = block_length(windows)
    blocks = math.ceil(windows / length)
    starts = np.random.default_rng(seed).integers(0, windows, size=(resamples, blocks))
    drawn = (starts[:, :, None] + np.arange(length)) % windows
    drawn = drawn.reshape(resamples, -1)[:, :windows]
    rows = np.repeat(np.arange(resamples), windows)
    return np.bincount(rows * windows + drawn.ravel(), minlength=resamples * windows).reshape(
        resamples, windows
    )


def _resampled_quantiles(
    slots: NDArray[np.int64], counts: NDArray[np.int64], weights: NDArray[np.int64], q: float
) -> NDArray[np.float64]:
    """The quantile of each resample, in seconds: bisection over the slots, all resamples at once."""
    import numpy as np

    below = counts.cumsum(axis=1)
    columns = below.T.copy()  # a resample gathers one column for each step
    count = weights @ below[:, -1]
    rank = np.maximum(1, np.ceil(count * q))
    first, last = np.zeros(len(weights), dtype=np.int64), np.full(len(weights), len(slots) - 1)
    while (open_ := first < last).any():
        middle = (first + last) // 2
        reached = np.einsum("ij,ij->i", weights, columns[middle]) >= rank
        last = np.where(open_ & reached, middle, last)
        first = np.where(open_ & ~reached, middle + 1, first)
    edges = np.array([slot_high(slot) for slot in slots.tolist()], dtype=float) / 1e9
    found: NDArray[np.float64] = edges[first][count > 0]
    return found


def _spread(values: NDArray[np.float64], confidence: float, windows: int) -> tuple[float, float]:
    """The middle share of resampled values, widened for the few blocks they come from: a bootstrap of n
    blocks is too narrow by sqrt((n - 1) / n) and by the tails of Student's t (Hesterberg 2015, What teachers
    should know about the bootstrap, The American Statistician 69, 371-386: the expanded percentile
    interval)."""
    import numpy as np

    blocks = max(3, round(windows / block_length(windows)))
    reach = math.sqrt(blocks / (blocks - 1)) * student_t(confidence, blocks - 1)
    tail = NormalDist().cdf(-reach)
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _binomial_ranks(count: int, q: float, confidence: float) -> tuple[int, int]:
    """Ranks (1 is the smallest) between which the quantile lies with at least this confidence: the number of
    samples below it is binomial. 0 and count + 1 stand for "no bound"."""
    tail = (1 - confidence) / 2
    mean, deviation = count * q, math.sqrt(count * q * (1 - q))
    if deviation > 30:  # normal to far more digits than a rank has
        reach = NormalDist().inv_cdf(1 - tail) * deviation
        return math.floor(mean - reach), math.ceil(mean + reach) + 1
    # P(at most k below), summed over where the mass is.
    start, stop = (
        max(0, math.floor(mean - 12 * deviation - 12)),
        min(count, math.ceil(mean + 12 * deviation + 12)),
    )
    lower, upper, mass = 0, count + 1, 0.0
    for k in range(start, stop + 1):
        mass += math.exp(_log_binomial(count, k, q))
        if mass <= tail:
            lower = k + 1
        if mass >= 1 - tail:
            upper = k + 1
            break
    return lower, upper


def _log_binomial(count: int, k: int, q: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return ways + k * math.log(q) + (count - k) * math.log1p(-q)


@lru_cache(maxsize=64)
def student_t(confidence: float, freedom: int) -> float:
    """The two-sided quantile of Student's t: its integral by Simpson's rule, inverted by bisection. For one
    number scipy is not needed."""
    gammas = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale = math.exp(gammas) / math.sqrt(math.pi)

    def inside(angle: float) -> float:
        """The probability between -t and t = sqrt(freedom) tan(angle): by this substitution the integrand is
        a power of the cosine, smooth to the end also where t is large."""
        steps = 400
        width = angle / steps
        heights = [math.cos(i * width) ** (freedom - 1) for i in range(steps + 1)]
        inner = 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
        return 2 * scale * width / 3 * (heights[0] + inner + heights[-1])

    low, high = 0.0, math.pi / 2
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(high)
