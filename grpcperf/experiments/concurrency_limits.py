"""What really limits how many handlers run at once: many calls arrive together, and the peak of running
handlers, the time until all are done and the time that calls waited are read.

With a short handler the peak of a server without a limit says how fast calls begin, since the first are over
before the last have come; with a long one it is all of them. Published: 4,539 of 5,000 running without a
limit, 4,993 with stream workers (which therefore are none), 100 with a semaphore, done in 68.9, 57.9 and
1,099.9 ms. Another article has it that MaxConcurrentStreams is 100 by default and answers
RESOURCE_EXHAUSTED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.histogram import Histogram
from grpcperf.load import load
from grpcperf.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_QUEUED = 1_000_000


@dataclass(frozen=True)
class Limit:
    """What a server is started with. `model`: it is how calls get threads, which only a native server whose
    model was left open can change, and grpc-go not at all unless `go` says how. `queue`: on which side calls
    wait for their turn; empty where none do, for nothing limits or the rest is refused."""

    name: str
    native: Mapping[str, Any] = field(default_factory=dict)
    go: Mapping[str, Any] | None = None
    limits: bool = True
    queue: str = ""

    def is_of(self, server: ServerKind) -> bool:
        if server.is_go:
            return self.go is not None
        if server.is_native:
            return "model" not in self.native or server.name == "native"
        return not self.native  # what a callable starts is as it is


def known_limits(n: int) -> list[Limit]:
    semaphore = {"limits": [f"semaphore:{n}"]}
    streams = {"max_concurrent_streams": n}
    return [
        Limit("none", go={}, limits=False),
        Limit(f"semaphore {n}", semaphore, semaphore, queue="server"),
        Limit("stream workers 8", {"model": "stream-workers:8"}, {"stream_workers": 8}, limits=False),
        Limit(f"max concurrent streams {n}", streams, streams, queue="client"),
        Limit(f"pool {n}", {"model": f"pool:{n}:{MOST_QUEUED}"}, queue="server"),
        Limit(f"pool {n}, rejecting", {"model": f"pool:{n}:0"}),
    ]


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    limit: int,
    calls: int,
    handler_ms: float,
    long_handler_ms: float,
    repeats: int,
) -> Iterator[Row]:
    """`calls` at once on one connection, each with a handler that waits; with the long one only where nothing
    limits, for a limit would make it minutes."""
    for server in kit.servers(servers):
        missing = [one.name for one in known_limits(limit) if not one.is_of(server)]
        if missing:
            why = "grpc-go has no such thing" if server.is_go else "how its calls get threads is given"
            kit.skip(f"{_words(missing)} on {server.name}", why)
        for one in [one for one in known_limits(limit) if one.name not in missing]:
            for wait_ms in [handler_ms] if one.limits else [handler_ms, long_handler_ms]:
                kit.say(server=server.name, limit=one.name, handler_ms=wait_ms)
                row = kit.repeat(repeats, lambda: _one(kit, server, one, calls, wait_ms))  # noqa: B023
                about = {"server": server.name, "limit": one.name, "calls": calls, "handler_ms": wait_ms}
                yield about | row


def _one(kit: Kit, server: ServerKind, limit: Limit, calls: int, handler_ms: float) -> Row:
    with server.start(native=limit.native, go=limit.go) as target:
        result = load(
            target,
            concurrency=calls,
            calls=calls,
            warmup=0,
            drain=60,
            metadata={"grpcperf-delay-us": round(handler_ms * 1e3)},
        )
        counters = target.counters() if target.has_counters else None
    kit.note(result, f"{server.name}, {limit.name}", ignore=("server_stream_limit", "few_samples"))
    return {
        "peak_running": counters.peak_running if counters else None,
        "elapsed_ms": result.window_s * 1e3,
        "rejected": result.status["RESOURCE_EXHAUSTED"],
        "queue_p99_ms": _queue_p99_ms(result, limit, handler_ms),
        "errors": result.errors,
    }


def _queue_p99_ms(result: Result, limit: Limit, handler_ms: float) -> float | None:
    """The p99 of how long calls waited for their turn; None where none had to. Waiting in the client, for
    the server's SETTINGS admit no more streams, is measured as such; waiting in the server is what calls took
    beyond their handler's time, transport included."""
    if limit.queue == "client":
        return _p99(result.queued) * 1e3
    if limit.queue == "server":
        return max(0.0, _p99(result.latency) * 1e3 - handler_ms)
    return None


