"""hold: calls in flight, counted by the server itself."""

import os
import signal
import time
from importlib import import_module

import pytest

import grpcperf as gp
from grpcperf.parked import hold_and_measure
from grpcperf.spec import KINDS


@pytest.mark.parametrize("model", ["async", "thread"])
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_every_kind_are_held_and_released(kind, model, within):
    with gp.Server(model) as server:
        with gp.hold(server, calls=50, kind=kind) as held:
            assert held.running == server.counters().running == 50
            assert held.queued == held.refused == 0
            assert held.entered_s < 5
            time.sleep(0.1)
            assert held.running == 50
            assert held.release() < 2
            assert held.status == {"OK": 50}
            assert held.running == 0
        assert within(2, lambda: server.counters().running == 0)
        assert server.counters().finished == 50


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_every_kind_over_c_core(kind, server):
    with gp.hold(server, calls=40, kind=kind, connections=2, transport="core") as held:
        assert (held.running, held.queued, held.refused, held.connected) == (40, 0, 0, 2)
        assert held.release() < 2
        assert held.status == {"OK": 40}


@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_calls_end_on_both_sides(kind, within):
    with gp.Server() as server:
        with gp.hold(server, calls=50, kind=kind) as held:
            held.cancel()
            assert held.wait(2)
            assert held.status == {"CANCELLED": 50}
            assert held.refused == 0
            assert within(2, lambda: held.running == 0)
        assert server.counters().cancelled == 50


def test_leaving_cancels_what_is_left(within):
    with gp.Server() as server:
        begin = time.monotonic()
        with gp.hold(server, calls=100):
            pass
        assert time.monotonic() - begin < 3
        assert within(2, lambda: server.counters().running == 0)
        assert server.counters().cancelled == 100


@pytest.mark.parametrize("kind", ["client_stream", "bidi", "bidi_free"])
def test_streams_can_send_before_they_fall_silent(kind, server):
    with gp.hold(server, calls=10, kind=kind, send_first=True) as held:
        assert held.running == 10


def test_metadata_that_says_how_long_calls_last_is_enough(server):
    with gp.hold(server, calls=10, metadata={"grpcperf-delay-us": 400_000}) as held:
        assert held.running == 10
        assert held.wait(2)
        assert held.status == {"OK": 10}
        assert server.counters().parked == 0


def test_handlers_that_ignore_cancellation_go_on_running(within):
    metadata = {"grpcperf-delay-us": 1_000_000, "grpcperf-observe-cancel": 0}
    with gp.Server() as server, gp.hold(server, calls=20, metadata=metadata) as held:
        held.cancel()
        assert held.wait(2)
        assert held.running == 20
        assert within(3, lambda: held.running == 0)


def test_a_deadline_ends_calls_by_itself(server):
    with gp.hold(server, calls=10, deadline="300ms") as held:
        assert held.running == 10
        assert held.wait(3)
        assert held.status == {"DEADLINE_EXCEEDED": 10}
        assert held.refused == 0
        assert held.expired == 10
        assert "DEADLINE_EXCEEDED 10" in repr(held)


def test_calls_above_the_stream_limit_are_queued():
    with gp.Server(max_concurrent_streams=5) as server:
        with gp.hold(server, calls=20) as held:
            assert held.entered_s < 2
            assert (held.running, held.queued) == (5, 15)
            assert held.release() < 5
            assert held.status == {"OK": 20}
        with gp.hold(server, calls=20, connections=4) as held:
            assert (held.running, held.queued) == (20, 0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"limits": [gp.Semaphore(20)]}, (20, 80, 0)),
        ({"limits": [gp.Semaphore(20)], "model": "thread"}, (20, 80, 0)),
        ({"limits": [gp.Semaphore(20)], "max_concurrent_streams": 25}, (20, 80, 0)),  # queued on both sides
        ({"model": "pool:20:1000"}, (20, 80, 0)),
        ({"model": "pool:20:30"}, (20, 30, 50)),
        ({"model": "stream-workers:8"}, (100, 0, 0)),
        ({"limits": [gp.Rate(0.01, burst=15)]}, (15, 0, 85)),
    ],
)
def test_limits_queue_or_refuse(arguments, told):
    running, queued, refused = told
    with gp.Server(**arguments) as server, gp.hold(server, calls=100, connections=2) as held:
        assert held.entered_s < 5
        assert (held.running, held.queued, held.refused) == told
        assert server.counters().peak_running == running
        assert held.admitted == (50 if "max_concurrent_streams" in arguments else running + queued)
        assert held.release() < 5
        assert held.status["OK"] == running + queued
        assert held.status["RESOURCE_EXHAUSTED"] == refused
        assert server.counters().peak_running == running


def test_queued_calls_of_two_holds_are_told_apart():
    with gp.Server(limits=[gp.Semaphore(20)]) as server:
        with gp.hold(server, calls=15) as first, gp.hold(server, calls=15) as second:
            assert (first.running, first.queued) == (15, 0)
            assert (second.running, second.queued) == (5, 10)
        with gp.hold(server, calls=50, deadline="200ms") as held:
            assert (held.running, held.queued) == (20, 30)
            assert held.wait(2)  # those that never ran, too
            assert held.expired == 50


