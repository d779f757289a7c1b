"""A process watched over time, from outside and, for servers started here, from inside."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import Error, InvalidRequest, ServerDied
from grpcperf.memstats import MemStats
from grpcperf.targets.target import Measurable, as_target

if TYPE_CHECKING:
    import pandas as pd

DEAR_S = 0.1  # how often at most files of threads and links of descriptors are read
INSIDE_S = 0.25  # how often at most the server itself is asked: each answer costs it up to milliseconds
ANSWER_S = 0.2  # what is waited for its answer; without one it is left alone for a while
ALONE_S = 2.0
PSS_S = 1.0  # smaps_rollup takes 24 ms at 4 GiB, in which the process's memory map is locked
# What a reading has taken is waited this many times over before the next: a file for each thread and a link
# for each descriptor are 20 ms for a thousand of them, 10,000 stacks are 13 ms of the server.
DEAR_SHARE = 100
INSIDE_SHARE = 50
_INSIDE = ("heap_alloc", "heap_sys", "stack_inuse", "stack_sys", "sys", "goroutines", "streams")
_COUNTED = ("running", "parked", "queued", "started", "finished")
_PROCESS = ("rss", "rss_anon", "peak_rss", "pss", "threads", "cpu_user_s", "cpu_system_s")
_DEAR = ("fds", "sockets", "context_switches")
COLUMNS = ("time", "cpu", *_PROCESS, *_DEAR, *_INSIDE, "tasks", *_COUNTED)


class Sampler:
    """Reads a target's process every `interval` seconds, in a thread of its own, while the `with` block
    lasts.

    `target` is a server, a gp.Process, a gp.Target with pid=, or a process's number. `pss`: also the
    proportional share, once a second at most. Context switches (of the threads alive), descriptors and
    sockets are read ten times a second at most, and in a large process so rarely that this takes a hundredth
    of the time. What the target says of itself (heap, stacks, tasks, running calls) is asked for four times a
    second at most. Readings follow a fixed schedule: one that comes late does not shift the next, and those
    that were missed are left out. A target that is stopped or stuck is still seen from outside. When it dies
    the series ends. One that is dropped ends, too.

    Raises InvalidRequest when no process is known; entering it raises ServerDied or EngineError when the
    process is gone or not to be seen.
    """

    def __init__(
        self, target: Measurable | int | str, *, interval: float | str = 0.05, pss: bool = False
    ) -> None:
        seconds = units.seconds(interval, "interval", low=0.001, high=3600.0)
        self._target = None if isinstance(target, int) else as_target(target)
        pid = target if isinstance(target, int) else self._target.pid if self._target else None
        if pid is None:
            raise InvalidRequest(f"Sampler of {target!r}: the process is not known; give pid= to gp.Target")
        self._series = _Series(units.count(pid, "pid", high=2**22), self._target, seconds, pss=bool(pss))
        self._series.owner = weakref.ref(self)
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise InvalidRequest("a Sampler is entered once; make another")
        if self._target is not None:
            self._target.require_usable()
        with translated():  # what can be told at once should not be found out from an empty series
            _engine.process_sample(self._series.pid)
        self._thread = threading.Thread(target=self._series.watch, name="grpcperf-sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the series. Idempotent."""
        self._series.cease()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def __del__(self) -> None:
        if hasattr(self, "_series"):
            self._series.cease()

    def rows(self) -> list[dict[str, Any]]:
        """The readings so far, oldest first. `time` is seconds since entering, `cpu` the CPUs in use since
        the reading before, sizes are bytes; None where a value was not read at that moment."""
        return [dict.fromkeys(COLUMNS) | row for row in list(self._series.rows)]

    def frame(self) -> pd.DataFrame:
        """rows() as a pandas frame, in columns of numbers with NaN for what was not read."""
        from grpcperf.results import pandas

        library = pandas()
        frame = library.DataFrame(self.rows(), columns=list(COLUMNS))
        return frame.apply(library.to_numeric)

    def __repr__(self) -> str:
        series = self._series
        state = "stopped" if series.ceased else "running" if self._thread else "not entered"
        return f"<Sampler of pid {series.pid}, {len(series.rows)} readings, {state}>"


class _Series:
    """What the thread works on. It knows nothing of the Sampler, so that one which is dropped, be it by an
    interrupt before it was stopped, can end its thread."""

    owner: weakref.ref[Sampler]

    def __init__(self, pid: int, target: Measurable | None, interval_s: float, *, pss: bool) -> None:
        self.pid = pid
        self.rows: list[dict[str, Any]] = []
        self.ceased = False
        self._wake = threading.Lock()  # held until then; an Event does not survive an interrupt in its set()
        self._wake.acquire()
        self._target = target
        self._interval_s = interval_s
        self._pss = pss
        self._started_s = self._dear_due = self._pss_due = self._inside_due = 0.0

    def cease(self) -> None:
        """End it soon. Idempotent."""
        self.ceased = True
        with contextlib.suppress(RuntimeError):  # it has been released before
            self._wake.release()

    def watch(self) -> None:
        due = self._started_s = time.monotonic()
        while True:
            try:
                row = self._outside()
            except ServerDied:
                return
            if row:
                self.rows.append(row | self._inside(row))
            passed = max(0.0, time.monotonic() - due)
            due += (passed // self._interval_s + 1) * self._interval_s
            self._wake.acquire(timeout=max(0.0, due - time.monotonic()))
            if self.ceased or self.owner() is None:  # its __del__ may have been interrupted
                return

    def _outside(self) -> dict[str, Any]:
        """What the kernel says; nothing when it cannot be read this time, as for want of a descriptor."""
        begin = time.monotonic()
        dear, pss = begin >= self._dear_due, self._pss and begin >= self._pss_due
        try:
            with translated():
                sample = _engine.process_sample(self.pid, pss=pss, fds=dear, sockets=dear, switches=dear)
        except ServerDied:
            raise
        except Error:
            return {}
        if "pss" in sample:
            self._pss_due = begin + PSS_S
        elif dear:
            self._dear_due = begin + max(DEAR_S, DEAR_SHARE * (time.monotonic() - begin))
        row: dict[str, Any] = {name: sample[name] for name in (*_PROCESS, *_DEAR) if name in sample}
        row["time"] = float(sample["time"]) - self._started_s
        row["cpu"] = self._cpus_in_use(row)
        return row

    def _cpus_in_use(self, row: dict[str, Any]) -> float | None:
        if not self.rows:
            return None
        before = self.rows[-1]
        used = sum(row[name] - before[name] for name in ("cpu_user_s", "cpu_system_s"))
        span = row["time"] - before["time"]
        return float(used / span) if span > 0 else None

    def _inside(self, row: dict[str, Any]) -> dict[str, Any]:
        """What the target says beside a row from outside, when it is to be asked again."""
        begin = time.monotonic()
        if self._target is None or begin < self._inside_due:
            return {}
        said = self._ask(self._target)
        pause = max(INSIDE_S, INSIDE_SHARE * (time.monotonic() - begin)) if said else ALONE_S
        self._inside_due = begin + pause
        known: dict[str, Any] = {name: said[name] for name in (*_INSIDE, *_COUNTED) if name in said}
        if known:
            scheduled = ("goroutines", "threadless", "own_threads")
            tasks: dict[str, Any] = {name: said[name] for name in scheduled if name in said}
            known["tasks"] = MemStats(threads=row["threads"], **tasks).tasks
        return known

    def _ask(self, target: Measurable) -> Mapping[str, int | float]:
        """Nothing when it is closed, dying, or too busy to answer soon."""
        try:
            return target.peek(ANSWER_S)
        except Error:
            return {}
