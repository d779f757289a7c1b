"""load and start: runs against a real server, whose own counts are the second way to know."""

import errno
import io
import json
import os
import threading
import time

import pytest

import grpcperf as gp
from grpcperf.load import Snapshot
from grpcperf.progress import Progress
from grpcperf.spec import KINDS


def settings_of(kind):
    return {} if kind == "unary" else {"messages_per_stream": 5}


# --- counts


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_has_seen_what_the_client_counts(kind, within):
    with gp.Server() as server:
        result = gp.load(server, kind=kind, concurrency=8, calls=300, warmup=0, **settings_of(kind))
        assert within(2, lambda: server.counters().finished == 300)
        counters = server.counters()
    assert result.calls == 300 == counters.started
    assert result.status == {"OK": 300}
    assert result.errors == 0
    assert result.latency.count == 300
    assert result.error_latency.count == 0
    assert counters.peak_running <= 16
    assert result.row()["kind"] == kind


@pytest.mark.parametrize("model", ["async:1", "thread"])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_streams_without_an_end_of_their_own_end_with_the_run(kind, model):
    with gp.Server(model=model) as server:
        began = time.monotonic()
        result = gp.load(server, kind=kind, concurrency=8, duration=0.5, warmup=0.1, transport="core")
        took = time.monotonic() - began
    assert result.status == {"OK": 8}
    assert took < 4
    assert kind == "server_stream" or result.messages_sent > 100
    assert kind == "client_stream" or result.messages_received > 100  # also while both sides flood


@pytest.mark.parametrize("kind", KINDS[1:])
def test_messages_of_streams_are_counted(kind):
    with gp.Server() as server:
        result = gp.load(server, kind=kind, concurrency=4, calls=40, warmup=0, messages_per_stream=25)
    sent = 40 * (1 if kind == "server_stream" else 25)
    received = 40 * (1 if kind == "client_stream" else 25)
    assert result.calls == 40
    assert result.messages_sent == sent
    if kind == "bidi_free":
        assert result.messages_received > 0  # the server sends as it likes
    else:
        assert result.messages_received == received


def test_warm_up_is_served_and_not_counted(within):
    with gp.Server() as server:
        result = gp.load(server, concurrency=4, calls=100, warmup=0.2)
        assert within(2, lambda: server.counters().running == 0)
        assert result.calls == 100
        assert server.counters().started > 200


@pytest.mark.parametrize(
    ("metadata", "more", "status"),
    [
        ({"grpcperf-status": 13}, {}, "INTERNAL"),
        ({"grpcperf-status": 8}, {}, "RESOURCE_EXHAUSTED"),
        ({"grpcperf-delay-us": 500_000}, {"deadline": 0.02}, "DEADLINE_EXCEEDED"),
        ({}, {"method": "/no.Such/Method", "request": b""}, "UNIMPLEMENTED"),
    ],
)
def test_failed_calls_are_data_in_one_class(server, metadata, more, status):
    result = gp.load(server, concurrency=4, duration=0.3, warmup=0.05, metadata=metadata, **more)
    assert result.calls == sum(result.status.values()) == result.errors > 0
    assert set(result.status) <= {status, "in_flight_at_end"}
    assert result.status[status] > 0
    assert result.status["OK"] == 0
    assert result.throughput_rps == 0
    assert result.latency.count == 0
    assert result.error_latency.count == result.status[status]
    assert "all_failed" in [finding.code for finding in result.findings]
    assert not result.valid


def test_the_drain_is_bounded_and_what_it_cuts_is_a_class(server):
    begin = time.monotonic()
    result = gp.load(
        server, concurrency=4, duration=0.2, warmup=0, drain=0.1, metadata={"grpcperf-hold": "1"}
    )
    assert time.monotonic() - begin < 2
    assert result.status == {"in_flight_at_end": 4}
    assert result.calls == 4


def test_latency_holds_the_work_of_the_handler(server):
    result = gp.load(server, concurrency=2, calls=20, warmup=0, metadata={"grpcperf-delay-us": 20_000})
    assert 0.020 <= result.latency.min <= result.latency.mean <= result.latency.max < 0.5


