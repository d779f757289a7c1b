"""What the machine is like, and whether it is fit for measuring: `grpcperf doctor`, and the short form that
stands in every Result. Reads /proc and /sys; what a machine does not show is left out, never guessed."""

from __future__ import annotations

import functools
import os
import platform
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "stp", "tod")
STEAL_SHARE = 0.01
PRESSURE_PERCENT = 5.0
BUSY_SHARE = 0.10
DESCRIPTORS = 20_000
THREADS = 32_000
MEMORY_BYTES = 2 << 30
PORTS = 20_000
LISTEN_QUEUE = 1024


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report. `advice` says what to do, or what it means; empty when all is well."""

    name: str
    value: str
    ok: bool = True
    advice: str = ""


def summary() -> dict[str, str | int | None]:
    """What belongs beside every result: versions, kernel, CPU, clock. Costs microseconds after the first
    call."""
    return {**_fixed(), "cpus_allowed": len(os.sched_getaffinity(0))}


def fingerprint() -> str:
    """A short text that is the same as long as figures of this machine and this version can be compared: CPU,
    kernel, clock, the engine's build. Which CPUs a process may use is not part of it."""
    import hashlib

    text = "\n".join(f"{name}={value}" for name, value in sorted(_fixed().items()) if name != "python")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _fixed() -> dict[str, str | int | None]:
    from grpcperf import _engine

    return {
        "grpcperf": _package_version(),
        "python": platform.python_version(),
        **{f"engine_{name}": text for name, text in _engine.versions().items()},
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": ",".join(_governors()) or None,
    }


def examine(sample_s: float = 0.5) -> list[Check]:
    """Look at the machine for `sample_s` seconds and judge it, worst surprises for a measurement in mind."""
    return [
        *_software(),
        *_processors(),
        *_disturbance(sample_s),
        *_limits(),
        *_memory(),
        *_network(),
    ]


def _software() -> Iterator[Check]:
    from grpcperf import _engine

    engine = _engine.versions()
    build = engine.pop("build", "unknown")
    yield Check("grpcperf", _package_version())
    yield Check(
        "engine",
        f"{build} build, " + ", ".join(f"{name} {text}" for name, text in engine.items()),
        advice="" if build == "release" else "asserts are on and cost a little: for figures, pip install .",
    )
    yield Check("python", f"{platform.python_version()} on {platform.system()} {platform.release()}")
    from grpcperf.targets.server import server_executable

    try:
        yield Check("native server", str(server_executable()))
    except FileNotFoundError as error:
        yield Check("native server", "missing", False, str(error))


def _processors() -> Iterator[Check]:
    count, allowed = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    text = f"{_cpu_model() or platform.machine()}, {count} CPUs, {allowed} of them allowed"
    yield Check(
        "cpu",
        text,
        allowed >= 2,
        "" if allowed >= 2 else "client and server share one CPU: compare CPU per call, not calls per second",
    )
    governors = _governors()
    if governors:
        steady = governors == ["performance"]
        yield Check(
            "governor",
            ", ".join(governors),
            steady,
            "" if steady else "clock speed follows load: cpupower frequency-set -g performance",
        )
    else:
        yield Check("governor", "not shown (usual in virtual machines)")
    clock = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if clock:
        good = clock in GOOD_CLOCKS
        yield Check(
            "clocksource",
            clock,
            good,
            ""
            if good
            else "reading this clock is a system call, which costs every call measured: prefer tsc",
        )


def _disturbance(sample_s: float) -> Iterator[Check]:
    before = _cpu_times()
    time.sleep(sample_s)
    after = _cpu_times()
    if before and after and sum(after.values()) > sum(before.values()):
        spent = {name: after[name] - before[name] for name in after}
        total = sum(spent.values())
        steal = spent.get("steal", 0) / total
        yield Check(
            "steal",
            f"{steal:.1%} over {sample_s:g} s",
            steal <= STEAL_SHARE,
            ""
            if steal <= STEAL_SHARE
            else "the hypervisor gives this CPU time to others: repeat and interleave",
        )
        busy = 1 - (spent.get("idle", 0) + spent.get("iowait", 0)) / total
        yield Check(
            "other load",
            f"{busy:.0%} of all CPUs busy over {sample_s:g} s",
            busy <= BUSY_SHARE,
            "" if busy <= BUSY_SHARE else "other processes are running: stop them, or expect noise",
        )
    pressure = _cpu_pressure()
    if pressure is not None:
        yield Check(
            "cpu pressure",
            f"{pressure:g} % of the last 10 s",
            pressure <= PRESSURE_PERCENT,
            ""
            if pressure <= PRESSURE_PERCENT
            else "tasks have been waiting for a CPU: let the machine come to rest",
        )


