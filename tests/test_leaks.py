"""Nothing grows: memory, descriptors and threads of this process stay flat over many runs and servers."""

import gc
import os

import pytest

import grpcperf as gp


def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def grown(action, warm, times):
    """What `times` repetitions added, after `warm` of them have filled every cache."""
    for _ in range(warm):
        action()
    before = resident_bytes(), open_descriptors(), threads()
    for _ in range(times):
        action()
    after = resident_bytes(), open_descriptors(), threads()
    return [late - early for early, late in zip(before, after, strict=True)]


@pytest.mark.timeout(180)
def test_200_runs_leave_nothing(server):
    def run():
        result = gp.load(server, connections=2, concurrency=4, calls=40, warmup=0)
        assert result.calls == sum(result.status.values()) == 40

    memory, descriptors, tasks = grown(run, 50, 200)
    assert memory < 4 << 20  # a histogram that stayed would be 50 MiB by then
    assert descriptors <= 2
    assert tasks <= 2
    assert server.memstats().fds < 30


@pytest.mark.timeout(180)
def test_100_holds_leave_nothing(server):
    def run():
        for end in ("release", "cancel"):
            with gp.hold(server, calls=50, connections=2) as held:
                getattr(held, end)()
                assert held.wait(5)

    run()
    before = server.memstats(settle=True)
    memory, descriptors, tasks = grown(run, 5, 50)
    assert memory < 4 << 20
    assert descriptors <= 2
    assert tasks <= 2
    after = server.memstats(settle=True)
    assert (after.running, after.streams, after.tasks, after.fds) == (0, 0, before.tasks, before.fds)
    assert after.heap_alloc - before.heap_alloc < 256 << 10  # the calls alone would be 75 MiB by then
    assert server.counters().running == 0


def test_servers_leave_nothing():
    def run():
        with gp.Server() as made:
            made.counters()

    memory, descriptors, tasks = grown(run, 5, 30)
    assert memory < 2 << 20
    assert descriptors == 0
    assert tasks == 0


def test_failed_starts_leave_nothing(server):
    port = int(server.address.rpartition(":")[2])

    def run():
        with pytest.raises(gp.EngineError):
            gp.Server(port=port)
        with pytest.raises(gp.ConnectError):
            gp.load("127.0.0.1:1", calls=1)
        with pytest.raises(gp.InvalidRequest):
            gp.load(server, calls=0)

    memory, descriptors, tasks = grown(run, 3, 20)
    assert memory < 2 << 20
    assert descriptors == 0
    assert tasks == 0
