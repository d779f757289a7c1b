"""Whether a result can be believed: the function that looks for findings (findings.py has the table)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean, variance
from typing import Any

from grpcperf.findings import RULES, finding, threshold
from grpcperf.histogram import Histogram
from grpcperf.result import Finding
from grpcperf.spec import Load
from grpcperf.units import format_seconds

STALL_S = 0.1  # any machine is elsewhere for so long now and then
STALL_LATENCIES = 10.0  # medians: below that, nothing need have come back
STEADY_ERRORS = 3.0  # standard errors between two halves that are not noise
STEADY_WINDOWS = 10  # fewer tell nothing of a trend
LAG_SHARE = 0.1  # of the response time's p99: what of it the client's lateness may be
CORE_WAIT_S = 0.002  # how late C core wakes, as it waits in whole milliseconds and rounds up
CEILING_SHARE = 0.9  # of what the client alone can do
LITTLE_WINDOWS = 50  # the window in mean latencies: below this its edges hide the gap


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
    threads_exhausted: int = 0,
) -> tuple[Finding, ...]:
    """What there is to say about a run, the gravest first.

    `raw` is the engine's result (Run.result). What is not known is left out: `death` why the server died,
    `settings` the peer's HTTP/2 SETTINGS, `client_cpus` and `server_cpus` the CPUs each may run on
    (server_cpus only of a server on this machine), `settled` whether memory had come to rest, `descriptors`
    those needed and those available, `ceiling_rps` how many unary calls a second one thread of this client
    makes on this machine against a server that does nothing (calibrate), `threads_exhausted` the calls that
    the server refused for want of a thread.
    """
    cut = raw["server_died"] or raw["stopped"]
    ends = [] if cut or spec.is_endless else [*_stall(spec, raw), *_unfinished(raw)]
    lost = [] if interrupted or raw["server_died"] else list(_lost(spec, raw))
    steady = spec.steps is None and not raw["server_died"] and not ends and not lost
    found = [
        *_ends(raw, interrupted, death),
        *lost,
        *_outcomes(spec, raw, interrupted),
        *sorted(ends, key=_gravity)[:1],  # which says what there is to say
        *_client(spec, raw, ceiling_rps),
        *(_plan(spec, raw) if spec.is_open_loop and not cut else ()),
        *(_little_law(spec, raw) if not spec.is_open_loop and not cut else ()),
        *(_steadiness(raw["windows"]) if steady else ()),
        *_surroundings(spec, raw, settings or {}, client_cpus, server_cpus),
    ]
    if threads_exhausted > threshold("server_threads_exhausted"):
        message = f"the server refused {threads_exhausted:,} calls: the system gave it no more threads"
        found.append(finding("server_threads_exhausted", message, measured=threads_exhausted))
    if settled is False:
        found.append(finding("not_settled", "memory did not come to rest within its time"))
    if descriptors is not None and descriptors[0] > descriptors[1]:
        needed, available = descriptors
        message = f"{needed:,} descriptors needed, {available:,} available"
        found.append(finding("fd_limit", message, measured=needed, threshold=available))
    return tuple(sorted(found, key=_gravity))


def _gravity(one: Finding) -> bool:
    return one.severity != "invalid"


def _ends(raw: Mapping[str, Any], interrupted: bool, death: str | None) -> Iterator[Finding]:
    if raw["server_died"] or death:
        told = death or "its process ended during the run"
        signal = re.search(r"SIG[A-Z0-9]+", told)
        yield finding("server_died", f"the server died: {told}", measured=signal[0] if signal else None)
    if interrupted:
        yield finding(
            "interrupted", f"stopped after {raw['window_s']:.3g} s of measuring", measured=raw["window_s"]
        )


def _lost(spec: Load, raw: Mapping[str, Any]) -> Iterator[Finding]:
    """Connections that were lost, and calls with them. For good: the result is of a server that was gone. A
    process need not be known for that: no connection is left, and since then no call was OK."""
    status, alive, again = raw["status"], raw["alive"], raw["reconnects"]
    # C core has no class of its own for them.
    ended = status.get("transport", 0) + (status.get("UNAVAILABLE", 0) if spec.transport == "core" else 0)
    if not ended or not status.get("OK"):
        return  # all failed is told already
    window_s = raw["window_s"]
    until_s = max((w["start_s"] + w["length_s"] for w in raw["windows"] if w["ok"]), default=0.0)
    dead = 1 - until_s / window_s if 0 < until_s < window_s else 0.0
    if alive == 0 and (dead > 0 or not again):
        since = f", and no call was OK after {format_seconds(until_s)} of {format_seconds(window_s)}"
        told = "every connection was lost, and none could be made again to the end of the run"
        told += f": {ended:,} calls ended with them or found none{since if dead else ''}"
        yield finding("connection_lost", told, measured=dead)
    elif again or alive < raw["connected"]:
        told = f"connections were lost, and made again {again:,} times"
        if gone := max(0, raw["connected"] - alive):
            told += f", {gone:,} of {raw['connected']:,} were not there at the end"
        which = "UNAVAILABLE" if spec.transport == "core" else "transport"
        yield finding("connections_cut", f"{told}; {ended:,} calls ended as {which}", measured=again)


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
    elif ok < threshold("few_samples") and not spec.is_endless:
        yield finding("few_samples", f"{ok:,} OK calls tell no p99", measured=ok)
    if ahead := raw.get("ahead", 0):
        message = f"the server had not read all of {ahead:,} of {calls:,} streams when the drain ended"
        yield finding("messages_ahead", message, measured=ahead)
    if raw["connected"] < spec.connections:
        message = f"{raw['connected']:,} of {spec.connections:,} connections were established"
        yield finding(
            "fewer_connections_than_asked", message, measured=raw["connected"], threshold=spec.connections
        )


def _stall(spec: Load, raw: Mapping[str, Any]) -> Iterator[Finding]:
    """The longest row of windows in which nothing came back, though calls were in flight."""
    window_s, typical = raw["window_s"], Histogram.from_engine(raw["latency"]).p50
    if typical is None or window_s <= 0:
        return  # that no call was OK is told already
    start_s, gap_s = _longest_gap(spec, raw["windows"])
    least = max(threshold("server_stalled") * window_s, STALL_S, STALL_LATENCIES * typical)
    if gap_s < max(least, 2 * float(spec.think_time)):
        return
    share, hanging = min(gap_s / window_s, 1.0), raw["status"].get("in_flight_at_end", 0)
    told = f"no call came back for {format_seconds(gap_s)}, from {format_seconds(start_s)} into the window"
    if hanging and start_s + gap_s > window_s - _longest(raw["windows"]):
        told += f" to its end, and {hanging:,} never did"
        yield finding("server_silent", told, measured=share)
    else:
        told += f"; the median call takes {format_seconds(typical)}"
        hidden = "" if spec.is_open_loop else "; percentiles of a closed loop hardly show it"
        advice = RULES["server_stalled"].advice + hidden
        yield finding("server_stalled", told, measured=share, advice=advice)


def _longest_gap(spec: Load, windows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """When it began and how long it was. Callers of a closed loop always have a call in flight; in an open
    one calls are, that were sent and have not ended."""
    best, start_s, gap_s, in_flight = (0.0, 0.0), 0.0, 0.0, 0
    for window in windows:
        ended = window["ok"] + window["failed"]
        in_flight = max(0, in_flight + window["sent"] - ended)  # of those before the window nothing is known
        if ended or (spec.is_open_loop and not in_flight):
            gap_s = 0.0
            continue
        start_s = start_s if gap_s else window["start_s"]
        gap_s += window["length_s"]
        best = max(best, (start_s, gap_s), key=lambda gap: gap[1])
    return best


def _unfinished(raw: Mapping[str, Any]) -> Iterator[Finding]:
    """Calls that ended too late to be seen, or not at all."""
    status: Mapping[str, int] = raw["status"]
    calls, hanging = sum(status.values()), status.get("in_flight_at_end", 0)
    if not status.get("OK"):
        return
    ended = raw["all_in_window"]
    if ended < threshold("few_finished") * calls:
        told = f"{ended:,} calls ended inside the measured window of {format_seconds(raw['window_s'])}"
        yield finding("few_finished", f"{told}, {calls:,} were sent in it", measured=ended / calls)
    if hanging > threshold("unfinished") * calls:
        told = f"{hanging:,} of {calls:,} calls had not ended when the run did"
        yield finding("unfinished", told, measured=hanging / calls)


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
    if used is not None and used >= threshold("client_cpu_saturated"):
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
    least = max(threshold("send_lag"), CORE_WAIT_S * 1.5 if spec.transport == "core" else 0.0)
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
    if bursts >= threshold("bursty_sends"):
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
    least = threshold("rate_not_reached")
    told = f"{offered:,.0f} calls/s were asked for"
    if sent < least * offered:
        share = sent / offered
        told += f", {sent:,.0f} were sent"
    elif spec.steps is None and quick and answered < least * offered - noise:
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
    if gap > threshold("little_law_gap"):
        message = f"{busy:,.1f} calls were in flight on average, {spec.concurrency:,} were asked for"
        yield finding("little_law_gap", message, measured=gap)


def _steadiness(windows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """A trend: the halves' rates of completions differ by more than a share that matters, of the larger, and
    by more than noise."""
    full = _longest(windows)
    rates = [(w["ok"] + w["failed"]) / w["length_s"] for w in windows if w["length_s"] > full / 2]
    if len(rates) < STEADY_WINDOWS:
        return
    first, second = rates[: len(rates) // 2], rates[-(len(rates) // 2) :]
    before, after = fmean(first), fmean(second)
    noise = math.sqrt((variance(first) + variance(second)) / len(first))
    larger, change = max(before, after), after - before
    if larger > 0 and abs(change) > max(threshold("not_steady") * larger, STEADY_ERRORS * noise):
        told = f"{'rose' if change > 0 else 'fell'} from {before:,.0f} in the first half of the run to "
        yield finding("not_steady", f"calls/s {told}{after:,.0f} in the second", measured=change / larger)


def _longest(windows: Sequence[Mapping[str, Any]]) -> float:
    """The length of a whole window; the last one may be shorter."""
    return max((float(window["length_s"]) for window in windows), default=0.0)


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
    if steal is not None and steal > threshold("cpu_steal"):
        yield finding("cpu_steal", f"{steal:.1%} of the machine's CPU time went elsewhere", measured=steal)
    shared = set(spec.cpus or client_cpus or ()) & set(server_cpus or ())
    if pressure is not None and pressure > threshold("cpu_pressure") and not shared:
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
