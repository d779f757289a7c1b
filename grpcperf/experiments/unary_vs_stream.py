"""Unary calls against messages on a ping-pong stream, without concurrency, and where the gain comes from:
what a stream costs to set up, and what each message costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.curves import CONDITIONS, times, told, under
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.load import load
from grpcperf.plot import lines
from grpcperf.stats import common_slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.targets import Measurable


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    messages: Sequence[int],
    transport: str,
    duration: float,
    repeats: int,
    **conditions: Any,
) -> Iterator[Row]:
    """One caller: unary, then streams of so many messages each."""
    for server in kit.servers(servers):
        with under(kit, conditions, server) as (target, asked):
            how = {**asked, "transport": transport, "duration": duration, "warmup": duration / 4}
            for kind, count in [("unary", None), *(("bidi", count) for count in messages)]:
                kit.say(server=server.name, kind=kind, messages_per_stream=count)
                spec = {**how, "kind": kind, "messages_per_stream": count}
                row = kit.repeat(repeats, lambda: _one(kit, target, server.name, **spec))  # noqa: B023
                about = {"server": server.name, "kind": kind, "messages_per_stream": count or 1}
                yield about | row | told(conditions)


def _one(kit: Kit, target: Measurable, name: str, *, kind: str, **spec: Any) -> Row:
    result = load(target, kind=kind, concurrency=1, progress=False, **spec)
    kit.note(result, f"{name}, {kind}")
    trips = result.latency if kind == "unary" else result.round_trip
    microseconds = [None if value is None else value * 1e6 for value in (trips.p50, trips.p99)]
    return {
        "messages_per_s": result.messages_sent_per_s,
        "latency_p50_us": microseconds[0],
        "latency_p99_us": microseconds[1],
        "call_p50_us": None if result.latency.p50 is None else result.latency.p50 * 1e6,
        "errors": result.errors,
    }


def data(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median time of a whole stream against its messages: intercept (a stream) and slope (a message)."""
    found: dict[str, Any] = {}
    for server in dict.fromkeys(row["server"] for row in rows):
        points = [
            (float(row["messages_per_stream"]), float(row["call_p50_us"]))
            for row in rows
            if row["server"] == server and row["kind"] == "bidi" and row["call_p50_us"] is not None
        ]
        line = common_slope([points]) if len(points) > 1 else None
        if line is None:
            continue
        mean_x, mean_y = (sum(part) / len(points) for part in zip(*points, strict=True))
        found[server] = {
            "per_stream_us": mean_y - line.slope * mean_x,
            "per_message_us": line.slope,
            "r2": line.r2,
        }
    first: dict[str, Any] = next(iter(found.values()), {})
    return {
        **found,
        **first,
    }  # those of the first server also by plain names, as rows of one server would have them


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
            text += (
                f"; a stream costs {fit['per_stream_us']:.0f} µs and each message "
                f"{fit['per_message_us']:.0f} µs (R² {fit['r2'] or 0:.3f})"
            )
        parts.append(text)
    return "; ".join(parts) + "." if parts else "Too little was measured for a verdict."


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
        "duration": 0.3,
        "repeats": 1,
        **CONDITIONS,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go"],
        "messages": [1, 3, 10, 30, 100],
        "transport": "wire",
        "duration": 2.0,
        "repeats": 5,
        **CONDITIONS,
    },
    source="unary 12,059/s, p50 79 µs; ping-pong 15,634/s, p50 62 µs; the gain was guessed to be set-up",
)
