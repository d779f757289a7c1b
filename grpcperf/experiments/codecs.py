"""What it costs to encode and decode a structured record: three codecs, with memory from the heap, from an
arena and used again, by itself and as part of a call.

The published figures are of Go: FlatBuffers at 1,842 MB/s and "540 µs" for 1 KB, msgp at 2,167 and "462 µs";
a fresh buffer 28.3 ns, a pooled one 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf.codecs import PACKAGES, Codec, allocated, built, encoded, timed
from grpcperf.experiments.curves import times
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.load import load
from grpcperf.targets import Server
from grpcperf.values import refuse_unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What was published for 1 KB, and for one buffer.
PUBLISHED = ({"codec": "FlatBuffers", "mb_per_s": 1842, "told_us": 540},
             {"codec": "msgp", "mb_per_s": 2167, "told_us": 462})  # fmt: skip
PUBLISHED_BUFFER_NS = {"fresh": 28.3, "pooled": 3.1}
BUFFERS = {"malloc": "fresh_ns", "reuse": "pooled_ns"}
CALL_METRICS = ("throughput_rps", "client_cpu_us_per_call", "server_cpu_us_per_call", "errors")


def measure(
    kit: Kit, *, codecs: Sequence[str], ops: int, repeats: int, calls: int, duration: float, concurrency: int
) -> Iterator[Row]:
    """Each codec's operations with each memory that it knows, then buffers without any codec, then the
    encoded record as the request of unary calls: `calls` loads each, in turn."""
    refuse_unknown(codecs, PACKAGES, "codec")
    chosen = []
    for name in codecs:
        if name in built():
            chosen.append(built()[name])
        else:
            kit.skip(name, f"grpcperf was built without it; it needs {PACKAGES[name]}")
    kit.data["versions"] = {codec.name: codec.version for codec in chosen}
    kit.data["published"] = [_off_by(one) for one in PUBLISHED]
    for codec in chosen:
        yield from _operations(kit, codec, ops, repeats)
    kit.say(codec="none", operation="buffers")
    kit.data["buffer"] = {name: _buffer_ns(kit, memory, ops, repeats) for memory, name in BUFFERS.items()}
    if calls:
        kit.data["calls"] = _calls(kit, [codec.name for codec in chosen], calls, duration, concurrency)


def _operations(kit: Kit, codec: Codec, ops: int, repeats: int) -> Iterator[Row]:
    for operation, memories in codec.memories.items():
        for memory in memories:
            kit.say(codec=codec.name, operation=operation, memory=memory)
            count, size = allocated(codec.name, operation, memory)
            timing = kit.repeat(repeats, lambda: _one(codec.name, operation, memory, ops))  # noqa: B023
            yield {
                "codec": codec.name,
                "operation": operation.removesuffix("_trusted"),
                "memory": memory,
                "checked": operation == "decode" if operation != "encode" else None,
                **timing,
                "allocs_per_op": count,
                "bytes_per_op": size,
            }


def _buffer_ns(kit: Kit, memory: str, ops: int, repeats: int) -> float:
    """Ten times as many, for they take a few ns each."""
    return float(kit.repeat(repeats, lambda: _one("buffer", "encode", memory, 10 * ops))["ns_per_op"])


def _one(codec: str, operation: str, memory: str, ops: int) -> Row:
    timing = timed(codec, operation, memory, ops)
    return {
        "ns_per_op": timing.ns_per_op,
        "mb_per_s": timing.mb_per_s,
        "encoded_bytes": timing.encoded_bytes,
    }


def _off_by(published: Mapping[str, Any]) -> dict[str, Any]:
    """Its time for 1 KB as its own rate has it, and how many times that it was said to be."""
    us = 1e3 / published["mb_per_s"]
    return {**published, "computed_us": us, "off_by": published["told_us"] / us}


def as_request(record: bytes) -> bytes:
    """A serialized grpc.testing.SimpleRequest with these bytes as its payload's body."""
    return _field(3, _field(2, record))


def _field(number: int, value: bytes) -> bytes:
    """Length-delimited, as protobuf's encoding has it (wire type 2)."""
    length, varint = len(value), bytearray()
    while length > 127:
        varint.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *varint, length]) + value


def _calls(
    kit: Kit, codecs: Sequence[str], repeats: int, duration: float, concurrency: int
) -> list[dict[str, Any]]:
    """Unary calls of the native server that carry the encoded record, and for comparison an empty body."""
    bodies = {"none": b""} | {name: encoded(name) for name in codecs}
    results: dict[str, list[Row]] = {name: [] for name in bodies}
    with Server() as server:
        for _ in range(repeats):
            for name, body in bodies.items():
                kit.say(codec=name, operation="calls")
                result = load(
                    server,
                    request=as_request(body),
                    concurrency=concurrency,
                    duration=duration,
                    warmup=duration / 4,
                    progress=False,
                )
                kit.note(result, f"calls with {name}")
                row = result.row()
                results[name].append({metric: row[metric] for metric in CALL_METRICS})
    return [
        {"codec": name, "encoded_bytes": len(bodies[name]), **kit.repeat(repeats, iter(rows).__next__)}
        for name, rows in results.items()
    ]


