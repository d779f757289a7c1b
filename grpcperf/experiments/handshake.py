"""What it costs to make a connection: in plaintext, in TLS, and in TLS that takes up an earlier session.

The published figures are over a network: 142 ms in full, 38 with a ticket, 35 with ticket and ALPN. On one
machine they are the computation alone; with a delay, by gp.Link, the round trips are added.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.load import probe
from grpcperf.result import Finding
from grpcperf.targets import Link, Measurable
from grpcperf.targets.target import engine_tls
from grpcperf.tls import TLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMEOUT_S = 60.0  # of one series of connections
VERSIONS = {"tls12": "1.2", "tls13": "1.3"}


def measure(
    kit: Kit, *, servers: Sequence[Any], delays: Sequence[float | str], count: int, repeats: int
) -> Iterator[Row]:
    """Connections one after the other, by each sort of security, with and without a session to resume, with
    and without ALPN, from each distance. A server of the user's is taken with what security it has."""
    number = units.count(count, "count", high=100_000)
    for server in kit.servers(servers):
        for tls in (None, TLS.self_signed()) if server.is_go or server.is_native else (None,):
            with server.start(tls=tls) as target:
                for delay in [units.seconds(delay, "delay") for delay in delays]:
                    with contextlib.ExitStack() as stack:
                        there = stack.enter_context(Link(target, delay=delay)) if delay else target
                        for way in _ways(target.tls is not None):
                            kit.say(server=server.name, **way)
                            row = kit.repeat(repeats, lambda: _one(kit, there, number, **way))  # noqa: B023
                            about = {"server": server.name, "rtt_ms": 2e3 * delay}
                            if row["handshake_p50_us"] is not None:
                                yield {**about, **way, **row}


def _ways(tls: bool) -> list[Row]:
    if not tls:
        return [{"transport_security": "plaintext", "resumed": False, "alpn": False}]
    return [
        {"transport_security": security, "resumed": resumed, "alpn": alpn}
        for security in VERSIONS
        for resumed in (False, True)
        for alpn in (True, False)
    ]


def _one(
    kit: Kit, target: Measurable, count: int, *, transport_security: str, resumed: bool, alpn: bool
) -> Row:
    """`usable` is whether the server then spoke HTTP/2; C core does not without ALPN. A server that takes up
    only some of the sessions offered is measured by those, and its CPU, which is of all, not given."""
    peer, tls = probe(target), engine_tls(target)
    if tls is not None:
        version = VERSIONS[transport_security]
        tls |= {"min_version": version, "max_version": version, "resume": resumed}
    with translated():
        told = _engine.handshakes(
            peer.resolved,
            target.authority or peer.authority,
            count,
            TIMEOUT_S,
            tls,
            alpn or tls is None,
            target.pid or 0,
        )
    wanted = [one for one in told["each"] if one["resumed"] == resumed]
    all_alike = len(wanted) == count
    if not all_alike:
        kit.note(_refused(transport_security, len(wanted), count))
    usable = [one["settings_s"] for one in wanted if one["settings_s"] is not None]
    cpu = told["server_cpu_s"]
    return {
        "handshake_p50_us": _median_us(one["connect_s"] + one["tls_s"] for one in wanted),
        "tls_p50_us": _median_us(one["tls_s"] for one in wanted) if tls else None,
        "first_words_p50_us": _median_us(usable),
        "usable": bool(usable),
        "bytes_on_wire": round(statistics.fmean(one["sent"] + one["received"] for one in wanted))
        if wanted
        else None,
        "server_cpu_us": None if cpu is None or not all_alike else cpu / count * 1e6,
        "resumed_share": len(wanted) / count if resumed else None,
    }


def _median_us(values: Any) -> float | None:
    numbers = list(values)
    return statistics.median(numbers) * 1e6 if numbers else None


def _refused(security: str, taken: int, count: int) -> Finding:
    return Finding(
        code="sessions_not_resumed",
        severity="warning",
        message=f"{security}: the server took up {taken} of {count} sessions that it was offered",
        measured=taken,
        threshold=count,
    )


def verdict(report: Report) -> str:
    """Full against resumed, with ALPN, from the nearest distance."""
    nearest = min(row["rtt_ms"] for row in report.rows)
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        for security in VERSIONS:
            full, resumed = (
                report.select(
                    server=server, transport_security=security, resumed=way, alpn=True, rtt_ms=nearest
                )
                for way in (False, True)
            )
            if full and resumed:
                parts.append(f"{server}, {security}: {_compared(full[0], resumed[0])}")
    plain = report.select(transport_security="plaintext", rtt_ms=nearest)
    if plain:
        parts.append(f"plaintext takes {min(row['handshake_p50_us'] for row in plain):.0f} µs")
    for server in dict.fromkeys(row["server"] for row in report.rows):
        without = [row for row in report.select(server=server, alpn=False) if row["tls_p50_us"] is not None]
        if without and not any(row["usable"] for row in without):
            parts.append(f"{server} closes a connection without ALPN once the handshake is done")
    return "; ".join(parts) + "."


def _compared(full: Mapping[str, Any], resumed: Mapping[str, Any]) -> str:
    told = (
        f"resumed {resumed['handshake_p50_us']:.0f} instead of {full['handshake_p50_us']:.0f} µs and "
        f"{resumed['bytes_on_wire']:.0f} instead of {full['bytes_on_wire']:.0f} bytes"
    )
    if full["server_cpu_us"] and resumed["server_cpu_us"]:
        told += f", {resumed['server_cpu_us'] / full['server_cpu_us']:.2f} of the server's CPU"
    return told


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Time to a connection",
            draw=lambda ax: _bars(ax, report, "handshake_p50_us", "connect and TLS (µs, median)"),
        ),
        Figure(
            title="Bytes of a handshake",
            draw=lambda ax: _bars(ax, report, "bytes_on_wire", "bytes both ways"),
            caption="Bytes of TLS alone, without headers of TCP.",
        ),
    ]


def _bars(ax: Axes, report: Report, metric: str, label: str) -> None:
    rows = [row for row in report.rows if row["alpn"] or row["transport_security"] == "plaintext"]
    names = [
        f"{row['server']}, {row['transport_security']}{', resumed' if row['resumed'] else ''}"
        + (f", {row['rtt_ms']:g} ms" if row["rtt_ms"] else "")
        for row in rows
    ]
    colors = [look(1 if row["resumed"] else 0)["color"] for row in rows]
    ax.barh(range(len(rows)), [row[metric] for row in rows], color=colors)
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.set_xlabel(label)


EXPERIMENT = Experiment(
    name="handshake",
    question="What does it cost to make a connection, and what does resuming a TLS session save?",
    columns=(
        *("server", "transport_security", "resumed", "alpn", "rtt_ms", "handshake_p50_us", "bytes_on_wire"),
        *("server_cpu_us", "usable"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={"servers": ["native", "grpc-go"], "delays": ["0s"], "count": 25, "repeats": 1},
    full={
        "servers": ["native", "grpc-go@1.46.2", "grpc-go"],
        "delays": ["0s", "5ms"],
        "count": 100,
        "repeats": 3,
    },
    source="over a network: 142 ms in full, 38 ms with a ticket, 35 ms with a ticket and ALPN",
)
