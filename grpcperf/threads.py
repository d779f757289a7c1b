"""Threads and their CPUs: whether there are enough for what is asked, told before the start. gRPC C core
waits for ever on a thread of its own that could not be made."""

from __future__ import annotations

import os
import resource
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from grpcperf import machine
from grpcperf.errors import EngineError, InvalidRequest

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
    of_core = core_threads() if transport == "core" else 0
    require_threads(threads + 1 + of_core, f"a client over {transport}")


def require_server_threads() -> None:
    """For a native server, before any call: one for each CPU, a few beside them, and those of C core."""
    require_threads(4 + (os.cpu_count() or 1) + core_threads(), "a native server")


def require_cpus(cpus: Collection[int] | None) -> None:
    """Raise InvalidRequest for CPUs that this machine does not have."""
    most = os.sysconf("SC_NPROCESSORS_CONF")
    if cpus and max(cpus) >= most:
        here = "only CPU 0" if most == 1 else f"CPUs 0 to {most - 1}"
        raise InvalidRequest(f"cpus: this machine has {here}, not {max(cpus)}")


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
    return [*_of_the_kernel(total), *_of_the_user(total, needed), *_of_control_groups()]


def _of_the_kernel(total: int) -> Iterator[Ceiling]:
    for name in ("threads-max", "pid_max"):
        most = machine.number(f"proc/sys/kernel/{name}")
        if most is not None:
            yield Ceiling(f"kernel.{name}", most, total)


def _of_the_user(total: int, needed: int) -> Iterator[Ceiling]:
    """RLIMIT_NPROC; root is exempt, and so are those who may exceed any limit (setrlimit(2))."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most == resource.RLIM_INFINITY or _is_exempt():
        return
    taken = total if needed and total + needed <= most else _threads_of_user(os.getuid())
    yield Ceiling("ulimit -u", most, taken)


def _is_exempt() -> bool:
    if machine.read("proc/self/uid_map").split() != ["0", "0", "4294967295"]:
        return False  # a user namespace: root in there is none outside
    held = int(machine.field("proc/self/status", "CapEff") or "0", 16)
    return os.getuid() == 0 or bool(held & _MAY_EXCEED)


def _threads_of_user(user: int) -> int:
    count = 0
    for name in filter(str.isdigit, machine.names("proc")):
        status = f"proc/{name}/status"
        if (machine.field(status, "Uid") or "").split()[:1] == [str(user)]:
            count += int(machine.field(status, "Threads") or 0)
    return count


def _of_control_groups() -> Iterator[Ceiling]:
    for folder in machine.control_groups("pids"):
        most, taken = machine.number(f"{folder}/pids.max"), machine.number(f"{folder}/pids.current")
        if most is not None and taken is not None:
            yield Ceiling(f"pids.max of /{folder}", most, taken)


def _total() -> int:
    """Threads of the whole machine (proc(5), loadavg)."""
    words = machine.read("proc/loadavg").split()
    return int(words[3].partition("/")[2]) if len(words) > 3 else 0
