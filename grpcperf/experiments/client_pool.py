"""A client's connections and callers: whether one connection serves more callers faster, or a pool of them
does, and what the client pays for it. Our lean client, gRPC C core's and grpc-go's side by side.

In the figures published throughput fell as callers were added to one connection. The reason given is a lock
that each send takes so that calls can be sent again: so retries are measured on and off.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpcperf import goclient, machine
from grpcperf.errors import InvalidRequest
from grpcperf.experiments.clients import CLIENT_IS_MEASURED
from grpcperf.experiments.curves import times
from grpcperf.experiments.drawing import over_names
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero
from grpcperf.load import load
from grpcperf.spec import PICKS, TRANSPORTS
from grpcperf.stats import paired_ratio
from grpcperf.targets import Measurable
from grpcperf.targets.go import DEFAULT_VERSION
from grpcperf.units import count as whole
from grpcperf.units import one_of, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WARM_UP = 1000  # calls
ALIKE = ("server", "connections", "workers", "pick", "retries", "calls")  # what a pair of a client's rows is
BETTER = 1.1  # times as much: less may be the machine's doing


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to be measured. `retries` is None of a client that has no such option."""

    client: str
    connections: int
    workers: int
    pick: str
    retries: bool | None


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    clients: Sequence[str],
    points: Sequence[str],
    picks: Sequence[str],
    retries: Sequence[bool],
    calls: Sequence[int],
    repeats: int,
) -> Iterator[Row]:
    """Each client at each point ("50x250": 250 workers share 50 connections). Retries are varied with one
    connection, picks at the last point, and elsewhere both are the first of their list. What is varied at a
    point is measured in turn from either end, so that neither always comes first."""
    arms = _arms(list(_had_here(kit, clients)), [_point(text) for text in points], picks, retries)
    for server in kit.servers(servers):
        with server.start() as target:
            for arm in {arm.client: arm for arm in reversed(arms)}.values():
                _one(kit, target, arm, WARM_UP)  # what a process does once is not measured
            for turn, number in enumerate(calls):
                for at, (_, alike) in enumerate(itertools.groupby(arms, key=_place)):
                    group = list(alike)
                    rows: dict[Arm, Row] = {}
                    for arm in group if (turn + at) % 2 == 0 else reversed(group):
                        kit.say(**vars(arm), calls=number)
                        rows[arm] = kit.repeat(repeats, lambda: _one(kit, target, arm, number))  # noqa: B023
                    for arm in group:
                        yield {"server": server.name, **vars(arm), "calls": number, **rows[arm]}


def _place(arm: Arm) -> tuple[str, int, int]:
    return arm.client, arm.connections, arm.workers


def _had_here(kit: Kit, clients: Sequence[str]) -> Iterator[str]:
    for client in clients:
        if client.partition("@")[0] != goclient.NAME:
            yield one_of(client, "client", (*TRANSPORTS, goclient.NAME))
            continue
        if kit.has_go_client(client, _version(client)):
            yield client


def _version(client: str) -> str:
    return client.partition("@")[2] or DEFAULT_VERSION


def _point(text: Any) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text) if isinstance(text, str) else None
    if not found:
        raise InvalidRequest(f'points must be texts as "50x250", connections and workers, not {shown(text)}')
    return whole(found[1], "connections"), whole(found[2], "workers")


def _arms(
    clients: Sequence[str], points: Sequence[tuple[int, int]], picks: Sequence[str], retries: Sequence[bool]
) -> list[Arm]:
    found = []
    for client in clients:
        known: Sequence[bool | None] = [None] if client == "wire" else retries
        for at, (connections, workers) in enumerate(points):
            last = at == len(points) - 1 and connections > 1
            found += [
                Arm(client=client, connections=connections, workers=workers, pick=pick, retries=again)
                for again in (known if connections == 1 else known[:1])
                for pick in (picks if last else picks[:1])
            ]
    return [arm for arm in found if one_of(arm.pick, "pick", PICKS)]