def test_the_numbers_of_a_result_agree(server):
    result = gp.load(server, concurrency=8, duration=0.5, warmup=0.1)
    assert result.window_s == pytest.approx(0.5, abs=0.05)
    assert result.throughput_rps == pytest.approx(result.ok_in_window / result.window_s)
    # Little's law: calls in flight = rate times time in the system. Less when the client itself has to wait.
    assert 1 < result.throughput_rps * result.latency.mean < 8.5
    assert sum(window.ok + window.failed for window in result.windows) == result.all_in_window
    assert result.client_cpu_us_per_call > 0
    assert result.server_cpu_us_per_call > 0
    assert result.environment["cpus"] == os.cpu_count()
    assert result.settings["initial_window_size"] > 0
    json.dumps(result.row(), allow_nan=False)
    assert repr(result)
    assert result._repr_html_()


def test_littles_law_holds(server):
    """With calls far longer than what the client takes between them, there are always as many as asked."""
    result = gp.load(server, concurrency=8, duration=1, warmup=0.1, metadata={"grpcperf-delay-us": 40_000})
    assert result.throughput_rps * result.latency.mean == pytest.approx(8, rel=0.2)


# --- what ends a run


@pytest.mark.parametrize(("calls", "duration", "ended_by_calls"), [(50, 30.0, True), (10**9, 0.3, False)])
def test_calls_and_duration_whichever_ends_first(server, calls, duration, ended_by_calls):
    begin = time.monotonic()
    result = gp.load(server, concurrency=2, calls=calls, duration=duration, warmup=0)
    assert time.monotonic() - begin < 10
    assert (result.calls == calls) is ended_by_calls


def test_streams_without_an_end_last_as_long_as_the_run(server):
    result = gp.load(server, kind="bidi", concurrency=3, duration=0.3, warmup=0)
    assert result.status == {"OK": 3}
    assert result.messages_received > 10


def test_think_time_is_between_the_calls_of_a_caller(server):
    result = gp.load(server, concurrency=1, duration=0.5, warmup=0, think_time="50ms")
    assert 5 <= result.calls <= 10


# --- connections, threads, requests


def test_connections_are_as_many_as_asked(server):
    result = gp.load(server, connections=20, calls=200, warmup=0)
    assert result.connections == 20
    assert result.spec.concurrency == 64
    assert gp.load(server, connections=70, calls=70, warmup=0).spec.concurrency == 70


def test_threads_share_the_load(server):
    result = gp.load(server, connections=3, threads=2, concurrency=9, calls=901, warmup=0)
    assert result.calls == 901
    assert result.errors == 0
    assert result.connections == 3


def test_client_threads_can_be_pinned(server):
    cpu = min(os.sched_getaffinity(0))
    assert gp.load(server, concurrency=2, calls=50, warmup=0, cpus=[cpu]).errors == 0
    assert os.sched_getaffinity(0) != set()


def test_a_cpu_that_is_not_there_is_an_error_not_a_hang(server):
    with pytest.raises(gp.InvalidRequest, match=r"CPU.*, not 4095"):
        gp.load(server, concurrency=1, calls=5, warmup=0, cpus=[4095])


def test_sizes_are_of_the_payload(server):
    result = gp.load(server, concurrency=2, calls=100, warmup=0, request_size="64KiB", response_size=0)
    assert result.errors == 0
    assert result.row()["request_size"] == 65_536
    assert result.mib_per_s == pytest.approx(result.throughput_rps / 16)


def test_a_request_of_ones_own(server):
    # response_size (field 2) = 100, as protobuf writes it
    result = gp.load(
        server,
        method="/grpc.testing.BenchmarkService/UnaryCall",
        request=b"\x10\x64",
        concurrency=1,
        calls=5,
        warmup=0,
    )
    assert result.errors == 0


def test_a_unix_socket_is_an_address_too():
    with pytest.raises(gp.ConnectError, match=r"/nowhere/at\.all"):
        gp.load("unix:/nowhere/at.all", calls=1)


# --- spec and keywords


def test_keywords_change_a_spec(server):
    spec = gp.Load(concurrency=2, calls=10, warmup=0)
    assert gp.load(server, spec).spec == spec
    assert gp.load(server, spec, calls=20).calls == 20
    with pytest.raises(gp.InvalidRequest, match=r"concurency.*concurrency"):
        gp.load(server, concurency=1)
    with pytest.raises(gp.InvalidRequest, match=r"gp\.Load"):
        gp.load(server, {"calls": 1})
    with pytest.raises(gp.InvalidRequest, match="target"):
        gp.load(None, calls=1)


# --- in the background


