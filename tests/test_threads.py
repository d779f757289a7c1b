"""threads: what limits their number is found, and told before a start that would hang."""

import os
import textwrap

import pytest

from grpcperf import EngineError, threads


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine made of the files given, with 500 threads, and a user who is no root and has no limit."""

    def make(files=(), *, limit=threads.resource.RLIM_INFINITY):
        there = {
            "proc/loadavg": "0.10 0.20 0.30 2/500 12345",
            "proc/sys/kernel/threads-max": "100000",
            "proc/sys/kernel/pid_max": "4194304",
            "proc/self/uid_map": "         0          0 4294967295",
            "proc/self/status": "Name:\tpython\nCapEff:\t0000000000000000",
        } | dict(files)
        for name, text in there.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr("grpcperf.machine.ROOT", str(tmp_path))
        monkeypatch.setattr(threads.resource, "getrlimit", lambda which: (limit, limit))
        monkeypatch.setattr(threads.os, "getuid", lambda: 1000)

    return make


def user(*counts):
    """Processes of the user with so many threads, and one of somebody else."""
    own = {f"proc/{i}/status": f"Uid:\t1000\t0\nThreads:\t{n}" for i, n in enumerate(counts, start=100)}
    return own | {"proc/1/status": "Uid:\t0\t0\nThreads:\t400"}


GROUP = {
    "proc/self/cgroup": "4:memory:/a\n0::/a/b",
    "sys/fs/cgroup/a/b/pids.max": "max",
    "sys/fs/cgroup/a/b/pids.current": "5",
    "sys/fs/cgroup/a/pids.max": "60",
    "sys/fs/cgroup/a/pids.current": "50",
}
OLD_GROUP = {
    "proc/self/cgroup": "8:pids:/a\n0::/",
    "sys/fs/cgroup/pids/a/pids.max": "60",
    "sys/fs/cgroup/pids/a/pids.current": "50",
}


@pytest.mark.parametrize(
    ("files", "limit", "told"),
    [
        ({"proc/sys/kernel/threads-max": "510"}, None, "10 are available: kernel.threads-max allows 510"),
        (
            {"proc/sys/kernel/pid_max": "505"},
            None,
            "5 are available: kernel.pid_max allows 505",
        ),
        ({"proc/sys/kernel/pid_max": "400"}, None, "0 are available"),
        (user(8, 2), 20, "10 are available: ulimit -u allows 20, of which 10 are taken"),
        (GROUP, None, "10 are available: pids.max of /sys/fs/cgroup/a allows 60, of which 50 are taken"),
        (OLD_GROUP, None, "10 are available: pids.max of /sys/fs/cgroup/pids/a allows 60"),
        (GROUP | user(8, 9), 20, "3 are available: ulimit -u"),  # the lowest counts
    ],
)
def test_what_is_too_low_is_named(machine, files, limit, told):
    machine(files, **({} if limit is None else {"limit": limit}))
    with pytest.raises(EngineError, match="a server needs up to 11 threads, and ") as caught:
        threads.require_threads(11, "a server")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        (user(8, 1), 20),
        ({"proc/sys/kernel/threads-max": "511"}, None),
        (GROUP | {"sys/fs/cgroup/a/pids.max": "61"}, None),
        (GROUP | {"sys/fs/cgroup/a/pids.max": "max"}, None),
        # Root, and who may exceed limits, are exempt from that of the user.
        (user(20) | {"proc/self/status": "CapEff:\t0000000001000000"}, 20),
        (user(20) | {"proc/self/status": "CapEff:\t0000000000200000"}, 20),
        (dict.fromkeys(("proc/loadavg", "proc/sys/kernel/threads-max"), ""), None),  # not shown
    ],
)
def test_what_is_enough_passes(machine, files, limit):
    machine(files, **({} if limit is None else {"limit": limit}))
    threads.require_threads(11, "a server")


def test_a_user_namespace_exempts_nobody(machine):
    held = {"proc/self/status": "CapEff:\t000001ffffffffff", "proc/self/uid_map": "0 1000 1"}
    machine(user(15) | held, limit=20)
    with pytest.raises(EngineError, match="ulimit -u"):
        threads.require_threads(11, "a server")


def test_processes_are_not_looked_at_in_vain(machine, monkeypatch):
    machine(limit=100_000)
    monkeypatch.setattr(threads, "_threads_of_user", lambda user: pytest.fail("looked"))
    threads.require_threads(11, "a server")


def test_this_machine_has_room():
    ceilings = threads.ceilings()
    assert {"kernel.threads-max", "kernel.pid_max"} <= {one.name for one in ceilings}
    assert all(one.free > 0 for one in ceilings)
    assert threads._threads_of_user(os.getuid()) >= len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize(
    ("attempt", "who"),
    [
        ("gp.load(address, calls=1, transport='core')", "a client over core"),
        ("gp.hold(address, calls=1, transport='core').__enter__()", "a client over core"),
        ("gp.load(address, calls=1)", "a client over wire"),
        ("gp.Server()", "a native server"),
    ],
)
def test_a_limit_that_is_too_low_is_told_before_the_start(server, python, attempt, who):
    code = f"""
        import os, resource, grpcperf as gp
        address = {server.address!r}
        if os.getuid() == 0:  # who is exempt
            os.setresuid(54321, 54321, 54321)
        resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
        try:
            {attempt}
        except gp.EngineError as error:
            print(error)
    """
    done = python(textwrap.dedent(code), timeout=20)
    assert done.stdout.startswith(f"{who} needs up to "), done.stderr
    assert "ulimit -u allows 2, of which" in done.stdout
