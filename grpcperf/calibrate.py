"""The ceiling of this machine: what the wire client reaches against a server that does no work.

A result near it says as much of the client as of the server. Measured once (`grpcperf calibrate`), kept in
the user's cache folder, and looked up by the findings of every load.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from grpcperf import cache, environment
from grpcperf.errors import EngineError, InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from grpcperf.result import Result
    from grpcperf.targets.mirror import Mirror

IN_FLIGHT = 1000
RUNS = 5
RUN_S = 0.4
WARMUP_S = 0.1
STEADY = 0.7  # the worst run by the best, of a machine at rest


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Medians over short runs: one connection, one client thread, 16 bytes each way, `in_flight` unary calls.

    `client_cpu` and `mirror_cpu` are the CPUs they ran on; None where there was one for both, which then
    also limits calls_per_s. `runs`: calls/s of each. `date`: UTC, ISO 8601.
    """

    calls_per_s: float
    client_cpu_us_per_call: float
    transport: str
    in_flight: int
    runs: tuple[float, ...]
    client_cpu: int | None
    mirror_cpu: int | None
    date: str
    fingerprint: str

    @property
    def disturbed(self) -> bool:
        """The runs differ so much that something else must have been running."""
        return min(self.runs) < STEADY * max(self.runs)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"disturbed": self.disturbed}

    def __str__(self) -> str:
        apart = "" if self.client_cpu is not None else ", both on one CPU"
        low, high = min(self.runs), max(self.runs)
        return (
            f"ceiling of the {self.transport} client here: {self.calls_per_s:,.0f} calls/s, "
            f"{self.client_cpu_us_per_call:.3f} µs of CPU per call\n"
            f"one connection, one thread, {self.in_flight:,} calls in flight against the mirror{apart}; "
            f"median of {len(self.runs)} runs from {low:,.0f} to {high:,.0f}"
        )


def calibrate(*, runs: int = RUNS, duration: float = RUN_S) -> Calibration:
    """Measure it: about three seconds. Raises EngineError when the wire transport is not there, or when calls
    failed."""
    from grpcperf.targets.mirror import Mirror

    cpus = sorted(os.sched_getaffinity(0))
    mirror_cpu, client_cpu = (cpus[0], cpus[-1]) if len(cpus) > 1 else (None, None)
    with Mirror(cpus=None if mirror_cpu is None else [mirror_cpu]) as mirror:
        results = [_run(mirror, client_cpu, duration) for _ in range(runs)]
    rates = tuple(result.throughput_rps for result in results)
    costs = [result.client_cpu_us_per_call for result in results]
    return Calibration(
        calls_per_s=statistics.median(rates),
        client_cpu_us_per_call=statistics.median(cost for cost in costs if cost is not None),
        transport="wire",
        in_flight=IN_FLIGHT,
        runs=rates,
        client_cpu=client_cpu,
        mirror_cpu=mirror_cpu,
        date=environment.now(),
        fingerprint=environment.fingerprint(),
    )


def _run(mirror: Mirror, cpu: int | None, duration: float) -> Result:
    from grpcperf.load import load

    pinned: dict[str, Any] = {} if cpu is None else {"cpus": [cpu]}
    try:
        result = load(
            mirror,
            transport="wire",
            concurrency=IN_FLIGHT,
            duration=duration,
            warmup=WARMUP_S,
            progress=False,
            **pinned,
        )
    except InvalidRequest as error:
        raise EngineError(f"calibrating needs the wire transport: {error}") from None
    if result.errors or not result.calls or result.client_cpu_us_per_call is None:
        raise EngineError(f"calibrating failed: calls on the mirror ended as {dict(result.status)}")
    return result


# --- kept between runs


def known_ceiling() -> float | None:
    """calls/s of one client thread, as last calibrated on this machine with this version; None when it never
    was. Reads a small file; never raises.

    Of the best run, not of the median: what disturbs a run lowers it, and a ceiling that is too low would
    blame good results.
    """
    found = recall()
    return None if found is None else max(found.runs)


def recall() -> Calibration | None:
    """The calibration kept for this machine and this version, if there is one that makes sense."""
    entry = _read(cache_file()).get(environment.fingerprint())
    if not isinstance(entry, dict):
        return None
    try:
        known = {name: entry[name] for name in Calibration.__dataclass_fields__}
        found = Calibration(**known | {"runs": tuple(entry["runs"])})
        good = min(found.calls_per_s, found.client_cpu_us_per_call, *found.runs) > 0 and found.runs
        return found if good else None
    except (TypeError, KeyError):  # of another version's making
        return None


def keep(calibration: Calibration) -> Path | None:
    """Keep it for later runs, in place of an earlier one. The file, or None where it cannot be written."""
    path = cache_file()
    document = json.dumps({**_read(path), calibration.fingerprint: calibration.as_dict()}, indent=1)
    draft = path.with_name(f"{path.name}.{os.getpid()}")  # whole or not at all, also when two do it at once
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(document, encoding="utf-8")
        draft.replace(path)
    except OSError:
        return None
    return path


def cache_file() -> Path:
    return cache.folder() / "calibration.json"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