def _p99(histogram: Histogram) -> float:
    """In seconds; of too few the longest."""
    return histogram.p99 if histogram.p99 is not None else histogram.max or 0.0


def verdict(report: Report) -> str:
    """A limit is what keeps the peak at its number; of those, whether calls waited or were refused."""
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = [row for row in report.select(server=server) if row["peak_running"] is not None]
        if not rows:
            parts.append(f"how many ran on {server} is not known")
            continue
        held = [row for row in rows if row["peak_running"] <= report.parameters["limit"]]
        free = dict.fromkeys(row["limit"] for row in rows if row not in held)
        told = [f"{_words([row['limit'] for row in held])} kept it" if held else "nothing kept it"]
        told += [f"{_words(list(free))} did not" if free else "all did"]
        told += [f"{row['limit']} refused {row['rejected']:,.0f}" for row in rows if row["rejected"]]
        parts.append(f"on {server} {', '.join(told)}")
    parts.append(_streams(report))
    number, calls = report.parameters["limit"], report.rows[0]["calls"]
    whole = "; ".join(filter(None, parts))
    return f"Of {calls:,} calls at once, {number:,} handlers were to run: {whole}."


def _streams(report: Report) -> str:
    """What became of the claim that MaxConcurrentStreams limits by default and refuses."""
    rows = [row for row in report.rows if row["limit"].startswith("max concurrent streams")]
    if not rows:
        return ""
    refused = sum(row["rejected"] for row in rows)
    told = f"refused {refused:,.0f}" if refused else "refused none, it made calls wait"
    longest = max(row["handler_ms"] for row in report.rows)
    free = report.select(limit="none", handler_ms=longest)
    if free and all(row["peak_running"] == row["calls"] for row in free):
        told += ", and by default there is no such limit"
    return f"a limit on concurrent streams {told}"


def _words(names: Sequence[str]) -> str:
    names = ["no limit" if name == "none" else name for name in names]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def figures(report: Report) -> list[Figure]:
    drawn = {
        "peak_running": Figure(
            title="Handlers that ran at once",
            draw=lambda ax: _draw(report, ax, "peak_running", "handlers"),
            caption="The peak, by what was to limit it, and by the time that handlers take.",
        ),
        "elapsed_ms": Figure(
            title="Until all calls were done",
            draw=lambda ax: _draw(report, ax, "elapsed_ms", "ms"),
            caption="What limits makes the rest wait, or refuses it.",
        ),
    }
    return [figure for column, figure in drawn.items() if has(report, column)]


def _draw(report: Report, ax: Axes, column: str, unit: str) -> None:
    servers = list(dict.fromkeys(row["server"] for row in report.rows))
    names = list(dict.fromkeys(_name(row) for row in report.rows))
    height = 0.8 / len(servers)
    for at, server in enumerate(servers):
        rows = [row for row in report.select(server=server) if row[column] is not None]
        places = [names.index(_name(row)) + at * height for row in rows]
        bars = ax.barh(places, [row[column] for row in rows], height, color=look(at)["color"], label=server)
        ax.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize="small")
    ax.set_yticks([place + 0.4 - height / 2 for place in range(len(names))], names)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_xlabel(unit)
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.15), ncols=2, fontsize="small")


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['limit']} ({row['handler_ms']:g} ms)"


EXPERIMENT = Experiment(
    name="concurrency-limits",
    question="What really limits how many handlers run at once?",
    columns=(
        *("server", "limit", "calls", "handler_ms"),
        *("peak_running", "elapsed_ms", "rejected", "queue_p99_ms"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "limit": 100,
        "calls": 2000,
        "handler_ms": 20.0,
        "long_handler_ms": 700.0,
        "repeats": 1,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "limit": 100,
        "calls": 5000,
        "handler_ms": 20.0,
        "long_handler_ms": 1500.0,
        "repeats": 3,
    },
    source=(
        "5,000 calls, 20 ms: none 4,539 running and 68.9 ms, semaphore 100 1,099.9 ms, stream workers 4,993 "
        "and 57.9 ms; elsewhere: MaxConcurrentStreams is 100 by default and answers RESOURCE_EXHAUSTED"
    ),
)
