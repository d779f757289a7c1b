"""What one more call, or one more connection, costs a process: a slope over levels, not one difference.

A single difference of two readings can say anything: 7,468 B that each call really allocated read as 0 in a
process that had freed as much before. So each repeat begins with a server that is fresh, memory is read at
several rising levels, and the slope is fitted over all of them (stats.common_slope).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

from grpcperf import units
from grpcperf.descriptors import require_descriptors
from grpcperf.errors import Interrupted, InvalidRequest
from grpcperf.hold import Hold, hold
from grpcperf.memory_cost import MemoryCost, Reading, slopes_of
from grpcperf.memstats import MemStats
from grpcperf.result import Finding
from grpcperf.spec import DEFAULT_TRANSPORT
from grpcperf.targets.target import Measurable, as_target

MOST_LEVELS = 1000
REST_S = 2.0  # what is waited for a process to come to rest that cannot be asked to
LOOK_S = 0.05
LOOKS = 5
READINGS = 5  # of a level, until one is not disturbed

Factory = Callable[[], Measurable | str]


def memory_per_call(
    factory_or_target: Factory | Measurable | str,
    levels: Sequence[int] = (0, 250, 500, 1000),
    *,
    kind: str = "unary",
    method: str | None = None,
    request: Any = None,
    metadata: Mapping[str, str | int] | None = None,
    repeats: int = 3,
    connections: int = 1,
    transport: str = DEFAULT_TRANSPORT,
    send_first: bool = False,
    channel_args: Mapping[str, int | str] | None = None,
    timeout: float | str = 10.0,
) -> MemoryCost:
    """What a call in flight costs the server: memory at several numbers of held calls, and the slope.

    `factory_or_target`: what makes a target, as gp.Server or `lambda: gp.Server("thread")`, called anew for
    each repeat and closed after it; or a target that runs, whose result is marked `warm`. In each repeat
    `connections` are opened first, so that they are not counted, and then ever more calls. `timeout` is that
    of gp.hold, for each level. Other arguments are as in gp.hold: with `method` and `request` it is a call of
    a service of one's own, which has to last by itself.

    The slope is by ordinary least squares over levels and repeats with an intercept for each repeat, its
    interval Student's (Draper and Smith 1998, 1.4). Raises InvalidRequest (also when the target holds no
    call, or no process is known), ServerDied, and what gp.hold raises.
    """
    steps = _check_levels(levels)

    def climb(target: Measurable, note: _Note) -> None:
        held = hold(
            target,
            calls=steps[-1],
            kind=kind,
            method=method,
            request=request,
            metadata=metadata,
            connections=connections,
            transport=transport,
            send_first=send_first,
            channel_args=channel_args,
            timeout=timeout,
        )
        held.calls = steps[0]
        with held:
            for level in steps:
                held.grow(level)
                note(level, lambda: held.admitted)
                note.tell(level, _shortfall([held], level))
            held.end()
            note(0, lambda: 0, "after")

    what = kind if method is None else f"{kind} {method}"
    title = f"{what} over {transport}, {connections:,} connection{'s' * (connections != 1)}"
    return _measured(factory_or_target, climb, steps, repeats, per="call", title=title)


def memory_per_connection(
    factory_or_target: Factory | Measurable | str,
    levels: Sequence[int] = (0, 100, 200, 400),
    *,
    kind: str | None = "bidi",
    method: str | None = None,
    request: Any = None,
    send_first: bool = True,
    metadata: Mapping[str, str | int] | None = None,
    repeats: int = 3,
    transport: str = DEFAULT_TRANSPORT,
    channel_args: Mapping[str, int | str] | None = None,
    timeout: float | str = 10.0,
) -> MemoryCost:
    """What a connection costs the server: memory at several numbers of them, and the slope.

    Each carries one idle stream of `kind`, which has sent a message first (`send_first`) where its kind can;
    None: connections without a call. All else is as in gp.memory_per_call.
    """
    steps = _check_levels(levels)

    def climb(target: Measurable, note: _Note) -> None:
        require_descriptors(target, steps[-1])
        with ExitStack() as connected:
            parts: list[Hold] = []
            for level in steps:
                if more := level - sum(part.connected for part in parts):
                    part = hold(
                        target,
                        calls=more,
                        kind=kind or "unary",
                        method=method,
                        request=request,
                        metadata=metadata,
                        connections=more,
                        transport=transport,
                        send_first=send_first and kind is not None,
                        channel_args=channel_args,
                        timeout=timeout,
                    )
                    part.calls = 0 if kind is None else more
                    parts.append(connected.enter_context(part))
                note(level, lambda: sum(part.connected for part in parts))
                if kind is not None:
                    note.tell(level, _shortfall(parts, level))
            for part in parts:
                part.end()
        note(0, lambda: 0, "after")

    what = "without a call" if kind is None else f"with an idle {kind} stream each"
    return _measured(factory_or_target, climb, steps, repeats, per="connection", title=f"{transport}, {what}")


class _Note:
    """Takes the readings of one target, and what there is to say of a level."""

    def __init__(self, target: Measurable, repeat: int) -> None:
        self.target = target
        self.repeat = repeat
        self.readings: list[Reading] = []
        self.shortfalls: dict[int, str] = {}

    def __call__(self, level: int, held: Callable[[], int], phase: str = "held") -> None:
        """Read its memory. What ends meanwhile, as calls do that are refused, makes the reading void."""
        for _ in range(READINGS):
            before, memory, after = held(), memory_at_rest(self.target), held()
            if before == after:
                break
        else:
            memory = replace(memory, settled=False)
        self.readings.append(Reading(repeat=self.repeat, level=level, held=after, phase=phase, memory=memory))

    def tell(self, level: int, shortfall: str) -> None:
        if shortfall:
            self.shortfalls[level] = shortfall


def _measured(
    factory_or_target: Factory | Measurable | str,
    climb: Callable[[Measurable, _Note], None],
    levels: tuple[int, ...],
    repeats: int,
    *,
    per: str,
    title: str,
) -> MemoryCost:
    repeats = units.count(repeats, "repeats", high=1000)
    warm = isinstance(factory_or_target, (Measurable, str))
    notes = []
    for repeat in range(repeats):
        with _target_for(factory_or_target) as target:
            notes.append(note := _Note(target, repeat))
            try:
                climb(target, note)
            except Interrupted:
                raise
            except KeyboardInterrupt:
                told = f"interrupted in repeat {repeat + 1} of {repeats} of memory_per_{per}"
                raise Interrupted(told) from None
            _require_spread(note, per)
    readings = tuple(reading for note in notes for reading in note.readings)
    return MemoryCost(
        per=per,
        title=title,
        levels=levels,
        repeats=repeats,
        warm=warm,
        readings=readings,
        slopes=slopes_of([note.readings for note in notes]),
        findings=tuple(_findings(notes)),
    )


def _check_levels(levels: Sequence[int]) -> tuple[int, ...]:
    """Rising whole numbers, at least two. Raises InvalidRequest."""
    wanted = "levels must be at least two whole numbers that rise, such as [0, 250, 500, 1000]"
    try:
        given = list(levels)
    except TypeError:
        raise InvalidRequest(f"{wanted}, not {units.shown(levels)}") from None
    if isinstance(levels, str) or not 2 <= len(given) <= MOST_LEVELS:
        raise InvalidRequest(f"{wanted}, not {units.shown(levels)}")
    checked = tuple(units.count(level, "levels", low=0, high=10_000_000) for level in given)
    if any(after <= before for before, after in pairwise(checked)):
        raise InvalidRequest(f"{wanted}, not {units.shown(levels)}")
    return checked


def _target_for(given: Factory | Measurable | str) -> Any:
    """A context that gives the target, and closes it if it was made here. Raises InvalidRequest."""
    if isinstance(given, (Measurable, str)):
        return nullcontext(_with_process(as_target(given)))
    if not callable(given):
        raise InvalidRequest(
            "factory_or_target must be a target, or what makes one such as gp.Server, "
            f"not {units.shown(given)}"
        )
    return _with_process(as_target(given()))


def _with_process(target: Measurable) -> Measurable:
    if target.pid is None:
        raise InvalidRequest(f"memory of {target!r}: the process is not known; give pid= to gp.Target")
    return target


def memory_at_rest(target: Measurable) -> MemStats:
    """Memory once it no longer moves. A server of ours sees to that itself, any other is watched."""
    memory = target.memstats(settle=True)
    if target.has_counters:
        return memory
    until, seen = time.monotonic() + REST_S, [memory.rss or 0]
    while time.monotonic() < until:
        time.sleep(LOOK_S)
        memory = target.memstats(settle=True)
        seen = [*seen[1 - LOOKS :], memory.rss or 0]
        if len(seen) == LOOKS and (max(seen) - min(seen)) * 200 <= max(seen):
            return memory
    return replace(memory, settled=False)


def _shortfall(parts: Sequence[Hold], level: int) -> str:
    """What kept calls of this level from running; nothing when all run."""
    running, queued = sum(part.running for part in parts), sum(part.queued for part in parts)
    if running >= level:
        return ""
    ended: dict[str, int] = {}
    for part in parts:
        for name, count in part.status.items():
            ended[name] = ended.get(name, 0) + count
    told = [f"{running:,} of {level:,} calls ran"]
    told += [f"{queued:,} were queued"] if queued else []
    return ", ".join(told + [f"{count:,} ended as {name}" for name, count in ended.items()])


def _require_spread(note: _Note, per: str) -> None:
    """A slope needs two levels that differ in what was held."""
    if len({one.held for one in note.readings if one.phase == "held"}) < 2:
        why = next(iter(note.shortfalls.values()), "none could be held")
        raise InvalidRequest(f"memory_per_{per} of {note.target!r}: it held no more at any level: {why}")


def _findings(notes: Sequence[_Note]) -> Iterator[Finding]:
    from grpcperf.findings import finding  # late: importing the package should cost little

    shortfalls = {level: told for note in reversed(notes) for level, told in note.shortfalls.items()}
    if shortfalls:
        told = "; ".join(shortfalls[level] for level in sorted(shortfalls))
        yield finding("level_not_reached", told, measured=len(shortfalls), threshold=0)
    moving = [one for note in notes for one in note.readings if not one.memory.settled]
    if moving:
        levels = ", ".join(f"{level:,}" for level in sorted({one.level for one in moving}))
        yield finding("not_settled", f"{len(moving)} readings did not come to rest, at {levels}")
