"""stats: intervals against simulated truth, against exact sums, and against each other."""

import math
import subprocess
import sys
import time
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpcperf import stats
from grpcperf.histogram import Histogram
from grpcperf.result import Window
from grpcperf.stats import intervals


def quickly(latencies):
    """Histogram.from_values for many values: the same slots by numpy."""
    ns = np.rint(np.asarray(latencies, dtype=float) * 1e9).astype(np.int64)
    shift = np.maximum(0, np.frexp(ns.astype(float))[1] - 11)
    slots, counts = np.unique((shift << 10) + (ns >> shift), return_counts=True)
    pairs = zip(slots.tolist(), counts.tolist(), strict=True)
    if not len(ns):
        return Histogram()
    return Histogram(pairs, sum_ns=int(ns.sum()), min_ns=int(ns.min()), max_ns=int(ns.max()))


def test_the_quick_histogram_of_this_file_is_the_slow_one():
    latencies = np.random.default_rng(0).lognormal(-7, 3, 3000)
    assert quickly(latencies) == Histogram.from_values(latencies.tolist())


def windows_of(latencies, length_s=1.0):
    """Windows from lists of latencies in seconds."""
    parts = [quickly(part) for part in latencies]
    return [
        Window(
            start_s=i * length_s,
            length_s=length_s,
            sent=part.count,
            ok=part.count,
            failed=0,
            entries=part.entries,
        )
        for i, part in enumerate(parts)
    ]


def total_of(windows):
    return sum((window.latency for window in windows), start=Histogram())


def stalled_run(rng, seconds=30, rate=200):
    """Calls at a constant rate; stalls of 0.5 s begin at random every 5 s and delay what falls into them."""
    sent = np.arange(seconds * rate) / rate
    latency = rng.lognormal(math.log(1e-3), 0.3, len(sent))
    for begin in rng.uniform(0, seconds, rng.poisson(seconds / 5)):
        caught = (sent >= begin) & (sent < begin + 0.5)
        latency[caught] += begin + 0.5 - sent[caught]
    return np.split(latency, seconds)


def test_the_bootstrap_covers_the_truth_where_order_statistics_do_not():
    q, rng = 0.95, np.random.default_rng(7)
    truth = quickly(np.concatenate(stalled_run(np.random.default_rng(9), 3000))).quantile(q)
    covered = {"bootstrap": 0, "order": 0}
    for _ in range(60):
        run = stalled_run(rng)
        windows, total = windows_of(run), quickly(np.concatenate(run))
        covered["bootstrap"] += truth in stats.quantile_interval(windows, total, q)
        covered["order"] += truth in stats.order_statistic_interval(total, q)
    # Of 60 runs at 95 %, 50 or fewer happen once in 10,000.
    assert covered["bootstrap"] >= 51
    assert covered["order"] <= 36  # which is why the bootstrap is there


def test_the_interval_narrows_with_the_length_of_the_run():
    rng = np.random.default_rng(3)
    windows = windows_of(rng.lognormal(-7, 0.5, (160, 200)))
    wide = stats.quantile_interval(windows[:20], total_of(windows[:20]), 0.9)
    narrow = stats.quantile_interval(windows, total_of(windows), 0.9)
    assert narrow.high - narrow.low < 0.7 * (wide.high - wide.low)
    assert wide.method == "block bootstrap over 20 windows"
    assert total_of(windows).quantile(0.9) in narrow


def test_a_bimodal_run_has_a_wide_interval_and_a_uniform_one_none_to_speak_of():
    fast, slow = [1e-3] * 100, [5e-3] * 100
    mixed = windows_of([fast, fast, slow, slow] * 5)
    interval = stats.quantile_interval(mixed, total_of(mixed), 0.5)
    assert interval.low == pytest.approx(1e-3, rel=2e-3)
    assert interval.high == pytest.approx(5e-3, rel=2e-3)
    same = windows_of([fast] * 20)
    interval = stats.quantile_interval(same, total_of(same), 0.5)
    assert (interval.low, interval.high) == pytest.approx((1e-3, 1e-3), rel=1e-3)