def test_a_run_in_the_background(server, within):
    with gp.start(server, concurrency=2, duration=0.6, warmup=0.2) as run:
        first = run.snapshot()
        assert first.phase in ("connect", "warmup", "measure")
        assert within(2, lambda: run.snapshot().phase == "measure" and run.snapshot().calls > 0)
        result = run.result()
        last = run.snapshot()
        assert last.phase == "ended"
        assert last.calls == result.calls
        assert last.ok == result.status["OK"]
        assert run.result() is result
        assert "ended" in repr(run)


def test_stop_ends_a_run_and_keeps_what_it_has(server, within):
    run = gp.start(server, concurrency=2, duration=60, warmup=0)
    assert within(2, lambda: run.snapshot().calls > 10)
    begin = time.monotonic()
    run.stop()
    result = run.result()
    assert time.monotonic() - begin < 1
    assert result.calls == sum(result.status.values()) > 10
    assert result.window_s < 10
    assert result.errors == 0


def test_a_stopped_run_does_not_wait_out_its_drain(server, within):
    run = gp.start(server, concurrency=2, duration=60, warmup=0, drain=30, metadata={"grpcperf-hold": "1"})
    assert within(2, lambda: server.counters().running == 2)
    run.stop()
    begin = time.monotonic()
    assert run.result().status == {"in_flight_at_end": 2}
    assert time.monotonic() - begin < 1.5


def threads_of_this_process():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize("how", ["dropped", "left"])
def test_a_run_nobody_waits_for_leaves_no_thread(server, within, how):
    gp.load(server, concurrency=2, calls=10, warmup=0)  # gRPC keeps threads of its own
    before = threads_of_this_process()
    run = gp.start(server, concurrency=2, duration=60, warmup=0)
    assert threads_of_this_process() > before
    begin = time.monotonic()
    if how == "left":
        with run:
            pass
        with pytest.raises(gp.InvalidRequest, match="closed"):
            run.result()
        assert "closed" in repr(run)
    del run
    assert time.monotonic() - begin < 2
    assert within(2, lambda: threads_of_this_process() <= before + 1)


def test_a_server_that_is_closed_ends_the_run(within):
    with gp.Server() as server:
        run = gp.start(server, concurrency=2, duration=60, warmup=0)
        assert within(2, lambda: run.snapshot().calls > 10)
    result = run.result()
    assert result.findings[0].code == "server_died"
    assert "closed" in result.findings[0].message


def test_a_run_keeps_its_target_alive(within):
    run = gp.start(gp.Server(), concurrency=2, duration=0.3, warmup=0)
    result = run.result()
    assert result.errors == 0
    run.target.close()


def test_result_from_several_threads_is_the_same(server):
    run = gp.start(server, concurrency=2, duration=0.3, warmup=0)
    results = []
    waiting = [threading.Thread(target=lambda: results.append(run.result())) for _ in range(4)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    assert len(results) == 4
    assert all(result is results[0] for result in results)


# --- progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, spec, snapshots, terminal=None, show=None):
    terminal = terminal or Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress(spec, show) as bar:
        for snapshot in snapshots:
            bar.update(snapshot)
    return terminal.getvalue()


HALF = Snapshot("measure", 5.0, 1000, 998)


def test_a_person_sees_how_far_a_long_run_is(monkeypatch):
    text = shown(monkeypatch, gp.Load(duration=10), [Snapshot("warmup", 0, 0, 0), HALF])
    assert "50%" in text
    assert "5.0/10.0 s, 200 calls/s, 2 failed" in text


class Gone(Terminal):
    """A terminal whose window has been closed."""

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("stderr", [None, Gone()])
def test_a_run_is_not_lost_with_the_terminal(monkeypatch, stderr):
    monkeypatch.setattr("sys.stderr", stderr)
    with Progress(gp.Load(duration=10), True) as bar:
        bar.update(HALF)
        bar.update(HALF)


def test_progress_of_a_run_by_calls(monkeypatch):
    assert "25%" in shown(monkeypatch, gp.Load(calls=4000), [HALF])


@pytest.mark.parametrize(
    ("spec", "terminal", "show"),
    [
        (gp.Load(duration=0.4, warmup=0.1), None, None),  # too short
        (gp.Load(duration=10), io.StringIO(), None),  # nobody watches
        (gp.Load(duration=10), None, False),
    ],
)
def test_nothing_is_shown_to_nobody(monkeypatch, spec, terminal, show):
    assert shown(monkeypatch, spec, [HALF], terminal, show) == ""


def test_a_library_call_prints_nothing(server, capfd):
    gp.load(server, concurrency=1, duration=1.2, warmup=0)
    assert capfd.readouterr() == ("", "")
