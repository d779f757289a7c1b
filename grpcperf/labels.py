"""What the names of metrics and parameters are called on an axis, with their units."""

from __future__ import annotations

import re

_TOLD = {
    "throughput_rps": "throughput (calls/s)",
    "offered_rate": "offered rate (calls/s)",
    "achieved_rate": "achieved rate (calls/s)",
    "rate": "offered rate (calls/s)",
    "mib_per_s": "request payload (MiB/s)",
    "response_mib_per_s": "response payload (MiB/s)",
    "messages_sent_per_s": "messages sent (1/s)",
    "messages_received_per_s": "messages received (1/s)",
    "client_cpu_us_per_call": "client CPU per call (µs)",
    "server_cpu_us_per_call": "server CPU per call (µs)",
    "concurrency": "concurrency (calls in flight)",
    "request_size": "request size (bytes)",
    "response_size": "response size (bytes)",
    "cpu": "CPUs in use",
}
_UNITS = {
    "us": "µs",
    "ms": "ms",
    "ns": "ns",
    "s": "s",
    "rps": "calls/s",
    "bytes": "bytes",
    "kib": "KiB",
    "mib": "MiB",
}


def label(name: str) -> str:
    """The name in words with its unit in brackets: "latency_p99_us" is "latency p99 (µs)"."""
    if name in _TOLD:
        return _TOLD[name]
    words, unit = name, ""
    if found := re.fullmatch(r"(.+)_(us|ms|ns|s|rps|bytes|kib|mib)(_per_(\w+))?", name):
        words = found[1]
        unit = _UNITS[found[2]] + (f" per {found[4].replace('_', ' ')}" if found[4] else "")
    return words.replace("_", " ") + (f" ({unit})" if unit else "")


def short(name: str) -> str:
    """The same without the unit, for legends."""
    return label(name).partition(" (")[0]
