"""Where a series comes to rest: how long a warm-up should have been."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

BATCH = 5


def warmup_end(values: Sequence[float]) -> int | None:
    """How many values at the beginning of a series are warm-up: those whose removal leaves the mean of the
    rest most certain. None when that would be half of the series or more: it never came to rest, or is too
    short.

    MSER-5: White, K. P. (1997), An effective truncation heuristic for bias reduction in simulation output,
    Simulation 69, 323-334; the rule to reject a truncation in the second half is from Hoad, Robinson and
    Davies (2010), Automating warm-up length estimation, J. Operational Research Society 61, 1389-1403.
    Batches of five steady the minimum; series under 40 values are taken value by value.
    """
    size = BATCH if len(values) >= 8 * BATCH else 1
    batches = [sum(values[at : at + size]) / size for at in range(0, len(values) - size + 1, size)]
    if len(batches) < 4:
        return None
    middle = sum(batches) / len(batches)
    batches = [
        value - middle for value in batches
    ]  # squares of large numbers that hardly differ would cancel
    # Of the last k batches: sum and sum of squares, so that every truncation costs the same.
    sums = list(accumulate(reversed(batches)))
    squares = list(accumulate(value * value for value in reversed(batches)))
    best, best_error = 0, float("inf")
    for cut in range(len(batches) * 3 // 4):  # of the last few the spread is a matter of luck
        count = len(batches) - cut
        total, square = sums[count - 1], squares[count - 1]
        error = max(0.0, square - total * total / count) / count**2
        if error < best_error * (1 - 1e-9):
            best, best_error = cut, error
    return None if best * 2 >= len(batches) else best * size