def test_refused_calls_are_counted_and_not_waited_for(server):
    begin = time.monotonic()
    with gp.hold(server, calls=10, metadata={"grpcperf-status": 8, "grpcperf-delay-us": 1}) as held:
        assert time.monotonic() - begin < 2
        assert held.refused == 10
        assert held.running == held.queued == 0
        assert held.status == {"RESOURCE_EXHAUSTED": 10}


def test_calls_of_others_are_not_ours(server):
    with gp.hold(server, calls=7) as first, gp.hold(server, calls=5) as second:
        assert server.counters().running == 12
        assert second.running == 5
        assert first.running == 7


def test_calls_of_others_may_leave_meanwhile():
    with gp.Server() as server:
        first, second = gp.hold(server, calls=100), gp.hold(server, calls=50)
        first.__enter__()
        with second:
            assert (first.running, second.running) == (100, 50)
            first.__exit__(None, None, None)
            assert (second.running, second.queued) == (50, 0)


def test_a_hold_does_not_wait_for_what_an_earlier_one_leaves_behind():
    """Its handlers are still there when the next begins, and go while that is being entered."""
    with gp.Server() as server:
        lasting = {"grpcperf-delay-us": 300_000, "grpcperf-observe-cancel": 0}
        with gp.hold(server, calls=200, metadata=lasting):
            pass
        with gp.hold(server, calls=300, timeout=3) as held:
            assert held.entered_s < 2
            assert (held.running, held.queued) == (300, 0)
            time.sleep(0.6)  # the earlier ones have ended by now
            assert server.counters().running == held.running == 300


def test_a_hold_does_not_wait_for_what_a_load_leaves_behind():
    """Part of it has not even begun when the hold does, so that the server's counts are of both."""
    with gp.Server("thread") as server:
        for delay_us in (0, 50_000):
            lasting = {"grpcperf-delay-us": delay_us, "grpcperf-observe-cancel": 0}
            gp.load(server, concurrency=1000, duration=0.03, warmup=0, drain=0, metadata=lasting)
            with gp.hold(server, calls=50, timeout=20) as held:
                assert held.entered_s < 10
                assert (held.running, held.queued) == (50, 0)


def test_a_hold_grows_on_the_connections_it_has(server):
    held = gp.hold(server, calls=300, connections=3)
    held.calls = 0
    with held:
        assert (held.connected, held.running) == (3, 0)
        descriptors = len(os.listdir(f"/proc/{server.pid}/fd"))
        for calls in (20, 20, 300):
            held.grow(calls)
            assert held.running == server.counters().running == held.admitted == calls
        assert len(os.listdir(f"/proc/{server.pid}/fd")) == descriptors
        for calls in (299, 301):
            with pytest.raises(gp.InvalidRequest, match="calls must be a whole number from 300 to 300"):
                held.grow(calls)
        held.cancel()
        with pytest.raises(gp.InvalidRequest, match="cancelled"):
            held.grow(300)
        assert held.wait(2)


def test_the_peak_is_that_of_all_holds(within):
    with gp.Server() as server:
        with gp.hold(server, calls=300, connections=2), gp.hold(server, calls=211):
            pass
        assert server.counters().peak_running == 511
        assert within(5, lambda: server.counters().running == 0)  # the server has heard of their end
        server.reset_peaks()
        with gp.hold(server, calls=70) as held:
            held.release()
        assert server.counters().peak_running == 70


def test_many_connections_with_an_idle_stream_each():
    with (
        gp.Server() as server,
        gp.hold(server, calls=400, connections=400, kind="bidi", send_first=True, timeout=30) as held,
    ):
        assert (held.running, held.queued, held.refused, held.connected) == (400, 0, 0, 400)
        assert held.release() < 5
        assert held.status == {"OK": 400}


def test_each_connection_is_one(server):
    descriptors = lambda: len(os.listdir(f"/proc/{server.pid}/fd"))  # noqa: E731
    before = descriptors()
    with gp.hold(server, calls=60, connections=30):
        assert 30 <= descriptors() - before <= 33


def test_a_foreign_target_is_held_by_what_was_sent(server):
    with gp.hold(server.address, calls=30) as held:
        assert held.running == 30
        with pytest.raises(gp.InvalidRequest, match="cancel"):
            held.release()
        held.cancel()
        assert held.wait(2)


def is_stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


def test_it_does_not_wait_for_ever(monkeypatch, within):
    """The server is stopped: it accepts, and says nothing."""
    with gp.Server() as server:
        monkeypatch.setattr(import_module("grpcperf.load"), "PROBE_S", 0.5)
        held = gp.hold(server.address, calls=5)
        os.kill(server.pid, signal.SIGSTOP)
        assert within(2, lambda: is_stopped(server.pid))
        begin = time.monotonic()
        with pytest.raises(gp.ConnectError):
            held.__enter__()
        assert time.monotonic() - begin < 2
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize(("transport", "status"), [("wire", "transport"), ("core", "UNAVAILABLE")])
def test_a_server_that_dies_while_calls_are_held(within, transport, status):
    with gp.Server() as server:
        held = gp.hold(server, calls=10, transport=transport)
        held.__enter__()
        os.kill(server.pid, signal.SIGKILL)
        assert within(2, server.death)
        with pytest.raises(gp.ServerDied, match="SIGKILL"):
            held.running  # noqa: B018
        with pytest.raises(gp.ServerDied, match=r"10 calls were held.*SIGKILL"):
            held.__exit__(None, None, None)
        assert held.status == {status: 10}


