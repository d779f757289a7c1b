"""`make bench`: what counting a server's allocations costs it. Not a test: machines are noisy.

Three servers on one CPU take turns, in a new order each round: two as they are, whose ratio tells the noise,
and one whose allocations are counted. `allocations.py 5` runs five rounds, not fifteen.
"""

import os
import random
import statistics
import sys

import grpcperf as gp

CPUS = sorted(os.sched_getaffinity(0))
Rounds = dict[str, list[tuple[float, float]]]
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 15


def paired(rounds: Rounds, name: str, figure: int) -> float:
    """Median over the rounds of this server's figure by the plain one's."""
    return statistics.median(
        a[figure] / b[figure] for a, b in zip(rounds[name], rounds["plain"], strict=True)
    )


def measure(server: gp.Server) -> tuple[float, float]:
    """Calls per second, and the server's CPU per call."""
    result = gp.load(server, concurrency=64, duration=1.0, warmup=0.1, cpus=[CLIENT_CPU])
    assert result.errors == 0
    assert result.server_cpu_us_per_call
    return result.throughput_rps, result.server_cpu_us_per_call


def per_call(server: gp.Server, calls: int = 20_000) -> tuple[float, float, float]:
    """Allocations, frees and bytes of a unary call."""
    before = server.memstats()
    gp.load(server, concurrency=64, calls=calls, warmup=0)
    after = server.memstats()
    counts = [getattr(after, name) - getattr(before, name) for name in ("mallocs", "frees", "total_alloc")]
    return counts[0] / calls, counts[1] / calls, counts[2] / calls


def main() -> None:
    servers = {
        name: gp.Server(model=gp.Async(threads=1), cpus=[SERVER_CPU], count_allocations=name == "counted")
        for name in ("plain", "other", "counted")
    }
    rounds: Rounds = {name: [] for name in servers}
    for name in servers:  # warm
        measure(servers[name])
    for _ in range(ROUNDS):
        for name in random.sample(list(servers), len(servers)):
            rounds[name].append(measure(servers[name]))
    print(f"\nAllocations counted, {ROUNDS} rounds of 64 in flight; medians of paired ratios")
    for figure, what, goal in (
        (0, "calls/s", "at least 0.98"),
        (1, "the server's CPU per call", "at most 1.02"),
    ):
        counted, noise = (paired(rounds, name, figure) for name in ("counted", "other"))
        print(f"{what:<30} {counted:>6.3f} x {goal}; without, against itself {noise:.3f}", flush=True)
    mallocs, frees, size = per_call(servers["counted"])
    print(f"a unary call: {mallocs:.2f} allocations, {frees:.2f} frees, {size / 1000:.2f} kB", flush=True)
    for server in servers.values():
        server.close()


if __name__ == "__main__":
    main()
