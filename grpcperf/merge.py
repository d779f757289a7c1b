"""Several results of the same load as one, exactly: histograms are added, no percentile is averaged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from grpcperf.errors import InvalidRequest
from grpcperf.result import NONE, Cause, Result, Status, Window


def merge(results: Iterable[Result]) -> Result:
    """Several results of one spec as one: counts and histograms added, windows one after the other, each
    finding once. Of rates and costs that comes to their mean over all the time measured."""
    parts = list(results)
    if not parts:
        raise InvalidRequest("there are no results to merge")
    first = parts[0]
    if any(part.spec != first.spec for part in parts):
        raise InvalidRequest("results of different loads cannot be merged into one")
    added: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in _ADDED}
    known: dict[str, Any] = {
        name: _sum_of_known(getattr(part, name) for part in parts) for name in _ADDED_IF_KNOWN
    }
    merged: dict[str, Any] = {name: sum((getattr(part, name) for part in parts), NONE) for name in _MERGED}
    shares: dict[str, Any] = {name: _mean_of_known(parts, name) for name in ("steal", "pressure")}
    findings = {one.code: one for part in parts for one in part.findings}
    if merged["latency"].p99 is not None:
        findings.pop("few_samples", None)
    statuses = {name: sum(part.status[name] for part in parts) for part in parts for name in part.status}
    causes: dict[tuple[str, str], int] = {}
    for cause in (cause for part in parts for cause in part.causes):
        causes[cause.status, cause.text] = causes.get((cause.status, cause.text), 0) + cause.calls
    return replace(
        first,
        status=Status(statuses),
        windows=tuple(_joined_windows(parts)),
        largest_burst=max(part.largest_burst for part in parts),
        causes=tuple(
            Cause(status=status, calls=calls, text=text)
            for (status, text), calls in sorted(causes.items(), key=lambda item: -item[1])
        ),
        findings=tuple(findings.values()),
        **added,
        **shares,
        **known,
        **merged,
    )


_ADDED = (
    *("window_s", "ok_in_window", "all_in_window", "messages_sent", "messages_received", "not_sent"),
    *("reconnects", "connections_opened", "tls_resumed", "bursts", "burst_calls", "payload_sent"),
)
_ADDED_IF_KNOWN = ("client_cpu_s", "server_cpu_s", "connect_s", "drain_s")
_MERGED = (
    *("latency", "service_time", "error_latency", "send_lag", "queued", "send_gap"),
    *("first_message", "message_gap", "round_trip"),
)


def _sum_of_known(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _mean_of_known(parts: list[Result], name: str) -> float | None:
    """Of shares of the time, by how long each part took."""
    known = [(getattr(part, name), part.window_s) for part in parts if getattr(part, name) is not None]
    whole = sum(window_s for _, window_s in known)
    return sum(share * window_s for share, window_s in known) / whole if whole > 0 else None


def _joined_windows(parts: list[Result]) -> Iterable[Window]:
    start = 0.0
    for part in parts:
        for window in part.windows:
            yield replace(window, start_s=start + window.start_s)
        start += part.window_s
