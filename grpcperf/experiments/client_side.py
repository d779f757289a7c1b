"""What a call in flight costs the client: memory and CPU, of our lean client, of gRPC C core and of grpc-go.

Left open by the article, which measured the server. Memory is that of clients in processes of their own,
which hold nothing else; the CPU of wire and core is that of their threads in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from grpcperf import goclient, units
from grpcperf.experiments.clients import CLIENT_IS_MEASURED, await_running, go_holding, holding
from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.readings import at_rest, kib_each, known, require_running
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero, logarithmic
from grpcperf.load import load
from grpcperf.memstats import MemStats
from grpcperf.plot import lines
from grpcperf.spec import TRANSPORTS
from grpcperf.targets import Measurable, Server
from grpcperf.targets.go import DEFAULT_VERSION

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def measure(
    kit: Kit, *, clients: Sequence[str], calls: Sequence[int], duration: float, repeats: int
) -> Iterator[Row]:
    """Memory: a client that holds so many calls against one that holds one, so two at least. CPU: a load with
    so many in flight. The server is a native one."""
    wanted = [units.one_of(client, "client", (*TRANSPORTS, goclient.NAME)) for client in clients]
    many = [units.count(count, "calls", low=2) for count in calls]
    with Server() as target:
        for client in wanted:
            if client == goclient.NAME and not kit.has_go_client(client, DEFAULT_VERSION):
                continue
            for count in many:
                kit.say(client=client, calls=count)
                row = kit.repeat(repeats, lambda: _one(kit, target, client, count, duration))  # noqa: B023
                yield {"client": client, "calls": count, **row}


def _one(kit: Kit, target: Measurable, client: str, calls: int, duration: float) -> Row:
    bare = _held(kit, target, client, 1)
    many = _held(kit, target, client, calls)
    return {
        "kib_per_call": kib_each(bare, many, calls - 1, "rss_anon"),
        "heap_kib_per_call": kib_each(bare, many, calls - 1, "heap_alloc"),
        "cpu_us_per_call": _cpu_us(kit, target, client, calls, duration),
        "threads": many.threads,
    }


def _held(kit: Kit, target: Measurable, client: str, calls: int) -> MemStats:
    """The memory of a process that holds calls in the server. Go's own heap cannot be counted from
    outside."""
    if client == goclient.NAME:
        process = go_holding(target, calls)
    else:
        process = holding(target, calls, "--transport", client, memstats="preload")
    with process:
        require_running(kit, f"{client} client", await_running(target, process, calls), calls)
        return at_rest(kit, f"{client} client", process)


def _cpu_us(kit: Kit, target: Measurable, client: str, calls: int, duration: float) -> float | None:
    """CPU of the client for each call, with so many in flight."""
    warmup = duration / 3
    if client == goclient.NAME:
        _, result = goclient.measured(target, workers=calls, duration=duration, warmup=warmup)
    else:
        result = load(target, transport=client, concurrency=calls, duration=duration, warmup=warmup)
    kit.note(result, f"{client}, {calls:,} calls", ignore=CLIENT_IS_MEASURED)
    return result.client_cpu_us_per_call


def verdict(report: Report) -> str:
    most = max(row["calls"] for row in report.rows)
    parts = [
        f"{row['client']} {_told(row['kib_per_call'], 'KiB')}, {_told(row['cpu_us_per_call'], 'µs of CPU')}"
        for row in report.select(calls=most)
    ]
    return f"With {most:,} calls in flight each costs its client: {'; '.join(parts)}."


def _told(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:.2f} {unit}"


def figures(report: Report) -> list[Figure]:
    drawn = {
        "kib_per_call": Figure(
            title="Memory of a call, in the client",
            draw=lambda ax: _draw(report, ax, "kib_per_call", "KiB per call"),
            caption="Resident memory of the process.",
        ),
        "cpu_us_per_call": Figure(
            title="CPU of a call, in the client",
            draw=lambda ax: _draw(report, ax, "cpu_us_per_call", "µs per call"),
            caption="With so many in flight.",
        ),
    }
    return [figure for column, figure in drawn.items() if has(report, column)]


def _draw(report: Report, ax: Axes, column: str, label: str) -> None:
    lines(ax, report.rows, "calls", column, by="client")
    ax.set_xlabel("calls in flight")
    values = known(row[column] for row in report.rows)
    ax.autoscale(axis="y")  # not from 0, which a logarithmic axis has not
    (logarithmic if min(values) > 0 else from_zero)(ax, label)


EXPERIMENT = Experiment(
    name="client-side",
    question="What does a call in flight cost the client?",
    columns=("client", "calls", "kib_per_call", "heap_kib_per_call", "cpu_us_per_call", "threads"),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={"clients": ["wire", "core", "grpc-go"], "calls": [250, 1000], "duration": 0.3, "repeats": 1},
    full={
        "clients": ["wire", "core", "grpc-go"],
        "calls": [100, 1000, 10_000],
        "duration": 5.0,
        "repeats": 3,
    },
    source="left open by the article; measured before: wire 149 B per call, a C-core client 15.0 KB",
)
