"""Measurements that decide how long or at what rate to measure: the highest rate that keeps a bound, and
repeating until a percentile is known well enough."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from grpcperf import checks, units
from grpcperf.errors import Interrupted, InvalidRequest
from grpcperf.load import load
from grpcperf.merge import merge
from grpcperf.progress import SweepProgress
from grpcperf.result import Finding, Result
from grpcperf.spec import Load
from grpcperf.targets import Measurable, as_target

# Of the load engine's findings, those that say that the client could do no more.
_CLIENT = ("client_cpu_saturated", "send_lag")
REACHED = 0.98  # of a rate that counts as kept
MOST_TRIALS = 40
MOST_AGAIN = 3
MOST_STEPS = 5  # down from a rate that does not hold
MOST_STRETCH = 10  # of the duration, at rates so low that a percentile needs longer
LOWEST = 128  # without low=, this part of the highest


@dataclass(frozen=True, kw_only=True, repr=False)
class MaxRate:
    """The highest rate found. `rate` is in calls per second, None when not even the lowest was kept;
    `confirmed`: it held in every confirming run. `limited_by`: "bound" (a check broke above it), "rate" (the
    server did not keep up, or calls failed), "client" (the load generator could do no more: the server may)
    or "high" (the highest rate allowed was kept) or "interrupt". `results`: every run, in order."""

    rate: float | None
    confirmed: bool
    limited_by: str
    results: tuple[Result, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, by the order they were made."""
        return [result.row() for result in self.results]

    def __repr__(self) -> str:
        found = "no rate kept the bounds" if self.rate is None else f"{self.rate:,.0f} calls/s"
        sure = "" if self.confirmed or self.rate is None else ", not confirmed"
        return f"<MaxRate {found}{sure}, limited by {self.limited_by}, {len(self.results)} runs>"


def find_max_rate(
    target: Measurable | str,
    *texts: str,
    low: float | None = None,
    high: float | None = None,
    precision: float = 0.05,
    confirm: int = 2,
    duration: float | str = 1.0,
    progress: bool | None = None,
    **bounds: Any,
) -> MaxRate:
    """The highest rate of an open loop that keeps the bounds (`p99="<5ms"`, as in Result.check; "p99<5ms")
    with no call failed or unsent.

    Bisection on a logarithmic scale, until the step is below `precision` (a share), then `confirm` runs of
    twice the `duration` at the rate found: noise makes a single run at the edge a coin's toss, and a rate
    that does not hold is taken back by a step. Without `high` the search begins at what a closed loop
    reaches. `load_args`: further arguments of gp.Load. A bound whose interval lies on both sides
    (inconclusive) counts as kept if its value is. Raises InvalidRequest, and what gp.load raises.
    """
    args = {field.name: bounds.pop(field.name) for field in fields(Load) if field.name in bounds}
    wanted = [checks.parse(text) for text in texts]
    wanted += [checks.check(name, bound) for name, bound in bounds.items()]
    upside_down = [str(check) for check in wanted if check.operator in (">", ">=") and check.metric.part]
    if upside_down:
        raise InvalidRequest(
            f"{', '.join(upside_down)} is no bound that a rate could break: give one above, as <"
        )
    if not wanted:
        raise InvalidRequest('give a bound to keep, as find_max_rate(server, p99="<5ms")')
    share = units.real(precision)
    if share is None or not 0.001 <= share <= 1:
        raise InvalidRequest(f"precision must be a share from 0.001 to 1, not {units.shown(precision)}")
    search = _Search(as_target(target), wanted, units.seconds(duration, "duration"), args)
    times = units.count(confirm, "confirm", low=0)
    with SweepProgress(MOST_TRIALS, progress) as bar:
        search.bar = bar
        try:
            return search.run(_rate(low, "low"), _rate(high, "high"), share, times)
        except KeyboardInterrupt:
            done = MaxRate(rate=None, confirmed=False, limited_by="interrupt", results=tuple(search.results))
            raise Interrupted("interrupted: `result` has the runs that were made", done) from None


def _rate(value: float | None, name: str) -> float | None:
    if value is None:
        return None
    rate = units.real(value)
    if rate is None or not 0 < rate < 1e9:
        raise InvalidRequest(f"{name} must be a rate above 0 in calls per second, not {units.shown(value)}")
    return rate


