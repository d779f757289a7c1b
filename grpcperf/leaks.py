"""Whether something that is done again and again leaves something behind in a server: streams, tasks,
descriptors, memory, by their slopes over the cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from grpcperf import units
from grpcperf.errors import CheckFailed, InvalidRequest
from grpcperf.memory import memory_at_rest
from grpcperf.memory_cost import FIELDS
from grpcperf.memstats import MemStats
from grpcperf.stats import Line, common_slope
from grpcperf.targets import Measurable
from grpcperf.values import refuse_unknown

# What is watched, and how much of it for each cycle may be noise. A count that grows by less than one in
# five cycles is none; bytes of small caches still fill after hundreds of calls.
TOLERATED: dict[str, float] = {
    "streams": 0.2,
    "tasks": 0.2,
    "fds": 0.2,
    "heap_alloc": 512.0,
    "stack_inuse": 512.0,
}
WITHOUT_HEAP = {"rss_anon": 16 * 1024.0}  # a process that does not tell its heap: pages come and go
WARM_CYCLES = 5
FEWEST_FOR_BYTES = 10  # cycles: with fewer, heaps that still fill look like leaks


@dataclass(frozen=True, kw_only=True, repr=False)
class LeakReport:
    """`slopes`: what each cycle added, by field of MemStats, with the interval of the slope; `leaks`: the
    fields in which the whole interval is above what may be noise. `readings`: one after each cycle."""

    slopes: dict[str, Line]
    leaks: tuple[str, ...]
    readings: tuple[MemStats, ...]

    @property
    def unsettled(self) -> int:
        """Readings that did not come to rest, which blurs the slopes."""
        return sum(not one.settled for one in self.readings)

    @property
    def leak(self) -> bool:
        return bool(self.leaks)

    def check(self) -> LeakReport:
        """Return itself, or raise CheckFailed with the numbers."""
        if self.leak:
            raise CheckFailed(
                "it leaks, for each cycle: " + "; ".join(self._told(name) for name in self.leaks)
            )
        return self

    def _told(self, name: str) -> str:
        line, show = self.slopes[name], units.format_bytes if name in _BYTES else units.format_number
        bounds = (
            ""
            if line.low is None
            else f" ({line.confidence:.0%} interval {show(line.low)} to {show(line.high)})"
        )
        return f"{show(line.slope)} {name}{bounds}"

    def __repr__(self) -> str:
        told = "; ".join(self._told(name) for name in self.slopes)
        state = f"leaks {', '.join(self.leaks)}" if self.leak else "no leak"
        rest = f" ({self.unsettled} readings did not come to rest)" if self.unsettled else ""
        return f"<LeakReport {state} in {len(self.readings)} cycles{rest}, for each: {told}>"


_BYTES = ("heap_alloc", "stack_inuse", "rss_anon")


def find_leaks(
    target: Measurable,
    action: Callable[[], Any],
    *,
    cycles: int = 20,
    tolerated: dict[str, float] | None = None,
) -> LeakReport:
    """Do `action` once for each of `cycles`, read the target's memory at rest after each, and fit what a
    cycle adds.

    The first few cycles fill caches and are not counted. A field leaks when, over all cycles and over the
    second half of them (what fills up ends), the whole 95 % interval of its slope (stats.common_slope) is
    above what is `tolerated` for each cycle, in its own unit. Raises InvalidRequest for a target whose
    process is not known, and what the action raises.
    """
    times = units.count(cycles, "cycles", low=5, high=100_000)
    if not callable(action):
        raise InvalidRequest(f"action must be a callable, not {units.shown(action)}")
    if target.pid is None:
        raise InvalidRequest(f"leaks of {target!r}: the process is not known; give pid= to gp.Target")
    refuse_unknown(tolerated or {}, FIELDS, "field of MemStats")
    for _ in range(WARM_CYCLES):
        action()
    readings = []
    for _ in range(times):
        action()
        readings.append(memory_at_rest(target))
    return judge(readings, tolerated)


def judge(readings: Sequence[MemStats], tolerated: dict[str, float] | None = None) -> LeakReport:
    """What readings after equal cycles say."""
    limits = TOLERATED | ({} if readings[0].heap_alloc is not None else WITHOUT_HEAP) | (tolerated or {})
    slopes, leaks = {}, []
    for name, limit in limits.items():
        values = [getattr(one, name) for one in readings]
        if any(value is None for value in values):
            continue
        line = common_slope([[(float(at), float(value)) for at, value in enumerate(values)]])
        if line is None:
            continue
        slopes[name] = line
        late = common_slope([[(float(at), float(v)) for at, v in enumerate(values)][len(values) // 2 :]])
        told = len(values) >= FEWEST_FOR_BYTES or name not in _BYTES
        if told and all(one is not None and one.low is not None and one.low > limit for one in (line, late)):
            leaks.append(name)
    return LeakReport(slopes=slopes, leaks=tuple(leaks), readings=tuple(readings))
