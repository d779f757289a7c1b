"""What many waiting calls cost by the number of threads that may run them: each waits, wakes up, answers, and
another takes its place. A light load beside them tells what they do to others.

Left open by the article, whose calls only waited, on one setting of GOMAXPROCS. Wake-ups come at random
moments (a Poisson process), or all calls would wake at the same one for ever. How late a call wakes is not
told: a histogram has three digits, which of a wait of seconds are milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.places import Places, places
from grpcperf.experiments.readings import microseconds, switches, switches_per_call
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero, steps_axis
from grpcperf.load import load, start
from grpcperf.plot import lines
from grpcperf.result import Result
from grpcperf.targets import Async

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEAR = 1.5  # a p99 within so many times the best one is as good, for p99 varies from run to run
ROOM = 4  # calls that may be in flight, as a multiple of those that should be


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    threads: Sequence[int],
    calls: int,
    wait_s: float,
    rate: float,
    duration: float,
    pinned: bool,
    repeats: int,
) -> Iterator[Row]:
    """`calls` in flight on average, each for `wait_s`: by Little's law they come, and wake, at the rate
    calls / wait_s. `threads` are GOMAXPROCS, or completion-queue threads. The light load is an open loop of
    `rate` calls per second that do not wait. Pinned: server and clients on CPUs of their own."""
    where = places(kit, pinned=pinned)
    for server in kit.servers(servers):
        if not server.is_go and server.name != "native":
            kit.skip(server.name, "the threads that its calls run on cannot be set")
            continue
        for count in threads:
            kit.say(server=server.name, threads=count)
            plan = (calls, wait_s, rate, duration)
            row = kit.repeat(repeats, lambda: _one(kit, server, count, where, *plan))  # noqa: B023
            about = {"server": server.name, "calls": calls, "threads": count}
            yield about | {"wakes_per_s": calls / wait_s} | row


def _one(
    kit: Kit,
    server: ServerKind,
    threads: int,
    where: Places,
    calls: int,
    wait_s: float,
    rate: float,
    duration: float,
) -> Row:
    warmup = 1.25 * wait_s  # by then as many are in flight as will be
    with (
        server.start(
            native={"model": Async(threads)}, go={"gomaxprocs": threads}, cpus=where.server
        ) as target,
        start(
            target,
            rate=calls / wait_s,
            max_in_flight=calls * ROOM,
            cpus=where.client,
            metadata={"grpcperf-delay-us": round(wait_s * 1e6)},
            warmup=warmup,
            duration=duration,
            drain=2 * wait_s + 1,
        ) as waiting,
    ):
        time.sleep(warmup)
        before = switches(target)
        probe = load(target, rate=rate, cpus=where.client, warmup=0, duration=duration)
        after = switches(target)
        result = waiting.result()
    kit.note(probe, f"{server.name}, {threads} threads, the light load")
    kit.note(result, f"{server.name}, {threads} threads, those that wait")
    return {
        "latency_p50_us": microseconds(probe.latency.p50),
        "latency_p99_us": microseconds(probe.latency.p99),
        "server_cpu_us_per_call": _cpu_us(result, probe),
        "context_switches_per_call": switches_per_call(before, after),
    }


def _cpu_us(waiting: Result, probe: Result) -> float | None:
    """Of all calls in that time: of those that wait, and of the light load, which may be as many."""
    calls = waiting.all_in_window + probe.all_in_window
    return None if waiting.server_cpu_s is None or not calls else waiting.server_cpu_s / calls * 1e6


def verdict(report: Report) -> str:
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = [row for row in report.select(server=server) if row["latency_p99_us"] is not None]
        if not rows:
            continue
        told = [f"{_told(row)} on {row['threads']}" for row in rows]
        best = min(row["latency_p99_us"] for row in rows)
        enough = min(row["threads"] for row in rows if row["latency_p99_us"] <= NEAR * best)
        advice = f", so {enough} {'is' if enough == 1 else 'are'} enough" if report.valid else ""
        parts.append(f"{server} {', '.join(told)}{advice}")
    if not report.valid:
        parts.append("the run was disturbed, so that these p99 recommend no number of threads")
    first = report.rows[0]
    return (
        f"With {first['calls']:,} calls that wake {first['wakes_per_s']:,.0f} times a second, p99 of a light "
        f"load (and CPU of a call) by threads: {'; '.join(parts)}."
    )


def _told(row: Mapping[str, Any]) -> str:
    cpu = row["server_cpu_us_per_call"]
    return f"{row['latency_p99_us']:,.0f} µs" + ("" if cpu is None else f" ({cpu:.1f} µs)")


def figures(report: Report) -> list[Figure]:
    drawn = {
        "latency_p99_us": Figure(
            title="A light load beside calls that wake up",
            draw=lambda ax: _draw(report, ax, "latency_p99_us", "latency p99 (µs)"),
        ),
        "server_cpu_us_per_call": Figure(
            title="CPU of a call, of those that wait and the light load's",
            draw=lambda ax: _draw(report, ax, "server_cpu_us_per_call", "server CPU per call (µs)"),
        ),
    }
    return [figure for column, figure in drawn.items() if has(report, column)]


def _draw(report: Report, ax: Axes, column: str, label: str) -> None:
    lines(ax, report.rows, "threads", column, by="server")
    steps_axis(ax, sorted({row["threads"] for row in report.rows}), "threads, or GOMAXPROCS")
    from_zero(ax, label)


EXPERIMENT = Experiment(
    name="parked-cores",
    question="How many threads do calls need that mostly wait?",
    columns=(
        *("server", "calls", "threads", "wakes_per_s", "latency_p50_us", "latency_p99_us"),
        *("server_cpu_us_per_call", "context_switches_per_call"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "threads": [1, 2, 4],
        "calls": 500,
        "wait_s": 0.2,
        "rate": 2500.0,
        "duration": 0.5,
        "pinned": True,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "threads": [1, 2, 4, 8],
        "calls": 10_000,
        "wait_s": 4.0,
        "rate": 2000.0,
        "duration": 5.0,
        "pinned": True,
        "repeats": 3,
    },
    source="left open by the article",
)
