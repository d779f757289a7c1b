"""Comparisons: verdicts on simulated truth, and a real change found on a real server."""

import random
from typing import Any

import numpy as np
import pytest
from scipy import stats as oracle

import grpcperf as gp
from grpcperf import stats
from grpcperf.comparison import compare_apart


def noisy(middle: float, spread: float, seed: int) -> Any:
    source = random.Random(seed)
    return lambda: {"y": middle * source.lognormvariate(0, spread)}


def verdict(factor: float, spread: float = 0.05, seed: int = 1, **how: Any) -> str:
    a, b = noisy(100, spread, seed), noisy(100 * factor, spread, seed + 1000)
    return gp.compare(a, b, metric="y", **how).verdict


def test_verdicts() -> None:
    assert verdict(1.5) == "changed"
    assert verdict(0.5) == "changed"
    assert verdict(1.0, spread=0.001) == "unchanged"
    assert verdict(1.01, spread=0.0001) == "unchanged"  # sure, and too small to count
    assert verdict(1.0, spread=0.5) == "inconclusive"


def test_a_against_itself_seldom_changes() -> None:
    """At most 16 of 200; with no least effect 5 % are expected."""
    changed = sum(verdict(1.0, seed=seed, min_effect=0.0) == "changed" for seed in range(200))
    assert changed <= 22


def test_pairs_take_out_what_both_met() -> None:
    """The machine gets slower all the time, by far more than B differs from A."""
    clock = iter(range(10_000))

    def drifting(factor: float) -> Any:
        return lambda: {"y": factor * 100 * 1.05 ** next(clock)}

    found = gp.compare(drifting(1.0), drifting(1.2), metric="y", rounds=20)
    assert found.verdict == "changed"
    assert found.ratio == pytest.approx(1.2, rel=0.05)
    assert compare_apart(found.a, found.b, "y", min_effect=0.02).verdict != "changed"


def test_order_within_rounds_is_random_and_seeded() -> None:
    def order(seed: int) -> str:
        told: list[str] = []

        def measure(name: str) -> Any:
            return lambda: told.append(name) or 1.0

        gp.compare(measure("a"), measure("b"), rounds=12, metric="y", seed=seed)
        return "".join(told)

    assert order(1) == order(1) != order(2)
    pairs = [order(1)[at : at + 2] for at in range(0, 24, 2)]
    assert set(pairs) == {"ab", "ba"}


def test_an_unsteady_machine_gives_no_verdict() -> None:
    """Every third measurement is slow, which here always is the second of A."""
    values = iter([1.0, 2.0] * 50)
    found = gp.compare(lambda: next(values), lambda: 5.0, metric="y", rounds=8, aa_check=True, seed=3)
    assert found.aa is not None
    if found.aa.changed:
        assert found.verdict == "inconclusive"
    steady = gp.compare(lambda: 1.0, lambda: 5.0, metric="y", aa_check=True)
    assert (steady.verdict, steady.aa.verdict if steady.aa else "") == ("changed", "unchanged")


def test_values_that_are_missing_are_told() -> None:
    found = gp.compare(lambda: {"y": None}, lambda: {"y": 1.0}, metric="y")
    assert (found.verdict, found.ratio) == ("inconclusive", None)
    assert "in 0 of 10 rounds" in found.note


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"rounds": 2}, "rounds"),
        ({"min_effect": -1}, "min_effect"),
        ({"metric": "z"}, "no 'z'"),
        ({"a": 3}, "a must be a callable"),
        ({"b": lambda: "fast"}, "must return"),
    ],
)
def test_nonsense_is_refused(arguments: Any, told: str) -> None:
    given = {"a": lambda: {"y": 1}, "b": lambda: {"y": 1}, "metric": "y", **arguments}
    with pytest.raises(gp.InvalidRequest, match=told):
        gp.compare(given.pop("a"), given.pop("b"), **given)


def test_a_real_slow_down_is_found(server: Any) -> None:
    """Twice the work in the handler, told from the same by ten rounds of a fifth of a second."""

    def run(busy_us: int) -> Any:
        asked = {"grpcperf-busy-us": str(busy_us)}
        return lambda: gp.load(server, concurrency=2, duration=0.15, warmup=0.05, drain=0.2, metadata=asked)

    found = gp.compare(run(100), run(250), metric="throughput_rps")
    assert found.verdict == "changed"
    assert found.ratio is not None
    assert found.ratio < 0.8
    assert found.row()["verdict"] == "changed"
    assert "changed" in repr(found)
    assert "changed" in found._repr_html_()


# --- the statistics under it, against scipy


def test_intervals_are_those_of_scipy() -> None:
    source = np.random.default_rng(1)
    a, b = source.lognormal(0, 0.2, 9), source.lognormal(0.1, 0.3, 12)
    ratio, bounds = stats.paired_ratio(a, b[:9]) or (0, None)
    want = oracle.ttest_rel(np.log(b[:9]), np.log(a)).confidence_interval(0.95)
    assert bounds is not None
    assert (np.log(bounds.low), np.log(bounds.high)) == pytest.approx((want.low, want.high), rel=1e-4)
    assert np.log(ratio) == pytest.approx(np.mean(np.log(b[:9]) - np.log(a)))
    ratio, bounds = stats.ratio_of_means(a, b) or (0, None)
    want = oracle.ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval(0.95)
    assert bounds is not None
    # Degrees of freedom are rounded down, which makes it a little wider.
    assert (np.log(bounds.low), np.log(bounds.high)) == pytest.approx((want.low, want.high), abs=0.01)
    assert bounds.high - bounds.low >= np.exp(want.high) - np.exp(want.low) - 1e-9
    mean = stats.mean_interval(a)
    want = oracle.t.interval(0.95, 8, a.mean(), a.std(ddof=1) / 3)
    assert mean is not None
    assert (mean.low, mean.high) == pytest.approx(want, rel=1e-4)