def test_a_server_that_dies_while_calls_are_opened(within):
    with gp.Server() as server:
        held = gp.hold(server, calls=10)
        held.calls = 0
        held.__enter__()
        os.kill(server.pid, signal.SIGKILL)
        assert within(2, server.death)
        with pytest.raises(gp.ServerDied, match="SIGKILL"):
            held.grow(10)
        with pytest.raises(gp.ServerDied, match="SIGKILL"):
            held.__exit__(None, None, None)


def test_a_client_that_dies_lets_go_of_its_calls(python, within):
    """Told by the server, which sees the connections go."""
    with gp.Server() as server:
        python(
            "import grpcperf as gp, os, signal\n"
            f"with gp.hold({server.address!r}, calls=200, kind='bidi', connections=4) as held:\n"
            f"    os.kill(os.getpid(), signal.SIGKILL)"
        )
        assert within(3, lambda: server.counters().started == 200 and server.counters().running == 0)
        assert server.counters().cancelled == 200


def test_a_held_call_costs_this_process_little(python):
    done = python(
        "import grpcperf as gp\n"
        "def resident():\n"
        "    with open('/proc/self/statm') as file:\n"
        "        return int(file.read().split()[1]) * 4096\n"
        "with gp.Server() as server:\n"
        "    with gp.hold(server, calls=10):\n"
        "        pass\n"
        "    before = resident()\n"
        "    with gp.hold(server, calls=20_000, timeout=30) as held:\n"
        "        print(held.running, (resident() - before) / 20_000)\n"
    )
    running, each = done.stdout.split()
    assert running == "20000"
    assert float(each) < 512  # 85 on the machine it was written on; 1,024 are promised


def test_releasing_twice_is_once(server):
    with gp.hold(server, calls=5) as held:
        assert held.release() < 2
        assert held.release() < 0.5
        assert held.status == {"OK": 5}


def test_calls_end_in_the_way_their_target_knows(server):
    for target, metadata, status in (
        (server, {}, "OK"),
        (server, {"grpcperf-delay-us": 60_000_000}, "CANCELLED"),
        (server.address, {}, "CANCELLED"),
    ):
        with gp.hold(target, calls=5, metadata=metadata) as held:
            assert held.end() < 2
            assert held.status == {status: 5}


def test_closing_the_server_meanwhile_is_not_a_death():
    with gp.Server() as server, gp.hold(server, calls=10):
        server.close()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"calls": 0}, "calls"),
        ({"calls": -1}, "calls"),
        ({"calls": 10_000_001}, "calls"),
        ({"calls": 30_000, "connections": 3_000_000}, "connections"),
        ({"calls": float("nan")}, "calls"),
        ({"calls": 2, "connections": 3}, r"^calls must be at least connections \(3\), not 2"),
        ({"calls": 1, "kind": "duplex"}, "kind"),
        ({"calls": 1, "deadline": -1}, "deadline"),
        ({"calls": 1, "timeout": "soon"}, "timeout"),
        ({"calls": 1, "metadata": {"bad key": "x"}}, "metadata"),
        ({"calls": 1, "keepalive": 5}, "keepalive"),
    ],
)
def test_nonsense_is_refused_by_name(server, arguments, named):
    with pytest.raises(gp.InvalidRequest, match=named):
        gp.hold(server, **arguments)


def test_a_hold_is_entered_once(server):
    held = gp.hold(server, calls=1)
    with pytest.raises(gp.InvalidRequest, match="with"):
        held.release()
    with held:
        assert "1 in flight" in repr(held)
        with pytest.raises(gp.InvalidRequest, match="once"):
            held.__enter__()
    assert "not in force" in repr(held)


# --- the report of `grpcperf hold`


def test_its_report_counts_memory_for_calls_that_the_server_has():
    with gp.Server(max_concurrent_streams=40) as server:
        report = hold_and_measure(server, 0.0, calls=100)
    assert (report.running, report.queued, report.refused, report.admitted) == (40, 60, 0, 40)
    assert 4 * 1024 < report.per_call("heap_alloc") < 40 * 1024
    assert report.ended == {"OK": 100}
    text = str(report)
    assert "40 of 100 calls ran, 60 were queued" in text
    assert "not OK" not in text
    assert {"calls", "running", "queued", "refused", "hold_s", "release_s", "memory"} <= set(report.as_dict())


def test_its_report_tells_of_calls_that_ended_early(server):
    report = hold_and_measure(server, 0.4, calls=20, deadline="200ms")
    assert report.ended == {"DEADLINE_EXCEEDED": 20}
    assert "not OK: DEADLINE_EXCEEDED 20" in str(report)
    assert report.hold_s >= 0.4
