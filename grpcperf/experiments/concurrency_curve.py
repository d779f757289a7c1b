"""Throughput and latency over the number of callers on one connection: where throughput is bought by
queueing. With a fit of the Universal Scalability Law and its knee, and an open loop at fractions of the
highest rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.errors import InvalidRequest
from grpcperf.experiments.curves import CONDITIONS, METRICS, point, request_bytes, times, told, under
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import logarithmic
from grpcperf.labels import label
from grpcperf.plot import lines
from grpcperf.stats import fit_usl

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    concurrency: Sequence[int],
    fractions: Sequence[float],
    request_size: int | str,
    duration: float,
    repeats: int,
    **conditions: Any,
) -> Iterator[Row]:
    """The closed loop at each concurrency, then an open loop at fractions of the best of them. `pinned`
    gives server and client CPUs of their own, without which the client is not on time at the higher
    fractions."""
    size = request_bytes(request_size)
    for server in kit.servers(servers):
        with under(kit, conditions, server, largest=size) as (target, asked):
            how = {"duration": duration, "warmup": duration / 4, "request_size": size, **asked}
            best = 0.0
            for callers in concurrency:
                kit.say(server=server.name, concurrency=callers)
                spec, where = {**how, "concurrency": callers}, f"{server.name}, {callers} callers"
                row = kit.repeat(repeats, lambda: point(kit, target, where, **spec))  # noqa: B023
                best = max(best, row["throughput_rps"])
                about = {"server": server.name, "loop": "closed", "connections": 1, "concurrency": callers}
                yield about | {"request_size": size} | row | told(conditions)
            for rate in [round(best * fraction) for fraction in fractions if round(best * fraction)]:
                kit.say(server=server.name, rate=rate)
                spec, where = {**how, "rate": rate}, f"{server.name} at {rate:,} calls/s"
                row = kit.repeat(repeats, lambda: point(kit, target, where, **spec))  # noqa: B023
                about = {"server": server.name, "loop": "open", "connections": 1, "rate": rate}
                yield about | {"request_size": size} | row | told(conditions)


def data(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fit of each server's closed loop."""
    found: dict[str, Any] = {}
    for server in dict.fromkeys(row["server"] for row in rows):
        closed = [row for row in rows if row["server"] == server and row["loop"] == "closed"]
        levels, rates = [row["concurrency"] for row in closed], [row["throughput_rps"] for row in closed]
        try:
            fit = fit_usl(levels, rates)
        except InvalidRequest as error:
            found[server] = {"usl": None, "why": str(error)}
            continue
        found[server] = {
            "per_second_of_one": fit.per_second_of_one,
            "contention": fit.contention,
            "coherency": fit.coherency,
            "r2": fit.r2,
            "knee": fit.knee,
            "knee_low": None if fit.knee_interval is None else fit.knee_interval.low,
            "knee_high": None if fit.knee_interval is None else fit.knee_interval.high,
            "most_rps": fit.most_rps,
        }
    return found


def verdict(report: Report) -> str:
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        rows = report.select(server=server, loop="closed")
        if not rows:
            continue
        first, last = rows[0], rows[-1]
        if (
            first is last
            or not first["throughput_rps"]
            or not first["latency_p50_us"]
            or not last["latency_p50_us"]
        ):
            continue
        fit = report.data.get(server, {})
        parts.append(
            f"{server}: from {first['concurrency']} to {last['concurrency']} callers throughput grows "
            f"{times(last['throughput_rps'] / first['throughput_rps'])} times and the median latency "
            f"{times(last['latency_p50_us'] / first['latency_p50_us'])} times"
            f"{_knee(fit, last['concurrency'])}"
        )
    return "; ".join(parts) + "." if parts else "Too little was measured for a verdict."


def _knee(fit: Mapping[str, Any], most: int) -> str:
    """Told for the end of a sentence. What the law says of more callers than were measured is a guess."""
    if fit.get("r2") is None:
        return ""
    if not fit["knee"]:
        return ", the law has no knee"
    if fit["knee"] > most:
        return ", the law's knee is beyond what was measured"
    low, high = fit["knee_low"], fit["knee_high"]
    bounds = ", of unknown interval" if None in (low, high) else f" [{low:.0f}, {high:.0f}]"
    return f", the law's knee is at {fit['knee']:.0f}{bounds}"


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Throughput",
            draw=lambda ax: lines(
                ax, report.select(loop="closed"), "concurrency", "throughput_rps", by="server"
            ),
            caption="Closed loop.",
        ),
        Figure(
            title="Median latency",
            draw=lambda ax: _latency(ax, report.select(loop="closed"), "concurrency", "latency_p50_us"),
            caption="Closed loop.",
        ),
        Figure(
            title="Latency p99 over the offered rate",
            draw=lambda ax: _latency(ax, report.select(loop="open"), "rate", "latency_p99_us"),
            caption="Open loop, Poisson arrivals: response time from the intended time.",
        ),
    ]


def _latency(ax: Axes, rows: Sequence[Mapping[str, Any]], x: str, metric: str) -> None:
    """From microseconds to what a full queue makes of them: on a logarithmic axis."""
    lines(ax, rows, x, metric, by="server")
    if any(row[metric] for row in rows):
        ax.autoscale(axis="y")  # not from 0, which a logarithmic axis has not
        logarithmic(ax, label(metric))


EXPERIMENT = Experiment(
    name="concurrency-curve",
    question="Where does more concurrency stop buying throughput?",
    columns=("server", "loop", "connections", "concurrency", "rate", "request_size", *METRICS),
    measure=measure,
    verdict=verdict,
    figures=figures,
    data=data,
    quick={
        "servers": ["native", "grpc-go"],
        "concurrency": [1, 4, 16, 64, 256],
        "fractions": [0.5],
        "request_size": "16 B",
        "duration": 0.25,
        "repeats": 1,
        **CONDITIONS,
        "pinned": True,
    },
    full={
        "servers": ["native", "native:thread", "grpc-go"],
        "concurrency": [1, 4, 16, 64, 256],
        "fractions": [0.25, 0.5, 0.75, 0.9],
        "request_size": "16 B",
        "duration": 2.0,
        "repeats": 5,
        **CONDITIONS,
        "pinned": True,
    },
    source="10 cores: 12,421 · 32,715 · 66,541 · 92,493 · 122,073 calls/s with 1 to 256 callers, "
    "p50 79 → 2,090 µs",
)
