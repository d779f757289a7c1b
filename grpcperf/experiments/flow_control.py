"""What HTTP/2's windows allow over distance: no more than a window can be on its way in a round trip.

Downloads are ruled by the client's windows, so they are measured on any server. Uploads are ruled by the
server's: grpc-go has static ones to set; C core has none, only its estimate of the bandwidth-delay product
(bdp_probe) on or off.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.report import Report
from grpcperf.figures import logarithmic, look, muted, plain_digits
from grpcperf.load import load
from grpcperf.targets import Link, Measurable
from grpcperf.units import MIB, format_bytes, seconds, size_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_MESSAGE, MOST_MESSAGE = 16 * 1024, MIB
ENDED_LATE = ("few_samples", "not_steady", "low_confidence")  # of latency, which is not asked for here
PROBE = "grpc.http2.bdp_probe"


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    windows: Sequence[int | str],
    rtts: Sequence[float | str],
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """Messages as large as a part of the window, so many at once that they would fill it four times."""
    sizes = [size_bytes(window, "window", low=65535) for window in windows]
    trips = [seconds(rtt, "rtt") for rtt in rtts]
    for server in kit.servers(servers):
        with server.start() as target:
            for rtt in trips:
                for window in sizes:
                    yield _row(kit, server.name, target, rtt, duration, repeats, "download", window)
        for how, start in _uploads(server, sizes):
            with server.start(**start) as target:
                for rtt in trips:
                    yield _row(kit, server.name, target, rtt, duration, repeats, "upload", **how)


def _uploads(server: ServerKind, windows: Sequence[int]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """What is known of the server's windows, and how it is started for them."""
    if server.is_go:
        for window in windows:
            yield {"window": window}, {"go": {"window": window}}
        yield {"window": None, "setting": "dynamic"}, {}
    elif server.is_native:
        yield {"window": None, "setting": "bdp_probe"}, {}
        yield {"window": None, "setting": "no bdp_probe"}, {"native": {"channel_args": {PROBE: 0}}}


def _row(
    kit: Kit,
    name: str,
    target: Measurable,
    rtt: float,
    duration: float,
    repeats: int,
    direction: str,
    window: int | None,
    setting: str = "static",
) -> Row:
    about = {
        "server": name,
        "direction": direction,
        "window": window,
        "setting": setting,
        "rtt_ms": rtt * 1e3,
    }
    kit.say(**about)
    with Link(target, delay=rtt / 2) as link:
        measured = kit.repeat(repeats, lambda: _one(kit, link, direction, window, rtt, duration))
        limit = window / rtt / MIB if window and rtt else None
        return {**about, "window_limit_mib_per_s": limit, **measured}


def _one(kit: Kit, link: Link, direction: str, window: int | None, rtt: float, duration: float) -> Row:
    """Round trips enough to find the rhythm in which windows are opened again, and to measure it."""
    whole = window or MIB
    size = min(max(whole // 4, LEAST_MESSAGE), MOST_MESSAGE)
    sizes: dict[str, Any] = {"request_size": size, "response_size": 0}
    if direction == "download":
        sizes = {"request_size": 0, "response_size": size}
    cpu = link.cpu_s
    result = load(
        link,
        concurrency=min(max(4 * whole // size, 16), 64),
        window=window if direction == "download" else None,
        duration=max(duration, 10 * rtt),
        warmup=max(duration / 3, 4 * rtt),
        progress=False,
        **sizes,
    )
    kit.note(result, f"{direction}, {rtt * 1e3:g} ms", ignore=ENDED_LATE)
    row = result.row()
    moved = row["mib_per_s"] if direction == "upload" else row["response_mib_per_s"]
    return {
        "mib_per_s": moved,
        "message_bytes": size,
        "errors": row["errors"],
        "relay_cpu_s": link.cpu_s - cpu,
    }


def _ruled(report: Report) -> list[Row]:
    """Rows in which the window is what rules: far below what the same way does at its best."""
    limited = [dict(row) for row in report.rows if row["window_limit_mib_per_s"] is not None]
    return [row for row in limited if row["window_limit_mib_per_s"] < _best(report, row) / 4]


def _best(report: Report, row: Row) -> float:
    """The most that its server has carried in its direction, in MiB/s."""
    same = report.select(server=row["server"], direction=row["direction"])
    return max(float(one["mib_per_s"]) for one in same)


def verdict(report: Report) -> str:
    """What the windows rule, and what servers' own windows carry from the farthest."""
    parts = []
    shares = [row["mib_per_s"] / row["window_limit_mib_per_s"] for row in _ruled(report)]
    if shares:
        parts.append(
            "where window / RTT is below a quarter of what the path carries, throughput is "
            f"{statistics.median(shares):.2f} of it, from {min(shares):.2f} to {max(shares):.2f}"
        )
    farthest = max(row["rtt_ms"] for row in report.rows)
    own = [
        f"{row['mib_per_s']:.3g} MiB/s to {row['server']} ({row['setting']})"
        for row in report.select(window=None, rtt_ms=farthest)
    ]
    if own:
        parts.append(f"servers that size their windows themselves take, at {farthest:g} ms, {', '.join(own)}")
    told = "; ".join(parts) or "no window was small enough to rule"
    return told[0].upper() + told[1:] + "."


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Throughput and window / RTT",
            draw=lambda ax: _draw(report, ax),
            caption="Grey: window / RTT, above which nothing can be.",
        )
    ]


def _draw(report: Report, ax: Axes) -> None:
    from matplotlib.ticker import NullFormatter

    rows = [row for row in report.rows if row["window_limit_mib_per_s"]]
    groups = dict.fromkeys((row["server"], row["direction"]) for row in rows)
    for at, (server, direction) in enumerate(groups):
        mine = [row for row in rows if (row["server"], row["direction"]) == (server, direction)]
        style = look(at) | {"linestyle": "none"}
        limits = [row["window_limit_mib_per_s"] for row in mine]
        ax.plot(limits, [row["mib_per_s"] for row in mine], label=f"{server}, {direction}", **style)
    ends = sorted(row["window_limit_mib_per_s"] for row in rows)
    if ends:
        ax.plot([ends[0], ends[-1]], [ends[0], ends[-1]], color=muted(), zorder=1)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(plain_digits())
        ax.xaxis.set_minor_formatter(NullFormatter())
        logarithmic(ax, "payload (MiB/s)")
        ax.legend()
    windows = ", ".join(dict.fromkeys(format_bytes(row["window"]) for row in rows))
    ax.set_xlabel(f"window / RTT (MiB/s), windows {windows}")
    ax.set_ylabel("payload (MiB/s)")


EXPERIMENT = Experiment(
    name="flow-control",
    question="How far do HTTP/2's windows carry over distance?",
    columns=(
        *("server", "direction", "window", "setting", "rtt_ms", "mib_per_s", "window_limit_mib_per_s"),
        *("errors",),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "windows": ["64KiB", "1MiB"],
        "rtts": ["0s", "20ms"],
        "duration": 0.2,
        "repeats": 1,
    },
    full={
        "servers": ["native", "grpc-go"],
        "windows": ["64KiB", "256KiB", "1MiB", "4MiB", "16MiB"],
        "rtts": ["0s", "4ms", "20ms", "80ms"],
        "duration": 1.5,
        "repeats": 3,
    },
    source="window / RTT: 64 KiB over 20 ms carries 3.1 MiB/s, 1 MiB 50, 4 MiB 200",
)
