"""doctor and environment: what is poor about a machine is said, of machines made of files."""

import json
import os
import resource
import shutil
import subprocess

import pytest

import grpcperf as gp
from grpcperf import checkup_looks, environment, machine

# A server of 8 cores that is at rest, and has room.
GOOD = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU 3000\nflags\t\t: fpu sse\n",
    "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "proc/stat": "cpu 10 0 10 1000 0 0 0 0 0 0\ncpu0 1 1 1",
    "proc/vmstat": "nr_free_pages 5\npswpin 7\npswpout 9",
    "proc/loadavg": "0.10 0.20 0.30 2/500 12345",
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=9.00",
    "proc/sys/kernel/threads-max": "100000",
    "proc/sys/kernel/perf_event_paranoid": "1",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
    "proc/sys/net/core/somaxconn": "4096",
    "proc/net/sockstat": "sockets: used 24\nTCP: inuse 4 orphan 0 tw 20 alloc 4 mem 3",
    "proc/self/cgroup": "0::/a/b",
    "proc/self/mountinfo": "22 1 259:1 / / rw - ext4 /dev/root rw",
    "sys/fs/cgroup/a/cpu.max": "max 100000",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/bus/event_source/devices/cpu/type": "4",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    **{f"sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": str(i) for i in range(8)},
}
TWINS = {
    f"sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": f"{i % 4},{i % 4 + 4}" for i in range(8)
}
TWO_NODES = {f"sys/devices/system/node/node{i // 4}/cpu{i}/online": "1" for i in range(8)}


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Makes a machine of the good one's files and those given, with these CPUs allowed."""
    monkeypatch.setattr(environment, "_fixed", environment._fixed.__wrapped__)  # not cached
    monkeypatch.setattr(machine, "ROOT", str(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: 8)

    def make(files=None, *, allowed=8, descriptors=1_000_000):
        limits = {resource.RLIMIT_NOFILE: (descriptors, descriptors)}
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        monkeypatch.setattr(resource, "getrlimit", lambda which: limits.get(which, unlimited))
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(allowed)))
        shutil.rmtree(tmp_path)
        for name, text in (GOOD | (files or {})).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return gp.doctor(sample_s=0.001)

    return make


def test_a_good_machine_is_fit(made):
    found = made()
    assert found.troubles == ()
    assert found.ok
    assert found.verdict().startswith("Fit for measuring")
    assert len({check.name for check in found.checks}) == len(found.checks)


@pytest.mark.parametrize(
    ("files", "arguments", "name", "words"),
    [
        ({}, {"allowed": 3}, "cpu", ["8 CPUs, 3 of them allowed (0-2)", "none is left for the rest"]),
        ({}, {"allowed": 1}, "cpu", ["share one CPU"]),
        (TWINS, {}, "smt", ["8 hardware threads on 4 cores (0,4 1,5 2,6 3,7)", "different cores"]),
        (TWO_NODES, {}, "memory nodes", ["2 of them", "numactl"]),
        ({"sys/fs/cgroup/a/cpu.max": "150000 100000"}, {}, "cpu quota", ["1.5 CPUs", "docker --cpus"]),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000",
            },
            {},
            "cpu quota",
            ["0.5 CPUs"],
        ),
        (
            {"sys/devices/system/cpu/cpu3/cpufreq/scaling_governor": "powersave"},
            {},
            "governor",
            ["performance, powersave", "cpupower frequency-set -g performance"],
        ),
        (
            {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
            {},
            "clock source",
            ["hpet", "clocksource=tsc"],
        ),
        ({"proc/pressure/cpu": "some avg10=12.50 avg60=0"}, {}, "cpu pressure", ["12% of the last 10 s"]),
        ({}, {"descriptors": 1024}, "open files", ["1,024 at most", "ulimit -Hn"]),
        ({"proc/sys/kernel/threads-max": "9000"}, {}, "threads", ["8,500 more", "raise kernel.threads-max"]),
        ({"proc/meminfo": "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB"}, {}, "memory", ["977 MiB"]),
        ({"sys/fs/cgroup/memory.max": "1073741824"}, {}, "memory", ["at most 1 GiB for the control group"]),
        (
            {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"},
            {},
            "huge pages",
            ["always", "madvise"],
        ),
        ({"proc/sys/net/ipv4/ip_local_port_range": "50000 60999"}, {}, "local ports", ["widen"]),
        ({"proc/net/sockstat": "TCP: inuse 4 orphan 0 tw 9000"}, {}, "local ports", ["9,000 resting"]),
        ({"proc/sys/net/core/somaxconn": "128"}, {}, "listen queue", ["128", "somaxconn=4096"]),
    ],
)
def test_what_is_poor_is_named_and_told_what_to_do(made, files, arguments, name, words):
    found = made(files, **arguments)
    (trouble,) = found.troubles
    assert trouble.name == name
    assert trouble.advice
    told = f"{trouble.value} {trouble.advice}"
    assert all(word in told for word in words), told
    assert f"One thing makes this machine a poor place to measure: {name}." in found.verdict()
    assert trouble.value in str(found)


