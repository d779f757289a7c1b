"""`grpcperf demo`: the two questions asked first, answered on the native server of this machine in under a
minute.

1. What does a call in flight cost the server? Calls are parked, its memory is read.
2. What does a connection more bring? Throughput and latency over connections, at 64 calls in flight.

Tables come as the rows do; at the end, or when interrupted, everything stands in one HTML page.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from grpcperf.errors import EngineError
from grpcperf.hold import hold
from grpcperf.load import load
from grpcperf.memstats import MemStats
from grpcperf.result import Result
from grpcperf.targets import Async, Server, ThreadPerCall
from grpcperf.units import format_number

KINDS = ("unary", "server_stream", "bidi")
LEVELS = (250, 500, 1000)
CONNECTIONS = (1, 2, 4, 8, 16)
CONCURRENCY = 64
ROUNDS = 3  # what differs between runs is more than what differs inside one
WARMUP_S, DURATION_S = 0.3, 1.0
KIB = 1024.0
SIZES = ("heap", "stack", "total", "sys")


@dataclass(frozen=True, kw_only=True)
class Level:
    """The server with so many calls parked, against the same server with none. KiB per call as plain
    differences."""

    calls: int
    heap: float
    stack: float
    total: float
    sys: float
    tasks_before: int
    tasks_held: int
    tasks_after: int


@dataclass(kw_only=True)
class CallCost:
    """What a call of one kind costs under one model: levels in a fresh server, and the slopes over them, from
    none to the highest, in KiB per call."""

    model: str
    kind: str
    levels: list[Level] = field(default_factory=list)
    slopes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """The median of the rounds, between the least and the most of them; None where no round could tell."""

    median: float | None
    low: float | None
    high: float | None


@dataclass(kw_only=True)
class Point:
    """Loads over so many connections, one for each round."""

    connections: int
    rounds: list[Result] = field(default_factory=list)

    def over_rounds(self, value: Callable[[Result], float | None]) -> Figure:
        known = [number for result in self.rounds if (number := value(result)) is not None]
        return Figure(median(known), min(known), max(known)) if known else Figure(None, None, None)

    @property
    def throughput_rps(self) -> Figure:
        return self.over_rounds(lambda result: result.throughput_rps)

    @property
    def p50(self) -> Figure:
        return self.over_rounds(lambda result: result.latency.p50)

    @property
    def p99(self) -> Figure:
        return self.over_rounds(lambda result: result.latency.p99)

    @property
    def client_cpu_us(self) -> Figure:
        return self.over_rounds(lambda result: result.client_cpu_us_per_call)

    @property
    def server_cpu_us(self) -> Figure:
        return self.over_rounds(lambda result: result.server_cpu_us_per_call)

    @property
    def errors(self) -> int:
        return sum(result.errors for result in self.rounds)


@dataclass(kw_only=True)
class Measured:
    """What the demo has by now. `runs` are the loads of the second part in the order of their time."""

    costs: list[CallCost] = field(default_factory=list)
    runs: list[Result] = field(default_factory=list)
    interrupted: bool = False

    @property
    def points(self) -> list[Point]:
        """The loads by connections, in rising order."""
        points = {result.spec.connections: Point(connections=result.spec.connections) for result in self.runs}
        for result in self.runs:
            points[result.spec.connections].rounds.append(result)
        return [points[connections] for connections in sorted(points)]

    def as_dict(self) -> dict[str, Any]:
        return {
            "memory": [asdict(cost) for cost in self.costs],
            "connections": [result.row() for result in self.runs],
            "interrupted": self.interrupted,
        }


def run(html: str, out: TextIO | None) -> dict[str, Any]:
    """Measure, print tables to `out` (None: nowhere), write the page to `html`; returns everything, for JSON.

    Ctrl-C ends the measuring: what there is goes into the page, and "interrupted" is True. Raises EngineError
    before anything is measured when the page could not be made.
    """
    from grpcperf.demo_page import page
    from grpcperf.report import require_extras, require_writable, write

    require_extras()
    require_writable(Path(html))
    measured = Measured()
    try:
        _measure_calls(measured, out)
        _measure_connections(measured, out)
    except KeyboardInterrupt:
        measured.interrupted = True
        _say(out, "\ninterrupted: the page holds what was measured until then")
    path = write(page(measured), Path(html))
    _say(out, f"\nfigures: {path}")
    return measured.as_dict() | {"html": str(path)}


def _say(out: TextIO | None, text: str) -> None:
    if out is not None:
        print(text, file=out, flush=True)


# --- 1. calls

_CALLS_HEAD = (
    f"{'model':<8}{'kind':<15}{'calls':>7}{'heap':>9}{'stack':>9}{'total':>9}{'sys':>9}"
    f"{'tasks before':>15}{'held':>8}{'after':>8}"
)


def _measure_calls(measured: Measured, out: TextIO | None) -> None:
    _say(out, "1. What a call in flight costs the server, KiB per call\n\n" + _CALLS_HEAD)
    for model in (Async(), ThreadPerCall()):
        for kind in KINDS:
            cost = CallCost(model=str(model), kind=kind)
            measured.costs.append(cost)
            _measure_cost(cost, model, out)
    _say(
        out,
        "\nslope: over 0, " + ", ".join(f"{level:,}" for level in LEVELS) + " calls; total = heap + stack",
    )


def _measure_cost(cost: CallCost, model: Async | ThreadPerCall, out: TextIO | None) -> None:
    """Each level in a server of its own, for memory that one level leaves behind would be missing from the
    next."""
    for calls in LEVELS:
        level = _measure_level(calls, model, cost.kind)
        cost.levels.append(level)
        _say(out, _level_line(cost, level))
    for name in SIZES:
        grown = [getattr(level, name) * level.calls for level in cost.levels]
        cost.slopes[name] = slope((0, *LEVELS), (0.0, *grown))
    _say(out, f"{'':<23}{'slope':>7}" + "".join(f"{cost.slopes[name]:>9.2f}" for name in SIZES))


def _measure_level(calls: int, model: Async | ThreadPerCall, kind: str) -> Level:
    """One call goes first, so that what is paid once is not counted as the calls' own."""
    with Server(model) as server:
        with hold(server, calls=1, kind=kind) as first:
            first.release()
        before = server.memstats(settle=True)
        with hold(server, calls=calls, kind=kind) as held:
            _require_all(held.running, calls)
            reading = server.memstats(settle=True)
            held.release()
        return _level(calls, before, reading, server.memstats(settle=True))


