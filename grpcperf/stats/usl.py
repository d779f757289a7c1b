"""The Universal Scalability Law: how throughput grows with concurrency, and where it stops.

Gunther, N. J. (2007), Guerrilla Capacity Planning, Springer, chapter 5: X(N) = a N / (1 + s (N - 1) +
k N (N - 1)), where a is the throughput of one, s the share of work that is done one at a time (contention)
and k the cost of agreement between each pair (coherency). k = 0 is Amdahl's law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from grpcperf.errors import InvalidRequest
from grpcperf.stats.intervals import CONFIDENCE, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 500
FEWEST_LEVELS = 4


@dataclass(frozen=True, kw_only=True)
class Usl:
    """A fit. `knee`: the concurrency with most throughput, None where throughput only flattens;
    `knee_interval` and `most_rps` (the throughput there, or the ceiling a / s) follow from it."""

    per_second_of_one: float  # a
    contention: float  # s
    coherency: float  # k
    r2: float
    knee: float | None
    knee_interval: Interval | None
    most_rps: float | None

    def throughput(self, concurrency: float) -> float:
        """What the fit says of this concurrency, in calls per second."""
        n = concurrency
        return self.per_second_of_one * n / (1 + self.contention * (n - 1) + self.coherency * n * (n - 1))


def fit_usl(
    concurrency: Sequence[float],
    throughput: Sequence[float],
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Usl:
    """Fit the law to measured points; several with the same concurrency are repeats.

    Least squares of the relative errors, in the linear form N / X = (1 + s (N - 1) + k N (N - 1)) / a, with
    no parameter below 0. The knee's interval is a percentile bootstrap over the points (Efron and Tibshirani
    1993, An Introduction to the Bootstrap, chapter 13), without those resamples that have no knee: None where
    they are most. Raises InvalidRequest for fewer than four levels of concurrency.
    """
    import numpy as np

    if len(concurrency) != len(throughput):
        raise InvalidRequest(
            f"{len(concurrency)} levels and {len(throughput)} throughputs do not belong together"
        )
    n, x = np.asarray(concurrency, dtype=float), np.asarray(throughput, dtype=float)
    if len(np.unique(n)) < FEWEST_LEVELS or (n <= 0).any() or not (x > 0).all():
        raise InvalidRequest(
            f"a fit of the scalability law needs {FEWEST_LEVELS} levels of concurrency or more, above 0 and "
            f"with some throughput, not {sorted({float(level) for level in n})}"
        )
    a, s, k = _solve(n, x)
    fitted = Usl(
        per_second_of_one=a, contention=s, coherency=k, r2=0.0, knee=None, knee_interval=None, most_rps=None
    )
    residual = sum((fitted.throughput(level) - value) ** 2 for level, value in zip(n, x, strict=True))
    r2 = 1 - residual / max(float(((x - x.mean()) ** 2).sum()), 1e-300)
    knee = _knee(s, k)
    top = fitted.throughput(knee) if knee is not None else a / s if s > 0 else None
    bounds = None if knee is None else _knee_interval(n, x, confidence, seed)
    return Usl(
        per_second_of_one=a,
        contention=s,
        coherency=k,
        r2=float(r2),
        knee=knee,
        knee_interval=bounds,
        most_rps=top,
    )


def _solve(n: NDArray[np.float64], x: NDArray[np.float64]) -> tuple[float, float, float]:
    """Non-negative least squares of 1 = (p + q (N - 1) + r N (N - 1)) X / N with three unknowns: the best of
    the solutions with each subset of them at 0, p = 1 / a always in."""
    import numpy as np

    columns = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1) * (x / n)[:, None]
    best, best_error = (1.0, 0.0, 0.0), math.inf
    for count in (0, 1, 2):
        for extra in combinations((1, 2), count):
            chosen = [0, *extra]
            solution = np.linalg.lstsq(columns[:, chosen], np.ones(len(n)), rcond=None)[0]
            error = float(((columns[:, chosen] @ solution - 1) ** 2).sum())
            if (solution >= 0).all() and solution[0] > 0 and error < best_error:
                whole = [0.0, 0.0, 0.0]
                for index, value in zip(chosen, solution, strict=True):
                    whole[index] = float(value)
                best, best_error = (whole[0], whole[1], whole[2]), error
    p, q, r = best
    return 1 / p, q / p, r / p


def _knee(contention: float, coherency: float) -> float | None:
    """At least 1: with less than one caller there is nothing."""
    if contention >= 1:
        return 1.0
    if coherency <= 0:
        return None
    return max(1.0, math.sqrt((1 - contention) / coherency))


def _knee_interval(
    n: NDArray[np.float64], x: NDArray[np.float64], confidence: float, seed: int
) -> Interval | None:
    import numpy as np

    random = np.random.default_rng(seed)
    knees = []
    for _ in range(RESAMPLES):
        drawn = random.integers(0, len(n), len(n))
        if len(np.unique(n[drawn])) >= 3:
            _, s, k = _solve(n[drawn], x[drawn])
            knee = _knee(s, k)
            if knee is not None:
                knees.append(knee)
    if len(knees) * 2 < RESAMPLES:
        return None
    low, high = np.quantile(knees, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), f"bootstrap over {len(n)} points", confidence)
