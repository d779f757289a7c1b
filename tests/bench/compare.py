"""`make bench`: grpcperf beside other load generators, as one table. Not a test: machines are noisy.

In each part all tools take turns, in a new order each round; figures are medians over the rounds, and ratios
those of the paired rounds. Clients are pinned to the last CPU. The server's two threads have all CPUs, as a
server would; pinned to another CPU than the client it answers in smaller batches, a client wakes for each few
calls, and what is compared is the kernel waking it. The mirror, to be no bottleneck, has the first CPU.
Tools that are missing are named; `make bench-deps` installs them. `compare.py 2` runs two rounds, not five.
"""

import os
import random
import statistics
import sys
from collections.abc import Callable, Sequence

from peers import Figure, H2load, Job, Ours, Peer, peers

import grpcperf as gp

CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5

Rounds = dict[str, list[Figure]]


def take_turns(address: str, job: Job, among: Sequence[Peer]) -> Rounds:
    """Each peer once a round; one that fails is told of and left out from then on."""
    rounds: Rounds = {peer.name: [] for peer in among}
    for _ in range(ROUNDS):
        for peer in random.sample([peer for peer in among if peer.name in rounds], len(rounds)):
            try:
                rounds[peer.name].append(peer.run(address, job))
            except Exception as error:
                print(f"  {peer.name} failed: {error}", flush=True)
                del rounds[peer.name]
    return rounds


def median(figures: Sequence[Figure], of: Callable[[Figure], float]) -> float:
    return statistics.median(of(figure) for figure in figures)


def ratio(rounds: Rounds, of: Callable[[Figure], float], other: str) -> float | None:
    """Ours by the other's: median over pairs."""
    pairs = zip(rounds.get("wire", []), rounds.get(other, []), strict=False)
    found = [of(a) / of(b) for a, b in pairs]
    return statistics.median(found) if found else None


def calls_per_s(figure: Figure) -> float:
    return figure.calls_per_s


def cpu_per_call(figure: Figure) -> float:
    return figure.cpu_us_per_call


def mib_per_s(figure: Figure) -> float:
    return figure.mib_per_s


def cpu_per_mib(figure: Figure) -> float:
    return figure.cpu_us_per_mib


def table(title: str, rounds: Rounds, among: Sequence[Peer], unit: str) -> None:
    rate, cost = (calls_per_s, cpu_per_call) if unit == "call" else (mib_per_s, cpu_per_mib)
    names = {"call": "calls/s", "MiB": "MiB/s"}
    print(f"\n{title}\n{'':<16}{names[unit]:>12}{f'CPU µs/{unit}':>14}{'CPU of wire':>16}")
    for peer in among:
        if figures := rounds.get(peer.name):
            share = ratio(rounds, cost, peer.name)
            beside = "" if share is None or peer.name == "wire" else f"1/{1 / share:.1f}"
            line = (
                f"{peer.name:<16}{median(figures, rate):>12,.0f}{median(figures, cost):>14,.3f}{beside:>16}"
            )
            print(f"{line}   {peer.remark}".rstrip(), flush=True)


def goal(what: str, found: float | None, bound: float, *, least: bool = False) -> None:
    if found is None:
        print(f"  {what}: not known", flush=True)
        return
    reached = found >= bound if least else found <= bound
    word = "at least" if least else "at most"
    mark = "" if reached else "   <-- not reached"
    print(f"  {what:<70}{found:>8.3g}  {word} {bound:.3g}{mark}", flush=True)


# --- parts


def small_calls(among: Sequence[Peer]) -> None:
    job = Job(in_flight=64, cpu=CLIENT_CPU)
    with gp.Server(model=gp.Async(threads=2), cpus=CPUS) as server:
        rounds = take_turns(server.address, job, among)
    table("16 B unary, 1 connection, 64 in flight, C-core server with 2 threads", rounds, among, "call")
    for other, bound in (("h2load", 0.35), ("core", 1 / 12), ("ghz", 1 / 35)):
        goal(f"CPU per call, wire by {other}", ratio(rounds, cpu_per_call, other), bound)


def ceiling(among: Sequence[Peer]) -> None:
    chosen = [peer for peer in among if isinstance(peer, H2load) or peer.name == "wire"]
    with gp.Mirror(cpus=[SERVER_CPU]) as mirror:
        rounds = take_turns(mirror.address, Job(in_flight=1000, cpu=CLIENT_CPU), chosen)
        more = take_turns(mirror.address, Job(in_flight=10_000, cpu=CLIENT_CPU), [Ours("wire")])
    table("16 B unary, 1 connection, 1,000 in flight, mirror", rounds, chosen, "call")
    goal("calls/s, wire by h2load", ratio(rounds, calls_per_s, "h2load"), 6, least=True)
    wire, crowded = rounds.get("wire"), more.get("wire")
    goal("CPU per call of wire, ns", median(wire, cpu_per_call) * 1e3 if wire else None, 100)
    growth = median(crowded, cpu_per_call) / median(wire, cpu_per_call) if wire and crowded else None
    goal("CPU per call of wire, 10,000 in flight by 1,000", growth, 1.3)


def large_messages(among: Sequence[Peer]) -> None:
    job = Job(in_flight=8, size=64 << 10, cpu=CLIENT_CPU)
    with gp.Server(model=gp.Async(threads=2), cpus=CPUS) as server:
        rounds = take_turns(server.address, job, among)
    table("64 KiB echo, 1 connection, 8 in flight, C-core server with 2 threads", rounds, among, "MiB")
    goal("MiB/s, wire by h2load", ratio(rounds, mib_per_s, "h2load"), 1.2, least=True)
    goal("CPU per MiB, wire by h2load", ratio(rounds, cpu_per_mib, "h2load"), 0.7)


if __name__ == "__main__":
    print(f"Load generators, {ROUNDS} rounds")
    print(f"  CPUs: server on {CPUS}, mirror on {SERVER_CPU}, client on {CLIENT_CPU}")
    there = []
    for peer in peers(SERVER_CPU):
        version = peer.version()
        print(f"  {peer.name:<16}{version or 'missing: make bench-deps installs it'}", flush=True)
        if version:
            there.append(peer)
    for part in (small_calls, ceiling, large_messages):
        part(there)