def _fastest(report: Report, operation: str, checked: bool | None) -> list[Mapping[str, Any]]:
    """The row of each codec with the memory that suits it best, the fastest codec first."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in sorted(report.select(operation=operation, checked=checked), key=lambda row: row["ns_per_op"]):
        found.setdefault(row["codec"], row)
    return list(found.values())


def _told(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{row['codec']} {row['ns_per_op']:,.0f} ns ({row['memory']})" for row in rows)


def _call_shares(report: Report) -> dict[str, float]:
    """Of the CPU that a call takes of both sides with its record encoded once and decoded once, what these
    two take."""
    shares = {}
    for call in report.data.get("calls", ()):
        own = [
            row["ns_per_op"] / 1e3
            for operation, checked in (("encode", None), ("decode", True))
            for row in _fastest(report, operation, checked)
            if row["codec"] == call["codec"]
        ]
        sides = [call["client_cpu_us_per_call"], call["server_cpu_us_per_call"]]
        if len(own) == 2 and None not in sides:
            shares[call["codec"]] = sum(own) / (sum(own) + sum(sides))
    return shares


def verdict(report: Report) -> str:
    trusted = _fastest(report, "decode", False)
    parts = [
        f"To encode the record: {_told(_fastest(report, 'encode', None))}",
        f"To decode it and read all of it: {_told(_fastest(report, 'decode', True))}"
        + (f"; unchecked {_told(trusted)}" if trusted else ""),
        *_about_memory(report),
        *_about_units(report),
    ]
    shares = _call_shares(report)
    if shares:
        told = ", ".join(f"{share:.0%} with {codec}" for codec, share in shares.items())
        parts.append(f"Of the CPU of a unary call that carries it, both together are {told}")
    return ". ".join(parts) + "."


def _about_memory(report: Report) -> Iterator[str]:
    ratios = []
    for row in report.select(memory="malloc"):
        same = report.select(codec=row["codec"], operation=row["operation"])
        others = [other["ns_per_op"] for other in same if other["memory"] != "malloc"]
        ratios += [min(others) / row["ns_per_op"]] if others else []
    none = [row for row in report.rows if row["allocs_per_op"] == 0]
    if ratios:
        yield (
            f"With an arena or reuse it takes {times(min(ratios))} to {times(max(ratios))} of the time with "
            f"malloc, and {len(none)} of {len(report.rows)} ways allocate nothing"
        )
    if buffer := report.data.get("buffer"):
        fresh, pooled = buffer["fresh_ns"], buffer["pooled_ns"]
        yield (
            f"A fresh buffer of 1 KiB costs {fresh:.1f} ns, {times(fresh / pooled)} times a pooled one's "
            f"{pooled:.1f} (published: {PUBLISHED_BUFFER_NS['fresh']} and {PUBLISHED_BUFFER_NS['pooled']})"
        )


def _about_units(report: Report) -> Iterator[str]:
    for one in report.data.get("published", ()):
        factor = 10 ** round(math.log10(one["off_by"]))
        if factor != 1:
            yield (
                f"The published {one['told_us']} µs of {one['codec']} are off by {factor:,}: 1 KB at "
                f"{one['mb_per_s']:,} MB/s takes {one['computed_us']:.2f} µs"
            )


def figures(report: Report) -> list[Figure]:
    drawn = [
        Figure(
            title="An operation on a record of about 1 KB",
            draw=lambda ax: _draw(report, ax),
            caption="CPU time; the decoders read every field.",
        )
    ]
    if _call_shares(report):
        drawn.append(
            Figure(
                title="The record in a unary call",
                draw=lambda ax: _draw_calls(report, ax),
                caption="CPU of encoding and decoding once, beside that of the call of both sides.",
            )
        )
    return drawn


def _draw(report: Report, ax: Axes) -> None:
    unchecked = {False: " unchecked"}
    names = [
        f"{row['codec']}, {row['operation']}{unchecked.get(row['checked'], '')}, {row['memory']}"
        for row in report.rows
    ]
    codecs = list(dict.fromkeys(row["codec"] for row in report.rows))
    colors = [look(codecs.index(row["codec"]))["color"] for row in report.rows]
    ax.barh(range(len(names)), [row["ns_per_op"] for row in report.rows], color=colors)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("ns per operation")


def _draw_calls(report: Report, ax: Axes) -> None:
    calls = {row["codec"]: row for row in report.data["calls"]}
    names = list(_call_shares(report))
    best = {
        operation: {row["codec"]: row["ns_per_op"] / 1e3 for row in _fastest(report, operation, checked)}
        for operation, checked in (("encode", None), ("decode", True))
    }
    parts = {
        "encode": [best["encode"][name] for name in names],
        "decode": [best["decode"][name] for name in names],
        "client": [calls[name]["client_cpu_us_per_call"] for name in names],
        "server": [calls[name]["server_cpu_us_per_call"] for name in names],
    }
    left = [0.0] * len(names)
    for series, (part, values) in enumerate(parts.items()):
        ax.barh(range(len(names)), values, left=left, color=look(series)["color"], label=part)
        left = [one + more for one, more in zip(left, values, strict=True)]
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("CPU per call (µs)")
    ax.set_xlim(0, 1.35 * (max(left, default=0) or 1))  # room for the legend
    ax.legend(loc="center right")


EXPERIMENT = Experiment(
    name="codecs",
    question="What does it cost to encode and decode a record?",
    columns=(
        *("codec", "operation", "memory", "checked", "ns_per_op", "mb_per_s"),
        *("allocs_per_op", "bytes_per_op", "encoded_bytes"),
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "codecs": list(PACKAGES),
        "ops": 10_000,
        "repeats": 3,
        "calls": 1,
        "duration": 0.25,
        "concurrency": 16,
    },
    full={
        "codecs": list(PACKAGES),
        "ops": 100_000,
        "repeats": 10,
        "calls": 5,
        "duration": 2.0,
        "concurrency": 64,
    },
    source='in Go, 1 KB: FlatBuffers 1,842 MB/s, "540 µs", no allocation; msgp 2,167 MB/s, "462 µs", 1.2 '
    "allocations; a fresh buffer 28.3 ns, a pooled one 3.1",
)
