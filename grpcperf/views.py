"""Results as people and programs look at them: a flat row, a block of text, a table for notebooks."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from grpcperf.remarks import COLOURS, MARKS, html_findings
from grpcperf.units import format_bytes, format_number, format_seconds

if TYPE_CHECKING:
    from grpcperf.histogram import Histogram
    from grpcperf.result import Result

_ALL_PARTS = ("p50", "p90", "p99", "p999", "min", "mean", "max")
_MAIN_PARTS = ("p50", "p99", "max")
_TOLD = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max"}


def row(result: Result) -> dict[str, Any]:
    """See Result.row."""
    spec = result.spec
    closed, open_ = not spec.is_open_loop, spec.is_open_loop
    made = {
        "transport": spec.transport,
        "kind": spec.kind,
        "method": spec.path,
        "connections": spec.connections,
        "concurrency": spec.concurrency if closed else None,
        "rate": spec.rate,
        "arrival": spec.arrival if open_ else None,
        "catch_up": spec.catch_up if open_ else None,
        "max_in_flight": spec.max_in_flight if open_ else None,
        "threads": spec.threads,
        "seed": spec.seed,
        "pick": spec.pick,
        "calls_per_connection": spec.calls_per_connection,
        "tls": result.settings.get("tls"),
        "compression": spec.compression,
        "window": spec.window,
        "busy_poll": spec.busy_poll,
        "deadline_s": spec.deadline,
        "think_time_s": spec.think_time if closed else None,
        "requests": len(spec.payload_sizes),
        "request_size": spec.message_bytes,
        "response_size": spec.response_bytes if spec.is_benchmark_service else None,
        "messages_per_stream": spec.messages_per_stream,
        "calls": result.calls,
        "errors": result.errors,
        "status": dict(result.status),
        "causes": [str(cause) for cause in result.causes],
        "not_sent": result.not_sent,
        "throughput_rps": result.throughput_rps,
        "mib_per_s": result.mib_per_s,
        "response_mib_per_s": result.response_mib_per_s,
        "messages_sent_per_s": result.messages_sent_per_s,
        "messages_received_per_s": result.messages_received_per_s,
        **_latencies("latency", result.latency, _ALL_PARTS),
        **_latencies("service_time", result.service_time, _ALL_PARTS),
        **_latencies("error_latency", result.error_latency, _ALL_PARTS),
        **_latencies("send_lag", result.send_lag, _MAIN_PARTS),
        **_latencies("queued", result.queued, _MAIN_PARTS),
        **_latencies("first_message", result.first_message, _MAIN_PARTS),
        **_latencies("message_gap", result.message_gap, _MAIN_PARTS),
        **_latencies("round_trip", result.round_trip, _MAIN_PARTS),
        "offered_rate": result.offered_rate,
        "achieved_rate": result.achieved_rate,
        "largest_burst": result.largest_burst,
        "client_cpu_us_per_call": result.client_cpu_us_per_call,
        "server_cpu_us_per_call": result.server_cpu_us_per_call,
        "connected": result.connections,
        "reconnects": result.reconnects,
        "connections_opened": result.connections_opened,
        "connect_s": result.connect_s,
        "window_s": result.window_s,
        "valid": result.valid,
        "findings": [finding.code for finding in result.findings],
    }
    return {key: None if _is_no_number(value) else value for key, value in made.items()}


def text(result: Result) -> str:
    """A block of lines, at most 110 wide, with the findings below."""
    head = f"Result{'' if result.valid else ' (NOT VALID)'}: {_title(result)}"
    lines = [f"  {name:<13} {'   '.join(parts)}" for name, parts in _lines(result)]
    for one in result.findings:
        remark = f"{MARKS[one.severity]} {one}"
        lines += textwrap.wrap(remark, 108, initial_indent="  ", subsequent_indent="    ")
    return "\n".join([head, *lines])


def html_table(result: Result) -> str:
    """A table for notebooks, findings above; colours are translucent, so that it reads on light and dark."""
    cell = "padding:2px 12px 2px 0;border-top:1px solid rgba(128,128,128,.3);text-align:left"
    apart = "display:inline-block;margin-right:1.4em"
    remarks, rows = html_findings(result.findings), ""
    for name, parts in _lines(result):
        rows += f'<tr style="background:none"><th style="{cell};font-weight:normal">{html.escape(name)}</th>'
        spans = "".join(f'<span style="{apart}">{html.escape(part)}</span>' for part in parts)
        rows += f'<td style="{cell}">{spans}</td></tr>'
    valid = "" if result.valid else f' <b style="color:rgb({COLOURS["invalid"]})">not valid</b>'
    return (
        f'<div style="color:inherit">{remarks}<div><b>{html.escape(_title(result))}</b>{valid}</div>'
        f'<table style="border-collapse:collapse;color:inherit">{rows}</table></div>'
    )


def _title(result: Result) -> str:
    spec = result.spec
    sizes = format_bytes(spec.message_bytes)
    if spec.is_benchmark_service:
        sizes += f" → {format_bytes(spec.response_bytes)}"
    loop = f"{spec.concurrency:,} in flight"
    if spec.is_open_loop:
        rate = f"{spec.rate:,.10g} calls/s" if spec.rate is not None else "calls/s in steps"
        loop = f"{rate}, {spec.arrival}"
    parts = [
        f"{spec.kind if spec.method is None else f'{spec.kind} {spec.path}'} over {spec.transport}",
        f"{result.connections:,} connection{'s' * (result.connections != 1)}",
        loop,
        sizes,
        format_seconds(result.window_s),
    ]
    if spec.messages_per_stream is not None:
        parts.insert(3, f"{spec.messages_per_stream:,} messages per stream")
    return ", ".join(parts)


def _lines(result: Result) -> Iterator[tuple[str, list[str]]]:
    """What both representations show: a name and its parts."""
    spec = result.spec
    payload = {"out": result.mib_per_s, "back": result.response_mib_per_s}
    flow = [f"{format_number(mib)} MiB/s {way}" for way, mib in payload.items() if mib is not None]
    throughput = f"{format_number(result.throughput_rps)} calls/s"
    yield "throughput", flow if spec.is_endless else [throughput, *flow]
    if spec.is_stream:
        rates = {"out": result.messages_sent_per_s, "back": result.messages_received_per_s}
        yield "messages", [f"{format_number(rate)}/s {way}" for way, rate in rates.items()]
    failed = ", ".join(f"{name} {n:,}" for name, n in result.status.items() if name != "OK")
    errors = f"errors {result.errors:,}" + (f" ({failed})" if failed else "")
    not_sent = [f"not sent {result.not_sent:,}"] if result.not_sent else []
    yield "calls", [f"{result.calls:,}", errors, *not_sent]
    for cause in result.causes[:3]:
        yield "cause", [textwrap.shorten(str(cause), 90, placeholder=" ...")]
    if result.latency.count:
        label = "stream's life" if spec.is_stream else "response time" if spec.is_open_loop else "latency"
        yield label, _quantiles(result.latency)
        if spec.is_open_loop:
            yield "service time", _quantiles(result.service_time)
        elif not spec.is_endless:
            yield "", ["service time of a closed loop: coordinated omission possible"]
    apart = {
        "first message": result.first_message,
        "message gap": result.message_gap,
        "round trip": result.round_trip,
        "held back": result.queued,
        "send lag": result.send_lag,
    }
    for name, histogram in apart.items():
        if histogram.count:
            yield name, _quantiles(histogram)
    costs = {"client": result.client_cpu_us_per_call, "server": result.server_cpu_us_per_call}
    shown = [f"{who} {format_number(us)} µs" for who, us in costs.items() if us is not None]
    if shown:
        yield "CPU per call", shown


def _quantiles(histogram: Histogram) -> list[str]:
    return [f"{name} {format_seconds(getattr(histogram, part))}" for name, part in _TOLD.items()]


def _latencies(name: str, histogram: Histogram, parts: tuple[str, ...]) -> dict[str, float | None]:
    """A histogram's columns in µs."""
    values = ((part, getattr(histogram, part)) for part in parts)
    # To the ns, which is what was measured, and without the dust of the conversion.
    return {f"{name}_{part}_us": None if value is None else round(value * 1e6, 3) for part, value in values}


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
