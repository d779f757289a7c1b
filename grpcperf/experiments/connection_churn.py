"""Connections that are used for a few calls and then made anew: what that costs in throughput, in latency and
in the server's CPU, and how much of it TLS is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.curves import times
from grpcperf.experiments.drawing import over_names
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import from_zero
from grpcperf.load import load
from grpcperf.result import Finding, Result
from grpcperf.targets import Measurable, Target
from grpcperf.tls import TLS
from grpcperf.units import count, one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALL = "all"  # calls on a connection that is never replaced
SECURITY = ("plaintext", "tls", "tls resumed")
_NO_PORT = "no local port"  # csrc/net/socket.c


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    security: Sequence[str],
    calls_per_connection: Sequence[int | str],
    connections: int,
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """As many callers as connections, so that a connection has one call at a time. A call that finds none
    waits for one, and that is in its latency."""
    wanted = [one if one == ALL else count(one, "calls_per_connection") for one in calls_per_connection]
    for how in security:
        one_of(how, "security", SECURITY)
    for server in kit.servers(servers):
        for how in security:
            made: dict[str, Any] = {} if how == "plaintext" else {"tls": TLS.self_signed()}
            with server.start(**made) as target:
                if (how == "plaintext") != (target.tls is None):  # what a callable starts is as it is
                    why = "it serves TLS" if target.tls else "it is not told to serve TLS"
                    kit.skip(f"{server.name}, {how}", why)
                    continue
                client = _client(target, how)
                for number in wanted:
                    kit.say(server=server.name, security=how, calls_per_connection=number)
                    asked = {
                        "connections": connections,
                        "concurrency": connections,
                        "duration": duration,
                        "warmup": duration / 4,
                        "calls_per_connection": None if number == ALL else number,
                    }
                    where = f"{server.name}, {how}, {number} calls per connection"

                    def one(asked: Any = asked, client: Any = client, where: str = where) -> Row:
                        return _row(kit, load(client, progress=False, **asked), where)

                    yield {
                        "server": server.name,
                        "security": how,
                        "calls_per_connection": number,
                        "connections": connections,
                        **kit.repeat(repeats, one),
                    }


def _client(target: Measurable, how: str) -> Measurable:
    """The target as a client calls it that takes up earlier TLS sessions, or does not."""
    if target.tls is None:
        return target
    return Target(target.address, tls=replace(target.tls, resume=how == "tls resumed"), pid=target.pid)


def _row(kit: Kit, result: Result, where: str) -> Row:
    kit.note(result, where)
    if short := sum(cause.calls for cause in result.causes if _NO_PORT in cause.text):
        kit.note(
            Finding(
                code="ports_exhausted",
                severity="invalid",
                message=f"{where}: {short:,} calls found no connection, for no local port was free: each is "
                "kept for a minute after its connection has been closed",
                advice="let it last shorter, or widen net.ipv4.ip_local_port_range",
                measured=short,
            )
        )
    row, opened, tls = result.row(), result.connections_opened, result.settings.get("tls")
    columns = ("throughput_rps", "latency_p50_us", "latency_p99_us", "errors")
    return {
        **{name: row[name] for name in columns},
        "reused_share": max(0.0, 1 - opened / result.calls) if result.calls else None,
        "connections_per_s": opened / result.window_s if result.window_s else None,
        "resumed_share": min(1.0, result.tls_resumed / opened) if tls and opened else None,
        "server_cpu_us_per_call": row["server_cpu_us_per_call"],
        "client_cpu_us_per_call": row["client_cpu_us_per_call"],
    }


def verdict(report: Report) -> str:
    """For each server and security: connections that stay, against those used least."""
    parts = []
    for server, how in dict.fromkeys((row["server"], row["security"]) for row in report.rows):
        rows = report.select(server=server, security=how)
        churned, kept = rows[0], rows[-1]
        told = [
            f"{words} {times(kept[name] / churned[name])} times"
            for name, words in (
                ("throughput_rps", "throughput"),
                ("latency_p50_us", "the median latency"),
                ("latency_p99_us", "p99"),
                ("server_cpu_us_per_call", "the server's CPU per call"),
            )
            if kept[name] and churned[name]
        ]
        if len(rows) > 1 and told:
            parts.append(
                f"{server}, {how}: with {_each(kept)} instead of {_each(churned)} on a connection "
                f"{', '.join(told)}"
            )
    return f"{'; '.join(parts) or 'nothing to compare'}."


def _each(row: Mapping[str, Any]) -> str:
    number = row["calls_per_connection"]
    return "all calls" if number == ALL else f"{number} call{'s' if number > 1 else ''}"


def figures(report: Report) -> list[Figure]:
    return [
        Figure(title=title, draw=lambda ax, name=name, label=label: _draw(report, ax, name, label))  # type: ignore[misc]
        for name, title, label in (
            ("throughput_rps", "Throughput", "calls/s"),
            ("latency_p99_us", "Latency p99", "µs"),
            ("server_cpu_us_per_call", "CPU of the server", "µs per call"),
        )
    ]


def _draw(report: Report, ax: Axes, metric: str, label: str) -> None:
    kinds = dict.fromkeys((row["server"], row["security"]) for row in report.rows)
    groups = {f"{server}, {how}": report.select(server=server, security=how) for server, how in kinds}
    over_names(ax, report.rows, groups, lambda row: str(row["calls_per_connection"]), metric)
    ax.set_xlabel("calls on each connection")
    from_zero(ax, label)


EXPERIMENT = Experiment(
    name="connection-churn",
    question="What does it cost to use a connection for a few calls only?",
    columns=(
        *("server", "security", "calls_per_connection", "connections", "throughput_rps", "latency_p50_us"),
        *("latency_p99_us", "server_cpu_us_per_call", "client_cpu_us_per_call", "reused_share"),
        *("connections_per_s", "resumed_share", "errors"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "security": ["plaintext", "tls resumed"],
        "calls_per_connection": [1, 10, 100, ALL],
        "connections": 8,
        "duration": 0.2,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "security": list(SECURITY),
        "calls_per_connection": [1, 2, 10, 100, ALL],
        "connections": 16,
        "duration": 2.0,
        "repeats": 3,
    },
    source="connections reused for 89 % of the calls instead of 31 %: p99 from 186 to 67 ms",
)
