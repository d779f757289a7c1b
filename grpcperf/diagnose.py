"""Whether a result can be believed: every finding there is in one table, and the function that looks for
them.

Only what the client caused, or what left the result incomplete or other than asked for, makes it invalid. A
server that cannot keep up, or that shares its cores with the client, is a warning: that is a property of what
was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any, Literal

from grpcperf.histogram import Histogram
from grpcperf.result import Finding
from grpcperf.spec import Load
from grpcperf.units import format_seconds


@dataclass(frozen=True)
class Rule:
    """A row of the table. `threshold` is None where there is nothing to measure."""

    severity: Literal["warning", "invalid"]
    threshold: float | None
    advice: str


RULES: dict[str, Rule] = {
    # The result is incomplete.
    "server_died": Rule("invalid", None, "see the server's own last words; the numbers end with its death"),
    "interrupted": Rule("invalid", None, "the numbers are of the part that was run"),
    "no_calls": Rule("invalid", 1, "make the run longer than the slowest call"),
    "all_failed": Rule(
        "invalid", 1.0, "look at the statuses; there is no latency and no throughput to speak of"
    ),
    "fewer_connections_than_asked": Rule(
        "invalid", None, "look for limits on descriptors, ports and the server's own connections"
    ),
    # The client was measured.
    "client_cpu_saturated": Rule(
        "invalid",
        0.95,
        "the client is the limit: give it more threads and connections, or lower the load",
    ),
    # Seconds, and at least a tenth of the response time's p99; core waits in whole milliseconds and may
    # always be two of them late.
    "send_lag": Rule(
        "invalid",
        0.001,
        "the client was late, and response times hold its lateness: let it have a CPU of its own (cpus=), or "
        "more threads",
    ),
    # The share of the time in which a caller had no call in flight, though it had no reason to pause.
    "little_law_gap": Rule(
        "invalid",
        0.25,
        "the client was slow to send the next call, so fewer were in flight than asked: give it more "
        "threads and connections",
    ),
    # The plan was not carried out, for which the server is to blame unless a finding above says otherwise.
    "rate_not_reached": Rule("warning", 0.99, "lower the rate, or give the server more"),
    "not_sent": Rule(
        "warning",
        0,
        "percentiles know nothing of these calls: raise max_in_flight, or use catch_up='full' to have their "
        "waiting counted",
    ),
    "bursty_sends": Rule(
        "warning", 3.0, "at this rate the schedule is kept only on average; more threads= send more evenly"
    ),
    # The machine was disturbed, by whomever.
    "cpu_steal": Rule("warning", 0.01, "the hypervisor gave CPU time to others: repeat, and interleave"),
    "cpu_pressure": Rule(  # of no meaning where client and server share CPUs: they make each other wait
        "warning", 0.25, "more wanted to run than there are CPUs: stop what else runs, or use fewer threads"
    ),
    # What was measured has a property that one should know of.
    "few_samples": Rule("warning", 1000, "run longer, for p99 to have ten calls beyond it"),
    "not_steady": Rule("warning", 0.10, "a longer warmup, or a longer run, tells whether it comes to rest"),
    "server_stream_limit": Rule(
        "warning", None, "calls above the peer's limit wait in the client; open more connections"
    ),
    "shared_cpus": Rule(
        "warning",
        None,
        "client and server take CPU from each other; pin them apart with cpus= for absolute numbers",
    ),
    "level_not_reached": Rule(
        "warning", None, "the slope is over the calls that the server had, running or queued"
    ),
    "not_settled": Rule("warning", None, "memory was still moving when it was read; read it again"),
    "fd_limit": Rule("warning", None, "raise the limit on open files (ulimit -n), here and for the server"),
}

STEADY_ERRORS = 3.0  # standard errors between two halves that are not noise
STEADY_WINDOWS = 10  # fewer tell nothing of a trend
LAG_SHARE = 0.1  # of the response time's p99: what of it the client's lateness may be
CORE_WAIT_S = 0.002  # how late C core wakes, as it waits in whole milliseconds and rounds up
CEILING_SHARE = 0.9  # of what the client alone can do
LITTLE_WINDOWS = 50  # the window in mean latencies: below this its edges hide the gap


def finding(
    code: str,
    message: str,
    *,
    measured: float | str | None = None,
    threshold: float | str | None = None,
    advice: str | None = None,
) -> Finding:
    """A finding of the table's severity. `threshold` and `advice` are the table's unless given."""
    rule = RULES[code]
    return Finding(
        code=code,
        severity=rule.severity,
        message=message,
        advice=rule.advice if advice is None else advice,
        measured=measured,
        threshold=rule.threshold if threshold is None else threshold,
    )


def diagnose(
    spec: Load,
    raw: Mapping[str, Any],
    *,
    interrupted: bool = False,
    death: str | None = None,
    settings: Mapping[str, Any] | None = None,
    client_cpus: Collection[int] | None = None,
    server_cpus: Collection[int] | None = None,
    settled: bool | None = None,
    descriptors: tuple[int, int] | None = None,
    ceiling_rps: float | None = None,
) -> tuple[Finding, ...]:
    """What there is to say about a run, the gravest first.

    `raw` is the engine's result (Run.result). What is not known is left out: `death` why the server died,
    `settings` the peer's HTTP/2 SETTINGS, `client_cpus` and `server_cpus` the CPUs each may run on
    (server_cpus only of a server on this machine), `settled` whether memory had come to rest, `descriptors`
    those needed and those available, `ceiling_rps` how many unary calls a second one thread of this client
    makes on this machine against a server that does nothing (calibrate).
    """
    cut = raw["server_died"] or raw["stopped"]
    found = [
        *_ends(raw, interrupted, death),
        *_outcomes(spec, raw, interrupted),
        *_client(spec, raw, ceiling_rps),
        *(_plan(spec, raw) if spec.is_open_loop and not cut else ()),
        *(_little_law(spec, raw) if not spec.is_open_loop and not cut else ()),
        *(_steadiness(raw["windows"]) if spec.steps is None and not raw["server_died"] else ()),
        *_surroundings(spec, raw, settings or {}, client_cpus, server_cpus),
    ]
    if settled is False:
        found.append(finding("not_settled", "memory did not come to rest within its time"))
    if descriptors is not None and descriptors[0] > descriptors[1]:
        needed, available = descriptors
        message = f"{needed:,} descriptors needed, {available:,} available"
        found.append(finding("fd_limit", message, measured=needed, threshold=available))
    return tuple(sorted(found, key=lambda one: one.severity != "invalid"))


def _ends(raw: Mapping[str, Any], interrupted: bool, death: str | None) -> Iterator[Finding]:
    if raw["server_died"] or death:
        told = death or "its process ended during the run"
        signal = re.search(r"SIG[A-Z0-9]+", told)
        yield finding("server_died", f"the server died: {told}", measured=signal[0] if signal else None)
    if interrupted:
        yield finding(
            "interrupted", f"stopped after {raw['window_s']:.3g} s of measuring", measured=raw["window_s"]
        )


def _outcomes(spec: Load, raw: Mapping[str, Any], interrupted: bool) -> Iterator[Finding]:
    if interrupted and raw["window_s"] <= 0:
        return  # it never came to measure, and that is all there is to say
    status: Mapping[str, int] = raw["status"]
    calls, ok = sum(status.values()), status.get("OK", 0)
    if not calls:
        yield finding("no_calls", "no call was sent inside the measured window", measured=0)
    elif not ok:
        worst = max(status, key=lambda name: status[name])
        advice = "drain for longer: the server had not answered them when the run ended"
        yield finding(
            "all_failed",
            f"all {calls:,} calls failed, most as {worst} ({status[worst]:,})",
            measured=1.0,
            advice=advice if worst == "in_flight_at_end" else None,
        )
    elif ok < _threshold("few_samples") and not spec.is_endless:
        yield finding("few_samples", f"{ok:,} OK calls tell no p99", measured=ok)
    if raw["connected"] < spec.connections:
        message = f"{raw['connected']:,} of {spec.connections:,} connections were established"
        yield finding(
            "fewer_connections_than_asked", message, measured=raw["connected"], threshold=spec.connections
        )


def _client(spec: Load, raw: Mapping[str, Any], ceiling_rps: float | None) -> Iterator[Finding]:
    """The load threads against what their number could do: by their CPU, or, where they never sleep, by how
    often they found nothing to do; and by what they did against a server that costs nothing."""
    if raw["window_s"] <= 0:
        return
    who = f"{spec.threads} client threads were" if spec.threads > 1 else "the client's thread was"
    used = None
    if spec.busy_poll and raw["polls"]:
        used = 1 - raw["idle_polls"] / raw["polls"]
    elif raw["client_cpu_s"] is not None and not spec.busy_poll:
        used = raw["client_cpu_s"] / raw["window_s"] / spec.threads
    if used is not None and used >= _threshold("client_cpu_saturated"):
        how = "looks for something to do" if spec.busy_poll else "time"
        yield finding("client_cpu_saturated", f"{who} busy for {used:.0%} of the {how}", measured=used)
        return
    share = raw["all_in_window"] / raw["window_s"] / spec.threads / ceiling_rps if ceiling_rps else 0.0
    if share >= CEILING_SHARE and spec.kind == "unary":
        message = f"{who} at {share:.0%} of what it can do here at all ({ceiling_rps:,.0f} calls/s)"
        yield finding("client_cpu_saturated", message, measured=share, threshold=CEILING_SHARE)


def _plan(spec: Load, raw: Mapping[str, Any]) -> Iterator[Finding]:
    """Open loop: whether what was planned was done, and when."""
    lag, response = Histogram.from_engine(raw["send_lag"]), Histogram.from_engine(raw["latency"])
    least = max(_threshold("send_lag"), CORE_WAIT_S * 1.5 if spec.transport == "core" else 0.0)
    bound = max(least, LAG_SHARE * (response.p99 or 0.0))
    if lag.p99 is not None and lag.p99 > bound:
        told = f"p50 {format_seconds(lag.p50)}, p99 {format_seconds(lag.p99)}"
        advice = RULES["send_lag"].advice + (", or transport='wire'" if spec.transport == "core" else "")
        yield finding(
            "send_lag", f"calls were sent late: {told}", measured=lag.p99, threshold=bound, advice=advice
        )
    calls, not_sent = sum(raw["status"].values()), raw["not_sent"]
    if not_sent:
        message = (
            f"{not_sent:,} of {calls + not_sent:,} calls were not sent: {spec.max_in_flight:,} were in "
            f"flight (max_in_flight, catch_up={spec.catch_up!r})"
        )
        yield finding("not_sent", message, measured=not_sent)
    yield from _rate(spec, raw, calls + not_sent)
    bursts = raw["burst_calls"] / raw["bursts"] if raw["bursts"] else 0.0
    if bursts >= _threshold("bursty_sends"):
        message = f"calls left {bursts:.1f} at a time, at most {raw['largest_burst']:,}"
        yield finding("bursty_sends", message, measured=bursts)


def _rate(spec: Load, raw: Mapping[str, Any], intended: int) -> Iterator[Finding]:
    """Whether the offered rate was sent, and whether it was answered: a backlog that grows in flight is no
    rate reached either. Answers are counted in the second half, when calls of a steady run come back as
    they go out."""
    window_s, service = raw["window_s"], Histogram.from_engine(raw["service"])
    if not intended or window_s <= 0:
        return
    offered, sent = intended / window_s, (intended - raw["not_sent"]) / window_s
    half = [w for w in raw["windows"] if w["start_s"] >= window_s / 2]
    length_s = sum(w["length_s"] for w in half)
    answered = sum(w["ok"] + w["failed"] for w in half) / length_s if length_s else offered
    noise = STEADY_ERRORS * math.sqrt(offered / length_s) if length_s else 0.0
    quick = service.min is not None and service.min < window_s / 4  # else they had no time to come back
    threshold = _threshold("rate_not_reached")
    told = f"{offered:,.0f} calls/s were asked for"
    if sent < threshold * offered:
        share = sent / offered
        told += f", {sent:,.0f} were sent"
    elif spec.steps is None and quick and answered < threshold * offered - noise:
        share = answered / offered
        told += f", {answered:,.0f} were answered in the second half of the run"
    else:
        return
    if service.mean is not None:
        needed = math.ceil(offered * service.mean)
        told += (
            f"; at a mean service time of {format_seconds(service.mean)} that takes {needed:,} calls in "
            f"flight (Little's law), max_in_flight is {spec.max_in_flight:,}"
        )
    yield finding("rate_not_reached", told, measured=share)


def _little_law(spec: Load, raw: Mapping[str, Any]) -> Iterator[Finding]:
    """Closed loop: calls in flight are throughput times latency (Little 1961). What is missing of those
    asked for was spent between the end of a call and the sending of the next. Failed calls may rest; then
    it says nothing."""
    status, window_s = raw["status"], raw["window_s"]
    latency = Histogram.from_engine(raw["latency"])
    if spec.is_endless or set(status) != {"OK"} or latency.mean is None or spec.calls is not None:
        return
    # Waiting for the peer's limit on streams is no fault of the client's, and not part of its latency.
    round_s = latency.mean + Histogram.from_engine(raw["queued"]).sum / latency.count + float(spec.think_time)
    if window_s < LITTLE_WINDOWS * round_s:
        return
    busy = raw["ok_in_window"] * round_s / window_s
    gap = 1 - busy / spec.concurrency
    if gap > _threshold("little_law_gap"):
        message = f"{busy:,.1f} calls were in flight on average, {spec.concurrency:,} were asked for"
        yield finding("little_law_gap", message, measured=gap)


def _steadiness(windows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """A trend: the halves' rates of completions differ by more than a share that matters, and by more than
    noise."""
    full = max((window["length_s"] for window in windows), default=0.0)
    rates = [(w["ok"] + w["failed"]) / w["length_s"] for w in windows if w["length_s"] > full / 2]
    if len(rates) < STEADY_WINDOWS:
        return
    first, second = rates[: len(rates) // 2], rates[-(len(rates) // 2) :]
    mean, change = fmean(rates), fmean(second) - fmean(first)
    noise = math.sqrt((variance(first) + variance(second)) / len(first))
    if mean > 0 and abs(change) > max(_threshold("not_steady") * mean, STEADY_ERRORS * noise):
        message = f"calls/s changed by {change / mean:+.0%} from the first half of the run to the second"
        yield finding("not_steady", message, measured=change / mean)


def _surroundings(
    spec: Load,
    raw: Mapping[str, Any],
    settings: Mapping[str, Any],
    client_cpus: Collection[int] | None,
    server_cpus: Collection[int] | None,
) -> Iterator[Finding]:
    limit, each = settings.get("max_concurrent_streams"), _calls_per_connection(spec, raw)
    if limit is not None and limit < each:
        wanted = "were asked for" if not spec.is_open_loop else "would be needed for this rate"
        message = f"the peer allows {limit:,} calls at a time on a connection, {each:,} {wanted}"
        yield finding("server_stream_limit", message, measured=each, threshold=limit)
    steal, pressure = raw["steal"], raw["pressure"]
    if steal is not None and steal > _threshold("cpu_steal"):
        yield finding("cpu_steal", f"{steal:.1%} of the machine's CPU time went elsewhere", measured=steal)
    shared = set(spec.cpus or client_cpus or ()) & set(server_cpus or ())
    if pressure is not None and pressure > _threshold("cpu_pressure") and not shared:
        message = f"some task waited for a CPU in {pressure:.0%} of the time"
        yield finding("cpu_pressure", message, measured=pressure)
    if shared:
        numbers = ", ".join(map(str, sorted(shared)))
        yield finding(
            "shared_cpus",
            f"client and server may both run on CPU {numbers}",
            measured=len(shared),
            threshold=0,
        )


def _calls_per_connection(spec: Load, raw: Mapping[str, Any]) -> int:
    """Calls in flight on each: those asked for, or those that an open loop needs (Little's law)."""
    if not spec.is_open_loop:
        return math.ceil(spec.concurrency / spec.connections)
    service = Histogram.from_engine(raw["service"])
    if service.mean is None or raw["window_s"] <= 0:
        return 0
    offered: float = (sum(raw["status"].values()) + raw["not_sent"]) / raw["window_s"]
    return math.ceil(offered * service.mean / spec.connections)


def _threshold(code: str) -> float:
    threshold = RULES[code].threshold
    assert threshold is not None
    return threshold
