"""Unary calls against messages on a ping-pong stream, without concurrency, and where the gain comes from:
what a stream costs to set up, and what each message costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.curves import CONDITIONS, request_bytes, times, told, under
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.readings import microseconds
from grpcperf.experiments.report import Report
from grpcperf.load import load
from grpcperf.plot import lines
from grpcperf.stats import Interval, fit_cost

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.targets import Measurable


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    messages: Sequence[int],
    transport: str,
    request_size: int | str,
    duration: float,
    repeats: int,
    **conditions: Any,
) -> Iterator[Row]:
    """One caller: unary, then streams of so many messages each, of `request_size` bytes."""
    size = request_bytes(request_size)
    for server in kit.servers(servers):
        with under(kit, conditions, server, largest=size) as (target, asked):
            how = {**asked, "transport": transport, "request_size": size}
            how |= {"duration": duration, "warmup": duration / 4}
            for kind, count in [("unary", None), *(("bidi", count) for count in messages)]:
                kit.say(server=server.name, kind=kind, messages_per_stream=count)
                spec = {**how, "kind": kind, "messages_per_stream": count}
                row = kit.repeat(repeats, lambda: _one(kit, target, server.name, **spec))  # noqa: B023
                about = {"server": server.name, "kind": kind, "messages_per_stream": count or 1}
                about["request_size"] = size
                yield about | row | told(conditions)


def _one(kit: Kit, target: Measurable, name: str, *, kind: str, **spec: Any) -> Row:
    result = load(target, kind=kind, concurrency=1, progress=False, **spec)
    kit.note(result, f"{name}, {kind}")
    trips = result.latency if kind == "unary" else result.round_trip
    return {
        "messages_per_s": result.messages_sent_per_s,
        "latency_p50_us": microseconds(trips.p50),
        "latency_p99_us": microseconds(trips.p99),
        "call_p50_us": microseconds(result.latency.p50),
        "errors": result.errors,
    }


def data(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By server: the median time of a whole stream against its messages, split into a stream and a message,
    both with their intervals."""
    found: dict[str, Any] = {}
    for server in dict.fromkeys(row["server"] for row in rows):
        points = [
            (float(row["messages_per_stream"]), float(row["call_p50_us"]))
            for row in rows
            if row["server"] == server and row["kind"] == "bidi" and row["call_p50_us"] is not None
        ]
        cost = fit_cost(points)
        if cost is None:
            continue
        found[server] = {
            **_part("per_stream_us", cost.fixed, cost.fixed_interval),
            **_part("per_message_us", cost.each, cost.each_interval),
            "r2": cost.r2,
        }
    return found


def _part(name: str, value: float, bounds: Interval | None) -> dict[str, float | None]:
    low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def verdict(report: Report) -> str:
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        one, streams = report.select(server=server, kind="unary"), report.select(server=server, kind="bidi")
        if not one or not streams:
            continue
        unary, longest = one[0], max(streams, key=lambda row: row["messages_per_stream"])
        fit = report.data.get(server)
        gain = longest["messages_per_s"] / unary["messages_per_s"] if unary["messages_per_s"] else 0.0
        text = f"{server}: a ping-pong message comes {times(gain)} times as often as a unary call"
        if fit is not None:
            stream, message = _told(fit, "per_stream_us"), _told(fit, "per_message_us")
            text += f"; a stream costs {stream} and each message {message}"
        parts.append(text)
    return "; ".join(parts) + "." if parts else "Too little was measured for a verdict."


def _told(fit: Mapping[str, Any], name: str) -> str:
    low, high = fit.get(f"{name}_low"), fit.get(f"{name}_high")
    return f"{fit[name]:.0f} µs" + ("" if low is None or high is None else f" [{low:.0f}, {high:.0f}]")


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Time of a stream over its messages",
            draw=lambda ax: _draw(report, ax),
            caption="Median of whole streams: its height at 0 is a stream's cost, its slope a message's.",
        )
    ]


def _draw(report: Report, ax: Axes) -> None:
    lines(ax, report.select(kind="bidi"), "messages_per_stream", "call_p50_us", by="server")


EXPERIMENT = Experiment(
    name="unary-vs-stream",
    question="What does a message on a stream save over a unary call, and why?",
    columns=("server", "kind", "messages_per_stream", "messages_per_s", "latency_p50_us", "latency_p99_us"),
    measure=measure,
    verdict=verdict,
    figures=figures,
    data=data,
    quick={
        "servers": ["native", "grpc-go"],
        "messages": [1, 3, 10, 30, 100],
        "transport": "wire",
        "request_size": "16 B",
        "duration": 0.3,
        "repeats": 1,
        **CONDITIONS,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go"],
        "messages": [1, 3, 10, 30, 100],
        "transport": "wire",
        "request_size": "16 B",
        "duration": 2.0,
        "repeats": 5,
        **CONDITIONS,
    },
    source="unary 12,059/s, p50 79 µs; ping-pong 15,634/s, p50 62 µs; the gain was guessed to be set-up",
)
