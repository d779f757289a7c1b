"""Bounds on what was measured, `p99="<5ms"` in Python and 'p99<5ms' in the shell, and how they are judged.

A number comes with an interval where there is one (stats). A check passes when the whole interval keeps the
bound, fails when the whole interval breaks it, and is inconclusive between: a gate that goes by the number
alone is noise.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from grpcperf import stats, units
from grpcperf.errors import CheckFailed, InconclusiveWarning, InvalidRequest
from grpcperf.histogram import Histogram
from grpcperf.result import CLASSES, Result
from grpcperf.stats import Interval
from grpcperf.values import refuse_unknown

_COUNTS = ("calls", "errors", "not_sent", "largest_burst", "connected", "reconnects", "connections_opened")
_RATES = (
    *("throughput_rps", "offered_rate", "achieved_rate", "messages_sent_per_s", "messages_received_per_s"),
    *("mib_per_s", "response_mib_per_s"),
)
_ANSWERED = ("throughput_rps", "mib_per_s", "response_mib_per_s")  # of OK calls; of a stream, of messages
_COSTS = ("client_cpu_us_per_call", "server_cpu_us_per_call", "connect_s", "window_s")
_PERCENTILES = ("p50", "p90", "p99", "p999")
_LATENCIES = (*_PERCENTILES, "min", "mean", "max")
_HISTOGRAMS = (
    *("latency", "service_time", "error_latency", "send_lag", "queued"),
    *("first_message", "message_gap", "round_trip"),
)
NAMES = (
    *_LATENCIES,
    *(f"{whose}_{name}_us" for whose in _HISTOGRAMS for name in _LATENCIES),
    *_COUNTS,
    *_RATES,
    *_COSTS,
)
"""The metrics there are, beside p with any digits (p99.95, p9999) and status_<class>."""

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
    "==": lambda value, bound: value == bound,
}


@dataclass(frozen=True)
class Metric:
    """One number of a result. In unit "s" or "us" a bound may be a duration."""

    name: str
    unit: Literal["s", "us", ""]
    attribute: str  # of the Result; for a latency, its histogram
    part: str = ""  # of the histogram: "min", "mean", "max", or a quantile as text

    def value(self, result: Result) -> float | None:
        if self.name.startswith("status_"):
            return result.status[self.part]
        if not self.part:
            number = getattr(result, self.attribute)
            return None if number is None else float(number) if isinstance(number, float) else number
        histogram = self._histogram(result)
        return self._scaled(
            getattr(histogram, self.part) if self.part.isalpha() else histogram.quantile(float(self.part))
        )

    def interval(self, result: Result, *, confidence: float = stats.CONFIDENCE) -> Interval | None:
        """The confidence interval, inside what is possible; None where there is none (counts, extremes,
        costs)."""
        level = units.real(confidence)
        if level is None or not 0 < level < 1:
            raise InvalidRequest(
                f"confidence must lie between 0 and 1, as 0.95, not {units.shown(confidence)}"
            )
        if self.attribute == "throughput_rps":
            return stats.rate_interval(result.windows, result.throughput_rps, confidence=confidence)
        # Windows hold latencies, which are the service time as long as the loop is closed.
        of_windows = self.attribute == "latency" or (
            self.attribute == "service_time" and not result.spec.is_open_loop
        )
        if not of_windows or not self.part or self.part.isalpha():
            return None
        histogram = self._histogram(result)
        found = stats.quantile_interval(result.windows, histogram, float(self.part), confidence=confidence)
        if found is None or histogram.min is None or histogram.max is None:
            return None
        low, high = (self._scaled(min(max(x, histogram.min), histogram.max)) for x in (found.low, found.high))
        assert low is not None
        assert high is not None
        return Interval(low, high, found.method, found.confidence)

    def reach(self, result: Result) -> tuple[float, float] | None:
        """Between what the number must lie even when it is not told: a latency between the smallest and the
        largest."""
        if not self.part or self.name.startswith("status_"):
            return None
        histogram = self._histogram(result)
        low, high = self._scaled(histogram.min), self._scaled(histogram.max)
        return None if low is None or high is None else (low, high)

    def format(self, value: float | None) -> str:
        if self.unit == "" or value is None:
            return units.format_number(value)
        return units.format_seconds(value if self.unit == "s" else value / 1e6)

    def _histogram(self, result: Result) -> Histogram:
        histogram = getattr(result, self.attribute)
        assert isinstance(histogram, Histogram)
        return histogram

    def _scaled(self, seconds: float | None) -> float | None:
        return seconds if seconds is None or self.unit == "s" else seconds * 1e6


@dataclass(frozen=True)
class Check:
    """A bound on a metric."""

    metric: Metric
    operator: str
    bound: float

    def holds(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return _OPERATORS[self.operator](value, self.bound)

    def __str__(self) -> str:
        return f"{self.metric.name}{self.operator}{self.metric.format(self.bound)}"


@dataclass(frozen=True)
class Outcome:
    """A check judged; `message` has the numbers."""

    check: Check
    verdict: Literal["passed", "failed", "inconclusive"]
    value: float | None
    interval: Interval | None
    message: str


def metric(name: str) -> Metric:
    """The metric of this name: p50, p99, p999, p99.95, min, mean, max (seconds); any number of Result.row();
    status_UNAVAILABLE and the like. Raises InvalidRequest, with the names nearest to it."""
    if not isinstance(name, str):
        raise InvalidRequest(f"a metric must be a text such as 'p99' or 'errors', not {units.shown(name)}")
    if beyond := re.fullmatch(r"p(1\d)(\d+)", name):
        told = f"metric {name!r}: percentiles lie below 100, and the largest value is 'max'"
        if int(beyond[2]):
            told += f"; the percentile {beyond[1]}.{beyond[2]} has a point, as in p{beyond[1]}.{beyond[2]}"
        raise InvalidRequest(told)
    if digits := re.fullmatch(r"p(\d{1,2})(?:\.?(\d+))?", name):
        return Metric(name, "s", "latency", f"0.{int(digits[1]):02d}{digits[2] or ''}")
    if name.startswith("status_") and name[len("status_") :] in CLASSES:
        return Metric(name, "", "status", name[len("status_") :])
    refuse_unknown([name], NAMES, "metric")
    if name in _LATENCIES:
        return Metric(name, "s", "latency", name)
    if latency := re.fullmatch(rf"({'|'.join(_HISTOGRAMS)})_(\w+)_us", name):
        part = metric(latency[2]).part
        return Metric(name, "us", latency[1], part)
    unit: Literal["s", "us", ""] = (
        "us" if name.endswith("_us_per_call") else "s" if name.endswith("_s") else ""
    )
    return Metric(name, "" if name in _RATES else unit, "connections" if name == "connected" else name)


def check(name: str, bound: Any) -> Check:
    """A check from a name and a bound: "<5ms", ">=10000", "==0", or a number, which means exactly that
    one."""
    which = metric(name)
    operator, text = "==", bound
    if isinstance(bound, str):
        parts = re.fullmatch(r"\s*(<=|>=|==|<|>)?\s*(.+?)\s*", bound)
        if parts is None:
            raise InvalidRequest(
                f'the bound of {name} must be like "<5ms", ">=100" or "==0", not {units.shown(bound)}'
            )
        operator, text = parts[1] or "==", parts[2]
    return Check(which, operator, _bound(which, text, bound))


def parse(text: str) -> Check:
    """A check as the shell has it: 'p99<5ms', 'errors==0', 'throughput_rps>10000'. Raises InvalidRequest."""
    parts = re.fullmatch(r"\s*([^<>=\s]+)\s*([<>=].*)", text) if isinstance(text, str) else None
    if parts is None:
        raise InvalidRequest(f"a check must be like 'p99<5ms' or 'errors==0', not {units.shown(text)}")
    return check(parts[1], parts[2])


def judge(which: Check, result: Result) -> Outcome:
    """Hold a check against a result. Where every call failed, what only OK calls have is as bad as can be."""
    value = which.metric.value(result)
    interval = which.metric.interval(result)
    span = (interval.low, interval.high) if interval else (value, value)
    verdict: Literal["passed", "failed", "inconclusive"] = "inconclusive"
    low, high = span if value is not None else which.metric.reach(result) or (None, None)
    if low is not None and high is not None:
        keeps = _OPERATORS[which.operator]
        if which.operator == "==":
            kept, broken = low == high == which.bound, not low <= which.bound <= high
        else:
            kept, broken = (
                keeps(low, which.bound) and keeps(high, which.bound),
                not (keeps(low, which.bound) or keeps(high, which.bound)),
            )
        verdict = "passed" if kept else "failed" if broken else "inconclusive"
    if _is_of_ok_calls(which.metric, value) and _all_failed(result):
        verdict = "failed"
    return Outcome(which, verdict, value, interval, _message(which, result, value, interval))


def require(result: Result, wanted: Iterable[Check], *, stacklevel: int = 2) -> list[Outcome]:
    """Judge all; raise CheckFailed naming every one that failed, or warn (InconclusiveWarning) of each
    undecided, and of a result that is not valid, which proves nothing."""
    outcomes = [judge(which, result) for which in wanted]
    failed = [outcome.message for outcome in outcomes if outcome.verdict == "failed"]
    if failed:
        remarks = "".join(f"\n  {finding.severity}: {finding}" for finding in result.findings)
        raise CheckFailed("\n".join(failed) + remarks, result)
    doubts = [outcome.message for outcome in outcomes if outcome.verdict == "inconclusive"]
    for message in [*doubts, *invalidity(result)]:
        warnings.warn(f"inconclusive: {message}", InconclusiveWarning, stacklevel=stacklevel + 1)
    return outcomes


def invalidity(result: Result) -> list[str]:
    """Why a check that passed on this result proves nothing; empty when it does."""
    grave = [str(finding) for finding in result.findings if finding.severity == "invalid"]
    return [f"the result is not valid ({reason})" for reason in grave]


def _bound(which: Metric, value: Any, given: Any) -> float:
    try:
        if which.unit == "s":
            return units.seconds(value, which.name)
        if which.unit == "us" and isinstance(value, str) and not re.fullmatch(r"[\d_.eE+-]+", value):
            return units.seconds(value, which.name) * 1e6
        number = float(value.replace(",", "")) if isinstance(value, str) else units.real(value)
    except (InvalidRequest, ValueError):
        number = None
    if number is None or number != number:
        kind = 'a duration such as "<5ms"' if which.unit else 'a number such as ">10000"'
        raise InvalidRequest(f"the bound of {which.name} must be {kind}, not {units.shown(given)}")
    return number


def _all_failed(result: Result) -> bool:
    return 0 < result.calls == result.errors


def _is_of_ok_calls(which: Metric, value: float | None) -> bool:
    """A latency, or a rate of what was answered."""
    if which.attribute in _ANSWERED:
        return True
    return value is None and which.attribute in _HISTOGRAMS and which.attribute != "error_latency"


def _message(which: Check, result: Result, value: float | None, interval: Interval | None) -> str:
    name, show = which.metric.name, which.metric.format
    wanted = f"wanted {which.operator} {show(which.bound)}"
    if _is_of_ok_calls(which.metric, value) and _all_failed(result):
        ended = ", ".join(f"{status} {count:,}" for status, count in result.status.items())
        what = "has no value" if value is None else f"is {show(value)}"
        return f"{name} {what}: all {result.calls:,} calls failed ({ended}); {wanted}"
    if value is None:
        samples = f" ({result.status['OK']:,} OK calls)" if which.metric.part else ""
        span = which.metric.reach(result)
        told = f", somewhere from {show(span[0])} to {show(span[1])}" if span else ""
        return f"{name} has no value{samples}{told}; {wanted}"
    if interval is None:
        return f"{name} is {show(value)}; {wanted}"
    return (
        f"{name} is {show(value)} ({interval.confidence:.0%} interval {show(interval.low)} to "
        f"{show(interval.high)}, {interval.method}); {wanted}"
    )
