"""Searching for a rate, and repeating until a percentile is known, on a server that is a formula: what is
found can be told beforehand. Once on a real one."""

import random
from dataclasses import replace
from typing import Any

import pytest

import grpcperf as gp
from grpcperf.histogram import Histogram
from grpcperf.merge import merge
from grpcperf.result import Finding, Result, Status, Window

CAPACITY = 5000.0


def result_of(
    spec: gp.Load, latencies: list[float], failed: int = 0, findings: tuple[Any, ...] = ()
) -> Result:
    """A run of one second in ten windows."""
    histogram = Histogram.from_values(latencies)
    tenth = len(latencies) // 10
    windows = [
        Window(
            start_s=at / 10,
            length_s=0.1,
            sent=tenth,
            ok=tenth,
            failed=0,
            entries=Histogram.from_values(latencies[at * tenth : (at + 1) * tenth]).entries,
        )
        for at in range(10)
    ]
    return Result(
        spec=spec,
        status=Status({"OK": len(latencies), **({"UNAVAILABLE": failed} if failed else {})}),
        latency=histogram,
        service_time=histogram,
        error_latency=Histogram(),
        window_s=1.0,
        ok_in_window=len(latencies),
        all_in_window=len(latencies) + failed,
        windows=tuple(windows),
        client_cpu_s=0.25,
        findings=findings,
    )


class Formula:
    """A server whose latency is 1 ms / (1 - utilisation), and which fails calls beyond its capacity. `noise`
    makes a run's latencies all larger or smaller."""

    def __init__(self, noise: float = 0.0, client_limit: float = 1e9) -> None:
        self.random = random.Random(1)
        self.noise = noise
        self.client_limit = client_limit
        self.rates: list[float] = []

    def __call__(self, target: Any, **args: Any) -> Result:
        spec = gp.Load(**args)
        if spec.rate is None:
            return result_of(spec, [0.01] * int(CAPACITY * 0.6))
        self.rates.append(spec.rate)
        failed = int(max(0.0, spec.rate - CAPACITY))
        load = min(spec.rate / CAPACITY, 0.999)
        latency = 1e-3 / (1 - load) * (1 + self.random.uniform(-self.noise, self.noise))
        saturated = Finding(code="client_cpu_saturated", severity="invalid", message="full")
        findings = (saturated,) if spec.rate > self.client_limit else ()
        return result_of(spec, [latency] * (int(spec.rate) - failed), failed, findings)


@pytest.fixture
def formula(monkeypatch: pytest.MonkeyPatch) -> Formula:
    made = Formula()
    monkeypatch.setattr("grpcperf.search.load", made)
    return made


def test_the_highest_rate_that_keeps_a_bound(formula: Formula) -> None:
    """p99 < 5 ms holds up to 80 % of the capacity."""
    found = gp.find_max_rate("localhost:1", p99="<5ms", precision=0.02)
    assert found.rate is not None
    assert 0.97 * 4000 <= found.rate <= 4000
    assert (found.confirmed, found.limited_by) == (True, "bound")
    assert len(found.results) == len(formula.rates) + 1 == len(found.rows())  # and the closed loop


def test_rates_are_limited_by_errors_too(formula: Formula) -> None:
    found = gp.find_max_rate("localhost:1", p99="<10s", precision=0.02)
    assert found.rate is not None
    assert 0.97 * CAPACITY <= found.rate <= CAPACITY * 1.01
    assert found.limited_by == "rate"


def test_a_client_at_its_end_is_named(formula: Formula) -> None:
    formula.client_limit = 2000
    found = gp.find_max_rate("localhost:1", p99="<5ms", precision=0.02)
    assert found.rate is not None
    assert found.rate <= 2000
    assert found.limited_by == "client"


def test_no_rate_keeps_the_bound(formula: Formula) -> None:
    found = gp.find_max_rate("localhost:1", p99="<0.5ms", low=1000)
    assert (found.rate, found.confirmed, found.limited_by) == (None, False, "bound")
    assert min(formula.rates) == 1000


def test_the_highest_allowed_is_kept(formula: Formula) -> None:
    found = gp.find_max_rate("localhost:1", p99="<5ms", high=3000)
    assert (found.rate, found.limited_by) == (3000, "high")


def test_a_rate_that_does_not_hold_is_taken_back(formula: Formula) -> None:
    """With noise of 10 % a single run keeps the bound up to 82 % of the capacity at best."""
    formula.noise = 0.1
    found = gp.find_max_rate("localhost:1", p99="<5ms", precision=0.02, confirm=4)
    assert found.rate is not None
    assert 0.7 * CAPACITY <= found.rate <= 0.82 * CAPACITY


def test_load_arguments_reach_the_load(formula: Formula) -> None:
    found = gp.find_max_rate("localhost:1", "p99<5ms", connections=3, request_size="1KiB")
    assert {(one.spec.connections, one.spec.request_size) for one in found.results} == {(3, 1024)}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "give a bound"),
        ({"p99": "<5ms", "low": 10, "high": 5}, "below high"),
        ({"p99": "<5ms", "low": 0}, "low must be a rate"),
        ({"p99": "<5ms", "precision": 0}, "precision"),
        ({"p98x": "<5ms"}, "unknown metric"),
    ],
)
def test_nonsense_is_refused(formula: Formula, arguments: Any, told: str) -> None:
    with pytest.raises(gp.InvalidRequest, match=told):
        gp.find_max_rate("localhost:1", **arguments)


# --- until precise


def runs_of(spread: float, seed: int = 1) -> Any:
    source = random.Random(seed)
    spec = gp.Load()

    def measure() -> Result:
        return result_of(spec, [source.lognormvariate(-6, spread) for _ in range(2000)])

    return measure


