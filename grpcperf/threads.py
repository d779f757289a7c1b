"""Threads: whether there are enough for what is asked, told before the start. gRPC C core waits for ever on a
thread of its own that could not be made."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grpcperf.errors import EngineError

_INITIAL_NAMESPACE = ["0", "0", "4294967295"]
_MAY_EXCEED = 1 << 21 | 1 << 24  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE


@dataclass(frozen=True)
class Ceiling:
    """What limits the number of threads, as `ulimit -u`: how many it allows, and how many are there."""

    name: str
    most: int
    taken: int

    @property
    def free(self) -> int:
        return max(0, self.most - self.taken)


def core_threads() -> int:
    """What C core's own pools may grow to: timers, a resolver, its executor (2 for each CPU) and its event
    engine (one for each, from 2 to 32)."""
    cpus = os.cpu_count() or 1
    return 8 + 2 * cpus + min(max(cpus, 2), 32)


def require_client_threads(threads: int, transport: str) -> None:
    """For a load or a hold: its own, the one that conducts them, and those of C core."""
    require_threads(
        threads + 1 + (core_threads() if transport == "core" else 0), f"a client over {transport}"
    )


def require_server_threads() -> None:
    """For a native server, before any call: one for each CPU, a few beside them, and those of C core."""
    require_threads(4 + (os.cpu_count() or 1) + core_threads(), "a native server")


def require_threads(needed: int, who: str) -> None:
    """Raise EngineError, naming the ceiling, when `who` ("a native server") could not get its threads."""
    lowest = min(ceilings(needed), key=lambda one: one.free, default=None)
    if lowest is not None and lowest.free < needed:
        raise EngineError(
            f"{who} needs up to {needed:,} threads, and {lowest.free:,} are available: {lowest.name} allows "
            f"{lowest.most:,}, of which {lowest.taken:,} are taken; raise it, or end what else runs"
        )


def ceilings(needed: int = 0) -> list[Ceiling]:
    """All that are known here. Threads of this user are not counted where `needed` more are sure to fit, for
    that is a look at every process."""
    total = _total()
    found = [Ceiling(f"kernel.{name}", most, total) for name, most in _of_the_kernel()]
    return [*found, *_of_the_user(total, needed), *_of_control_groups()]


def _of_the_kernel() -> Iterator[tuple[str, int]]:
    for name in ("threads-max", "pid_max"):
        most = _number(Path("/proc/sys/kernel", name))
        if most is not None:
            yield name, most


def _of_the_user(total: int, needed: int) -> Iterator[Ceiling]:
    """RLIMIT_NPROC; root is exempt, and so are those who may exceed any limit (setrlimit(2))."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most == resource.RLIM_INFINITY or _is_exempt():
        return
    taken = total if needed and total + needed <= most else _threads_of_user(os.getuid())
    yield Ceiling("ulimit -u", most, taken)


def _is_exempt() -> bool:
    if _words(Path("/proc/self/uid_map")) != _INITIAL_NAMESPACE:
        return False
    held = int(_field(Path("/proc/self/status"), "CapEff") or "0", 16)
    return os.getuid() == 0 or bool(held & _MAY_EXCEED)


def _threads_of_user(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        status = Path("/proc", name, "status")
        if name.isdigit() and (_field(status, "Uid") or "").split()[:1] == [str(user)]:
            count += int(_field(status, "Threads") or 0)
    return count


def _of_control_groups() -> Iterator[Ceiling]:
    """pids.max of the group of this process and of all above it, in either version of control groups."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        root = Path("/sys/fs/cgroup", controllers)
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            most, taken = _number(folder / "pids.max"), _number(folder / "pids.current")
            if most is not None and taken is not None:
                yield Ceiling(f"pids.max of control group /{folder.relative_to(root)}", most, taken)


def _total() -> int:
    """Threads of the whole machine (proc(5), loadavg)."""
    words = _words(Path("/proc/loadavg"))
    return int(words[3].partition("/")[2]) if len(words) > 3 else 0


def _field(path: Path, name: str) -> str | None:
    for line in _read(path).splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return None


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None  # "max": none


def _words(path: Path) -> list[str]:
    return _read(path).split()


def _read(path: Path) -> str:
    """Its text; nothing of what is not there, or just gone."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
