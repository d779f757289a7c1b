"""What it costs to make a connection: in plaintext, in TLS, and in TLS that takes up an earlier session.

The published figures are over a network: 142 ms in full, 38 with a ticket, 35 with ticket and ALPN. On one
machine they are the computation alone; with a delay, by gp.Link, the round trips are added. Most of the
computation that a resumed session spares the server is its signature, so it depends on the server's key.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.experiments.drawing import has
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import look, muted
from grpcperf.load import probe
from grpcperf.result import Finding
from grpcperf.targets import Link, Measurable
from grpcperf.targets.target import engine_tls
from grpcperf.tls import KEYS, TLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMEOUT_S = 60.0  # of one series of connections
VERSIONS = {"tls12": "1.2", "tls13": "1.3"}
Pair = tuple[Mapping[str, Any], Mapping[str, Any]]


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    keys: Sequence[str],
    delays: Sequence[float | str],
    count: int,
    repeats: int,
) -> Iterator[Row]:
    """Connections one after the other, by each sort of security, with and without a session to resume, with
    and without ALPN, from each distance. A server of the user's is taken with what security it has; `key` is
    None for it, as for plaintext."""
    number = units.count(count, "count", high=100_000)
    away = [units.seconds(delay, "delay") for delay in delays]
    made = {units.one_of(key, "keys", KEYS): TLS.self_signed(key=key) for key in keys}
    for server in kit.servers(servers):
        for key in (None, *made) if server.is_go or server.is_native else (None,):
            with server.start(tls=made[key] if key else None) as target:
                for delay in away:
                    with contextlib.ExitStack() as stack:
                        there = stack.enter_context(Link(target, delay=delay)) if delay else target
                        for way in _ways(target.tls is not None):
                            kit.say(server=server.name, key=key, **way)
                            row = kit.repeat(repeats, lambda: _one(kit, there, number, **way))  # noqa: B023
                            about = {"server": server.name, "key": key, "rtt_ms": 2e3 * delay}
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
    """What a resumed session saves with ALPN, of each version and key: the least and the most over the
    servers, from the nearest distance; of the time also from the farthest."""
    nearest, farthest = _distances(report)
    saved = [
        f"with TLS {version}{f' and {key}' if key else ''}, {_saved_of_each(pairs)}"
        for security, version in VERSIONS.items()
        for key in dict.fromkeys(row["key"] for row in report.rows)
        if (pairs := [pair for pair in _pairs(report, security, nearest) if pair[0]["key"] == key])
    ]
    sentences = [f"Resuming saves{_by(report)}: {'; '.join(saved)} ({_how_sure(report)})"] if saved else []
    far = [
        f"{_saved(pairs, 'handshake_p50_us')} in TLS {version}"
        for security, version in VERSIONS.items()
        if farthest > nearest and (pairs := _pairs(report, security, farthest))
    ]
    if far:
        sentences.append(f"Of the time with a round trip of {farthest:g} ms it saves {', '.join(far)}")
    plain = report.select(transport_security="plaintext", rtt_ms=nearest)
    if plain:
        sentences.append(f"Plaintext takes {min(row['handshake_p50_us'] for row in plain):.0f} µs")
    if closed := _closed_without_alpn(report):
        sentences.append(f"After a handshake without ALPN the connection is closed by {' and '.join(closed)}")
    return ". ".join(sentences or ["Nothing to compare"]) + "."


def _by(report: Report) -> str:
    return ", least and most over the servers" if len({row["server"] for row in report.rows}) > 1 else ""


def _how_sure(report: Report) -> str:
    if report.rows[0]["repeats"] == 1:
        return "each measured once, so there are no intervals"
    return "where that goes beyond the intervals of the repeats, otherwise none"


def _distances(report: Report) -> tuple[float, float]:
    """The nearest and the farthest, as round trips in ms."""
    distances = [row["rtt_ms"] for row in report.rows]
    return min(distances), max(distances)


def _pairs(report: Report, security: str, rtt_ms: float) -> list[Pair]:
    """Connections with ALPN, in full and resumed, otherwise alike."""
    alike = {"transport_security": security, "rtt_ms": rtt_ms, "alpn": True}
    return [
        (full, resumed)
        for full in report.select(**alike, resumed=False)
        for resumed in report.select(**alike, resumed=True, server=full["server"], key=full["key"])
    ]


def _closed_without_alpn(report: Report) -> list[str]:
    """The servers that do so, always."""
    without = [row for row in report.select(alpn=False) if row["tls_p50_us"] is not None]
    usable = {row["server"] for row in without if row["usable"]}
    return [name for name in dict.fromkeys(row["server"] for row in without) if name not in usable]


def _saved_of_each(pairs: Sequence[Pair]) -> str:
    whole = {"time": "handshake_p50_us", "bytes": "bytes_on_wire", "server CPU": "server_cpu_us"}
    told = {name: _saved(pairs, metric) for name, metric in whole.items()}
    return ", ".join(f"{name} {share}" for name, share in told.items() if share)


def _saved(pairs: Sequence[Pair], metric: str) -> str:
    """The least and the most that is saved of it, none where intervals over repeats overlap; empty when it is
    not known."""
    shares = [
        1 - resumed[metric] / full[metric]
        if resumed.get(f"{metric}_high", resumed[metric]) < full.get(f"{metric}_low", full[metric])
        else 0.0
        for full, resumed in pairs
        if full[metric] is not None and resumed[metric] is not None
    ]
    ends = (f"{share:.0%}" if share else "none" for share in (min(shares), max(shares))) if shares else ()
    return " to ".join(dict.fromkeys(ends)).replace("% to", " to")


def figures(report: Report) -> list[Figure]:
    nearest, farthest = _distances(report)
    time, near = "connect and TLS (µs, median)", f", round trip {nearest:g} ms" if farthest > nearest else ""
    drawn = [_bars(report, "handshake_p50_us", f"Time to a connection{near}", time, nearest)]
    if near:
        title = f"Time to a connection, round trip {farthest:g} ms"
        drawn.append(_bars(report, "handshake_p50_us", title, time, farthest))
    drawn.append(_bars(report, "bytes_on_wire", "Bytes of a handshake", "bytes of TLS, both ways", nearest))
    if has(report, "server_cpu_us"):
        drawn.append(_bars(report, "server_cpu_us", "CPU of the server", "µs per connection", nearest))
    return drawn


def _bars(report: Report, metric: str, title: str, label: str, rtt_ms: float) -> Figure:
    """With ALPN. A link takes connections at its near end, so plaintext does not show how far it went."""
    drawn = [
        row
        for row in report.select(rtt_ms=rtt_ms)
        if row[metric] and (row["alpn"] or (row["transport_security"] == "plaintext" and not rtt_ms))
    ]
    return Figure(title=title, draw=lambda ax: _draw(ax, drawn, metric, label))


def _draw(ax: Axes, rows: Sequence[Mapping[str, Any]], metric: str, label: str) -> None:
    """A place for each server, version and key: in full above, resumed below it."""
    servers = [row["server"] for row in rows]
    rows = sorted(
        rows, key=lambda row: (servers.index(row["server"]), row["transport_security"], row["key"] or "")
    )
    places = list(dict.fromkeys(_name(row) for row in rows))
    height = 0.4
    for at, kind in enumerate(("full", "resumed", "plaintext")):
        own = [row for row in rows if _kind(row) == kind]
        middles = [places.index(_name(row)) + (0, height, height / 2)[at] for row in own]
        if own:
            ax.barh(middles, [row[metric] for row in own], height, color=look(at)["color"], label=kind)
        for row, middle in zip(own, middles, strict=True):
            if row.get(f"{metric}_low") is not None:
                ax.hlines(middle, row[f"{metric}_low"], row[f"{metric}_high"], color=muted(), linewidth=1)
    ax.set_yticks([place + height / 2 for place in range(len(places))], places, fontsize="small")
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel(label)
    if rows:
        ax.set_xlim(0, ax.dataLim.x1 * 1.35)  # room for the legend
        ax.legend(loc="center right", fontsize="small")


def _name(row: Mapping[str, Any]) -> str:
    version = VERSIONS.get(row["transport_security"])
    security = f"TLS {version}" if version else "plaintext"
    return ", ".join(filter(None, [row["server"], security, row["key"]]))


def _kind(row: Mapping[str, Any]) -> str:
    if row["transport_security"] == "plaintext":
        return "plaintext"
    return "resumed" if row["resumed"] else "full"


EXPERIMENT = Experiment(
    name="handshake",
    question="What does it cost to make a connection, and what does resuming a TLS session save?",
    columns=(
        *("server", "transport_security", "key", "resumed", "alpn", "rtt_ms", "handshake_p50_us"),
        *("bytes_on_wire", "server_cpu_us", "usable"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "keys": list(KEYS),
        "delays": ["0s"],
        "count": 20,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "keys": list(KEYS),
        "delays": ["0s", "5ms"],
        "count": 100,
        "repeats": 3,
    },
    source="over a network: 142 ms in full, 38 ms with a ticket, 35 ms with a ticket and ALPN",
)
