"""Exact counts of what child processes allocate, by an object loaded into them before their allocator.

Counted are calls of malloc, calloc, realloc, free and the aligned ones that reach the dynamic linker: those
of every dynamically linked glibc program, whatever its allocator, and of the programs that it executes, each
for itself. A statically linked or set-user-ID program, or one with another C library, does not load the
object; an allocator that is linked into the program, and Go's own heap, go past it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from grpcperf import _engine
from grpcperf.engine import translated
from grpcperf.errors import InvalidRequest

LIBRARY = "libgrpcperf-preload.so"


class Counting:
    """The counts of processes that are started with `environment`, and of those that they start.

    They are in memory shared with those processes, which are not asked for them: reading works while they are
    stopped or stuck. Nothing is left behind on a disk, however this process ends; a process that was started
    counts on when this object is closed or gone. Raises EngineError when there is no memory for it.
    """

    def __init__(self) -> None:
        from grpcperf.targets.child import executable

        path = executable(LIBRARY)
        with translated():
            self._counts: _engine.Allocations | None = _engine.Allocations()
        self._library: int | None = None
        self._preload = str(path)
        if re.search(r"[\s:$]", self._preload):  # which mean something in LD_PRELOAD
            self._library = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._preload = f"/proc/{os.getpid()}/fd/{self._library}"

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """`env`, and what makes a process count. An LD_PRELOAD of its own still loads, after ours."""
        counts = self._open()
        others = env.get("LD_PRELOAD")
        preload = f"{self._preload}:{others}" if others else self._preload
        return {**env, "LD_PRELOAD": preload, counts.variable: counts.path}

    def read(self, pid: int) -> dict[str, int] | None:
        """total_alloc, heap_alloc (live; bytes as malloc_usable_size has them), mallocs, frees and
        heap_objects of process `pid` since it executed its program; None when it does not count. `missing`
        says why.

        A reallocation is a malloc of the new block and a free of the old one, as Valgrind counts. Exact while
        the process is at rest. A forked child begins with its parent's counts, as its heap begins with its
        parent's. Counts outlive the process.
        """
        counted = self._open().read(pid)
        if counted is None:
            return None
        return {
            "heap_alloc": counted["allocated_bytes"] - counted["freed_bytes"],
            "total_alloc": counted["allocated_bytes"],
            "mallocs": counted["mallocs"],
            "frees": counted["frees"],
            "heap_objects": counted["mallocs"] - counted["frees"],
        }

    def missing(self, pid: int) -> str | None:
        """Why there are no counts of process `pid`, in words for its user; None when there are."""
        counted = self._open().read(pid)
        if counted is None:
            return (
                f"the allocations of process {pid} are not counted: {LIBRARY} was not loaded into it. Is it "
                "statically linked, set-user-ID, another user's, or of another C library or word size?"
            )
        if counted["mallocs"] == 0:
            return f"process {pid} has not called malloc: has it an allocator of its own linked in?"
        return None

    def close(self) -> None:
        """Let go of the counts. Idempotent."""
        self._counts = None
        if self._library is not None:
            os.close(self._library)
        self._library = None

    def __del__(self) -> None:
        if getattr(self, "_library", None) is not None:
            self.close()

    def _open(self) -> _engine.Allocations:
        if self._counts is None:
            raise InvalidRequest("the counts of allocations were closed")
        return self._counts
