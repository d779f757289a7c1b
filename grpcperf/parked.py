"""What held calls cost, as one report: `grpcperf hold`, and the demo's first part."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from grpcperf.hold import Hold, hold
from grpcperf.memory import memory_at_rest
from grpcperf.memstats import MemStats
from grpcperf.result import Status
from grpcperf.targets.target import Measurable
from grpcperf.units import format_bytes, format_number, format_seconds

REFUSAL_S = 0.3  # from the first moment of a hold on: what ends then with an error was never held
LOOK_S = 0.05  # between two looks at calls that are held
PER_CALL = ("heap_alloc", "stack_inuse", "sys", "rss")


@dataclass(kw_only=True)
class HoldReport:
    """Calls at the moment when all were in flight, and the process's memory before, then, and after.

    `admitted` of them the server had, running or queued, when its memory was read. `hold_s` is how long they
    were held, `release_s` how long they took to end once told to. `lost` had been held when they ended with
    an error, the first of them `lost_s` after the holding began. Memory is None where the process is not
    known.
    """

    calls: int
    running: int = 0
    queued: int = 0
    refused: int = 0
    admitted: int = 0
    lost: int = 0
    lost_s: float | None = None
    hold_s: float = 0.0
    release_s: float | None = None
    before: MemStats | None = None
    held: MemStats | None = None
    after: MemStats | None = None
    ended: Status = field(default_factory=Status)
    interrupted: bool = False

    def per_call(self, name: str) -> float | None:
        """Bytes of a MemStats field that a call at the server added: the plain difference of two readings."""
        if self.before is None or self.held is None or not self.admitted:
            return None
        before, held = getattr(self.before, name), getattr(self.held, name)
        if before is None or held is None:
            return None
        return float(held - before) / self.admitted

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        memory: dict[str, Any] | None = None
        if self.before is not None:
            memory = {
                "per_call": {name: self.per_call(name) for name in PER_CALL},
                "before": self.before.as_dict(),
                "held": self.held.as_dict() if self.held else None,
                "after": self.after.as_dict() if self.after else None,
            }
        return {
            "calls": self.calls,
            "running": self.running,
            "queued": self.queued,
            "refused": self.refused,
            "lost": self.lost,
            "lost_s": self.lost_s,
            "status": dict(self.ended),
            "hold_s": self.hold_s,
            "release_s": self.release_s,
            "interrupted": self.interrupted,
            "memory": memory,
        }

    def __str__(self) -> str:
        counts = [f"{self.running:,} of {self.calls:,} calls ran"]
        if self.queued:
            counts.append(f"{self.queued:,} were queued")
        if self.refused:
            counts.append(f"{self.refused:,} were refused")
        if self.lost:
            counts.append(f"{self.lost:,} ended with an error after {format_seconds(self.lost_s)}")
        times = f"held for {format_seconds(self.hold_s)}, ended in {format_seconds(self.release_s)}"
        lines = [f"{', '.join(counts)}; {times}"]
        if ended := ", ".join(f"{name} {count:,}" for name, count in self.ended.items() if name != "OK"):
            lines.append(f"not OK: {ended}")
        if self.before is None:
            return "\n".join([*lines, "memory is not known: give --pid"])
        lines.append(f"{'':<12}{'per call':>12}{'before':>12}{'held':>12}{'after':>12}")
        stages = (self.before, self.held, self.after)
        for name in PER_CALL:
            values = [None if stage is None else getattr(stage, name) for stage in stages]
            if any(value is not None for value in values):
                cells = [format_bytes(value) for value in (self.per_call(name), *values)]
                lines.append(f"{name:<12}" + "".join(f"{cell:>12}" for cell in cells))
        tasks = [format_number(None if stage is None else stage.tasks) for stage in stages]
        lines.append(f"{'tasks':<12}{'':>12}" + "".join(f"{cell:>12}" for cell in tasks))
        if any(stage is not None and not stage.settled for stage in stages):
            lines.append("memory did not come to rest: these readings are rough")
        return "\n".join(lines)


def _watch(held: Hold, report: HoldReport, started: float, seconds: float) -> None:
    """Until the time is over, or all were lost. Calls that end with an error while the others are hardly
    there were refused: the last of these were on their way when it began."""
    while True:
        ended, last = held.refused, held.last_ended
        if ended > report.refused + report.lost and last is not None:
            if last - started < REFUSAL_S:
                report.refused = ended
            else:
                report.lost = ended - report.refused
                report.lost_s = last - started if report.lost_s is None else report.lost_s
        passed = time.monotonic() - started
        if passed >= seconds or (report.lost and held.running + held.queued == 0):
            return
        time.sleep(min(LOOK_S, seconds - passed))


def hold_and_measure(target: Measurable, seconds: float, **arguments: Any) -> HoldReport:
    """Hold calls (the arguments of gp.hold) for some seconds, reading the target's memory on the way.

    A server of ours releases them; on any other they are cancelled. Ctrl-C ends the holding, and what is
    known by then is reported with `interrupted` set. Raises what gp.hold raises.
    """
    report = HoldReport(calls=arguments["calls"])
    try:
        if target.pid is not None:
            report.before = memory_at_rest(target)
        with hold(target, **arguments) as held:
            report.running, report.queued = held.running, held.queued
            started = time.monotonic()
            try:
                if target.pid is not None:
                    report.held = memory_at_rest(target)
                    report.admitted = held.admitted  # a deadline may have ended some by now
                _watch(held, report, started, seconds)
            except KeyboardInterrupt:
                report.interrupted = True
            report.hold_s = time.monotonic() - started
            report.running = max(0, min(report.running, held.calls - report.queued - report.refused))
            report.release_s = held.end()
            report.ended = held.status
        if target.pid is not None:
            report.after = memory_at_rest(target)
    except KeyboardInterrupt:  # Interrupted too
        report.interrupted = True
    return report
