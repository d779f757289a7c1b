"""Where the checkup of a machine looks, from the software up to the network; LOOKS is their order."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable, Iterator

from grpcperf import environment, machine
from grpcperf.checkup import Check
from grpcperf.units import GIB, format_bytes

GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "stp", "tod")
CPUS = 4  # one for the client, one for the server, and two for all else
STEAL_SHARE = 0.01
PRESSURE_SHARE = 0.05
BUSY_SHARE = 0.10
DESCRIPTORS = 20_000
THREADS = 10_000
MEMORY_BYTES = 2 * GIB
PORTS = 20_000
LISTEN_QUEUE = 1024


def _judged(name: str, value: str, good: bool, advice: str) -> Check:
    """A check whose advice is for when it is not good."""
    return Check(name, value, good, "" if good else advice)


def _software(_: float) -> Iterator[Check]:
    from grpcperf import __version__, _engine
    from grpcperf.targets.server import server_executable

    engine = _engine.versions()
    build = engine.pop("build", "unknown")
    versions = ", ".join(f"{name} {text}" for name, text in engine.items())
    debug = "" if build == "release" else "asserts are on and cost a little: for figures, pip install ."
    yield Check("grpcperf", __version__)
    yield Check("engine", f"{build} build, {versions}", advice=debug)
    yield Check("python", f"{platform.python_version()} on {platform.system()} {platform.release()}")
    try:
        yield Check("native server", str(server_executable()))
    except FileNotFoundError as error:
        yield Check("native server", "missing", False, str(error))


# --- processors


def _cpus(_: float) -> Iterator[Check]:
    count, allowed = os.cpu_count() or 1, sorted(os.sched_getaffinity(0))
    value = f"{environment.cpu_model() or platform.machine()}, {count} CPUs"
    if len(allowed) < count:
        value += f", {len(allowed)} of them allowed ({environment.ranges(allowed)})"
    one = "client and server share one CPU: compare CPU per call, not calls per second"
    few = (
        "with one CPU for the client and one for the server, none is left for the rest of the machine: pin "
        "both (cpus=), and compare CPU per call and ratios rather than calls per second"
    )
    yield _judged("cpu", value, len(allowed) >= CPUS, one if len(allowed) == 1 else few)
    yield from _siblings(allowed)
    yield from _nodes(allowed)
    yield from _quota(len(allowed))


def _siblings(allowed: list[int]) -> Iterator[Check]:
    """Hardware threads that share a core."""
    folder = "sys/devices/system/cpu"
    cores = {machine.read(f"{folder}/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed} - {""}
    if not cores:
        return
    shared = len(cores) < len(allowed)
    yield _judged(
        "smt",
        f"{len(allowed)} hardware threads on {len(cores)} cores ({' '.join(sorted(cores))})"
        if shared
        else "each CPU is a core of its own",
        not shared,
        "two threads of a core slow each other: pin client and server to different cores (cpus=)",
    )


def _nodes(allowed: list[int]) -> Iterator[Check]:
    folder = "sys/devices/system/node"
    nodes = [name for name in machine.names(folder) if name[:4] == "node" and name[4:].isdigit()]
    mine = [
        node for node in nodes if any(f"cpu{cpu}" in machine.names(f"{folder}/{node}") for cpu in allowed)
    ]
    if len(mine) > 1:
        advice = (
            "memory of another node is slower: pin client and server to CPUs of one (numactl -H shows which)"
        )
        yield Check("memory nodes", f"CPUs are on {len(mine)} of them", False, advice)


def _quota(allowed: int) -> Iterator[Check]:
    quota = environment.cpu_quota()
    if quota is None:
        yield Check("cpu quota", "none")
        return
    yield _judged(
        "cpu quota",
        f"{quota:g} CPUs",
        quota >= allowed,
        "once it is used up, the kernel stops the whole control group for the rest of a 100 ms period, which "
        "looks like a slow server: lift it (docker --cpus, resources.limits.cpu)",
    )


def _clocks(_: float) -> Iterator[Check]:
    governors = environment.governors()
    told = ", ".join(governors) or "not shown (usual in virtual machines)"
    yield _judged(
        "governor",
        told,
        not governors or governors == ["performance"],
        "clock speed follows load, so that a light load is slow: cpupower frequency-set -g performance",
    )
    clock = environment.clock_source()
    if clock is not None:
        advice = (
            "reading this clock is a system call, which costs every call measured: boot with clocksource=tsc"
        )
        yield _judged("clock source", clock, clock in GOOD_CLOCKS, advice)


def _virtual(_: float) -> Iterator[Check]:
    kind = environment.virtual()
    if kind is None:
        yield Check("virtual", "no")
        return
    advice = "neighbours may disturb and nothing here would show it: measure in turn (gp.compare), and repeat"
    yield Check("virtual", kind, advice=advice)


def _counters(_: float) -> Iterator[Check]:
    """Hardware performance counters; nothing but a profile needs them."""
    devices = machine.names("sys/bus/event_source/devices")
    if not any(name.startswith(("cpu", "armv")) for name in devices):
        yield Check("perf counters", "none (usual in virtual machines)", advice="perf can sample time only")
        return
    level = machine.number("proc/sys/kernel/perf_event_paranoid")
    allowed = os.geteuid() == 0 or level is None or level < 2
    advice = "" if allowed else "perf sees this user's own code only: sysctl kernel.perf_event_paranoid=1"
    yield Check("perf counters", "available", advice=advice)


# --- who else is there


def _others(sample_s: float) -> Iterator[Check]:
    before, swapped = environment.cpu_times(), _swapped()
    time.sleep(sample_s)
    after = environment.cpu_times()
    spent = {name: after[name] - before.get(name, 0) for name in after}
    if total := sum(spent.values()):
        steal = spent.get("steal", 0) / total
        busy = 1 - (spent.get("idle", 0) + spent.get("iowait", 0)) / total
        yield _judged(
            "steal",
            f"{steal:.1%} of the CPU time over {sample_s:g} s",
            steal <= STEAL_SHARE,
            "the hypervisor gives this CPU time to others: measure in turn, repeat, or move elsewhere",
        )
        yield _judged(
            "other load",
            f"{busy:.0%} of all CPUs busy over {sample_s:g} s",
            busy <= BUSY_SHARE,
            "other processes are running: stop them (top shows which), or expect noise",
        )
    pressure = environment.cpu_pressure()
    if pressure is not None:
        yield _judged(
            "cpu pressure",
            f"tasks waited for a CPU in {pressure:.0%} of the last 10 s",
            pressure <= PRESSURE_SHARE,
            "more wants to run than there are CPUs: let the machine come to rest",
        )
    yield from _swap(_swapped() - swapped)


def _swapped() -> int:
    return sum(int(machine.field("proc/vmstat", name) or 0) for name in ("pswpin", "pswpout"))


def _swap(pages: int) -> Iterator[Check]:
    total, free = _kib("SwapTotal"), _kib("SwapFree")
    if not total:
        yield Check("swap", "none")
        return
    value = f"{format_bytes((total - free) * 1024)} of {format_bytes(total * 1024)} in use"
    if pages:
        advice = (
            "memory is being swapped right now, and what waits for it is slow: free memory, or swapoff -a"
        )
        yield Check("swap", f"{value}, {pages:,} pages moved meanwhile", False, advice)
    else:
        advice = "what was swapped out is missing in RSS" if total != free else ""
        yield Check("swap", value, advice=advice)


# --- room


def _room(_: float) -> Iterator[Check]:
    from grpcperf import threads

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    unlimited = hard == resource.RLIM_INFINITY
    yield _judged(
        "open files",
        "unlimited" if unlimited else f"{hard:,} at most (ulimit -Hn)",
        unlimited or hard >= DESCRIPTORS,
        f"each connection takes one on each side: raise the hard limit above {DESCRIPTORS:,} for many",
    )
    lowest = min(threads.ceilings(), key=lambda one: one.free, default=None)
    if lowest is not None:
        yield _judged(
            "threads",
            f"{lowest.free:,} more ({lowest.name} allows {lowest.most:,})",
            lowest.free >= THREADS,
            f"a server with a thread for each call ends there: raise {lowest.name}",
        )


def _memory(_: float) -> Iterator[Check]:
    available = _kib("MemAvailable") * 1024
    limits = [
        limit
        for folder in machine.control_groups("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := machine.number(f"{folder}/{name}")) is not None and limit < _kib("MemTotal") * 1024
    ]
    room = min([available, *limits])
    value = f"{format_bytes(available)} available of {format_bytes(_kib('MemTotal') * 1024)}"
    if limits:
        value += f", at most {format_bytes(min(limits))} for the control group"
    advice = "100,000 parked calls on a C-core server take over 1.4 GiB"
    if available:
        yield _judged("memory", value, room >= MEMORY_BYTES, advice)
    pages = environment.chosen("sys/kernel/mm/transparent_hugepage/enabled")
    if pages is not None:
        advice = (
            "resident memory grows in steps of 2 MiB, of which one call may touch a byte: read heap and "
            "stack instead of RSS, or echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        )
        yield _judged("huge pages", pages, pages != "always", advice)


def _kib(name: str) -> int:
    return int((machine.field("proc/meminfo", name) or "0").split()[0])


# --- network


def _network(_: float) -> Iterator[Check]:
    low, high = (
        [int(word) for word in machine.read("proc/sys/net/ipv4/ip_local_port_range").split()] + [0, 0]
    )[:2]
    words = (machine.field("proc/net/sockstat", "TCP") or "").split()
    counts = dict(zip(words[::2], map(int, words[1::2]), strict=False))
    resting, ports = counts.get("tw", 0), high - low + 1
    if high:
        yield _judged(
            "local ports",
            f"{low} to {high}, {resting:,} resting after a connection (TIME_WAIT)",
            ports - resting >= PORTS,
            "each connection to a port needs one: widen net.ipv4.ip_local_port_range, or wait a minute",
        )
    queue = machine.number("proc/sys/net/core/somaxconn")
    if queue is not None:
        yield _judged(
            "listen queue",
            f"{queue:,} connections",
            queue >= LISTEN_QUEUE,
            "connections opened at once overflow it and wait 1 s: sysctl net.core.somaxconn=4096",
        )


LOOKS: tuple[Callable[[float], Iterator[Check]], ...] = (
    *(_software, _cpus, _clocks, _virtual, _counters),
    *(_others, _room, _memory, _network),
)