class _Search:
    """One search: what is tried, and what became of it."""

    bar: SweepProgress

    def __init__(
        self, target: Measurable, wanted: list[checks.Check], duration_s: float, args: dict[str, Any]
    ) -> None:
        self.target = target
        self.wanted = wanted
        self.duration_s = duration_s
        self.args = args
        self.results: list[Result] = []

    def run(self, low: float | None, high: float | None, precision: float, confirm: int) -> MaxRate:
        top = high if high is not None else self._closed_loop()
        bottom = low if low is not None else top / LOWEST
        if bottom >= top:
            raise InvalidRequest(f"low={bottom:g} must be below high={top:g}")
        limit, kept = self._broken_by(top), None
        if limit is None and high is None:  # with few callers a closed loop reaches less than the server can
            kept, top, limit = self._climb(top)
        elif limit is not None:
            kept, top, limit = self._descend(bottom, top, limit)
        if limit is None:
            return self._confirm(top, "high", precision, confirm, bottom)
        if kept is None:
            return self._found(None, limit, False)
        while top / kept > 1 + precision and len(self.results) < MOST_TRIALS:
            middle = math.sqrt(kept * top)
            broken = self._broken_by(middle)
            if broken is None:
                kept = middle
            else:
                top, limit = middle, broken
        return self._confirm(kept, limit, precision, confirm, bottom)

    def _climb(self, rate: float) -> tuple[float, float, str | None]:
        """Double a rate that is kept until one is not: the last that was, the first that was not and why."""
        limit = None
        while limit is None and len(self.results) < MOST_TRIALS:
            rate *= 2
            limit = self._broken_by(rate)
        return rate / 2, rate, limit

    def _descend(self, bottom: float, rate: float, limit: str) -> tuple[float | None, float, str]:
        """Halve a rate that is not kept until one is. From above: low rates need long to tell a
        percentile."""
        while rate > bottom:
            lower = max(bottom, rate / 2)
            broken = self._broken_by(lower)
            if broken is None:
                return lower, rate, limit
            rate, limit = lower, broken
        return None, rate, limit

    def _confirm(self, rate: float, limit: str, precision: float, confirm: int, bottom: float) -> MaxRate:
        """Step down until it holds; after a few steps, or at the lowest rate, it is said that it does not."""
        for _ in range(MOST_STEPS):
            broken = next(
                (one for one in (self._broken_by(rate, 2 * self.duration_s) for _ in range(confirm)) if one),
                None,
            )
            if broken is None:
                return self._found(rate, limit, confirm > 0)
            limit, kept = broken, rate
            rate = max(bottom, rate / (1 + precision))
            if rate == kept:
                break
        return self._found(kept, limit, False)

    def _closed_loop(self) -> float:
        """What a closed loop reaches: about where an open one ends."""
        left_out = ("rate", "steps", "arrival", "catch_up", "max_in_flight")
        args = {name: value for name, value in self.args.items() if name not in left_out}
        result = self._load({**args, "duration": self.duration_s})
        if result.ok_in_window == 0:
            raise InvalidRequest(
                f"no call to {self.target!r} was OK, so there is no rate to look for: {result.status}"
            )
        return result.throughput_rps

    def _broken_by(self, rate: float, duration_s: float | None = None) -> str | None:
        """What a rate breaks, None: nothing."""
        least = duration_s or self.duration_s
        enough = min(MOST_STRETCH * least, self._samples() / rate)
        for _ in range(MOST_AGAIN):  # a client that was disturbed once says nothing of the rate
            result = self._load({**self.args, "rate": rate, "duration": max(least, enough)})
            if not any(one.code in _CLIENT and one.severity == "invalid" for one in result.findings):
                break
        else:
            return "client"
        expected = REACHED * result.window_s * (result.offered_rate or 0.0)
        if result.errors or result.not_sent or result.all_in_window < expected - 3 * math.sqrt(expected + 1):
            return "rate"
        outcomes = [checks.judge(check, result) for check in self.wanted]
        return "bound" if any(_breaks(outcome) for outcome in outcomes) else None

    def _samples(self) -> float:
        """Calls that the percentiles in the bounds need, ten beyond each, and some more for Poisson's
        luck."""
        parts = [float(check.metric.part) for check in self.wanted if check.metric.part[:2] == "0."]
        return max((14 / min(part, 1 - part) for part in parts if 0 < part < 1), default=0.0)

    def _load(self, args: dict[str, Any]) -> Result:
        self.bar.show({"rate": f"{args['rate']:,.0f}"} if "rate" in args else {"loop": "closed"})
        result = load(self.target, **args)
        self.results.append(result)
        self.bar.step(failed=False)
        return result

    def _found(self, rate: float | None, limit: str, confirmed: bool) -> MaxRate:
        return MaxRate(rate=rate, confirmed=confirmed, limited_by=limit, results=tuple(self.results))