def _limits() -> Iterator[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= DESCRIPTORS
    yield Check(
        "open files",
        f"soft {_limit(soft)}, hard {_limit(hard)}",
        enough,
        ""
        if enough
        else f"each connection takes one on each side: raise the hard limit above {DESCRIPTORS:,} for many",
    )
    ceilings = {
        "kernel.pid_max": _read_int("/proc/sys/kernel/pid_max"),
        "kernel.threads-max": _read_int("/proc/sys/kernel/threads-max"),
        "cgroup pids.max": _read_int("/sys/fs/cgroup/pids.max"),
        "ulimit -u": _process_limit(),
    }
    known = {name: value for name, value in ceilings.items() if value is not None}
    if known:
        name, least = min(known.items(), key=lambda item: item[1])
        yield Check(
            "threads",
            f"at most {least:,} ({name})",
            least >= THREADS,
            "" if least >= THREADS else f"a server with a thread per call ends there: raise {name}",
        )


def _memory() -> Iterator[Check]:
    info = dict(line.split(":", 1) for line in (_read("/proc/meminfo") or "").splitlines() if ":" in line)
    kib = {name: int(text.split()[0]) for name, text in info.items()}
    available = kib.get("MemAvailable", 0) * 1024
    limit = _read_int("/sys/fs/cgroup/memory.max")
    room = min(available, limit) if limit is not None else available
    if room:
        yield Check(
            "memory",
            f"{available / 2**30:.1f} GiB available of {kib.get('MemTotal', 0) / 2**20:.1f}"
            + (f", control group limit {limit / 2**30:.1f} GiB" if limit is not None else ""),
            room >= MEMORY_BYTES,
            "" if room >= MEMORY_BYTES else "100,000 parked calls on a C-core server need over 1.4 GiB",
        )
    pages = _read("/sys/kernel/mm/transparent_hugepage/enabled")
    if pages:
        always = "[always]" in pages
        yield Check(
            "huge pages",
            pages[pages.find("[") + 1 : pages.find("]")],
            not always,
            "resident memory then grows in steps of 2 MiB: read heap and stack, not RSS, or set madvise"
            if always
            else "",
        )


def _network() -> Iterator[Check]:
    text = _read("/proc/sys/net/ipv4/ip_local_port_range")
    if text:
        low, high = map(int, text.split())
        enough = high - low + 1 >= PORTS
        yield Check(
            "local ports",
            f"{low} to {high}",
            enough,
            "" if enough else "each connection to one server port needs a port of its own: widen the range",
        )
    queue = _read_int("/proc/sys/net/core/somaxconn")
    if queue is not None:
        yield Check(
            "listen queue",
            f"{queue}",
            queue >= LISTEN_QUEUE,
            ""
            if queue >= LISTEN_QUEUE
            else "connections opened at once overflow it and wait 1 s: raise somaxconn",
        )


def _package_version() -> str:
    from grpcperf import __version__

    return __version__


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _read_int(path: str) -> int | None:
    text = _read(path)
    return int(text) if text and text.isdigit() else None


def _cpu_model() -> str | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Hardware", "Model"):
            return value.strip()
    return None


def _governors() -> list[str]:
    found = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return sorted({text for path in found if (text := _read(str(path)))})


def _cpu_times() -> dict[str, int]:
    """Jiffies of all CPUs since boot, by kind; guest time is inside user time and left out."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    line = (_read("/proc/stat") or "").partition("\n")[0].split()
    return dict(zip(names, map(int, line[1:]), strict=False))


def _cpu_pressure() -> float | None:
    """Share of the last 10 s, in percent, in which some task waited for a CPU (pressure stall
    information)."""
    for word in (_read("/proc/pressure/cpu") or "").split():
        if word.startswith("avg10="):
            return float(word.removeprefix("avg10="))
    return None


def _process_limit() -> int | None:
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return None if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value:,}"
