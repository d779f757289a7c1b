"""What a server's memory was before, while and after it had something to hold: for experiments about what
that costs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpcperf.experiments.kit import Kit, Row, ServerKind
from grpcperf.findings import finding
from grpcperf.hold import hold
from grpcperf.memory import memory_at_rest
from grpcperf.memstats import MemStats
from grpcperf.result import Finding
from grpcperf.targets import GoServer, Measurable

KIB = 1024
IDLE_S = 5.0
LOOK_S = 0.01
TOP = 5  # functions of a heap profile that are kept


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Three readings of a process, of which the one in the middle had `count` of something."""

    count: int
    before: MemStats
    held: MemStats
    after: MemStats

    def kib(self, *fields: str) -> float | None:
        """What one of them added to these fields together, in KiB; None where one is not known."""
        return kib_each(self.before, self.held, self.count, *fields)

    def kept_kib(self, *fields: str) -> float | None:
        """The same of what was still there afterwards."""
        return kib_each(self.before, self.after, self.count, *fields)

    @property
    def tasks_each(self) -> float | None:
        """Tasks that one of them added; None where they are not known."""
        before, held = self.before.tasks, self.held.tasks
        return None if before is None or held is None else (held - before) / self.count

    def memory(self, each: str) -> Row:
        """Columns, whose names end in _per_`each`."""
        parts = {
            "heap": ("heap_alloc",),
            "stack": ("stack_inuse",),
            "total": ("heap_alloc", "stack_inuse"),
            "sys": ("sys",),
        }
        return {f"{name}_kib_per_{each}": self.kib(*fields) for name, fields in parts.items()}


def kib_each(before: MemStats, after: MemStats, count: int, *fields: str) -> float | None:
    """What was added to these fields together, for each of `count`, in KiB; None where one is not known."""
    pairs = [(getattr(before, name), getattr(after, name)) for name in fields]
    if any(low is None or high is None for low, high in pairs):
        return None
    return float(sum(high - low for low, high in pairs)) / count / KIB


def held_calls(
    kit: Kit,
    server: ServerKind,
    *,
    kind: str,
    calls: int,
    metadata: Mapping[str, str | int] | None = None,
    look: Callable[[Measurable], None] | None = None,
) -> Readings:
    """A fresh server with `calls` parked in it. What it makes once, and the connection of these calls, are in
    `before`. Streams of messages from the client have exchanged one before they are parked, for a stream that
    never did has not grown its stack yet. `look` is called while all are there."""
    first = kind in ("bidi", "bidi_free", "client_stream")
    with server.start() as target:
        with hold(target, calls=1, kind=kind, send_first=first):
            pass
        held = hold(target, calls=calls, kind=kind, metadata=metadata, send_first=first, timeout=60)
        held.calls = 0
        with held:
            before = at_rest(kit, server.name, target)
            held.grow(calls)
            _wait(lambda: target.has_counters and target.counters().parked < held.running)
            during = at_rest(kit, server.name, target)
            require_running(kit, server.name, held.running, calls)
            if look is not None:
                look(target)
        await_idle(target)
        after = at_rest(kit, server.name, target)
    return Readings(count=calls, before=before, held=during, after=after)


def at_rest(kit: Kit, name: str, target: Measurable) -> MemStats:
    """Memory once it no longer moves; noted when it did not come to rest."""
    memory = memory_at_rest(target)
    if not memory.settled:
        kit.note(finding("not_settled", "memory did not come to rest within its time"), name)
    return memory


def await_idle(target: Measurable) -> None:
    """Wait for the handlers to end of calls that are over for their client: some seconds at most."""
    _wait(lambda: target.has_counters and target.counters().running > 0)


def _wait(still: Callable[[], bool]) -> None:
    end = time.monotonic() + IDLE_S
    while still() and time.monotonic() < end:
        time.sleep(LOOK_S)


def require_running(kit: Kit, server: str, running: int, calls: int) -> None:
    """Note it when fewer calls ran than the row says."""
    if running < calls:
        kit.note(
            Finding(
                code="fewer_calls_held",
                severity="invalid",
                message=f"{server} ran {running:,} of {calls:,} calls",
                measured=running,
                threshold=calls,
            )
        )


def keep_goroutines(kit: Kit, name: str, target: Measurable) -> None:
    """Keep the goroutines of a Go server by function, in the report's `data`."""
    if isinstance(target, GoServer):
        kit.data.setdefault("goroutines", {})[name] = target.goroutine_profile()


def keep_heap(kit: Kit, name: str, target: Measurable) -> None:
    """Keep the functions that allocated most of a Go server's heap, in the report's `data`."""
    if isinstance(target, GoServer):
        kit.data.setdefault("heap", {})[name] = target.heap_profile(TOP)


def told_kib(kib: float | None) -> str:
    """A figure of memory as a verdict tells it."""
    return "an unknown amount" if kib is None else f"{kib:,.1f} KiB"


def microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def known(values: Iterable[Any]) -> list[float]:
    """Those that are known."""
    return [value for value in values if value is not None]


def pause_mean_us(before: MemStats, after: MemStats) -> float | None:
    """The mean pause of the garbage collections between two readings; None where there were none or the
    process has no such thing."""
    if None in (before.num_gc, before.pause_total_ns, after.num_gc, after.pause_total_ns):
        return None
    collections = (after.num_gc or 0) - (before.num_gc or 0)
    pause_ns = (after.pause_total_ns or 0) - (before.pause_total_ns or 0)
    return pause_ns / collections / 1e3 if collections else None


def switches(target: Measurable) -> tuple[int | None, int]:
    """Context switches of a server so far, and calls that it has started."""
    started = target.counters().started if target.has_counters else 0
    return target.memstats().context_switches, started


def switches_per_call(before: tuple[int | None, int], after: tuple[int | None, int]) -> float | None:
    """Those between two readings, for each call that was started between them; None for unknown."""
    calls = after[1] - before[1]
    if before[0] is None or after[0] is None or not calls:
        return None
    return (after[0] - before[0]) / calls
