"""Throughput over the number of threads of the server (GOMAXPROCS of a Go server), pinned to CPUs and not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.curves import times
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.places import Places, places
from grpcperf.experiments.report import Report
from grpcperf.load import load
from grpcperf.plot import lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.experiments.kit import ServerKind


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    threads: Sequence[int],
    pinned: Sequence[bool],
    concurrency: int,
    request_size: int,
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """A server of its own for each number of threads. Pinned: server and client on CPUs of their own, where
    there are two or more."""
    for server in kit.servers(servers):
        if not server.is_go and server.name != "native":
            kit.skip(server.name, "its threads cannot be set")
            continue
        for pin in pinned:
            where = places(kit, pinned=pin)
            if pin and where == Places():
                continue
            for count in threads:
                kit.say(server=server.name, threads=count, pinned=pin)

                def one(count: int = count, where: Places = where) -> Row:
                    asked = {"concurrency": concurrency, "request_size": request_size}
                    return _one(kit, server, count, where, asked, duration)  # noqa: B023

                yield {"server": server.name, "threads": count, "pinned": pin, **kit.repeat(repeats, one)}


def _one(
    kit: Kit, server: ServerKind, threads: int, where: Places, asked: dict[str, Any], duration: float
) -> Row:
    with server.start(
        go={"gomaxprocs": threads}, native={"model": f"async:{threads}"}, cpus=where.server
    ) as target:
        before = target.memstats()
        result = load(target, cpus=where.client, duration=duration, warmup=duration / 4, **asked)
        after = target.memstats()
    kit.note(result, f"{server.name}, {threads} threads")
    row = result.row()
    collections = (after.num_gc or 0) - (before.num_gc or 0)
    pause_ns = (after.pause_total_ns or 0) - (before.pause_total_ns or 0)
    return {
        "throughput_rps": row["throughput_rps"],
        "latency_p99_us": row["latency_p99_us"],
        "gc_pause_mean_us": pause_ns / collections / 1e3 if collections else None,
        "server_cpu_us_per_call": row["server_cpu_us_per_call"],
        "errors": row["errors"],
    }


def verdict(report: Report) -> str:
    """The advice "1.2 to 1.5 for each core" is judged by whether more threads than CPUs did better than as
    many."""
    cpus = report.environment.get("cpus_allowed") or 0
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = report.select(server=server, pinned=False) or report.select(server=server)
        best = max(rows, key=lambda row: row["throughput_rps"])
        told = f"{server} does most with {best['threads']} threads"
        even = [row for row in rows if row["threads"] == cpus]
        more = [row for row in rows if row["threads"] > cpus]
        if even and more and even[0]["throughput_rps"]:
            gain = max(row["throughput_rps"] for row in more) / even[0]["throughput_rps"]
            told += (
                f", and at best {times(gain)} times as much with more threads than with {cpus} (one a CPU)"
            )
        parts.append(told)
    return "; ".join(parts) + "."


def figures(report: Report) -> list[Figure]:
    return [Figure(title="Throughput over threads", draw=lambda ax: _draw(report, ax))]


def _draw(report: Report, ax: Axes) -> None:
    rows = [{**row, "series": row["server"] + (", pinned" if row["pinned"] else "")} for row in report.rows]
    lines(ax, rows, "threads", "throughput_rps", by="series")


EXPERIMENT = Experiment(
    name="server-threads",
    question="How many threads should a server have?",
    columns=("server", "threads", "pinned", "throughput_rps", "latency_p99_us", "gc_pause_mean_us"),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "threads": [1, 2, 4],
        "pinned": [False, True],
        "concurrency": 100,
        "request_size": 512,
        "duration": 0.25,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "threads": [1, 2, 4, 8, 16],
        "pinned": [False, True],
        "concurrency": 100,
        "request_size": 512,
        "duration": 2.0,
        "repeats": 5,
    },
    source="GOMAXPROCS 2, 8, 16: 12,480 · 28,910 · 29,350 calls/s, p99 18.3 · 11.7 · 12.1 ms, "
    "GC 124 · 218 · 302 µs; "
    "its advice was 1.2 to 1.5 for each core",
)
