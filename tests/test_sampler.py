"""Sampler: a process over time."""

import os
import resource
import signal
import threading
import time

import pytest
from conftest import wait_within

import grpcperf as gp
from grpcperf.sampler import COLUMNS


def test_a_load_is_seen_from_outside_and_inside():
    with gp.Server() as server, gp.Sampler(server, interval=0.02) as sampler:
        time.sleep(0.1)
        gp.load(server, concurrency=8, duration=0.6, warmup=0.1)
        with gp.hold(server, calls=300):
            assert wait_within(10, lambda: any((row["running"] or 0) >= 300 for row in sampler.rows()))
    rows = sampler.rows()
    assert len(rows) > 10
    assert all(list(row) == list(COLUMNS) for row in rows)
    times = [row["time"] for row in rows]
    assert times == sorted(times)
    assert 0 <= times[0] < 0.1
    assert max(row["cpu"] for row in rows[1:]) > 0.1
    inside = [row for row in rows if row["running"] is not None]
    assert 3 <= len(inside) < len(rows)
    assert max(row["running"] for row in inside) >= 300
    assert max(row["heap_alloc"] for row in inside) > 300 * 4096
    assert all(row["rss"] > 1 << 20 and row["pss"] is None for row in rows)


def test_the_frame_is_numbers():
    with gp.Server() as server, gp.Sampler(server, interval=0.02) as sampler:
        time.sleep(0.3)
    frame = sampler.frame()
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == len(sampler.rows())
    assert all(kind.kind in "if" for kind in frame.dtypes)
    assert frame["rss"].min() > 0


def test_readings_follow_a_schedule_that_does_not_drift():
    with gp.Sampler(os.getpid(), interval=0.05) as sampler:
        time.sleep(1.02)
    times = [row["time"] for row in sampler.rows()]
    assert 12 <= len(times) <= 22
    # Late ones are left out, and none is early: each lies in a slot of its own.
    slots = [int(at / 0.05) for at in times]
    assert len(set(slots)) == len(slots)
    assert times[-1] < 1.1


def test_the_proportional_share_is_read_once_a_second():
    with gp.Sampler(os.getpid(), interval=0.02, pss=True) as sampler:
        time.sleep(0.5)
    known = [row["pss"] for row in sampler.rows() if row["pss"] is not None]
    assert len(known) == 1
    assert known[0] > 1 << 20


def test_it_ends_with_its_target(within):
    with gp.Server() as server, gp.Sampler(server, interval=0.01) as sampler:
        assert within(2, lambda: len(sampler.rows()) > 5)
        os.kill(server.pid, signal.SIGKILL)
        assert within(2, server.death)
        time.sleep(0.1)
        count = len(sampler.rows())
        time.sleep(0.1)
        assert len(sampler.rows()) == count > 5


def test_a_stopped_server_is_still_seen_from_outside(within):
    with gp.Server() as server:
        os.kill(server.pid, signal.SIGSTOP)
        begin = time.monotonic()
        with gp.Sampler(server, interval=0.02) as sampler:
            assert within(3, lambda: len(sampler.rows()) > 10)
        assert time.monotonic() - begin < 4
        assert all(row["running"] is None for row in sampler.rows())
        os.kill(server.pid, signal.SIGCONT)


def test_it_leaves_no_thread():
    before = threading.active_count()
    with gp.Sampler(os.getpid(), interval=3600) as sampler:
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    assert len(sampler.rows()) == 1
    sampler.stop()
    assert "stopped" in repr(sampler)
    with pytest.raises(gp.InvalidRequest, match="once"):
        sampler.__enter__()


def is_sampling() -> bool:
    return any(thread.name == "grpcperf-sampler" and thread.is_alive() for thread in threading.enumerate())


def test_one_that_is_dropped_ends(within):
    sampler = gp.Sampler(os.getpid(), interval=0.01).__enter__()
    assert is_sampling()
    del sampler
    assert within(2, lambda: not is_sampling())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one may strike in __del__
def test_interrupts_leave_no_thread(within):
    """Wherever they come: before the block, in it, or while it is left."""

    armed = False

    def interrupt(*_):
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(150):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + number * 4e-6)
                with gp.Sampler(os.getpid(), interval=0.001):
                    pass
                armed = False
            except (KeyboardInterrupt, RuntimeError):  # the latter is Thread.start's own answer to one
                armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert within(2, lambda: not is_sampling())