def test_repeats_until_the_interval_is_narrow() -> None:
    quick = gp.until_precise("p99", relative=0.2)(runs_of(0.5))
    slow = gp.until_precise("p99", relative=0.05)(runs_of(0.5))
    assert slow.calls > quick.calls >= 4000
    bounds, value = slow.interval("p99"), slow.latency.p99
    assert bounds is not None
    assert value is not None
    assert bounds.high <= value * 1.05
    assert bounds.low >= value * 0.95
    assert not slow.findings


def test_the_time_limit_is_told() -> None:
    result = gp.until_precise("p99", relative=0.001, max_duration=0.05)(runs_of(2.0))
    assert [one.code for one in result.findings] == ["not_precise"]
    assert result.calls >= 4000


def test_what_has_no_interval_is_refused() -> None:
    with pytest.raises(gp.InvalidRequest, match="no interval"):
        gp.until_precise("errors")(runs_of(1.0))
    with pytest.raises(gp.InvalidRequest, match="must return a Result"):
        gp.until_precise("p99")(lambda: 3)
    with pytest.raises(gp.InvalidRequest, match="relative"):
        gp.until_precise("p99", relative=2)


def test_an_interrupt_keeps_what_there_was() -> None:
    measure, calls = runs_of(2.0), 0

    def third_is_interrupted() -> Result:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise gp.Interrupted("stop", measure())
        return measure()

    with pytest.raises(gp.Interrupted) as caught:
        gp.until_precise("p99", relative=0.001)(third_is_interrupted)
    assert caught.value.result.calls == 6000


def test_merging_adds_up() -> None:
    one, two = runs_of(0.5)(), runs_of(0.5, seed=2)()
    warned = replace(two, findings=(Finding(code="x", severity="warning", message="m"),), client_cpu_s=None)
    total = merge([one, warned])
    assert total.calls == one.calls + two.calls
    assert total.latency == one.latency + two.latency
    assert total.window_s == 2
    assert total.throughput_rps == pytest.approx((one.throughput_rps + two.throughput_rps) / 2)
    assert total.client_cpu_s is None
    assert [window.start_s for window in total.windows] == pytest.approx([at / 10 for at in range(20)])
    assert [finding.code for finding in total.findings] == ["x"]
    with pytest.raises(gp.InvalidRequest, match="different loads"):
        merge([one, replace(two, spec=gp.Load(concurrency=3))])


def test_on_a_real_server(server: Any) -> None:
    """Found, or told why not: what a busy machine gives is not known beforehand."""
    found = gp.find_max_rate(server, p50="<1s", duration=0.2, high=500, confirm=1, drain=0.5)
    assert found.results
    assert found.rate in (None, 500) or found.rate < 500
    assert "MaxRate" in repr(found)


def test_a_rate_that_never_holds_is_one_that_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs keep the bound, longer ones do not."""
    tried: list[float] = []

    def deceptive(target: Any, **args: Any) -> Result:
        spec = gp.Load(**args)
        if spec.rate is None:
            return result_of(spec, [0.01] * 1000)
        tried.append(spec.rate)
        confirming = float(spec.duration or 0) > 1.5
        return result_of(spec, [1.0 if confirming or spec.rate > 1000 else 1e-3] * int(spec.rate))

    monkeypatch.setattr("grpcperf.search.load", deceptive)
    for high in (None, 900):
        found = gp.find_max_rate("localhost:1", p50="<5ms", low=500, high=high)
        assert not found.confirmed
        assert found.rate in tried
        assert found.rate is not None
        assert found.rate >= 500


def test_merging_a_pool_keeps_its_bytes() -> None:
    spec = gp.Load(kind="bidi", messages_per_stream=1, request_size=[16, 1024])
    parts = [replace(result_of(spec, [0.1] * 100), messages_sent=100, payload_sent=52_000) for _ in range(3)]
    assert merge(parts).mib_per_s == pytest.approx(parts[0].mib_per_s)
    few = Finding(code="few_samples", severity="warning", message="m")
    assert merge([replace(runs_of(0.5)(), findings=(few,)) for _ in range(2)]).findings == ()
    with pytest.raises(gp.InvalidRequest, match="no results"):
        merge([])


def test_a_client_that_was_disturbed_once_says_nothing_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    calm, runs = Formula(), 0

    def disturbed(target: Any, **args: Any) -> Result:
        nonlocal runs
        runs += 1
        result = calm(target, **args)
        late = Finding(code="send_lag", severity="invalid", message="late")
        return replace(result, findings=(late,)) if runs % 2 else result

    monkeypatch.setattr("grpcperf.search.load", disturbed)
    found = gp.find_max_rate("localhost:1", p99="<5ms", precision=0.05)
    assert found.limited_by == "bound"
    assert found.rate is not None
    assert 0.93 * 4000 <= found.rate <= 4000


def test_ctrl_c_keeps_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    formula = Formula()

    def interrupted(target: Any, **args: Any) -> Result:
        if len(formula.rates) == 3:
            raise gp.Interrupted("stop")
        return formula(target, **args)

    monkeypatch.setattr("grpcperf.search.load", interrupted)
    with pytest.raises(gp.Interrupted) as caught:
        gp.find_max_rate("localhost:1", p99="<5ms")
    assert len(caught.value.result.results) == 4


def test_a_bound_from_below_is_refused(formula: Formula) -> None:
    with pytest.raises(gp.InvalidRequest, match="no bound that a rate could break"):
        gp.find_max_rate("localhost:1", p99=">5ms")
