"""What the machine is: the facts that stand in every Result, and a fingerprint of those that figures depend
on. What a machine does not show is None, never guessed."""

from __future__ import annotations

import functools
import os
import platform
import resource
from collections.abc import Mapping

from grpcperf import machine

Fact = str | int | float | None

# What makes figures of two days comparable. Not which CPUs a process may use, nor what else is running.
_FINGERPRINTED = (
    *("grpcperf", "engine_grpc", "engine_build", "kernel", "machine", "cpu", "cpus", "cpu_quota"),
    *("clocksource", "governor", "smt"),
)


def summary() -> dict[str, Fact]:
    """What belongs beside every result: versions, kernel, CPUs and which of them are allowed, clock, limits.
    Costs microseconds after the first call."""
    return {**_fixed(), **_of_this_process()}


def fingerprint(facts: Mapping[str, Fact] | None = None) -> str:
    """A short text that is the same as long as figures of this machine and this version can be compared:
    versions of grpcperf and gRPC, kernel, CPU model and number, quota, clock, governor. `facts`: a summary()
    that was kept with figures, for the fingerprint of where they were measured."""
    import hashlib

    known = _fixed() if facts is None else facts
    text = "\n".join(f"{name}={known.get(name)}" for name in sorted(_FINGERPRINTED))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def now() -> str:
    """ISO 8601, UTC, to the second."""
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")


def moment(when: str) -> dict[str, Fact]:
    """How busy the machine is, its names ending in `when` ("before" or "after" a run): load average of the
    last minute, the share of the last 10 s in which some task waited for a CPU, and CPU seconds that its
    hypervisor has given to others since it was started."""
    words = machine.read("proc/loadavg").split()
    steal = cpu_times().get("steal")
    return {
        f"load_1m_{when}": float(words[0]) if words else None,
        f"cpu_pressure_{when}": cpu_pressure(),
        f"steal_s_{when}": None if steal is None else steal / os.sysconf("SC_CLK_TCK"),
    }


@functools.cache
def _fixed() -> dict[str, Fact]:
    from grpcperf import __version__, _engine

    return {
        "grpcperf": __version__,
        "python": platform.python_version(),
        **{f"engine_{name}": text for name, text in _engine.versions().items()},
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "cpu_quota": cpu_quota(),
        "smt": machine.number("sys/devices/system/cpu/smt/active"),
        "clocksource": clock_source(),
        "governor": ",".join(governors()) or None,
        "huge_pages": chosen("sys/kernel/mm/transparent_hugepage/enabled"),
        "virtual": virtual(),
    }


def _of_this_process() -> dict[str, Fact]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = sorted(os.sched_getaffinity(0))
    return {
        "cpus_allowed": len(allowed),
        "affinity": ranges(allowed),
        "open_files": None if soft == resource.RLIM_INFINITY else soft,
        "open_files_hard": None if hard == resource.RLIM_INFINITY else hard,
    }


# --- facts, one by one


def cpu_model() -> str | None:
    for name in ("model name", "Hardware", "Model"):
        if (found := machine.field("proc/cpuinfo", name)) is not None:
            return found
    return None


def clock_source() -> str | None:
    return machine.read("sys/devices/system/clocksource/clocksource0/current_clocksource") or None


def governors() -> list[str]:
    """Those in use; none in most virtual machines."""
    folder = "sys/devices/system/cpu"
    cpus = (name for name in machine.names(folder) if name[3:].isdigit())
    return sorted(
        {text for cpu in cpus if (text := machine.read(f"{folder}/{cpu}/cpufreq/scaling_governor"))}
    )


def cpu_quota() -> float | None:
    """CPUs that the control group may use at a time on average, the least of it and those above; None: no
    quota."""
    found: list[float] = []
    for folder in machine.control_groups("cpu"):
        words = machine.read(f"{folder}/cpu.max").split()  # version 2: "max 100000" or "150000 100000"
        if not words:
            words = [machine.read(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")]
        if all(word.isdigit() for word in words) and len(words) == 2 and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found, default=None)


def virtual() -> str | None:
    """ "virtual machine", "container", or both; None: neither is to be seen."""
    found = []
    if "hypervisor" in (machine.field("proc/cpuinfo", "flags") or "").split():
        found.append("virtual machine")
    told = ".dockerenv" in machine.names("") or ".containerenv" in machine.names("run")
    roots = [line for line in machine.read("proc/self/mountinfo").splitlines() if line.split()[4:5] == ["/"]]
    if told or any(" - overlay " in line for line in roots):
        found.append("container")
    return " in a ".join(reversed(found)) or None


def chosen(path: str) -> str | None:
    """The one in brackets of "always [madvise] never"."""
    _, _, rest = machine.read(path).partition("[")
    return rest.partition("]")[0] or None


def cpu_times() -> dict[str, int]:
    """Ticks of all CPUs since boot, by kind; guest time is inside user time and left out (proc(5))."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    line = machine.read("proc/stat").partition("\n")[0].split()
    return dict(zip(names, map(int, line[1:]), strict=False))


def cpu_pressure() -> float | None:
    """Share of the last 10 s in which some task waited for a CPU (pressure stall information)."""
    for word in machine.read("proc/pressure/cpu").split():
        if word.startswith("avg10="):
            return float(word.removeprefix("avg10=")) / 100
    return None


def ranges(numbers: list[int]) -> str:
    """[0, 1, 2, 5] as "0-2,5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