def test_a_target_that_cannot_be_read_is_told_on_entering():
    server = gp.Server()
    server.close()
    with pytest.raises(gp.InvalidRequest, match="cannot be used"):
        gp.Sampler(server).__enter__()
    with pytest.raises(gp.ServerDied, match=f"process {server.pid} is gone"):
        gp.Sampler(server.pid).__enter__()


def test_a_want_of_descriptors_is_a_gap_and_no_end(within):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with gp.Sampler(os.getpid(), interval=0.005) as sampler:
        assert within(2, lambda: sampler.rows())
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            time.sleep(0.1)
            count = len(sampler.rows())
            time.sleep(0.1)
            assert len(sampler.rows()) == count
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert within(2, lambda: len(sampler.rows()) > count)


@pytest.mark.parametrize(
    ("target", "arguments", "named"),
    [
        ("127.0.0.1:1", {}, "pid="),
        (0, {}, "pid"),
        (None, {}, "target"),
        (1, {"interval": 0}, "interval"),
        (1, {"interval": float("nan")}, "interval"),
    ],
)
def test_nonsense_is_refused_by_name(target, arguments, named):
    with pytest.raises(gp.InvalidRequest, match=named):
        gp.Sampler(target, **arguments)


# --- every local target


def test_columns_of_a_foreign_process_are_the_kernels(within):
    with gp.Process(["sleep", "100"]) as process, gp.Sampler(process, interval=0.02) as sampler:
        assert within(3, lambda: sum(row["fds"] is not None for row in sampler.rows()) > 2)
    row = [row for row in sampler.rows() if row["fds"] is not None][-1]  # it has hardly begun at the first
    assert row["rss"] > row["rss_anon"] > 0
    assert row["threads"] == 1
    assert (row["fds"], row["sockets"]) == (3, 0)
    assert row["context_switches"] >= 0
    assert row["heap_alloc"] is row["tasks"] is row["running"] is row["pss"] is None


def test_sockets_and_tasks_follow_what_is_held():
    with (
        gp.Server() as server,
        gp.Sampler(gp.Target(server.address, pid=server.pid), interval=0.02) as outside,
        gp.Sampler(server, interval=0.02) as both,
    ):
        time.sleep(0.1)
        with gp.hold(server, calls=40, connections=20):
            time.sleep(0.6)
    for sampler in (outside, both):
        sockets = [row["sockets"] for row in sampler.rows() if row["sockets"] is not None]
        assert max(sockets) >= min(sockets) + 20
        switches = [row["context_switches"] for row in sampler.rows() if row["context_switches"] is not None]
        assert switches[-1] > switches[0]
    tasks = [row["tasks"] for row in both.rows() if row["tasks"] is not None]
    assert max(tasks) >= min(tasks) + 40
    assert all(row["tasks"] is None for row in outside.rows())


def test_a_stopped_foreign_process_is_still_seen(within):
    with gp.Process(["sleep", "100"]) as process:
        os.kill(process.pid, signal.SIGSTOP)
        with gp.Sampler(process, interval=0.02, pss=True) as sampler:
            assert within(3, lambda: len(sampler.rows()) > 5)
        assert all(row["rss"] > 0 for row in sampler.rows())
        assert sampler.rows()[0]["pss"] > 0


def test_dear_readings_of_a_large_process_are_rare():
    """With 300 threads a reading takes milliseconds, so it is not made each time."""
    gate = threading.Event()
    threads = [threading.Thread(target=gate.wait) for _ in range(300)]
    for thread in threads:
        thread.start()
    try:
        with gp.Sampler(os.getpid(), interval=0.005) as sampler:
            time.sleep(0.5)
    finally:
        gate.set()
        for thread in threads:
            thread.join()
    rows = sampler.rows()
    dear = [row for row in rows if row["context_switches"] is not None]
    assert 1 <= len(dear) < len(rows) / 3
    assert all(row["rss"] > 0 for row in rows)
    assert all((row["fds"] is None) == (row["context_switches"] is None) for row in rows)
