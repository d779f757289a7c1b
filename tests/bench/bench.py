"""`make bench`: what grpcperf promises about its own speed, as one table. Not a test: machines are noisy.

Comparisons interleave A and B in one run, pinned to CPUs where there are two, and are judged by the median of
the paired ratios. Run it through make, which gives it a release build of the package (PYTHONPATH) and of the
C comparisons.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpcperf as gp
from grpcperf import _engine

BARE = Path("build/bench/tests/bench/bare_core_client")
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]


def row(what: str, figure: float, unit: str, goal: float) -> None:
    """One line of the table: a figure, and what it should be at most."""
    mark = "" if figure <= goal else "   <-- not reached"
    print(f"{what:<72} {figure:>8.3g} {unit:<3} at most {goal:>4.4g}{mark}", flush=True)


def median_of(times: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(times))


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


@contextmanager
def pinned_server(**kw: object) -> Iterator[gp.Server]:
    with gp.Server(model=gp.Async(threads=1), cpus=[SERVER_CPU], **kw) as server:
        yield server


# --- the core transport against a bare completion-queue client


def cpu_of_ours(server: gp.Server) -> float:
    result = gp.load(server, concurrency=64, duration=1.0, warmup=0.2, transport="core", cpus=[CLIENT_CPU])
    assert result.errors == 0
    assert result.client_cpu_us_per_call
    return result.client_cpu_us_per_call


def cpu_of_bare(server: gp.Server) -> float:
    command = ["taskset", "-c", str(CLIENT_CPU), str(BARE), server.address, "64", "1.0"]
    return float(json.loads(subprocess.check_output(command))["cpu_us_per_call"])


def core_against_bare(rounds: int = 9) -> None:
    # C core's own threads must sit where the bare client's do.
    os.sched_setaffinity(0, [CLIENT_CPU])
    with pinned_server() as server:
        cpu_of_ours(server), cpu_of_bare(server)
        pairs = [(cpu_of_ours(server), cpu_of_bare(server)) for _ in range(rounds)]
    os.sched_setaffinity(0, CPUS)
    ours, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    row(f"core transport, CPU per call against bare client ({ours:.2f} / {bare:.2f} µs)", ratio, "x", 1.15)


# --- start-up and sampling


def import_time() -> None:
    def python(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-P", "-c", code], check=True))

    pairs = [(python("import grpcperf"), python("pass")) for _ in range(15)]
    row("import grpcperf, above bare Python", statistics.median(a - b for a, b in pairs) * 1e3, "ms", 50)


def ready_time() -> None:
    def start() -> float:
        begin = time.perf_counter()
        with gp.Server():
            return time.perf_counter() - begin

    row("server ready", median_of(11, start) * 1e3, "ms", 150)


def memstats_time() -> None:
    with gp.Server() as server:
        row("memstats()", median_of(50, lambda: seconds(server.memstats)) * 1e3, "ms", 5)


# --- parked calls and connections


def parked_calls(calls: int = 10_000) -> None:
    with gp.Server() as server:
        before = server.memstats(settle=True).tasks
        with gp.hold(server, calls=calls, transport="core", timeout=60) as held:
            assert held.running == calls
            park_s = held.entered_s
            release_s = seconds(held.release)
        time.sleep(0.2)
        left = server.memstats(settle=True).tasks - before
    row(f"{calls:,} calls parked on one connection", park_s, "s", 3)
    row(f"{calls:,} calls released", release_s, "s", 3)
    row("tasks of the server above its baseline afterwards", left, "", 0)


def connections(count: int = 1000) -> None:
    with gp.Server() as server:
        before = len(os.listdir(f"/proc/{server.pid}/fd"))
        run = gp.start(server, connections=count, concurrency=count, calls=count, warmup=0, transport="core")
        result = run.result()
        row(f"{count:,} connections opened", result.row()["connect_s"], "s", 3)
        with gp.hold(server, calls=count, connections=count, transport="core", timeout=30):
            counted = len(os.listdir(f"/proc/{server.pid}/fd")) - before  # a descriptor each
    row(f"{count:,} connections, off by (counted by the kernel)", abs(counted - count), "", 0)


if __name__ == "__main__":
    core = _engine.versions()["grpc"]
    print(f"gRPC C core {core}, {len(CPUS)} CPUs, server on {SERVER_CPU}, client on {CLIENT_CPU}")
    for part in (core_against_bare, import_time, ready_time, memstats_time, parked_calls, connections):
        part()
