"""What the throughput curves have in common: one closed loop at one point, as the columns of a row."""

from __future__ import annotations

from typing import Any

from grpcperf.experiments.kit import Kit, Row
from grpcperf.load import load
from grpcperf.result import Result
from grpcperf.targets import Measurable

METRICS = (
    *("throughput_rps", "mib_per_s", "latency_p50_us", "latency_p99_us", "errors"),
    *("client_cpu_us_per_call", "server_cpu_us_per_call"),
)


def point(kit: Kit, target: Measurable, where: str, **arguments: Any) -> Row:
    """Measure one point and note what was found."""
    return row_of(kit, load(target, progress=False, **arguments), where)


def row_of(kit: Kit, result: Result, where: str) -> Row:
    kit.note(result, where)
    row = result.row()
    return {name: row[name] for name in METRICS}


def times(value: float) -> str:
    """A factor, for a verdict."""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
