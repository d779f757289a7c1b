"""The findings of loads and of memory in one table: how grave each is, from where on it is one, what to do.

Only what the client caused, or what left the result incomplete or other than asked for, makes it invalid. A
server that cannot keep up, or that shares its cores with the client, is a warning: that is a property of what
was measured. What a single question can find (an experiment, a search) is said where that is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grpcperf.result import Finding


@dataclass(frozen=True)
class Rule:
    """A row of the table. `threshold` is None where there is nothing to measure."""

    severity: Literal["warning", "invalid"]
    threshold: float | None
    advice: str


RULES: dict[str, Rule] = {
    # The result is incomplete.
    "server_died": Rule("invalid", None, "see the server's own last words; the numbers end with its death"),
    # The share of the window, at its end, without a call that was OK.
    "connection_lost": Rule(
        "invalid",
        None,
        "the numbers have that time in them: see whether the server died, and what it last said",
    ),
    "interrupted": Rule("invalid", None, "the numbers are of the part that was run"),
    "no_calls": Rule("invalid", 1, "make the run longer than the slowest call"),
    "all_failed": Rule(
        "invalid", 1.0, "look at the statuses; there is no latency and no throughput to speak of"
    ),
    # The share of the calls that ended inside the window, whenever they were sent.
    "few_finished": Rule(
        "invalid",
        0.1,
        "rates count what ends inside the window, and hardly anything did: make the run longer than the "
        "slowest call, or lower the rate",
    ),
    # The share of the window at its end in which nothing came back any more, also not in the drain.
    "server_silent": Rule(
        "invalid",
        0.1,
        "the numbers end there: see whether the server hangs or was stopped, and what it last said",
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
    # The same as server_silent, but it came back.
    "server_stalled": Rule(
        "warning",
        0.1,
        "look at what the server did then: garbage collection, a lock, a pause of the machine",
    ),
    "unfinished": Rule(
        "warning",
        0.01,
        "percentiles know nothing of how long these would have taken: drain for longer, or see what holds "
        "the server up",
    ),
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
    "connections_cut": Rule(
        "warning", 0, "see whether the server was started anew, or ends connections (their age, a proxy)"
    ),
    "few_samples": Rule("warning", 1000, "run longer, for p99 to have ten calls beyond it"),
    "not_steady": Rule("warning", 0.10, "a longer warmup, or a longer run, tells whether it comes to rest"),
    "messages_ahead": Rule(
        "warning", None, "messages/s is what the client wrote; a longer drain lets the server read the rest"
    ),
    "server_stream_limit": Rule(
        "warning", None, "calls above the peer's limit wait in the client; open more connections"
    ),
    "server_threads_exhausted": Rule(
        "warning",
        0,
        "raise what bounds the server's threads (ulimit -u and -v, kernel.pid_max, vm.max_map_count), or use "
        "a model with fewer of them",
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


def threshold(code: str) -> float:
    """From where on it is one. Only of those that are measured."""
    found = RULES[code].threshold
    assert found is not None
    return found