def _one(kit: Kit, target: Measurable, arm: Arm, calls: int) -> Row:
    before = _ticks()
    how = {"connections": arm.connections, "calls": calls, "warmup": 0, "pick": arm.pick}
    by_go = arm.client.partition("@")[0] == goclient.NAME
    row = _by_go(kit, target, arm, how) if by_go else _by_engine(kit, target, arm, how)
    after = _ticks()
    total = sum(after) - sum(before)
    cpu, window = row["client_cpu_s"], row["window_s"]
    columns = ("throughput_rps", "latency_p50_us", "latency_p99_us", "errors", "client_cpu_us_per_call")
    return {
        **{name: row[name] for name in columns},
        "threads": row["threads"],
        "client_cpu_percent": 100 * cpu / window if cpu is not None and window else None,
        "context_switches": row["context_switches"],
        "softirq_percent": 100 * (after[_SOFTIRQ] - before[_SOFTIRQ]) / total if total > 0 else None,
    }


def _by_go(kit: Kit, target: Measurable, arm: Arm, how: Mapping[str, Any]) -> Row:
    version, retries = _version(arm.client), bool(arm.retries)
    row, result = goclient.measured(target, workers=arm.workers, retries=retries, version=version, **how)
    kit.note(result, _where(arm), ignore=CLIENT_IS_MEASURED)
    return row


def _where(arm: Arm) -> str:
    return f"{arm.client}, {arm.workers} workers on {arm.connections}"


def _by_engine(kit: Kit, target: Measurable, arm: Arm, how: Mapping[str, Any]) -> Row:
    """A connection belongs to one load thread, so that a pool may use every CPU and one connection one."""
    threads = min(arm.connections, len(os.sched_getaffinity(0)))
    args = {"grpc.enable_retries": int(arm.retries)} if arm.retries is not None else {}
    before = _switches()
    result = load(
        target,
        transport=arm.client,
        concurrency=arm.workers,
        threads=threads,
        channel_args=args,
        progress=False,
        **how,
    )
    switches = _switches() - before
    kit.note(result, _where(arm), ignore=CLIENT_IS_MEASURED)
    return {**result.row(), "client_cpu_s": result.client_cpu_s, "context_switches": switches}


def _switches() -> int:
    """Of this process so far: of the load's threads, nearly."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


_SOFTIRQ = 6  # of user, nice, system, idle, iowait, irq, softirq, steal: proc_stat(5)


def _ticks() -> list[int]:
    """What the machine's CPUs have spent their time on so far."""
    return [int(number) for number in machine.read("proc/stat").split("\n", 1)[0].split()[1:9]]


# --- what it means


def _usual(report: Report, client: str) -> list[Mapping[str, Any]]:
    """The rows that differ in their point alone, of most calls."""
    rows = report.select(client=client, calls=max(row["calls"] for row in report.rows))
    first = rows[0] if rows else {}
    return [row for row in rows if all(row[name] == first[name] for name in ("server", "pick", "retries"))]


def verdict(report: Report) -> str:
    parts, factors = [], []
    for client in dict.fromkeys(row["client"] for row in report.rows):
        rows = [row for row in _usual(report, client) if row["throughput_rps"]]
        told = [*_of_one(rows), *_of_pools(rows), *_of_retries(report, client), *_of_picks(report, client)]
        factors += [factor for _, factor in _pools(rows)]
        if told:
            parts.append(f"{client}: {', '.join(told)}")
    if factors:
        better = sum(factor > BETTER for factor in factors)
        cpus = report.environment.get("cpus_allowed")
        parts.append(
            f"on {cpus} CPUs, which the server shares, a pool does better than one "
            f"connection at its best for {better} of {len(factors)} clients"
        )
    return f"{'; '.join(parts) or 'no call was answered'}."


def _of_one(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    single = [row for row in rows if row["connections"] == 1]
    if len(single) > 1:
        few, many = single[0], single[-1]
        factor = times(many["throughput_rps"] / few["throughput_rps"])
        more = f"{many['workers']} workers as with {few['workers']}"
        yield f"one connection does {factor} times as much with {more}"


def _pools(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], float]]:
    """The best of the pools, and how many times the best of one connection it does."""
    single = [row["throughput_rps"] for row in rows if row["connections"] == 1]
    pools = [row for row in rows if row["connections"] > 1]
    if single and pools:
        best = max(pools, key=lambda row: row["throughput_rps"])
        yield best, best["throughput_rps"] / max(single)


