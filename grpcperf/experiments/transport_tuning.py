"""Options of the transport, one at a time against the defaults: what each changes, and which change
nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.comparison import judge
from grpcperf.experiments.curves import times
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.readings import switches, switches_per_call
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.load import load
from grpcperf.result import Result
from grpcperf.stats import Interval, paired_ratio
from grpcperf.targets import Server
from grpcperf.units import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COALESCING = "it has no switch: frames that are due at once always leave in one write"
LEAST_EFFECT = 0.05  # of a change that counts, among so many comparisons

# Options of the native server and of the client, by what they are called in a row.
OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "frame size 16 KiB": {"server": {"grpc.http2.bdp_probe": 0, "grpc.http2.max_frame_size": 16384}},
    "bdp probe off": {"server": {"grpc.http2.bdp_probe": 0}},
    "zero copy": {"server": {"grpc.experimental.tcp_tx_zerocopy_enabled": 1}},
    "read chunk 256 KiB": {"server": {"grpc.experimental.tcp_read_chunk_size": 262_144}},
    "write buffer 256 KiB": {"server": {"grpc.http2.write_buffer_size": 262_144}},
    "minimal stack": {"server": {"grpc.minimal_stack": 1, "grpc.enable_deadline_checking": 1}},
    "throughput target": {"server": {"grpc.optimization_target": "throughput"}},
    "client: core, no retries": {"client": {"transport": "core"}},
    "client: core, retries": {"client": {"transport": "core", "channel_args": {"grpc.enable_retries": 1}}},
}
# What an option is held against, where that is not the defaults: one change at a time.
BASELINES = {"client: core, retries": "client: core, no retries"}


def measure(
    kit: Kit,
    *,
    options: Sequence[str],
    sizes: Sequence[int | str],
    concurrency: int,
    duration: float,
    repeats: int,
) -> Iterator[Row]:
    """Each option in turn with its baseline, in random order, so that both meet the same machine; ratios are
    of pairs. "none" is the defaults against themselves."""
    chosen = [one_of(name, "option", tuple(OPTIONS)) for name in options]
    order = random.Random(0)
    kit.skip("syscalls_per_call", "the kernel counts system calls only for tracers")
    kit.skip("coalescing in the client", COALESCING)
    for size in sizes:
        for name in chosen:
            kit.say(option=name, size=size)
            turns = (("baseline", _baseline(name)), ("option", name))
            pairs = []
            for _ in range(repeats):
                both = {
                    role: _one(kit, one, size, concurrency, duration) for role, one in order.sample(turns, 2)
                }
                pairs.append((both["baseline"], both["option"]))
            rows = iter([row for _, row in pairs])
            row = kit.repeat(repeats, lambda: next(rows))  # noqa: B023
            found = paired_ratio(
                *zip(*((a["throughput_rps"], b["throughput_rps"]) for a, b in pairs), strict=True)
            )
            ratio = pairs[0][1]["throughput_rps"] / max(pairs[0][0]["throughput_rps"], 1e-9)
            yield {
                "option": name,
                "value": _value(name),
                "baseline": _baseline(name),
                "request_size": size,
                **row,
                "throughput_ratio": found[0] if found else ratio,
                "throughput_ratio_low": found[1].low if found else None,
                "throughput_ratio_high": found[1].high if found else None,
            }


def _baseline(name: str) -> str:
    return BASELINES.get(name, "none")


def _value(name: str) -> str:
    parts = OPTIONS[name]
    return ", ".join(f"{key}={value}" for part in parts.values() for key, value in part.items()) or "defaults"


def _one(kit: Kit, name: str, size: int | str, concurrency: int, duration: float) -> Row:
    option = OPTIONS[name]
    with Server(channel_args=option.get("server", {})) as server:
        before = switches(server)
        result: Result = load(
            server,
            request_size=size,
            response_size=size,
            concurrency=concurrency,
            duration=duration,
            warmup=duration / 4,
            progress=False,
            **option.get("client", {}),
        )
        after = switches(server)
    kit.note(result, name)
    row = result.row()
    return {
        "throughput_rps": row["throughput_rps"],
        "client_cpu_us_per_call": row["client_cpu_us_per_call"],
        "server_cpu_us_per_call": row["server_cpu_us_per_call"],
        "syscalls_per_call": None,
        "context_switches_per_call": switches_per_call(before, after),
        "errors": row["errors"],
    }


def _changed(row: Mapping[str, Any]) -> bool:
    """As a comparison judges it: the interval excludes 1, and the ratio is further from it than what
    counts."""
    low, high = row.get("throughput_ratio_low"), row.get("throughput_ratio_high")
    if low is None or high is None:
        return False
    return judge(row["throughput_ratio"], Interval(low, high, ""), LEAST_EFFECT) == "changed"


def verdict(report: Report) -> str:
    rows = [row for row in report.rows if row["option"] != "none"]
    sure = sorted((row for row in rows if _changed(row)), key=lambda row: row["throughput_ratio"])
    told = [f"{_name(row)} {times(row['throughput_ratio'])} times at {row['request_size']}" for row in sure]
    same = [f"{_name(row)} at {row['request_size']}" for row in rows if not _changed(row)]
    first = f"Throughput changed with {'; '.join(told)}. " if told else ""
    return f"{first}Not told from no change: {'; '.join(same) or 'none'}."


def _name(row: Mapping[str, Any]) -> str:
    option, baseline = row["option"], _baseline(row["option"])
    return f"{option}" if baseline == "none" else f"{option} (against {baseline})"


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Throughput against the baseline",
            draw=lambda ax: _draw(report, ax),
            caption="1 is the defaults (for retries, the same client without), in turn with the option.",
        )
    ]


def _draw(report: Report, ax: Axes) -> None:
    names = list(dict.fromkeys(row["option"] for row in report.rows))
    for series, size in enumerate(dict.fromkeys(row["request_size"] for row in report.rows)):
        rows = report.select(request_size=size)
        places = [names.index(row["option"]) + series * 0.2 - 0.1 for row in rows]
        how = {**look(series), "linestyle": ""}
        ax.plot([row["throughput_ratio"] for row in rows], places, label=f"{size} B", **how)
        for row, place in zip(rows, places, strict=True):
            if row["throughput_ratio_low"] is not None:
                bounds = (row["throughput_ratio_low"], row["throughput_ratio_high"])
                ax.hlines(place, *bounds, color=look(series)["color"], linewidth=1)
    ax.axvline(1, linewidth=1, color="gray")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("throughput, times the baseline's")
    ax.legend()


EXPERIMENT = Experiment(
    name="transport-tuning",
    question="Which options of the transport change anything?",
    columns=(
        *("option", "value", "request_size", "throughput_rps", "throughput_ratio"),
        *("client_cpu_us_per_call", "server_cpu_us_per_call", "syscalls_per_call"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "options": ["none", "frame size 16 KiB", "minimal stack", "client: core, no retries"],
        "sizes": [16, 65536],
        "concurrency": 16,
        "duration": 0.2,
        "repeats": 1,
    },
    full={"options": list(OPTIONS), "sizes": [16, 65536], "concurrency": 64, "duration": 1.0, "repeats": 10},
)