def test_warm_up_is_found_where_it_ends() -> None:
    source = np.random.default_rng(2)
    cold = 100 - 60 * np.exp(-np.arange(200) / 8) + source.normal(0, 2, 200)
    end = stats.warmup_end(cold.tolist())
    assert end is not None
    assert 15 <= end <= 50
    assert (stats.warmup_end(source.normal(100, 2, 200).tolist()) or 0) <= 60
    assert stats.warmup_end(np.arange(200).tolist()) is None  # never comes to rest
    assert stats.warmup_end([1.0, 2.0]) is None


def test_usl_finds_the_law_it_was_made_by() -> None:
    law = stats.Usl(
        per_second_of_one=1000,
        contention=0.05,
        coherency=0.001,
        r2=1,
        knee=None,
        knee_interval=None,
        most_rps=None,
    )
    levels = [1, 2, 4, 8, 16, 32, 64, 128]
    exact = stats.fit_usl(levels, [law.throughput(level) for level in levels])
    assert exact.contention == pytest.approx(0.05, rel=1e-6)
    assert exact.coherency == pytest.approx(0.001, rel=1e-6)
    assert exact.knee == pytest.approx((0.95 / 0.001) ** 0.5)
    assert exact.r2 == pytest.approx(1)
    source = np.random.default_rng(3)
    levels = levels * 3
    noisy = stats.fit_usl(levels, [law.throughput(n) * source.lognormal(0, 0.05) for n in levels])
    assert noisy.knee_interval is not None
    assert (0.95 / 0.001) ** 0.5 in noisy.knee_interval
    assert noisy.knee_interval.high < 2 * noisy.knee_interval.low


def test_usl_without_a_knee() -> None:
    amdahl = stats.fit_usl([1, 2, 4, 8], [100 * n / (1 + 0.1 * (n - 1)) for n in (1, 2, 4, 8)])
    assert (amdahl.knee, amdahl.knee_interval) == (None, None)
    assert amdahl.most_rps == pytest.approx(1000)
    linear = stats.fit_usl([1, 2, 4, 8], [100, 200, 400, 800])
    assert (linear.knee, linear.most_rps) == (None, None)
    faster = stats.fit_usl([1, 2, 4, 8], [100, 220, 480, 1000])  # superlinear: no parameter goes below 0
    assert faster.contention == faster.coherency == 0
    with pytest.raises(gp.InvalidRequest, match="4 levels"):
        stats.fit_usl([1, 1, 1, 2], [1, 1, 1, 2])


def test_a_zero_has_no_ratio_and_hides_nothing() -> None:
    """Errors that went from 0 to 500 in most rounds: not "unchanged", for what is left are the rounds
    without."""
    values = iter([0, 0, 0, 7, 0, 0, 7, 0])
    found = gp.compare(lambda: next(values), lambda: 7, metric="errors", rounds=8)
    assert found.verdict == "inconclusive"
    assert "0 in some" in found.note
    assert (
        compare_apart([0.0, 0.0, 5.0], [5.0, 5.0, 5.0], "errors", min_effect=0.02).verdict == "inconclusive"
    )


@pytest.mark.parametrize("least", [0.1, 0.6, 3.0])
def test_up_and_down_count_alike(least: float) -> None:
    factor = (1 + least) * 1.2
    assert verdict(factor, spread=0.001, min_effect=least) == "changed"
    assert verdict(1 / factor, spread=0.001, min_effect=least) == "changed"
    assert verdict(1 + least * 0.9, spread=0.001, min_effect=least) == "unchanged"
    with pytest.raises(gp.InvalidRequest, match="confidence"):
        gp.compare(lambda: 1.0, lambda: 1.0, metric="y", confidence=1.5)


@pytest.mark.parametrize(("confidence", "freedom"), [(0.999, 1), (0.95, 1), (0.99, 2), (0.5, 3), (0.95, 400)])
def test_student_t_is_scipys(confidence: float, freedom: int) -> None:
    assert stats.student_t(confidence, freedom) == pytest.approx(
        oracle.t.ppf((1 + confidence) / 2, freedom), rel=1e-6
    )


@pytest.mark.parametrize("count", [10, 20, 40, 100])
def test_a_constant_needs_no_warm_up(count: int) -> None:
    assert stats.warmup_end([1234.567] * count) == 0


def test_a_law_that_falls_from_the_start_is_most_at_one() -> None:
    fit = stats.fit_usl([1, 2, 4, 8], [100, 62, 40, 21])
    assert fit.knee == 1
    assert fit.most_rps == pytest.approx(fit.per_second_of_one)


def test_ctrl_c_keeps_the_rounds_that_were_finished() -> None:
    calls = 0

    def measure() -> float:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(gp.Interrupted, match="after 3 rounds") as caught:
        gp.compare(measure, measure, metric="y")
    found = caught.value.result
    assert (found.verdict, found.a, found.b) == ("inconclusive", (1.0,) * 3, (1.0,) * 3)


def test_a_callable_without_return_is_told() -> None:
    with pytest.raises(gp.InvalidRequest, match="return"):
        gp.compare(lambda: None, lambda: 1.0, metric="y")
