"""Throughput over the number of threads of the server (GOMAXPROCS of a Go server), pinned to CPUs and not;
and whether the advice to have a few more of them than CPUs holds here."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.curves import times
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.places import Places, can_pin, places
from grpcperf.experiments.readings import known, pause_mean_us
from grpcperf.experiments.report import Report
from grpcperf.load import load
from grpcperf.plot import lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.experiments.kit import ServerKind

ADVISED = (1.2, 1.5)  # threads for each CPU, from and to


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    threads: Sequence[int],
    per_cpu: Sequence[float],
    pinned: Sequence[bool],
    concurrency: int,
    request_size: int,
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """A server of its own for each number of threads: those of `threads`, and those of `per_cpu` for each CPU
    that the server may run on. Pinned: server and client on CPUs of their own, where there are two or
    more."""
    for server in kit.servers(servers):
        if not server.is_go and server.name != "native":
            kit.skip(server.name, "its threads cannot be set")
            continue
        for pin in pinned:
            where = places(kit, pinned=pin)
            if pin and not can_pin():
                continue
            cpus = len(where.server or os.sched_getaffinity(0))
            for count in sorted({*threads, *(_whole(cpus * share) for share in per_cpu)}):
                kit.say(server=server.name, threads=count, pinned=pin)

                def one(count: int = count, where: Places = where) -> Row:
                    asked = {"concurrency": concurrency, "request_size": request_size}
                    return _one(kit, server, count, where, asked, duration)  # noqa: B023

                about = {"server": server.name, "threads": count, "pinned": pin, "cpus": cpus}
                yield about | kit.repeat(repeats, one)


def _whole(threads: float) -> int:
    """A half thread is one: of two CPUs the advice is to have more than two."""
    return max(1, math.floor(threads + 0.5))


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
    return {
        "throughput_rps": row["throughput_rps"],
        "latency_p99_us": row["latency_p99_us"],
        "gc_pause_mean_us": pause_mean_us(before, after),  # the warm-up's too
        "server_cpu_us_per_call": row["server_cpu_us_per_call"],
        "errors": row["errors"],
    }


def verdict(report: Report) -> str:
    """Which number of threads did most, and what those of the advice did against one for each CPU."""
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = report.select(server=server, pinned=False) or report.select(server=server)
        best = max(rows, key=lambda row: row["throughput_rps"])
        parts.append("; ".join([f"{server} does most with {best['threads']} threads", *_advice(rows)]))
    return "; ".join(parts) + "."


def _advice(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    even = next((row for row in rows if row["threads"] == row.get("cpus")), None)
    if even is None or not even["throughput_rps"]:
        return []
    low, high = (_whole(share * even["cpus"]) for share in ADVISED)
    advised = [row for row in rows if even["threads"] < row["threads"] and low <= row["threads"] <= high]
    return [
        f"{row['threads']} as advised do {times(row['throughput_rps'] / even['throughput_rps'])} times what "
        f"{even['threads']} (one a CPU) do, {_against(even, row)}"
        for row in advised
    ]


def _against(even: Mapping[str, Any], advised: Mapping[str, Any]) -> str:
    """By the intervals over repeats: what may be either is the same."""
    bounds = known(row.get(f"throughput_rps_{end}") for row in (even, advised) for end in ("low", "high"))
    if len(bounds) < 4:
        return "which one repeat cannot tell from the same"
    even_low, even_high, low, high = bounds
    if low > even_high:
        return "which is better"
    return "which is worse" if high < even_low else "the same as far as the repeats can tell"


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
        "per_cpu": [1.0],
        "pinned": [False, True],
        "concurrency": 100,
        "request_size": 512,
        "duration": 0.25,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "threads": [1, 2, 4, 8, 16],
        "per_cpu": [1.0, 1.25, 1.5],
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