def _breaks(outcome: checks.Outcome) -> bool:
    """Failed, or undecided with a value on the wrong side or none at all."""
    if outcome.verdict != "inconclusive":
        return outcome.verdict == "failed"
    return outcome.value is None or not outcome.check.holds(outcome.value)


def until_precise(
    metric: str, *, relative: float = 0.05, max_duration: float | str = 120.0, progress: bool | None = None
) -> Callable[[Callable[[], Result]], Result]:
    """Repeat a measurement until the interval of a metric is narrow: `until_precise("p99")(lambda:
    gp.load(...))`.

    What it returns is called with a callable that measures, which it calls again and again; the result is all
    that was measured as one Result (histograms merged, windows one after the other). It ends when half of the
    metric's interval is at most `relative` of its value, or after `max_duration` seconds of measuring, with
    the finding not_precise. The interval is that of Result.interval. Stopping by the width makes the coverage
    of a few windows a little too small (Chow and Robbins 1965, On the asymptotic theory of fixed-width
    sequential confidence intervals for the mean, Ann. Math. Statist. 36, 457-462), so there are at least two
    runs. Raises InvalidRequest for a metric without an interval; Interrupted has what there was.
    """
    which = checks.metric(metric)
    _require_interval(which)
    share, limit_s = units.real(relative), units.seconds(max_duration, "max_duration", above=True)
    if share is None or not 0 < share < 1:
        raise InvalidRequest(f"relative must be a share such as 0.05, not {units.shown(relative)}")

    def measure(function: Callable[[], Result]) -> Result:
        if not callable(function):
            raise InvalidRequest(f"a callable that measures is wanted, not {units.shown(function)}")
        results: list[Result] = []
        started, width = time.monotonic(), math.inf
        with SweepProgress(None, progress) as bar:
            while len(results) < 2 or (width > share and time.monotonic() - started < limit_s):
                try:
                    results.append(_required(function()))
                except Interrupted as interrupted:
                    done = [*results, *([interrupted.result] if interrupted.result else [])]
                    raise Interrupted(str(interrupted), merge(done) if done else None) from None
                width = _width(which, merge(results))
                bar.show({which.name: "no interval yet" if width == math.inf else f"±{width:.1%}"})
                bar.step(failed=False)
        total = merge(results)
        return total if width <= share else _imprecise(total, which, width, share, limit_s)

    return measure


def _required(measured: object) -> Result:
    if not isinstance(measured, Result):
        raise InvalidRequest(f"the callable must return a Result, not {units.shown(measured)}")
    return measured


def _require_interval(which: checks.Metric) -> None:
    if which.attribute not in ("latency", "service_time", "throughput_rps") or which.part.isalpha():
        raise InvalidRequest(f"{which.name} has no interval: give 'p99' or the like, or 'throughput_rps'")


def _width(which: checks.Metric, result: Result) -> float:
    """Half of the interval, as a share of the value; infinite where there is none yet."""
    value, interval = which.value(result), which.interval(result)
    if not value or interval is None:
        return math.inf
    return max(interval.high - value, value - interval.low) / value


def _imprecise(result: Result, which: checks.Metric, width: float, share: float, limit_s: float) -> Result:
    known = "has no interval yet" if width == math.inf else f"is known to ±{width:.0%}"
    finding = Finding(
        code="not_precise",
        severity="warning",
        message=f"{which.name} {known} after {limit_s:g} s, ±{share:.0%} was wanted",
        advice="give more time (max_duration), or look for what makes it unsteady",
        measured=None if width == math.inf else width,
        threshold=share,
    )
    return replace(result, findings=(*result.findings, finding))
