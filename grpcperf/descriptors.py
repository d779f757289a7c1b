"""File descriptors: whether there are enough for what is asked, told before the start. A server that runs out
of them stops accepting for good, and a client sees that as calls that fail for no reason."""

from __future__ import annotations

import contextlib
import os
import resource

from grpcperf import _engine
from grpcperf.errors import EngineError
from grpcperf.targets.target import Measurable

# Beside the connections: name resolution, event queues and timers of the library on either side.
RESERVE = 32


def require_descriptors(target: Measurable, connections: int) -> None:
    """Raise EngineError when this process, or the target's, is limited to fewer descriptors than it needs."""
    soft, hard = _engine.fd_limit(0)
    _require("this process", connections, _open_here(soft), soft, hard)
    if target.pid is None:
        return
    # What is not shown to us (another user's process) cannot be checked; what died is told by the probe.
    with contextlib.suppress(_engine.EngineFailure):
        open_now = _engine.process_sample(target.pid, fds=True).get("fds")
        soft, hard = _engine.fd_limit(target.pid)
        if open_now is not None:
            _require(f"the server (pid {target.pid})", connections, int(open_now), soft, hard)


def raise_soft_limit() -> None:
    """Raise this process's limit to what it may have; children inherit it. For the shell: a library has no
    business changing its host's limits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    # An unlimited hard limit is above what the kernel grants: then keep what there is.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _open_here(soft: int) -> int:
    """Descriptors open in this process. To count them takes one; when there is none, all are taken."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1
    except OSError:
        return soft


def _require(who: str, connections: int, open_now: int, soft: int, hard: int) -> None:
    needed = connections + open_now + RESERVE
    if soft < 0 or needed <= soft:
        return
    ceiling = "unlimited" if hard < 0 else f"{hard:,}"
    what = f"{connections:,} connections need" if connections > 1 else "a connection needs"
    raise EngineError(
        f"{what} {needed:,} file descriptors in {who} ({open_now:,} are open, "
        f"{RESERVE} in reserve), and {soft:,} are available: raise the limit with ulimit -n {needed} "
        f"(the hard limit is {ceiling})"
    )
