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

from grpcperf.result import Finding
from grpcperf.spec import Load


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
        "the client is the limit: give it more threads and connections, or lower the concurrency",
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
    "not_settled": Rule("warning", None, "memory was still moving when it was read; read it again"),
    "fd_limit": Rule("warning", None, "raise the limit on open files (ulimit -n), here and for the server"),
}

STEADY_ERRORS = 3.0  # standard errors between two halves that are not noise
STEADY_WINDOWS = 10  # fewer tell nothing of a trend


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
) -> tuple[Finding, ...]:
    """What there is to say about a run, the gravest first.

    `raw` is the engine's result (Run.result). What is not known is left out: `death` why the server died,
    `settings` the peer's HTTP/2 SETTINGS, `client_cpus` and `server_cpus` the CPUs each may run on
    (server_cpus only of a server on this machine), `settled` whether memory had come to rest, `descriptors`
    those needed and those available.
    """
    found = [
        *_ends(raw, interrupted, death),
        *_outcomes(spec, raw, interrupted),
        *_client(spec, raw),
        *([] if raw["server_died"] else _steadiness(raw["windows"])),
        *_surroundings(spec, settings or {}, client_cpus, server_cpus),
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
        yield finding(
            "all_failed", f"all {calls:,} calls failed, most as {worst} ({status[worst]:,})", measured=1.0
        )
    elif ok < _threshold("few_samples") and not spec.is_endless:
        yield finding("few_samples", f"{ok:,} OK calls tell no p99", measured=ok)
    if raw["connected"] < spec.connections:
        message = f"{raw['connected']:,} of {spec.connections:,} connections were established"
        yield finding(
            "fewer_connections_than_asked", message, measured=raw["connected"], threshold=spec.connections
        )


def _client(spec: Load, raw: Mapping[str, Any]) -> Iterator[Finding]:
    """The load threads' CPU against what their number could use."""
    if raw["client_cpu_s"] is None or raw["window_s"] <= 0:
        return
    used = raw["client_cpu_s"] / raw["window_s"] / spec.threads
    if used >= _threshold("client_cpu_saturated"):
        threads = f"{spec.threads} client threads were" if spec.threads > 1 else "the client's thread was"
        yield finding("client_cpu_saturated", f"{threads} busy for {used:.0%} of the time", measured=used)


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
    settings: Mapping[str, Any],
    client_cpus: Collection[int] | None,
    server_cpus: Collection[int] | None,
) -> Iterator[Finding]:
    limit, each = settings.get("max_concurrent_streams"), math.ceil(spec.concurrency / spec.connections)
    if limit is not None and limit < each:
        message = f"the peer allows {limit:,} calls at a time on a connection, {each:,} were asked for"
        yield finding("server_stream_limit", message, measured=each, threshold=limit)
    shared = set(spec.cpus or client_cpus or ()) & set(server_cpus or ())
    if shared:
        numbers = ", ".join(map(str, sorted(shared)))
        yield finding(
            "shared_cpus",
            f"client and server may both run on CPU {numbers}",
            measured=len(shared),
            threshold=0,
        )


def _threshold(code: str) -> float:
    threshold = RULES[code].threshold
    assert threshold is not None
    return threshold
