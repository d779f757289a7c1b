"""`make bench`: what a message of a ping-pong stream costs the client beside a unary call, at 1 to 10,000 of
them at once. Not a test: machines are noisy.

Twice: of a connection by itself, in memory (connection_loop.c: the best of many rounds, for other work only
ever adds), and of the whole client against the mirror (CPU of the client's thread, medians of interleaved
rounds). With few at once it is the kernel that costs: each message, or call, then is a wake-up and two system
calls of its own.
"""

import json
import os
import statistics
import subprocess

import grpcperf as gp

LOOP = "build/bench/tests/bench/connection_loop"
COUNTS = (1, 100, 10_000)
ROUNDS = 5
CPUS = sorted(os.sched_getaffinity(0))

Costs = dict[tuple[str, int], float]  # ns per call or message, by kind and number at once


def in_memory() -> Costs:
    command = ["taskset", "-c", str(CPUS[-1]), LOOP, *map(str, COUNTS)]
    lines = subprocess.check_output(command, text=True).splitlines()
    return {(one["kind"], one["at_once"]): one["ns"] for one in map(json.loads, lines)}


def cost(mirror: gp.Mirror, kind: str, at_once: int) -> float:
    result = gp.load(mirror, kind=kind, concurrency=at_once, duration=0.5, warmup=0.2, cpus=[CPUS[-1]])
    assert result.errors == 0
    assert result.client_cpu_s
    return 1e9 * result.client_cpu_s / result.messages_received


def against_the_mirror() -> Costs:
    keys = [(kind, at_once) for at_once in COUNTS for kind in ("unary", "bidi")]
    with gp.Mirror(cpus=CPUS[:1]) as mirror:
        rounds = [{key: cost(mirror, *key) for key in keys} for _ in range(ROUNDS)]
    return {key: statistics.median(costs[key] for costs in rounds) for key in keys}


def table(title: str, costs: Costs) -> None:
    print(
        f"\n{title}\n{'at once':>10}{'ns/unary call':>16}{'ns/ping-pong message':>24}{'message by call':>18}"
    )
    for at_once in COUNTS:
        call, message = costs["unary", at_once], costs["bidi", at_once]
        mark = "" if message <= call else "   <-- not reached: at most 1"
        print(f"{at_once:>10,}{call:>16,.1f}{message:>24,.1f}{message / call:>18.2f}{mark}", flush=True)
    growth = costs["bidi", 10_000] / costs["bidi", 100]
    mark = "" if growth <= 1.5 else "   <-- not reached"
    print(f"  a message at 10,000 streams by one at 100: {growth:.2f}, at most 1.5{mark}", flush=True)


if __name__ == "__main__":
    table("Ping-pong streams and unary calls, a connection in memory", in_memory())
    table("Ping-pong streams and unary calls, client and mirror", against_the_mirror())