def _of_pools(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for best, factor in _pools(rows):
        yield f"{best['connections']} connections {times(factor)} times its best"


# What a lock takes is told by CPU: calls per second depend more on what else the machine has to do.


def _of_retries(report: Report, client: str) -> Iterator[str]:
    single = report.select(client=client, connections=1)
    for ratio, how_sure in _cost(single, "retries", True, False):
        yield f"retries take {ratio} times the CPU per call ({how_sure})"


def _of_picks(report: Report, client: str) -> Iterator[str]:
    pools = [row for row in report.select(client=client) if row["connections"] > 1]
    for pick, words in (("locked", "a locked pool"), ("least_loaded", "the least loaded")):
        for ratio, how_sure in _cost(pools, "pick", pick, "round_robin"):
            yield f"{words} {ratio} times that of a pool in turn ({how_sure})"


def _cost(
    rows: Sequence[Mapping[str, Any]], column: str, value: Any, other: Any
) -> Iterator[tuple[str, str]]:
    """How many times the CPU per call `value` takes of what `other` does, in pairs of rows that are alike but
    for that column, and how sure that is."""
    pairs: dict[tuple[Any, ...], dict[Any, float]] = {}
    for row in rows:
        if row["client_cpu_us_per_call"]:
            alike = tuple(row[name] for name in ALIKE if name != column)
            pairs.setdefault(alike, {})[row[column]] = row["client_cpu_us_per_call"]
    both = [pair for pair in pairs.values() if value in pair and other in pair]
    if not both:
        return
    found = paired_ratio([pair[other] for pair in both], [pair[value] for pair in both])
    if found is None:
        yield times(both[0][value] / both[0][other]), "measured once"
        return
    ratio, bounds = found
    same = bounds.low <= 1 <= bounds.high
    none = f"no difference that {len(both)} pairs can tell"
    yield times(ratio), none if same else f"{times(bounds.low)} to {times(bounds.high)}"


def figures(report: Report) -> list[Figure]:
    return [
        Figure(title=title, draw=lambda ax, name=name, label=label: _draw(report, ax, name, label))  # type: ignore[misc]
        for name, title, label in (
            ("throughput_rps", "Throughput", "calls/s"),
            ("client_cpu_percent", "CPU of the client", "percent of one CPU"),
            ("latency_p99_us", "Latency p99", "µs"),
        )
    ]


def _draw(report: Report, ax: Axes, metric: str, label: str) -> None:
    groups = {
        client: _usual(report, client) for client in dict.fromkeys(row["client"] for row in report.rows)
    }
    over_names(ax, report.rows, groups, lambda row: f"{row['connections']}x{row['workers']}", metric)
    ax.set_xlabel("connections and workers")
    from_zero(ax, label)


EXPERIMENT = Experiment(
    name="client-pool",
    question="Does one connection scale with its callers, or does it take a pool?",
    columns=(
        *("server", "client", "connections", "workers", "pick", "retries", "calls", "throughput_rps"),
        *("latency_p50_us", "latency_p99_us", "client_cpu_percent", "client_cpu_us_per_call"),
        *("context_switches", "softirq_percent", "threads", "errors"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native"],
        "clients": ["core", "wire", "grpc-go"],
        "points": ["1x50", "1x200", "8x200"],
        "picks": ["round_robin", "locked"],
        "retries": [False, True],
        "calls": [6000],
        "repeats": 1,
    },
    full={
        "servers": ["native"],
        "clients": ["core", "wire", "grpc-go"],
        "points": ["1x50", "1x100", "1x300", "1x500", "50x100", "50x250", "100x1000"],
        "picks": ["round_robin", "locked", "least_loaded"],
        "retries": [False, True],
        "calls": [1_000_000, 2_000_000],
        "repeats": 1,
    },
    source="one connection and 50, 100, 300, 500 workers: 68,829 · 80,752 · 58,041 · 54,913 calls/s; 50 and "
    "100, 250: 148,335 · 217,028; 100 and 1,000: 359,081; the client's CPU 600 % near 200 workers, 1,100 % "
    "beyond while throughput falls",
)