def test_the_same_seed_gives_the_same_interval():
    windows = windows_of(np.random.default_rng(1).lognormal(-7, 0.5, (20, 100)))
    total = total_of(windows)
    assert stats.quantile_interval(windows, total, 0.9) == stats.quantile_interval(windows, total, 0.9)
    assert stats.quantile_interval(windows, total, 0.9) != stats.quantile_interval(
        windows, total, 0.9, seed=1
    )


def test_no_interval_without_a_value():
    windows = windows_of([[1e-3] * 10] * 20)
    assert stats.quantile_interval(windows, total_of(windows), 0.99) is None
    assert stats.quantile_interval([], Histogram(), 0.5) is None
    assert stats.order_statistic_interval(Histogram(), 0.5) is None


def test_few_windows_are_labelled_as_such():
    windows = windows_of([np.linspace(1e-3, 2e-3, 100)] * 9)
    interval = stats.quantile_interval(windows, total_of(windows), 0.5)
    assert interval.method == "order statistics, calls taken for independent"
    assert total_of(windows).quantile(0.5) in interval


def test_empty_windows_count():
    busy, idle = [1e-3] * 50 + [2e-3] * 50, []
    windows = windows_of([busy, idle] * 10)
    assert stats.quantile_interval(windows, total_of(windows), 0.4).low == pytest.approx(1e-3, rel=2e-3)
    total = Histogram.from_values([1e-3] * 100)
    assert "order" in stats.quantile_interval(windows_of([idle] * 20), total, 0.5).method


def test_what_ended_after_the_windows_stays_inside_the_interval():
    windows = windows_of([[1e-3] * 20] * 20)
    late = total_of(windows) + Histogram.from_values([1.0] * 800)
    interval = stats.quantile_interval(windows, late, 0.9)
    assert late.quantile(0.9) in interval
    assert interval.low <= 1.001e-3


def test_resampled_quantiles_are_those_of_the_resampled_calls():
    rng = np.random.default_rng(5)
    windows = windows_of([rng.lognormal(-7, 1, n) for n in rng.integers(0, 80, 12)])
    slots, counts = intervals._counts(windows)
    weights = intervals._block_weights(12, 50, 0)
    for q in (0.1, 0.5, 0.93):
        found = intervals._resampled_quantiles(slots, counts, weights, q)
        for value, drawn in zip(found, weights, strict=True):
            merged = sum(
                (w.latency for w, n in zip(windows, drawn, strict=True) for _ in range(n)), start=Histogram()
            )
            exact = merged.at_rank(max(1, math.ceil(merged.count * q)))
            assert value == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("windows", [10, 20, 63, 200])
