"""How messages of many writers get to a few streams, of which one is slow: round robin with a time for the
hand-off and a queue on disk, against one queue that all streams share.

Published: a quarter of the messages spilled with round robin, about none with a shared queue; and 10,000
writers did no harm to the queue's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.dispatch import Dispatched, dispatch
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero, look
from grpcperf.result import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.targets import Measurable


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    policies: Sequence[str],
    writers: Sequence[int],
    writer_threads: Sequence[int],
    sync_every: Sequence[int],
    streams: int,
    slow_streams: int,
    slow: float | str,
    rate: float,
    timeout: float | str,
    duration: float | str,
    repeats: int,
) -> Iterator[Row]:
    """A server of ours, whose answers on the slow streams wait. Each policy is also measured with its
    writers on several threads, which contend for the lock, and with a disk queue that waits for the disk."""
    same = {
        "streams": streams,
        "stream_delays": [slow] * slow_streams,
        "rate": rate,
        "timeout": timeout,
        "duration": duration,
    }
    for kind in kit.servers(servers):
        with kind.start() as server:
            for count, threads, sync, policy in product(writers, writer_threads, sync_every, policies):
                kit.say(server=kind.name, policy=policy, writers=count)
                varied = {"policy": policy, "writers": count, "writer_threads": threads, "sync_every": sync}
                row = kit.repeat(repeats, partial(_one, kit, server, **varied, **same))
                row["sent"] = row["delivered"] + row["spilled"]  # as in each run; means may round
                yield {"server": kind.name, **row}


def _one(kit: Kit, server: Measurable, **arguments: Any) -> Row:
    done = dispatch(server, **arguments)
    _judge(kit, done)
    return {
        "policy": done.policy,
        "writers": done.writers,
        "streams": done.streams,
        "sent": done.sent,
        "delivered": done.delivered,
        "spilled": done.spilled,
        "spilled_share": done.spilled_share,
        "throughput_rps": done.throughput_rps,
        "delay_p50_ms": _ms(done.held_up.p50),
        "delay_p99_ms": _ms(done.held_up.p99),
        "delivery_p50_ms": _ms(done.delivery.p50),
        "delivery_p99_ms": _ms(done.delivery.p99),
        "writer_threads": arguments["writer_threads"],
        "sync_every": arguments["sync_every"],
        "lock_waits_share": done.lock_waits / done.locks if done.locks else None,
        "lock_wait_ns_per_message": done.lock_wait_ns_per_message,
        "replayed": done.replayed,
        "on_disk": done.on_disk,
    }


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1000


def _s(value_ms: float | None) -> float | None:
    return None if value_ms is None else value_ms / 1000


def _judge(kit: Kit, done: Dispatched) -> None:
    if done.lost or done.doubled or done.sent != done.delivered + done.spilled:
        message = f"{done.policy}: {done.lost:,} messages were lost, {done.doubled:,} counted twice"
        kit.note(Finding(code="messages_lost", severity="invalid", message=message))
    if done.unsent or done.on_disk:
        message = (
            f"{done.policy}: {done.unsent:,} messages found neither a stream nor room on disk, "
            f"{done.on_disk:,} are still on disk, in {done.directory}"
            + (f" ({done.disk_error})" if done.disk_error else "")
        )
        kit.note(Finding(code="messages_left", severity="warning", message=message))


def verdict(report: Report) -> str:
    """The most writers speak, in their plainest form: the first of everything else."""
    rows = _plainest(report)
    parts = []
    for server in _servers(rows):
        told = [
            f"{row['policy']} spilled {row['spilled_share']:.1%} of {row['sent']:,.0f} messages "
            f"and held writers up for {units.format_seconds(_s(row['delay_p99_ms']))} (p99)"
            for row in rows
            if row["server"] == server and row["spilled_share"] is not None
        ]
        parts.append(f"to {server}, {', '.join(told) or 'nothing was sent'}")
    head = f"With {rows[0]['writers']:,} writers and {rows[0]['streams']} streams"
    return f"{head} {'; '.join(parts)}. {_about_the_lock(report)}"


def _servers(rows: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(row["server"] for row in rows))


def _plainest(report: Report) -> list[Any]:
    first = report.rows[0]
    most = max(row["writers"] for row in report.rows)
    return report.select(writers=most, writer_threads=first["writer_threads"], sync_every=first["sync_every"])


def _about_the_lock(report: Report) -> str:
    shared = [row for row in report.rows if row["policy"] == "shared" and row["lock_waits_share"] is not None]
    if not shared:
        return "The shared queue's lock was not measured."
    worst = max(shared, key=lambda row: row["lock_wait_ns_per_message"])
    busy = max(row["lock_waits_share"] for row in shared)
    threads = f"{worst['writer_threads']} thread{'s' if worst['writer_threads'] > 1 else ''}"
    return (
        f"The shared queue's lock was found taken in at most {busy:.2%} of the attempts, and cost up to "
        f"{worst['lock_wait_ns_per_message']:,.0f} ns a message ({worst['server']}, {worst['writers']:,} "
        f"writers on {threads})."
    )


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Messages that took the disk",
            draw=lambda ax: _bars(report, ax, "spilled_share", "spilled (%)", 100.0),
            caption="The most writers, with one of the streams slow.",
        ),
        Figure(
            title="How long a writer was held up",
            draw=lambda ax: _bars(report, ax, "delay_p99_ms", "p99 (ms)", 1.0),
            caption="From when a message was due until it was taken, in a buffer, or on disk.",
        ),
    ]


def _bars(report: Report, ax: Axes, name: str, label: str, scale: float) -> None:
    rows = _plainest(report)
    servers, policies = _servers(rows), list(dict.fromkeys(row["policy"] for row in rows))
    width = 0.6 / len(servers)
    for at, server in enumerate(servers):
        mine = [row for row in rows if row["server"] == server]
        places = [policies.index(row["policy"]) + (at - (len(servers) - 1) / 2) * width for row in mine]
        heights = [(row[name] or 0.0) * scale for row in mine]
        ax.bar(places, heights, color=look(at)["color"], width=width, label=server)
    ax.set_xticks(range(len(policies)), [policy.replace("_", " ") for policy in policies])
    ax.set_xlabel("policy")
    ax.set_ylabel(label)
    ax.legend()
    if any(row[name] for row in rows):
        from_zero(ax, label)


EXPERIMENT = Experiment(
    name="dispatch",
    question="How do messages of many writers get to a few streams when one of them is slow?",
    columns=(
        *("server", "policy", "writers", "streams", "sent", "delivered", "spilled", "spilled_share"),
        *("throughput_rps", "delay_p50_ms", "delay_p99_ms", "delivery_p50_ms", "delivery_p99_ms"),
        *("writer_threads", "sync_every", "lock_waits_share", "lock_wait_ns_per_message"),
        *("replayed", "on_disk"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native"],
        "policies": ["round_robin", "shared", "shared_buffered"],
        "writers": [10_000],
        "writer_threads": [1],
        "sync_every": [0],
        "streams": 4,
        "slow_streams": 1,
        "slow": "200ms",
        "rate": 4000.0,
        "timeout": "50ms",
        "duration": 1.5,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "policies": ["round_robin", "shared", "shared_buffered"],
        "writers": [1000, 10_000],
        "writer_threads": [1, 4],
        "sync_every": [0, 100],
        "streams": 4,
        "slow_streams": 1,
        "slow": "200ms",
        "rate": 10_000.0,
        "timeout": "50ms",
        "duration": 2.0,
        "repeats": 3,
    },
    source="round robin spilled a quarter, a shared queue about none; 10,000 writers, no harm from the lock",
)
