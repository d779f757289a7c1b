"""Throughput over the number of connections, at a fixed concurrency: what a second connection buys, and a
sixteenth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.curves import CONDITIONS, METRICS, point, request_bytes, times, told, under
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.plot import lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    connections: Sequence[int],
    request_sizes: Sequence[int | str],
    concurrency: int,
    duration: float,
    repeats: int,
    **conditions: Any,
) -> Iterator[Row]:
    """One server for all points; the requests are large or small, the replies small."""
    sizes = [request_bytes(size) for size in request_sizes]
    for server in kit.servers(servers):
        with under(kit, conditions, server, largest=max(sizes, default=0)) as (target, how):
            for size in sizes:
                for count in connections:
                    kit.say(server=server.name, request_size=size, connections=count)
                    asked = {"connections": count, "concurrency": concurrency, "request_size": size}
                    where = f"{server.name}, {count} connections"
                    spec = {**asked, **how, "duration": duration, "warmup": duration / 4}
                    measured = kit.repeat(repeats, lambda: point(kit, target, where, **spec))  # noqa: B023
                    row = {"server": server.name, **asked}
                    yield row | measured | told(conditions)


def verdict(report: Report) -> str:
    """For each server and size: the gain of the best number of connections over one."""
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        for size in dict.fromkeys(row["request_size"] for row in report.rows):
            rows = report.select(server=server, request_size=size)
            if not rows or not rows[0]["throughput_rps"]:
                continue
            parts.append(f"{server} at {size:,} B does most over {_told(rows)}")
    return "; ".join(parts) + "." if parts else "Too little was measured for a verdict."


def _told(rows: Sequence[Mapping[str, Any]]) -> str:
    """The best, and where it is neither, how it stands to the first and the last."""
    first, last, best = rows[0], rows[-1], max(rows, key=lambda row: row["throughput_rps"])
    most, few, many = best["throughput_rps"], first["connections"], last["connections"]
    text = f"{best['connections']} connection{'' if best['connections'] == 1 else 's'}"
    if best is not first:
        text += f", {times(most / first['throughput_rps'])} times what it does over {few}"
    if best is not last:
        text += f", and over {many} {times(last['throughput_rps'] / most)} of it"
    return text


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title=f"{metric}, {size:,} B requests",
            draw=lambda ax, metric=name, size=size: _draw(report, ax, metric, size),  # type: ignore[misc]
        )
        for size in dict.fromkeys(row["request_size"] for row in report.rows)
        for name, metric in (("throughput_rps", "Throughput"), ("latency_p99_us", "Latency p99"))
    ]


def _draw(report: Report, ax: Axes, metric: str, size: int) -> None:
    lines(ax, report.select(request_size=size), "connections", metric, by="server")


EXPERIMENT = Experiment(
    name="connections-curve",
    question="What do more connections buy at the same concurrency?",
    columns=("server", "connections", "concurrency", "request_size", *METRICS),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "connections": [1, 2, 4],
        "request_sizes": [16, "64KiB"],
        "concurrency": 64,
        "duration": 0.25,
        "repeats": 1,
        **CONDITIONS,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go"],
        "connections": [1, 2, 4, 8, 16],
        "request_sizes": [16, "64KiB"],
        "concurrency": 64,
        "duration": 2.0,
        "repeats": 5,
        **CONDITIONS,
    },
    source="10 cores, 16 B: 90,934 · 113,914 · 118,308 · 111,613 · 106,106 calls/s over 1 to 16 connections; "
    "64 KiB: 21,902 → 28,625",
)
