"""What streams cost the server when the next hop does not read: its handlers go on until they are blocked in
sending, and what they have sent by then stays in the server.

The other cause of growing memory that the article names, which gives no figure. The client is a process that
is stopped (SIGSTOP) in the middle of receiving: nobody reads the socket, and no window is given back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.experiments.clients import LONG_S, await_running, command, kill, stop
from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.readings import Readings, at_rest, await_idle, keep_heap, require_running
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero
from grpcperf.hold import hold
from grpcperf.plot import lines
from grpcperf.result import Finding
from grpcperf.targets import Measurable, Process

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOK_S = 0.5  # CPU is counted in ticks of 10 ms: five are at the bound
BLOCKED_CPUS = 0.1  # a server that uses less than this of a CPU does not send
BLOCKED_S = 15.0  # for all streams to be blocked


def measure(
    kit: Kit, *, servers: Sequence[Any], streams: Sequence[int], sizes: Sequence[int | str], repeats: int
) -> Iterator[Row]:
    """A fresh server for each, whose handlers send messages of that size for as long as they can."""
    for server in kit.servers(servers):
        for size in (units.size_bytes(one, "sizes") for one in sizes):
            for count in streams:
                kit.say(server=server.name, streams=count, message_bytes=size)
                row = kit.repeat(repeats, lambda: _one(kit, server, count, size))  # noqa: B023
                yield {"server": server.name, "streams": count, "message_bytes": size} | row


def _one(kit: Kit, server: ServerKind, streams: int, size: int) -> Row:
    with server.start() as target:
        with hold(target, calls=1, kind="bidi"):
            pass  # what it makes once
        before = at_rest(kit, server.name, target)
        argv = command(
            *("load", target.address, "--kind", "server_stream", "--concurrency", streams),
            *("--response-size", size, "--duration", LONG_S, "--json"),
        )
        with Process(argv) as client:
            running = await_running(target, client, streams)
            stop(client)
            require_running(kit, server.name, running, streams)
            if not _is_blocked(target):
                kit.note(_still_sending(server.name))
            held = at_rest(kit, server.name, target)
            keep_heap(kit, f"{server.name}, {streams:,} streams of {size:,} B", target)
            kill(client)
        await_idle(target)
        after = at_rest(kit, server.name, target)
    readings = Readings(count=streams, before=before, held=held, after=after)
    memory = readings.memory("stream")
    return {"kib_per_stream": memory.pop("total_kib_per_stream"), **memory} | {
        "socket_kib_per_stream": readings.kib("socket_bytes"),
        "kib_after_per_stream": readings.kept_kib("heap_alloc", "stack_inuse"),
        "tasks_per_stream": readings.tasks_each,
    }


def _is_blocked(target: Measurable) -> bool:
    """Wait until the server has stopped sending, by its CPU."""
    end, used_s = time.monotonic() + BLOCKED_S, _cpu_s(target)
    while time.monotonic() < end:
        time.sleep(LOOK_S)
        used_s, before_s = _cpu_s(target), used_s
        if used_s - before_s < LOOK_S * BLOCKED_CPUS:
            return True
    return False


def _cpu_s(target: Measurable) -> float:
    memory = target.memstats()
    return (memory.cpu_user_s or 0.0) + (memory.cpu_system_s or 0.0)


def _still_sending(server: str) -> Finding:
    return Finding(
        code="not_blocked",
        severity="invalid",
        message=f"{server} was still busy {BLOCKED_S:g} s after its client had stopped reading",
        threshold=BLOCKED_S,
    )


def verdict(report: Report) -> str:
    most = max(row["streams"] for row in report.rows)
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = [
            row for row in report.select(server=server, streams=most) if row["kib_per_stream"] is not None
        ]
        if not rows:
            continue
        least, worst = (pick(rows, key=lambda row: row["kib_per_stream"]) for pick in (min, max))
        ends = [_told(least)] if least is worst else [_told(least), _told(worst)]
        parts.append(f"{server} {' to '.join(ends)}")
    if not parts:
        return "What a stream holds that nobody reads is not known of these servers."
    return f"Each of {most:,} streams that nobody reads holds in the server: {'; '.join(parts)}."


def _told(row: Mapping[str, Any]) -> str:
    return f"{row['kib_per_stream']:,.1f} KiB (messages of {units.format_bytes(row['message_bytes'])})"


def figures(report: Report) -> list[Figure]:
    drawn = [
        Figure(
            title="A stream that nobody reads",
            draw=lambda ax: _draw(report, ax),
            caption="Heap and stacks of the server for each, by the size of its messages.",
        )
    ]
    return drawn if has(report, "kib_per_stream") else []


def _draw(report: Report, ax: Axes) -> None:
    most = max(row["streams"] for row in report.rows)
    lines(ax, report.select(streams=most), "message_bytes", "kib_per_stream", by="server")
    ax.set_xlabel("message (bytes)")
    from_zero(ax, "KiB per stream")


EXPERIMENT = Experiment(
    name="slow-reader",
    question="What do streams cost when the next hop does not read?",
    columns=(
        *("server", "streams", "message_bytes", "kib_per_stream", "heap_kib_per_stream"),
        *("stack_kib_per_stream", "sys_kib_per_stream", "socket_kib_per_stream"),
        *("kib_after_per_stream", "tasks_per_stream"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "streams": [100],
        "sizes": ["1KiB", "16KiB"],
        "repeats": 1,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "streams": [100, 1000],
        "sizes": [16, "1KiB", "16KiB", "256KiB"],
        "repeats": 3,
    },
    source="named by the article as a cause of growing memory, without a figure",
)
