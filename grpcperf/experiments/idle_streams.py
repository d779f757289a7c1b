"""What an idle device costs the server: a connection with one idle stream each, with the read and write
buffers of grpc-go in two sizes; and what smaller buffers cost once the devices talk.

Published in 2022: buffers of 8 KiB instead of 32 KiB halved the memory of 10,000 devices at a price in CPU.
Measured since with 2,000 connections: grpc-go 1.46.2 heap 107.0 to 35.0 and sys 141.2 to 71.4 KiB per
connection; grpc-go 1.85.0 11.4 to 11.3 and 31.9 to 31.9, since its idle connections no longer hold buffers.
What the kernel keeps for a socket that is idle is charged to no process and is not in these figures: about 10
KiB for both ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.errors import EngineError
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.readings import (
    Readings,
    at_rest,
    keep_goroutines,
    keep_heap,
    require_running,
    told_kib,
)
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.hold import hold
from grpcperf.load import load
from grpcperf.targets import Keepalive, Measurable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_MESSAGE = 8 << 20
NO_CHANGE = 0.1  # of the memory: less is taken for none
LATENESS = ("send_lag", "bursty_sends", "few_samples")
KEEPALIVE = Keepalive(time=10, timeout=15, max_idle=180)


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    connections: Sequence[int],
    buffers: Sequence[int | str],
    messages_per_s: float,
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """A fresh server for each. Its streams have exchanged one message before they fall silent. Then, on as
    many connections, streams of ten messages come at a constant rate: what a message costs includes a tenth
    of a stream."""
    for server in kit.servers(servers):
        sizes = [units.size_bytes(one, "buffers") for one in buffers] if server.is_go else [None]
        for size in sizes:
            for count in connections:
                kit.say(server=server.name, connections=count, buffer_bytes=size)
                plan = (count, size, messages_per_s, duration)
                try:
                    row = kit.repeat(repeats, lambda: _one(kit, server, *plan))  # noqa: B023
                except EngineError as error:  # too few descriptors, say
                    kit.skip(f"{server.name}, {count:,} connections", str(error))
                    continue
                yield {"server": server.name, "connections": count, "buffer_bytes": size} | row


def _one(
    kit: Kit, server: ServerKind, connections: int, size: int | None, messages_per_s: float, duration: float
) -> Row:
    go = {"max_message": MAX_MESSAGE, "read_buffer": size, "write_buffer": size}
    native = {"channel_args": {"grpc.max_receive_message_length": MAX_MESSAGE}}
    name = f"{server.name}, {connections:,} connections" + (f", buffers of {size:,} B" if size else "")
    with server.start(keepalive=KEEPALIVE, go=go, native=native) as target:
        with hold(target, calls=1, kind="bidi", send_first=True):
            before = at_rest(kit, name, target)
            with hold(
                target, calls=connections, connections=connections, kind="bidi", send_first=True, timeout=60
            ) as held:
                during = at_rest(kit, name, target)
                require_running(kit, server.name, held.running, connections)
                keep_heap(kit, name, target)
                keep_goroutines(kit, name, target)
        cpu_us = _talk(kit, name, target, connections, messages_per_s, duration)
    readings = Readings(count=connections, before=before, held=during, after=during)
    row = readings.memory("connection")
    row["socket_kib_per_connection"] = readings.kib("socket_bytes")
    return row | {"tasks_per_connection": readings.tasks_each, "cpu_us_per_message": cpu_us}


def _talk(
    kit: Kit, name: str, target: Measurable, connections: int, messages_per_s: float, duration: float
) -> float | None:
    """CPU of the server for each message that it answers."""
    messages = 10
    result = load(
        target,
        kind="bidi",
        connections=connections,
        rate=messages_per_s / messages,
        arrival="constant",
        messages_per_stream=messages,
        duration=duration,
        warmup=duration / 4,
    )
    kit.note(result, name, ignore=LATENESS)  # no latency is taken from it
    answered = result.messages_received
    return None if result.server_cpu_s is None or not answered else result.server_cpu_s / answered * 1e6


def verdict(report: Report) -> str:
    most = max(row["connections"] for row in report.rows)
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = sorted(
            report.select(server=server, connections=most), key=lambda row: -(row["buffer_bytes"] or 0)
        )
        if not rows:
            continue
        first, last = rows[0], rows[-1]
        told = f"{server} holds {told_kib(_total(first))} and {_tasks(first)} per connection"
        if first["buffer_bytes"] != last["buffer_bytes"] and None not in (_total(first), _total(last)):
            small = f"{told_kib(_total(last))} with buffers of {last['buffer_bytes']:,} B"
            told += f" and {small}, {_change(first, last)}"
        parts.append(told)
    return f"With {most:,} idle streams {'; '.join(parts)}."


def _total(row: Mapping[str, Any]) -> float | None:
    total: float | None = row["total_kib_per_connection"]
    return total


def _tasks(row: Mapping[str, Any]) -> str:
    tasks = row["tasks_per_connection"]
    return "an unknown number of tasks" if tasks is None else f"{tasks:.1f} tasks"


def _change(large: Mapping[str, Any], small: Mapping[str, Any]) -> str:
    column = "total_kib_per_connection"
    before, after = large[column], small[column]
    told = "which changes nothing that shows"
    if before > 0 and abs(after / before - 1) > NO_CHANGE and not _overlap(large, small, column):
        told = f"{abs(after / before - 1):.0%} {'less' if after < before else 'more'}"
    cpu = large["cpu_us_per_message"], small["cpu_us_per_message"]
    if None in cpu:
        return told
    return f"{told} (CPU of a message {cpu[0]:.1f} and {cpu[1]:.1f} µs)"


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any], column: str) -> bool:
    """Whether the intervals have something in common; without repeats there are none."""
    bounds: list[Any] = [row.get(f"{column}_{end}") for row in (one, other) for end in ("low", "high")]
    if None in bounds:
        return False
    return bool(max(bounds[0], bounds[2]) <= min(bounds[1], bounds[3]))


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Memory of an idle connection",
            draw=lambda ax: _draw(report, ax),
            caption="Heap and, on top, stacks, for the largest number of connections, by size of buffers.",
        ),
        Figure(
            title="CPU of a message, once they talk",
            draw=lambda ax: _draw_cpu(report, ax),
            caption="Of the server, for the largest number of connections.",
        ),
    ]


def _draw(report: Report, ax: Axes) -> None:
    rows = _most(report)
    places = range(len(rows))
    left: list[float] = [0.0] * len(rows)
    for at, part in enumerate(("heap", "stack")):
        values = [row[f"{part}_kib_per_connection"] or 0.0 for row in rows]
        style: Any = {"hatch": "//", "edgecolor": "white"} if at else {}
        ax.barh(places, values, left=left, color=look(at)["color"], label=part, **style)
        left = [a + b for a, b in zip(left, values, strict=True)]
    ax.set_yticks(list(places), [_name(row) for row in rows])
    ax.invert_yaxis()
    ax.set_xlabel("KiB per connection")
    ax.legend()


def _draw_cpu(report: Report, ax: Axes) -> None:
    rows = _most(report)
    places = range(len(rows))
    ax.barh(places, [row["cpu_us_per_message"] or 0.0 for row in rows], color=look(2)["color"])
    ax.set_yticks(list(places), [_name(row) for row in rows])
    ax.invert_yaxis()
    ax.set_xlabel("µs per message")


def _most(report: Report) -> list[Mapping[str, Any]]:
    """The rows with the largest number of connections."""
    return report.select(connections=max(row["connections"] for row in report.rows))


def _name(row: Mapping[str, Any]) -> str:
    size = row["buffer_bytes"]
    return str(row["server"]) + (f", {units.format_bytes(size)}" if size else "")


EXPERIMENT = Experiment(
    name="idle-streams",
    question="What does an idle device cost, and do smaller buffers help?",
    columns=(
        *("server", "connections", "buffer_bytes", "total_kib_per_connection", "heap_kib_per_connection"),
        *("stack_kib_per_connection", "sys_kib_per_connection", "socket_kib_per_connection"),
        *("tasks_per_connection", "cpu_us_per_message"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go@1.46.2", "grpc-go"],
        "connections": [200],
        "buffers": ["32KiB", "8KiB"],
        "messages_per_s": 5000.0,
        "duration": 0.5,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go@1.46.2", "grpc-go"],
        "connections": [1000, 2000, 10_000],
        "buffers": ["32KiB", "8KiB"],
        "messages_per_s": 10_000.0,
        "duration": 5.0,
        "repeats": 3,
    },
    source=(
        "2022: 8 KiB buffers halved memory, 13 goroutines per device; since, 2,000 connections: grpc-go "
        "1.46.2 heap 107.0 to 35.0, sys 141.2 to 71.4 KiB, 1.85.0 heap 11.4 to 11.3, sys 31.9 to 31.9 KiB"
    ),
)
