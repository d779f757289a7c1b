"""What the tests of a pytest session measured: kept for the summary at its end and for its files. Used by
pytest_plugin."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpcperf.comparison import Comparison
from grpcperf.errors import EngineError
from grpcperf.result import Result
from grpcperf.units import format_number, format_seconds

SCHEMA = 1


@dataclass
class Measured:
    """One measurement of a test; `number` counts those of the same test from 0."""

    test: str  # node id
    number: int
    measured: Result | Comparison
    outcome: str = "passed"  # of the test

    @property
    def name(self) -> str:
        return self.test if self.number == 0 else f"{self.test} ({self.number + 1})"


@dataclass
class Session:
    """The records of a session, in the order they were made."""

    records: list[Measured] = field(default_factory=list)
    unwritable = EngineError  # what writing raises

    def add(self, test: str, measured: Result | Comparison) -> None:
        number = sum(record.test == test for record in self.records)
        self.records.append(Measured(test, number, measured))

    def outcome(self, test: str, outcome: str) -> None:
        for record in self.records:
            if record.test == test:
                record.outcome = outcome

    def summary(self) -> Iterable[str]:
        """The table at the session's end."""
        rows = [("test", "calls/s", "p50", "p99", "errors", "findings"), *map(_summary_row, self.records)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        for row in rows:
            first, *others, last = zip(row, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others), last[0]]
            yield "  ".join(cells).rstrip()

    def write(self, path: Path) -> None:
        """All of them, in a file of JSON. Raises EngineError."""
        from grpcperf import environment

        tests = [
            {
                "test": one.test,
                "number": one.number,
                "outcome": one.outcome,
                "measurement": "comparison" if isinstance(one.measured, Comparison) else "load",
                **one.measured.row(),
            }
            for one in self.records
        ]
        about = {"schema": SCHEMA, "created": environment.now(), "environment": environment.summary()}
        _write(path, about | {"tests": tests})

    def write_benchmark(self, path: Path) -> None:
        """The loads in the form that pytest-benchmark writes and `pytest-benchmark compare` reads: a call is
        a round. Raises EngineError."""
        from grpcperf import environment

        machine = environment.summary()
        document = {
            "machine_info": {**machine, "node": "", "python_version": machine.get("python")},
            "commit_info": {"id": "", "dirty": False},
            "benchmarks": [
                _benchmark(one.name, one.measured)
                for one in self.records
                if isinstance(one.measured, Result) and one.measured.latency.count
            ],
            "datetime": environment.now(),
            "version": "5.1.0",
        }
        _write(path, document)


def _summary_row(record: Measured) -> tuple[str, ...]:
    one = record.measured
    codes = " ".join(finding.code for finding in one.findings)
    if isinstance(one, Comparison):
        ratio = "" if one.ratio is None else f"B/A {one.ratio:.3g}"
        return record.name, one.verdict, ratio, one.metric, "", codes
    return (
        record.name,
        format_number(one.throughput_rps),
        format_seconds(one.latency.p50),
        format_seconds(one.latency.p99),
        f"{one.errors:,}",
        codes,
    )


def _benchmark(name: str, result: Result) -> dict[str, Any]:
    latency = result.latency
    quarters = [latency.quantile(q) or 0.0 for q in (0.25, 0.5, 0.75)]
    mean = latency.mean or 0.0
    squares = sum(count * (_middle(slot) - mean) ** 2 for slot, count in latency.slots)
    deviation = (squares / max(1, latency.count - 1)) ** 0.5
    file, _, test = name.partition("::")
    return {
        "group": None,
        "name": test or file,
        "fullname": name,
        "params": None,
        "param": None,
        "extra_info": {
            "throughput_rps": result.throughput_rps,
            "errors": result.errors,
            "valid": result.valid,
        },
        "options": {"disable_gc": False, "timer": "monotonic", "min_rounds": 1, "warmup": True},
        "stats": {
            "min": latency.min,
            "max": latency.max,
            "mean": mean,
            "stddev": deviation,
            "rounds": latency.count,
            "median": quarters[1],
            "q1": quarters[0],
            "q3": quarters[2],
            "iqr": quarters[2] - quarters[0],
            "iqr_outliers": 0,
            "stddev_outliers": 0,
            "outliers": "0;0",
            "ld15iqr": latency.min,
            "hd15iqr": latency.max,
            "ops": 1 / mean if mean else 0.0,
            "total": latency.sum,
            "iterations": 1,
        },
    }


def _middle(slot: int) -> float:
    from grpcperf.histogram import slot_high, slot_low

    return (slot_low(slot) + slot_high(slot)) / 2e9


def _write(path: Path, document: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(document, allow_nan=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror}") from None


def command_of(result: Result) -> str:
    """The shell command that measures the same, as far as a shell can: against a native server of its own."""
    from dataclasses import fields

    spec, words = result.spec, ["grpcperf", "load"]
    for one in fields(spec):
        value = getattr(spec, one.name)
        if one.name not in spec._given or one.name in _NOT_IN_A_SHELL or value is None:
            continue
        option = f"--{one.name.replace('_', '-')}"
        if isinstance(value, Mapping):
            name = "--channel-arg" if one.name == "channel_args" else option
            words += [word for key, item in value.items() for word in (name, f"{key}={_told(item)}")]
        elif isinstance(value, bool):
            words += [option] if value else []
        else:
            words += [option, _told(value)]
    return shlex.join(words)


def needs_of(result: Result) -> str:
    """What that command does not have: a server of the user's own, and what was sent to it."""
    if result.spec.is_benchmark_service:
        return ""
    return " --request FILE TARGET (FILE: the request, serialized; TARGET: your server)"


_NOT_IN_A_SHELL = ("request", "steps", "keepalive", "pick", "calls_per_connection")


def _told(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
