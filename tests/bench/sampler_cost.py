"""What a Sampler at its default rate takes: CPU of its own and of the server that it asks, as a share of one
CPU, and of the server's throughput, by the median of the paired ratios of loads with and without one. The
first is told well on a busy machine, too. Run by `make bench`."""

import os
import statistics
import time
from pathlib import Path

import grpcperf as gp

ROUNDS = 12
IDLE_S = 5.0
CPUS = sorted(os.sched_getaffinity(0))


def throughput(server: gp.Server) -> float:
    result = gp.load(server, concurrency=64, duration=0.8, warmup=0.2, cpus=[CPUS[-1]])
    assert result.errors == 0
    return result.throughput_rps


def sampled(server: gp.Server) -> float:
    with gp.Sampler(server):
        return throughput(server)


def lost_throughput(server: gp.Server) -> tuple[float, float]:
    """Percent, and its standard error."""
    ratios = []
    for round_ in range(ROUNDS):
        pair = [throughput, sampled] if round_ % 2 else [sampled, throughput]
        rates = {measure: measure(server) for measure in pair}
        ratios.append(rates[sampled] / rates[throughput])
    return 100 * (1 - statistics.median(ratios)), 100 * statistics.stdev(ratios) / len(ratios) ** 0.5


def cpu_taken(server: gp.Server) -> float:
    """Percent of one CPU: of this process, which does nothing else, and of the server."""

    def used() -> float:
        tasks = Path(f"/proc/{server.pid}/task").glob("*/schedstat")
        return time.process_time() + sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    with gp.Sampler(server):
        time.sleep(0.5)
        begin = used()
        time.sleep(IDLE_S)
        return 100 * (used() - begin) / IDLE_S


def main() -> None:
    with gp.Server(model=gp.Async(threads=1), cpus=[CPUS[0]]) as server:
        throughput(server)
        taken = cpu_taken(server)
        lost, error = lost_throughput(server)
    mark = "" if taken <= 1 else "   <-- not reached"
    print(f"a Sampler at 20 Hz: {taken:.2f} % of one CPU (its own and the server's), goal at most 1 %{mark}")
    print(
        f"a Sampler at 20 Hz: {lost:.2f} % of throughput lost (standard error {error:.2f}), goal at most 1 %"
    )


if __name__ == "__main__":
    main()
