"""What a Sampler at its default rate takes of a server's throughput: loads with and without one in turn,
judged by the median of the paired ratios. Run by `make bench`."""

import os
import statistics

import grpcperf as gp

ROUNDS = 12
CPUS = sorted(os.sched_getaffinity(0))


def throughput(server: gp.Server) -> float:
    result = gp.load(server, concurrency=64, duration=0.8, warmup=0.2, cpus=[CPUS[-1]])
    assert result.errors == 0
    return result.throughput_rps


def sampled(server: gp.Server) -> float:
    with gp.Sampler(server):
        return throughput(server)


def main() -> None:
    ratios = []
    with gp.Server(model=gp.Async(threads=1), cpus=[CPUS[0]]) as server:
        throughput(server)
        for round_ in range(ROUNDS):
            pair = [throughput, sampled] if round_ % 2 else [sampled, throughput]
            rates = {measure: measure(server) for measure in pair}
            ratios.append(rates[sampled] / rates[throughput])
    lost = 100 * (1 - statistics.median(ratios))
    spread = 100 * statistics.stdev(ratios) / len(ratios) ** 0.5
    mark = "" if lost - spread <= 1 else "   <-- not reached"
    print(f"a Sampler at 20 Hz takes {lost:.2f} % of throughput (standard error {spread:.2f}); goal 1{mark}")


if __name__ == "__main__":
    main()