@pytest.mark.parametrize(
    ("files", "name", "words"),
    [
        ({"proc/cpuinfo": "model name: x\nflags: fpu hypervisor"}, "virtual", "virtual machine"),
        ({".dockerenv": ""}, "virtual", "container"),
        (
            {
                "proc/cpuinfo": "flags : hypervisor",
                "proc/self/mountinfo": "9 1 0:1 / / rw - overlay overlay rw",
            },
            "virtual",
            "container in a virtual machine",
        ),
        (
            {"proc/meminfo": GOOD["proc/meminfo"].replace("SwapTotal: 0", "SwapTotal: 1024")},
            "swap",
            "1 MiB of 1 MiB",
        ),
    ],
)
def test_what_is_worth_knowing_is_no_trouble(made, files, name, words):
    found = made(files)
    (check,) = [one for one in found.checks if one.name == name]
    assert check.ok
    assert check.advice
    assert words in check.value


def test_what_others_do_meanwhile(made, monkeypatch):
    times = iter([{"user": 0, "idle": 0, "steal": 0}, {"user": 20, "idle": 75, "steal": 5}])
    moved = iter([10, 15])
    monkeypatch.setattr(environment, "cpu_times", lambda: next(times))
    monkeypatch.setattr(checkup_looks, "_swapped", lambda: next(moved))
    found = made({"proc/meminfo": GOOD["proc/meminfo"].replace("SwapTotal: 0", "SwapTotal: 2048")})
    told = {check.name: check.value for check in found.troubles}
    assert told["steal"].startswith("5.0% of the CPU time")
    assert told["other load"].startswith("25% of all CPUs busy")
    assert told["swap"].endswith("5 pages moved meanwhile")
    assert set(told) == {"steal", "other load", "swap"}
    assert found.verdict().startswith("3 things make this machine a poor place to measure: ")


def test_a_machine_that_shows_nothing_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "ROOT", str(tmp_path))
    monkeypatch.setattr(environment, "_fixed", environment._fixed.__wrapped__)
    found = gp.doctor(sample_s=0.001)
    assert {"grpcperf", "engine", "cpu", "open files"} <= {check.name for check in found.checks}
    facts = environment.summary() | environment.moment("before")
    assert {facts[name] for name in ("cpu", "clocksource", "governor", "cpu_quota", "load_1m_before")} == {
        None
    }


# --- fingerprint


def test_the_fingerprint_is_of_what_figures_depend_on(made):
    first = made().fingerprint
    assert len(first) == 16
    assert made().fingerprint == first
    busy = {"proc/loadavg": "9.0 9.0 9.0 9/900 1", "proc/meminfo": "MemTotal: 5 kB"}
    assert made(busy, allowed=2, descriptors=99).fingerprint == first
    for changed in (
        {"proc/cpuinfo": "model name: Other"},
        {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"},
        {"sys/fs/cgroup/a/cpu.max": "100000 100000"},
    ):
        assert made(changed).fingerprint != first


@pytest.mark.parametrize("name", ["release", "machine"])
def test_another_kernel_or_architecture_has_another(made, monkeypatch, name):
    first = made().fingerprint
    monkeypatch.setattr(environment.platform, name, lambda: "other")
    assert made().fingerprint != first


def test_another_python_has_the_same(made, monkeypatch):
    first = made().fingerprint
    monkeypatch.setattr(environment.platform, "python_version", lambda: "9.9")
    assert made().fingerprint == first


def test_another_version_has_another(made, monkeypatch):
    first = made().fingerprint
    monkeypatch.setattr(gp, "__version__", "9.9")
    assert made().fingerprint != first


# --- results and the shell


def test_a_result_knows_where_and_in_what_company_it_was_measured(server):
    facts = gp.load(server, calls=10, warmup=0).environment
    assert facts["cpus"] == os.cpu_count()
    assert facts["cpus_allowed"] == len(os.sched_getaffinity(0))
    assert facts["kernel"].endswith(os.uname().release)
    for when in ("before", "after"):
        assert facts[f"load_1m_{when}"] >= 0
        assert 0 <= (facts[f"cpu_pressure_{when}"] or 0) <= 1
    assert facts["steal_s_after"] >= facts["steal_s_before"] >= 0
    json.dumps(dict(facts), allow_nan=False)


@pytest.mark.parametrize(
    "numbers", [([], ""), ([3], "3"), ([0, 1], "0-1"), ([0, 1, 3, 5, 6, 7], "0-1,3,5-7")]
)
def test_ranges(numbers):
    assert environment.ranges(numbers[0]) == numbers[1]


def test_doctor_in_the_shell(cli):
    document = cli.json("doctor")
    names = [check["name"] for check in document["checks"]]
    assert {"grpcperf", "engine", "native server", "cpu", "open files", "memory", "threads"} <= set(names)
    assert document["ok"] is all(check["ok"] for check in document["checks"])
    assert all(check["ok"] or check["advice"] for check in document["checks"])
    assert document["fingerprint"] == environment.fingerprint()
    assert document["environment"]["grpcperf"] == gp.__version__
    text = cli("doctor").stdout
    assert "native server" in text
    assert max(map(len, text.splitlines())) <= 200
    assert document["fingerprint"] in text


def test_doctor_warns_of_few_descriptors(cli):
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 256; {cli.command[0]} doctor --json"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    check = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "open files")
    assert not check["ok"]
    assert "256" in check["value"]


def test_doctor_in_a_notebook(made):
    page = made({"proc/cpuinfo": "model name: <b>"})._repr_html_()
    assert "&lt;b&gt;" in page
    assert "Fit for measuring" in page


@pytest.mark.parametrize("sample_s", [0, -1, "soon", None])
def test_doctor_refuses_nonsense(sample_s):
    with pytest.raises(gp.InvalidRequest, match="sample_s"):
        gp.doctor(sample_s)
