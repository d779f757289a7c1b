"""What a call, and a message of a stream, allocates: bytes and blocks, on the server and on the client.

Left open by the articles, which argue with pools of buffers but count none. A native process is counted by
an object loaded before its allocator, a Go one by its runtime; both exactly. A run of many calls is compared
with one of few, so that what a start and a connection allocate drops out. The records of a run grow with it
at first: the lean client, which allocates nothing for a call, needs many calls for that to vanish.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpcperf.errors import EngineError
from grpcperf.experiments.clients import allocations_of
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.load import load
from grpcperf.spec import TRANSPORTS
from grpcperf.targets import Measurable, Mirror
from grpcperf.units import count, one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IN_FLIGHT = 8
FEW = 0.1  # calls of the run that is compared with, as a share
CALLS_OF = {"wire": 20, "core": 2}  # times those of a server


@dataclass(frozen=True)
class Total:
    """What a process has allocated in a run, and the calls of that run."""

    bytes: float
    blocks: float
    calls: int

    def per_call(self, base: Total) -> tuple[float, float]:
        """Raises EngineError where none ended: there is nothing to divide by."""
        calls = self.calls - base.calls
        if calls <= 0:
            raise EngineError("too few calls ended to tell what one allocates")
        return (self.bytes - base.bytes) / calls, (self.blocks - base.blocks) / calls

    def without_calls(self, cost: tuple[float, float]) -> Total:
        """What is left when each call cost so much."""
        return Total(self.bytes - cost[0] * self.calls, self.blocks - cost[1] * self.calls, 0)


Run = Callable[[Mapping[str, Any]], Total]


def measure(
    kit: Kit, *, servers: Sequence[Any], clients: Sequence[str], calls: int, messages: int, size: int | str
) -> Iterator[Row]:
    """Calls with `size` bytes both ways, 8 in flight; streams with one message, and with `messages`, from
    which follows what one more costs. Clients call the mirror, which leaves them the CPU."""
    calls = count(calls, "calls", low=2 * IN_FLIGHT)
    messages = count(messages, "messages", low=2)
    wanted = [one_of(client, "client", TRANSPORTS) for client in clients]
    plan = {"concurrency": IN_FLIGHT, "warmup": 0, "request_size": size, "response_size": size}
    for server in kit.servers(servers):
        kit.say(server=server.name)
        with server.start(native={"count_allocations": True}) as target:
            if target.memstats().total_alloc is None:
                kit.skip(server.name, "it does not count what it allocates")
                continue
            run = _server_runs(kit, server.name, target, plan)
            run({"calls": calls})  # caches fill
            for row in _rows(run, calls, messages):
                yield {"server": server.name, "side": "server", "client": "wire"} | row
    with Mirror() as target:
        for client in wanted:
            kit.say(client=client)
            run = _client_runs(target, plan | {"transport": client})
            for row in _rows(run, calls * CALLS_OF[client], messages):
                yield {"server": "mirror", "side": "client", "client": client} | row


def _rows(run: Run, calls: int, messages: int) -> Iterator[Row]:
    few = run({"calls": max(IN_FLIGHT, round(calls * FEW))})
    unary = run({"calls": calls}).per_call(few)
    around = few.without_calls(unary)
    yield _row("unary", unary)
    streams = {"kind": "bidi", "messages_per_stream": 1}
    one = run(streams | {"calls": calls}).per_call(around)
    yield _row("bidi", one)
    fewer = max(2 * IN_FLIGHT, 2 * calls // messages)
    long = run(streams | {"calls": fewer, "messages_per_stream": messages}).per_call(around)
    yield _row("bidi message", [(b - a) / (messages - 1) for a, b in zip(one, long, strict=True)])


def _server_runs(kit: Kit, server: str, target: Measurable, plan: Mapping[str, Any]) -> Run:
    def run(options: Mapping[str, Any]) -> Total:
        before = target.memstats()
        result = load(target, **plan, **options)
        kit.note(result, server, ignore=("few_samples", "not_steady"))  # of no time that is told here
        after = target.memstats()
        return Total(
            (after.total_alloc or 0) - (before.total_alloc or 0),
            (after.mallocs or 0) - (before.mallocs or 0),
            result.calls,
        )

    return run


def _client_runs(target: Measurable, plan: Mapping[str, Any]) -> Run:
    def run(options: Mapping[str, Any]) -> Total:
        words = [
            part
            for key, value in {**plan, **options}.items()
            for part in (f"--{key.replace('_', '-')}", value)
        ]
        size, blocks, told = allocations_of("load", target.address, *words, "--json")
        return Total(size, blocks, json.loads(told)["calls"])

    return run


def _row(kind: str, cost: Sequence[float]) -> Row:
    return {"kind": kind, "bytes_per_call": cost[0], "allocs_per_call": cost[1]}


def verdict(report: Report) -> str:
    parts = [
        f"{_name(row)} {row['bytes_per_call']:,.0f} B in {row['allocs_per_call']:,.1f} blocks"
        for row in report.rows
        if row["kind"] in ("unary", "bidi message")
    ]
    return f"Allocated: {'; '.join(parts)}."


def _name(row: Mapping[str, Any]) -> str:
    who = row["server"] if row["side"] == "server" else f"{row['client']} client"
    return f"{who}, {row['kind']}"


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Bytes allocated",
            draw=lambda ax: _draw(report, ax, "bytes_per_call"),
            caption="For each call, and for each message of a stream.",
        ),
        Figure(title="Blocks allocated", draw=lambda ax: _draw(report, ax, "allocs_per_call")),
    ]


def _draw(report: Report, ax: Axes, column: str) -> None:
    places = range(len(report.rows))
    shades = {"server": 0, "client": 1}
    for side, shade in shades.items():
        at = [place for place in places if report.rows[place]["side"] == side]
        ax.barh(at, [report.rows[place][column] for place in at], color=look(shade)["color"], label=side)
    ax.set_yticks(list(places), [_name(row) for row in report.rows])
    ax.invert_yaxis()
    ax.set_xlabel({"bytes_per_call": "bytes", "allocs_per_call": "blocks"}[column])
    ax.legend()


EXPERIMENT = Experiment(
    name="allocations",
    question="What does a call allocate, on the server and on the client?",
    columns=("server", "side", "client", "kind", "bytes_per_call", "allocs_per_call"),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "clients": ["wire", "core"],
        "calls": 1000,
        "messages": 50,
        "size": 16,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "clients": ["wire", "core"],
        "calls": 20_000,
        "messages": 100,
        "size": 16,
    },
    source="left open by the articles",
)
