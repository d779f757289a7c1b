"""How the native server's calls get threads, and what stands in front of their handlers: every model and
limit against tables of what must run, wait, be refused and be left behind."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import grpcperf as gp
from grpcperf.targets.limits import parse_limit, parse_limits

pytestmark = pytest.mark.usefixtures("no_leftovers")

KINDS = ("unary", "server_stream", "client_stream", "bidi", "bidi_free")
MODELS = ("async", "thread", "stream-workers:6", "pool:64:1000")


# --- the texts


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (gp.Semaphore(100), "semaphore:100"),
        (gp.Rate(1500), "rate:1500:burst=100:reject"),
        (gp.Rate(0.5, burst=1, on_excess="degrade"), "rate:0.5:burst=1:degrade"),
        (gp.PruneBelow("50ms"), "prune:50000us"),
        (gp.PruneBelow(0), "prune:0us"),
    ],
)
def test_limits_and_their_text_are_the_same(limit, text):
    assert str(limit) == text
    assert parse_limit(text) == limit == parse_limit(limit)
    assert hash(parse_limit(text)) == hash(limit)


def test_texts_may_be_short():
    assert parse_limit("rate:1500:degrade") == gp.Rate(1500, on_excess="degrade")
    assert parse_limit("rate:1500:burst=7") == gp.Rate(1500, burst=7)
    assert parse_limit("prune:50ms") == gp.PruneBelow(0.05)


@pytest.mark.parametrize(
    "text",
    [
        *("", "semaphor:1", "semaphore", "semaphore:", "semaphore:0", "semaphore:-1", "semaphore:1:1"),
        *("rate", "rate:", "rate:0", "rate:-1", "rate:nan", "rate:inf", "rate:x", "rate:1e10", "rate:1:drop"),
        *("rate:1:burst=0", "rate:1:burst=1:burst=2", "rate:1:reject:degrade", "rate:1:a:b:c"),
        *("prune", "prune:", "prune:-1ms", "prune:2d", "prune:soon"),
        *(None, 5, 1.5, ["semaphore:1"]),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(text):
    with pytest.raises(gp.InvalidRequest):
        parse_limit(text)


@pytest.mark.parametrize("limits", ["semaphore:1", gp.Semaphore(1), 100, None, ["semaphore:1"] * 9, ["x"]])
def test_limits_are_a_list_of_a_few(limits):
    with pytest.raises(gp.InvalidRequest, match="limit"):
        gp.Server(limits=limits)


def test_limits_of_nothing_are_refused():
    for make, name in (
        (lambda: gp.Semaphore(0), "Semaphore n"),
        (lambda: gp.Rate(0), "Rate per_s"),
        (lambda: gp.Rate(1, burst=0), "Rate burst"),
        (lambda: gp.Pool(0), "Pool n"),
    ):
        with pytest.raises(gp.InvalidRequest, match=f"{name} must be .* not 0"):
            make()
    assert parse_limits(()) == ()


# --- what runs, what waits, what is refused: 40 held calls


@pytest.mark.parametrize(
    ("model", "limits", "running", "queued", "refused", "tasks"),
    [
        ("async", [], 40, 0, 0, 40),
        ("async", ["semaphore:7"], 7, 33, 0, 7),
        ("async", ["semaphore:20", "semaphore:7"], 7, 33, 0, 7),
        ("thread", [], 40, 0, 0, 40),
        ("thread", ["semaphore:7"], 7, 33, 0, 40),  # a limit is no limit on threads
        ("stream-workers:6", [], 40, 0, 0, 34),
        ("stream-workers:6", ["semaphore:7"], 7, 33, 0, 34),
        ("stream-workers:0", [], 40, 0, 0, 40),
        ("pool:8:16", [], 8, 16, 16, 0),
        ("pool:8:0", [], 8, 0, 32, 0),
        ("pool:8:16", ["semaphore:7"], 7, 33, 0, 0),
        ("pool:8:16", ["semaphore:20"], 8, 32, 0, 0),  # 12 of them in the pool's queue, 20 in the semaphore's
        ("pool:8:16", ["semaphore:30"], 8, 16, 16, 0),  # who is refused lets the next one in, to be refused
    ],
)
def test_what_runs_waits_and_is_refused(within, model, limits, running, queued, refused, tasks):
    with gp.Server(model, limits=limits) as server:
        before = server.memstats().tasks
        for kind in KINDS:
            assert within(5, lambda: server.counters().running == 0)
            server.reset_peaks()
            with gp.hold(server, calls=40, kind=kind) as held:
                # The block begins when all are there; a thread may still be on its way to the next in line.
                assert within(2, lambda: server.counters().parked == running), kind
                assert (held.running, held.queued, held.refused) == (running, queued, refused), kind
                counters = server.counters()
                assert (counters.running, counters.queued) == (running, queued)
                assert server.memstats().tasks - before == tasks
                server.release()
                assert held.wait(3), "what waited is let go too"
                ended = {"OK": 40 - refused} | ({"RESOURCE_EXHAUSTED": refused} if refused else {})
                assert held.status == ended, kind
            assert server.counters().peak_running == running
            assert within(2, lambda: server.memstats().tasks == before)
        counters = server.counters()
        assert (counters.running, counters.queued, counters.parked) == (0, 0, 0)
        assert counters.started == counters.finished == 5 * (40 - refused)
        assert (counters.rejected, counters.threads_exhausted, counters.pruned) == (5 * refused, 0, 0)


@pytest.mark.parametrize("kind", ["unary", "bidi"])
@pytest.mark.parametrize("model", MODELS)
def test_a_peak_is_exact_under_two_client_threads(model, kind):
    with gp.Server(model, limits=["semaphore:7"]) as server:
        result = gp.load(
            server,
            kind=kind,
            messages_per_stream=None if kind == "unary" else 2,
            concurrency=60,
            connections=2,
            threads=2,
            calls=400,
            warmup=0,
            metadata={"grpcperf-delay-us": "1000"},
        )
        counters = server.counters()
        assert result.status == {"OK": 400}
        assert counters.peak_running == 7
        assert counters.started == counters.finished == 400


# --- pool


def test_a_pool_refuses_what_finds_no_room():
    with gp.Server(gp.Pool(4, queue=8)) as server:
        result = gp.load(server, concurrency=60, calls=300, warmup=0, metadata={"grpcperf-delay-us": "5000"})
        counters = server.counters()
        assert counters.peak_running == 4
        assert result.status["OK"] + result.status["RESOURCE_EXHAUSTED"] == 300
        assert result.status["RESOURCE_EXHAUSTED"] == counters.rejected > 0
        assert result.status["OK"] == counters.started >= 12


def test_a_pool_without_a_queue_takes_the_call_that_follows_an_answer():
    with gp.Server(gp.Pool(8, queue=0)) as server:
        assert gp.load(server, concurrency=8, calls=1000, warmup=0).status == {"OK": 1000}
        assert server.counters().rejected == 0
    with gp.Server(gp.Pool(8, queue=0), limits=[gp.Semaphore(8)]) as server:  # nor the one that waited for it
        result = gp.load(server, concurrency=60, connections=2, calls=4000, warmup=0)
        assert result.status == {"OK": 4000}
        assert server.counters().peak_running <= 8


# --- rate


def test_a_rate_lets_through_what_its_bucket_holds():
    with gp.Server(limits=[gp.Rate(500, burst=50)]) as server:
        begin = time.monotonic()
        result = gp.load(server, concurrency=4, calls=1000, warmup=0)
        took = time.monotonic() - begin
        counters = server.counters()
        assert 50 <= counters.started <= 50 + 500 * took
        assert counters.started == 1000 - counters.rejected
        assert result.status == {"OK": counters.started, "RESOURCE_EXHAUSTED": counters.rejected}
        assert counters.degraded == counters.pruned == 0
        time.sleep(0.12)  # after which it holds all 50 again
        assert gp.load(server, concurrency=1, calls=50, warmup=0).status == {"OK": 50}


@pytest.mark.parametrize(
    ("kind", "cheap"),
    [("unary", "OK"), ("client_stream", "OK"), ("server_stream", "OK"), ("bidi", "UNKNOWN")],
)
def test_what_is_over_the_rate_gets_a_cheap_answer_at_once(kind, cheap):
    """A ping-pong stream ends without its answers, which its client does not take for OK."""
    messages = {} if kind == "unary" else {"messages_per_stream": 1}
    with gp.Server(limits=["rate:0.001:burst=3:degrade"]) as server:
        result = gp.load(
            server,
            kind=kind,
            concurrency=10,
            calls=10,
            warmup=0,
            metadata={"grpcperf-delay-us": "300000", "grpcperf-status": "0"},
            **messages,
        )
        counters = server.counters()
        assert (counters.started, counters.degraded, counters.rejected) == (3, 7, 0)
        assert counters.peak_running == 3
        assert result.status == ({"OK": 10} if cheap == "OK" else {"OK": 3, cheap: 7})
        fast = result.latency if cheap == "OK" else result.error_latency
        assert fast.min < 0.2, "the handler's delay is not waited for"


# --- prune


@pytest.mark.parametrize("model", MODELS)
def test_calls_that_have_too_little_time_left_are_pruned(model):
    with gp.Server(model, limits=[gp.PruneBelow("5s")]) as server:
        for deadline, status in (("2s", "DEADLINE_EXCEEDED"), ("20s", "OK"), (None, "OK")):
            result = gp.load(server, concurrency=10, calls=50, warmup=0, deadline=deadline)
            assert result.status == {status: 50}
            late = result.error_latency.max
            assert late is None or late < 1.9, "at once, not in the end"
        counters = server.counters()
        assert (counters.pruned, counters.rejected, counters.started) == (50, 50, 100)
        assert counters.deadline_exceeded == 0, "the deadline itself did not pass"


def test_limits_act_in_their_order():
    """Pruned after the wait: who has waited too long does not run any more."""
    with gp.Server(limits=["semaphore:1", "prune:500ms"]) as server:
        result = gp.load(
            server,
            concurrency=20,
            calls=20,
            warmup=0,
            deadline="1s",
            metadata={"grpcperf-delay-us": "100000"},
        )
        counters = server.counters()
        assert 1 <= counters.started <= 6
        assert counters.pruned == 20 - counters.started
        assert counters.peak_running == 1
        assert result.status["DEADLINE_EXCEEDED"] >= 14
    with gp.Server(limits=["prune:500ms", "rate:0.001:burst=5"]) as server:
        gp.load(server, concurrency=1, calls=10, warmup=0, deadline="100ms")
        assert gp.load(server, concurrency=1, calls=5, warmup=0).status == {"OK": 5}, "no token was taken"


# --- the end of calls that run, and of calls that wait


@pytest.mark.parametrize("model", MODELS)
def test_cancellation_reaches_handlers_that_look(within, model):
    with gp.Server(model) as server:
        with gp.hold(server, calls=20, metadata={"grpcperf-delay-us": "60000000"}) as held:
            assert within(2, lambda: server.counters().running == 20)
            held.cancel()
            assert within(3, lambda: server.counters().running == 0)
        before = server.counters()
        assert before.cancelled == before.finished == 20
        with gp.hold(server, calls=20, metadata=BLIND) as held:
            begin = time.monotonic()
            held.cancel()
            assert within(3, lambda: server.counters().cancelled == 40)
            time.sleep(0.1)
            assert server.counters().running == 20
            server.release()
            assert within(3, lambda: server.counters().running == 0)
            took = time.monotonic() - begin
        late = server.counters().work_after_cancel_us - before.work_after_cancel_us
        assert 20 * 0.095 < late / 1e6 < 20 * took


# What runs parks until it is released and does not look, so what waits behind it has no other way out.
BLIND = {"grpcperf-hold": "1", "grpcperf-observe-cancel": "0"}
WAITING = [
    *((model, ["semaphore:1"]) for model in MODELS),
    ("pool:1:100", []),
    ("pool:1:100", ["semaphore:5"]),
]


@pytest.mark.parametrize(("model", "limits"), WAITING)
def test_who_waits_leaves_when_cancelled(within, model, limits):
    with gp.Server(model, limits=limits) as server:
        before = server.memstats().tasks
        with gp.hold(server, calls=20, metadata=BLIND) as held:
            assert within(2, lambda: (held.running, held.queued) == (1, 19))
            held.cancel()
            assert within(3, lambda: server.counters().queued == 0)
            assert server.counters().running == 1
        server.release()
        assert within(2, lambda: server.counters().running == 0)
        counters = server.counters()
        assert (counters.started, counters.finished, counters.cancelled) == (1, 1, 20)
        assert within(2, lambda: server.memstats().tasks == before)
        assert within(2, lambda: server.memstats().streams == 0)
        assert gp.load(server, concurrency=3, calls=30, warmup=0).status == {"OK": 30}, "its place is free"


@pytest.mark.parametrize(("model", "limits"), WAITING)
def test_who_waits_leaves_at_the_deadline(within, model, limits):
    with (
        gp.Server(model, limits=limits) as server,
        gp.hold(server, calls=20, metadata=BLIND, deadline="100ms") as held,
    ):
        assert within(3, lambda: server.counters().deadline_exceeded == 20)
        assert within(2, lambda: server.counters().queued == 0)
        counters = server.counters()
        assert (counters.running, counters.started, counters.cancelled) == (1, 1, 0)
        assert held.wait(2)
        assert held.status == {"DEADLINE_EXCEEDED": 20}


@pytest.mark.parametrize(("model", "limits"), [WAITING[0], WAITING[1], WAITING[4]])
def test_who_waits_leaves_with_its_client(within, model, limits):
    code = """if True:
        import grpcperf as gp, sys
        with gp.hold(sys.argv[1], calls=20):
            print(1, flush=True)
            input()
    """
    with gp.Server(model, limits=limits) as server:
        client = subprocess.Popen(
            [sys.executable, "-P", "-c", code, server.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert client.stdout.readline() == b"1\n"
            assert within(2, lambda: (server.counters().running, server.counters().queued) == (1, 19))
        finally:
            client.kill()
            client.communicate()
        assert within(3, lambda: server.counters().cancelled == 20)
        assert within(2, lambda: (server.counters().running, server.counters().queued) == (0, 0))


@pytest.mark.parametrize(("model", "limits"), WAITING)
def test_calls_that_come_and_go_leave_nothing(within, model, limits):
    """Cancelled in every state there is: about to wait, waiting, let through, running, answered."""
    with gp.Server(model, limits=limits) as server:
        tasks = server.memstats().tasks
        for _ in range(2):
            gp.load(
                server,
                concurrency=100,
                threads=2,
                connections=2,
                duration=0.1,
                warmup=0,
                drain=0,
                deadline="5ms",
                metadata={"grpcperf-delay-us": "500"},
            )
        # Some of those may not even have been read; whatever comes behind them has to wait for them.
        assert gp.load(server, concurrency=3, calls=30, warmup=0).status == {"OK": 30}
        assert within(3, lambda: (server.memstats().streams, server.counters().queued) == (0, 0))
        assert within(2, lambda: server.memstats().tasks == tasks)
        counters = server.counters()
        assert counters.started == counters.finished > 30
        assert (counters.running, counters.peak_running) == (0, 1)


@pytest.mark.parametrize(("model", "limits"), WAITING)
def test_a_server_with_waiting_calls_is_closed_at_once(model, limits):
    server = gp.Server(model, limits=limits)
    held = gp.hold(server, calls=20)
    held.__enter__()
    begin = time.monotonic()
    server.close()
    assert time.monotonic() - begin < 2
    held.__exit__(None, None, None)


# --- no more threads


def test_a_call_that_gets_no_thread_is_refused_and_told():
    """Address space is what runs out here, at stacks of 64 MiB: some twenty of them fit."""
    with gp.Server(gp.ThreadPerCall(stack="64MiB")) as server:
        pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[0])
        size = os.sysconf("SC_PAGESIZE") * pages
        most = size + 20 * (64 << 20) + (48 << 20)
        resource.prlimit(server.pid, resource.RLIMIT_AS, (most, most))
        slow = {"grpcperf-delay-us": "300000"}
        result = gp.load(server, concurrency=60, calls=60, warmup=0, metadata=slow)
        refused = result.status["RESOURCE_EXHAUSTED"]
        assert result.status == {"OK": 60 - refused, "RESOURCE_EXHAUSTED": refused}
        assert 30 <= refused <= 59
        counters = server.counters()
        assert (counters.threads_exhausted, counters.rejected) == (refused, refused)
        assert counters.peak_running == counters.started == 60 - refused
        (found,) = [one for one in result.findings if one.code == "server_threads_exhausted"]
        assert found.measured == refused
        again = gp.load(server, concurrency=5, calls=50, warmup=0)
        assert again.status == {"OK": 50}
        assert "server_threads_exhausted" not in [one.code for one in again.findings]


def test_a_pool_that_gets_no_threads_does_not_start(python):
    done = python(
        """
        import resource, grpcperf as gp
        resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
        try:
            gp.Server(gp.Pool(10_000))
        except gp.EngineError as error:
            print(error)
        """.replace("\n        ", "\n")
    )
    assert "did not start" in done.stdout, done.stderr
    assert "cannot start the server's threads" in done.stdout


# --- the shell


def test_the_shell_takes_both(cli):
    serve = cli.start("serve", "--model", "pool:2:1", "--limit", "prune:1ms", "--limit", "rate:1000:burst=4")
    try:
        address = serve.stdout.readline().split()[2]
        slow = {"grpcperf-delay-us": "300000"}
        result = gp.load(address, concurrency=8, calls=8, warmup=0, metadata=slow)
        assert result.status == {"OK": 3, "RESOURCE_EXHAUSTED": 5}
    finally:
        serve.send_signal(signal.SIGINT)
        serve.communicate()