def test_blocks_are_circular_and_of_neighbours(windows):
    weights = intervals._block_weights(windows, 2000, 0)
    assert weights.shape == (2000, windows)
    assert (weights.sum(axis=1) == windows).all()
    # Each window has the same weight, those at the ends too (that is what the circle is for).
    assert abs(weights.mean(axis=0) - 1).max() < 0.15
    # Neighbours are drawn together, windows far apart are not.
    together = np.corrcoef(weights, rowvar=False)
    assert together[0, 1] > 0.2
    assert together[0, windows - 1] > 0.2
    assert together[0, windows // 2] < 0.1


def test_few_blocks_widen_the_interval():
    normal = np.array([NormalDist().inv_cdf((i + 0.5) / 100_000) for i in range(100_000)])
    # 20 windows are 7 blocks: sqrt(7 / 6) * t(0.975, 6) = 1.080123 * 2.446912; very many 1.96.
    assert intervals._spread(normal, 0.95, 20) == pytest.approx((-2.6430, 2.6430), abs=2e-3)
    assert intervals._spread(normal, 0.95, 10**7) == pytest.approx((-1.9600, 1.9600), abs=2e-3)


@pytest.mark.parametrize(("windows", "length"), [(1, 1), (10, 2), (20, 3), (64, 4), (100, 5)])
def test_block_lengths(windows, length):
    assert stats.block_length(windows) == length


def test_very_many_windows_are_joined():
    windows = windows_of([[1e-3 * (1 + i % 7)] * 10 for i in range(601)])
    slots, counts = intervals._counts(windows)
    assert counts.shape[0] == math.ceil(601 / 4)
    assert counts.sum() == 6010
    assert len(slots) == 7


def test_throughput_intervals():
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(100):
        ok = rng.poisson(100, 20)
        windows = [Window(start_s=0, length_s=0.1, sent=0, ok=int(n), failed=0, entries=b"") for n in ok]
        hits += 1000 in stats.rate_interval(windows, ok.sum() / 2)
    assert hits >= 86  # of 100 at 95 %


def test_throughput_of_few_windows_is_students():
    def made(oks, lengths):
        pairs = zip(oks, lengths, strict=True)
        return [Window(start_s=0, length_s=s, sent=n, ok=n, failed=0, entries=b"") for n, s in pairs]

    interval = stats.rate_interval(made([100, 110, 90], [1, 1, 1]), 100)
    # By hand: mean 100, s 10, t(0.975, 2) = 4.302653, half = 4.302653 * 10 / sqrt(3).
    assert (interval.low, interval.high) == pytest.approx((100 - 24.8414, 100 + 24.8414), abs=1e-3)
    assert interval.method == "Student's t over 3 windows"
    # A last window of a hundredth of the length holds one call or none, and tells nothing.
    assert stats.rate_interval(made([100, 110, 90, 5], [1, 1, 1, 0.01]), 100) == interval
    assert stats.rate_interval(made([100, 110], [1, 1]), 105) is None
    assert stats.rate_interval(made([100, 110, 1], [1, 1, 0.01]), 105) is None
    assert stats.rate_interval([], 0) is None


def least_squares(groups):
    """Slope, its standard error and freedom by numpy: a column for x and one for each group's intercept."""
    rows = [(index, x, y) for index, group in enumerate(groups) for x, y in group]
    design = np.zeros((len(rows), 1 + len(groups)))
    for place, (index, x, _) in enumerate(rows):
        design[place, [0, 1 + index]] = x, 1
    values = np.array([y for *_, y in rows])
    found, left, *_ = np.linalg.lstsq(design, values, rcond=None)
    freedom = len(rows) - len(groups) - 1
    variance = float(left[0]) / freedom * np.linalg.inv(design.T @ design)[0, 0]
    return found[0], math.sqrt(variance), freedom


@pytest.mark.parametrize("groups", [1, 3])
def test_a_slope_is_that_of_numpy(groups):
    rng = np.random.default_rng(groups)
    points = [
        [(x, 1e6 * index + 12_700 * x + rng.normal(0, 50_000)) for x in (0, 250, 500, 1000)]
        for index in range(groups)
    ]
    line = stats.common_slope(points)
    slope, error, freedom = least_squares(points)
    half = stats.student_t(0.95, freedom) * error
    assert line.freedom == freedom
    assert (line.slope, line.low, line.high) == pytest.approx((slope, slope - half, slope + half), rel=1e-6)
    assert 0.99 < line.r2 < 1


def test_a_slope_by_hand():
    # y = 1, 2, 4 over x = 0, 1, 2: slope 1.5, residuals 1/6, -1/3, 1/6; t(0.975, 1) = 12.7062, s = sqrt(1/6).
    line = stats.common_slope([[(0, 1), (1, 2), (2, 4)]])
    assert line.slope == pytest.approx(1.5)
    assert line.high - line.slope == pytest.approx(12.7062 * math.sqrt(1 / 6 / 2), rel=1e-5)
    assert line.r2 == pytest.approx(1 - (1 / 6) / (14 / 3))
    # What one group has on top of the other is no part of the slope.
    assert stats.common_slope([[(0, 0), (1, 1)], [(5, 99), (6, 100)]]).slope == pytest.approx(1)


def test_a_cost_is_split_as_numpy_does():
    rng = np.random.default_rng(5)
    x = np.array([1, 1, 3, 10, 30, 100], dtype=float)
    y = (50 + 70 * x) * (1 + rng.normal(0, 0.03, len(x)))
    cost = stats.fit_cost(list(zip(x, y, strict=True)))
    (each, fixed), covariance = np.polyfit(x, y, 1, w=1 / y, cov=True)
    halves = stats.student_t(0.95, len(x) - 2) * np.sqrt(np.diag(covariance))
    assert (cost.fixed, cost.each) == pytest.approx((fixed, each))
    bounds = (cost.each_interval.low, cost.each_interval.high)
    assert bounds == pytest.approx((each - halves[0], each + halves[0]))
    bounds = (cost.fixed_interval.low, cost.fixed_interval.high)
    assert bounds == pytest.approx((fixed - halves[1], fixed + halves[1]))
    assert 0.9 < cost.r2 < 1


def test_the_fixed_part_of_a_cost_is_not_buried():
    """By 7 % too much at the largest point, which moves an unweighted fixed part by more than it is."""
    points = [(x, 50 + 70 * x) for x in (1, 3, 10, 30)] + [(100, 1.07 * 7050)]
    cost = stats.fit_cost(points)
    assert cost.fixed == pytest.approx(50, rel=0.25)
    assert cost.fixed_interval.low < 50 < cost.fixed_interval.high


def test_a_cost_that_cannot_be_split():
    assert stats.fit_cost([]) is None
    assert stats.fit_cost([(3, 1), (3, 2)]) is None
    assert stats.fit_cost([(1, 0), (2, 2)]) is None
    two = stats.fit_cost([(1, 3), (2, 5)])
    assert (two.fixed, two.each) == pytest.approx((1, 2))
    assert (two.fixed_interval, two.each_interval) == (None, None)


def test_a_slope_that_cannot_be_told():
    assert stats.common_slope([]) is None
    assert stats.common_slope([[(3, 1), (3, 2)], []]) is None
    two = stats.common_slope([[(0, 1), (2, 2)]])
    assert (two.slope, two.low, two.high, two.freedom) == (0.5, None, None, 0)
    flat = stats.common_slope([[(0, 5), (1, 5), (2, 5)]])
    assert (flat.slope, flat.low, flat.high, flat.r2) == (0, 0, 0, None)


def test_slopes_intervals_cover_the_truth():
    rng = np.random.default_rng(17)
    covered = 0
    for _ in range(300):
        points = [[(x, base + 3 * x + rng.normal(0, 5)) for x in (0, 1, 2, 4)] for base in (0, 1000, -50)]
        line = stats.common_slope(points)
        covered += line.low <= 3 <= line.high
    assert 270 <= covered <= 297  # of 300 at 95 %


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(2, 4.302653), (4, 2.776445), (6, 2.446912), (10, 2.228139), (30, 2.042272), (200, 1.971896)],
)
def test_student_t_is_the_printed_table(freedom, quantile):
    assert stats.student_t(0.95, freedom) == pytest.approx(quantile, abs=1e-5)