def _require_all(running: int, calls: int) -> None:
    if running != calls:
        raise EngineError(f"{running:,} of {calls:,} calls could be parked; grpcperf doctor tells the limits")


def _sizes(reading: MemStats) -> dict[str, int]:
    """Bytes. The native server knows all of them."""
    heap, stack, everything = reading.heap_alloc, reading.stack_inuse, reading.sys
    assert heap is not None
    assert stack is not None
    assert everything is not None
    return {"heap": heap, "stack": stack, "total": heap + stack, "sys": everything}


def _level(calls: int, before: MemStats, held: MemStats, after: MemStats) -> Level:
    at_rest, loaded = _sizes(before), _sizes(held)
    costs = {name: (loaded[name] - at_rest[name]) / calls / KIB for name in SIZES}
    tasks = [reading.tasks or 0 for reading in (before, held, after)]
    return Level(calls=calls, **costs, tasks_before=tasks[0], tasks_held=tasks[1], tasks_after=tasks[2])


def _level_line(cost: CallCost, level: Level) -> str:
    first = level.calls == LEVELS[0]
    names = f"{cost.model if first else '':<8}{cost.kind if first else '':<15}"
    sizes = "".join(f"{getattr(level, name):>9.2f}" for name in SIZES)
    tasks = f"{level.tasks_before:>15,}{level.tasks_held:>8,}{level.tasks_after:>8,}"
    return f"{names}{level.calls:>7,}{sizes}{tasks}"


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the least-squares line through the points."""
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    along = sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    return along / sum((a - middle_x) ** 2 for a in x)


# --- 2. connections

_CURVE_HEAD = (
    f"{'':<8}{'connections':>11}{'calls/s':>11}{'p50':>11}{'p99':>11}{'errors':>9}"
    f"{'CPU/call client':>18}{'server':>11}"
)


def _measure_connections(measured: Measured, out: TextIO | None) -> None:
    """In rounds, each in an order of its own: what drifts meanwhile then strikes all alike."""
    _say(out, f"\n2. Throughput and latency over connections, {CONCURRENCY} calls in flight\n\n{_CURVE_HEAD}")
    shuffled = random.Random(0)
    with Server() as server:
        for number in range(1, ROUNDS + 1):
            for connections in shuffled.sample(CONNECTIONS, len(CONNECTIONS)):
                result = load(
                    server,
                    connections=connections,
                    concurrency=CONCURRENCY,
                    warmup=WARMUP_S,
                    duration=DURATION_S,
                    transport="core",
                    progress=False,
                )
                measured.runs.append(result)
                one = Point(connections=connections, rounds=[result])
                _say(out, _curve_line(f"round {number}", one))
    for point in measured.points:
        _say(out, _curve_line("median", point))
    for note in notes(measured.runs):
        _say(out, f"  ! {note}")


def _curve_line(name: str, point: Point) -> str:
    return (
        f"{name:<8}{point.connections:>11,}{point.throughput_rps.median:>11,.0f}{_ms(point.p50.median):>11}"
        f"{_ms(point.p99.median):>11}{point.errors:>9,}{_us(point.client_cpu_us.median):>18}"
        f"{_us(point.server_cpu_us.median):>11}"
    )


def _ms(seconds: float | None) -> str:
    return format_number(None) if seconds is None else f"{seconds * 1e3:.2f} ms"


def _us(value: float | None) -> str:
    return format_number(None) if value is None else f"{value:.1f} µs"


def notes(results: Sequence[Result]) -> list[str]:
    """Findings that occur, each once, with the connections of the runs they are of."""
    found: dict[str, tuple[str, list[int]]] = {}
    for result in results:
        for finding in result.findings:
            found.setdefault(finding.code, (str(finding), []))[1].append(result.spec.connections)
    return [
        text if len(where) == len(results) else f"{text} (with {_listed(where)} connections)"
        for text, where in found.values()
    ]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(set(numbers))))