@settings(deadline=None, max_examples=60)
@given(st.integers(20, 4000), st.floats(0.05, 0.95))
def test_binomial_ranks_cover_and_not_much_more(count, q):
    low, high = intervals._binomial_ranks(count, q, 0.95)
    # P(rank low is at or below the quantile, and rank high is above it) from exact sums.
    ways = math.comb
    numerator, denominator = q.as_integer_ratio()

    def below(k):  # P(at most k samples lie below the quantile)
        if count > 300:
            deviation = math.sqrt(count * q * (1 - q))
            return 0.5 * (1 + math.erf((k + 0.5 - count * q) / deviation / math.sqrt(2)))
        p = numerator / denominator
        return math.fsum(ways(count, i) * p**i * (1 - p) ** (count - i) for i in range(k + 1))

    coverage = below(high - 1) - below(low - 1)
    assert coverage >= 0.93 if count > 300 else coverage >= 0.95 - 1e-9
    assert high - low <= 2 * 1.96 * math.sqrt(count * q * (1 - q)) + 5


def test_intervals_are_quick_enough_for_a_prompt():
    windows = windows_of(np.random.default_rng(2).lognormal(-7, 0.7, (100, 500)))
    total = total_of(windows)
    stats.quantile_interval(windows, total, 0.5)  # imports
    took = []
    for q in (0.5, 0.9, 0.99):
        begin = time.process_time()
        stats.quantile_interval(windows, total, q)
        took.append(time.process_time() - begin)
    assert min(took) < 0.2  # 15 ms on the machine it was written on


def test_numpy_comes_only_when_asked():
    code = "import sys; from grpcperf import stats, checks, result, diagnose; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
