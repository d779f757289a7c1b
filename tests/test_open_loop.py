"""The open loop end to end: the schedule itself against theory, and runs against real servers that stall."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise

import pytest

import grpcperf as gp
from grpcperf import _engine
from grpcperf.errors import InvalidRequest
from grpcperf.schedule import intended_times


@pytest.fixture(params=["wire", "core"])
def transport(request):
    return request.param


def intended_within(spec, window_s):
    """Calls that the schedule of an even rate has in a window of that length."""
    times = intended_times(spec, 2 * math.ceil(window_s * spec.rate) + 100)
    return sum(ns < round(window_s * 1e9) for ns in times)


# --- the schedule


def kolmogorov_smirnov(values, cdf):
    """The two-sided statistic times sqrt(n): above 1.63 in one of a hundred samples that have this
    distribution."""
    values = sorted(values)
    n = len(values)
    distance = max(max((i + 1) / n - cdf(x), cdf(x) - i / n) for i, x in enumerate(values))
    return distance * math.sqrt(n)


def gaps_s(spec, count):
    return [(b - a) / 1e9 for a, b in pairwise([0, *intended_times(spec, count)])]


@pytest.mark.parametrize("rate", [0.5, 100, 9_999.5, 1e6])
@pytest.mark.parametrize("seed", [0, 7])
def test_poisson_gaps_are_exponential(rate, seed):
    spec = gp.Load(rate=rate, seed=seed)
    assert kolmogorov_smirnov(gaps_s(spec, 50_000), lambda x: 1 - math.exp(-x * rate)) < 1.63


def test_uniform_gaps_are_uniform_up_to_twice_their_mean():
    spec = gp.Load(rate=1000, arrival="uniform")
    assert kolmogorov_smirnov(gaps_s(spec, 50_000), lambda x: min(1.0, x * 500)) < 1.63


def test_the_test_itself_can_tell():
    spec = gp.Load(rate=1000, arrival="uniform")
    assert kolmogorov_smirnov(gaps_s(spec, 5_000), lambda x: 1 - math.exp(-x * 1000)) > 5


def test_a_poisson_ramp_is_poisson_in_its_own_time():
    """Carried back by the integral of the rate, the gaps of any Poisson process are exponential with mean
    1."""
    spec = gp.Load(steps=[(100, 2), (100, 5000, 10), (5000, 1000, 5)])

    def calls(t):
        if t < 2:
            return 100 * t
        if t < 12:
            return 200 + 100 * (t - 2) + 245 * (t - 2) ** 2
        return 25_700 + 5000 * (t - 12) - 400 * (t - 12) ** 2

    positions = [0.0, *(calls(ns / 1e9) for ns in intended_times(spec, 35_000))]
    gaps = [b - a for a, b in pairwise(positions)]
    assert kolmogorov_smirnov(gaps, lambda x: 1 - math.exp(-x)) < 1.63


def test_arrivals_of_a_poisson_process_are_spread_evenly():
    spec = gp.Load(rate=2000, seed=3)
    times = [ns / 1e9 for ns in intended_times(spec, 40_000)]
    inside = [t for t in times if t < 10]
    assert kolmogorov_smirnov(inside, lambda t: t / 10) < 1.63


def test_constant_calls_are_where_they_belong():
    times = intended_times(gp.Load(rate=8, arrival="constant"), 10)
    assert list(times) == [i * 125_000_000 for i in range(10)]
    steps = gp.Load(steps=[(2, 1), (0, 1), (4, 0.5)], arrival="constant")
    ms = [ns / 1e6 for ns in intended_times(steps, 6)]
    assert ms == [0, 500, 2000, 2250, 2500, 2750]  # the last rate goes on


def test_a_rate_that_falls_to_nothing_ends_the_schedule():
    spec = gp.Load(steps=[(10, 1), (0, 1)], arrival="constant")
    assert len(intended_times(spec, 100)) == 10


def test_threads_divide_one_schedule():
    schedule = {"steps": [(1000.0, 1000.0, 1.0)], "arrival": "poisson", "seed": 5, "catch_up": "none"}
    whole = _engine.schedule_times(schedule, 999)
    parts = [_engine.schedule_times(schedule, 333, part=k, parts=3) for k in range(3)]
    together = sorted(x for part in parts for x in memoryview(part).cast("Q"))
    assert together == list(memoryview(whole).cast("Q"))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"steps": []}, ValueError),
        ({"steps": [(1.0, 2.0)]}, TypeError),
        ({"steps": [(1.0, -2.0, 1.0)]}, ValueError),
        ({"steps": [(float("nan"), 1.0, 1.0)]}, ValueError),
        ({"steps": [[1.0, 1.0, 1.0]]}, TypeError),
        ({"steps": 5}, TypeError),
        ({"arrival": "random"}, ValueError),
        ({"arrival": None}, ValueError),
        ({"catch_up": "half"}, ValueError),
        ({"seed": -1}, OverflowError),
    ],
)
def test_the_engine_refuses_nonsense(changes, error):
    good = {"steps": [(1.0, 1.0, 1.0)], "arrival": "poisson", "seed": 0, "catch_up": "none"}
    with pytest.raises(error):
        _engine.schedule_times(good | changes, 1)
    with pytest.raises(KeyError, match="steps is missing"):
        _engine.schedule_times({}, 1)
    with pytest.raises(ValueError, match="part below parts"):
        _engine.schedule_times(good, 1, part=1, parts=1)
    with pytest.raises(ValueError, match="count"):
        _engine.schedule_times(good, -1)


def test_a_closed_loop_has_no_schedule():
    with pytest.raises(InvalidRequest, match="closed loop has no schedule"):
        intended_times(gp.Load(), 1)


# --- runs


@pytest.mark.parametrize("arrival", ["poisson", "constant", "uniform"])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_was_intended_is_what_was_sent(server, arrival, threads, transport):
    spec = gp.Load(
        rate=2000,
        arrival=arrival,
        duration=0.8,
        warmup=0.1,
        connections=2,
        threads=threads,
        seed=11,
        transport=transport,
    )
    r = gp.load(server, spec)
    assert r.calls == sum(r.status.values())
    assert r.calls + r.not_sent == intended_within(spec, 0.8)
    assert r.not_sent == 0
    assert (r.offered_rate, r.achieved_rate) == (r.calls / r.window_s,) * 2
    assert r.latency.count == r.service_time.count == r.status["OK"] == r.calls
    assert r.send_lag.count == r.calls
    assert r.latency.sum >= r.service_time.sum
    assert r.latency.sum == pytest.approx(r.service_time.sum + r.send_lag.sum, rel=1e-6)
    # Windows count when calls were really sent; a late client carries some over the window's edges.
    assert sum(window.sent for window in r.windows) == pytest.approx(r.calls, rel=0.2)


def test_calls_end_an_open_loop(server, within, transport):
    with gp.Server() as own:
        r = gp.load(own, rate=1000, calls=300, warmup=0, transport=transport)
        assert within(2, lambda: own.counters().finished == 300)
    assert (r.calls, r.not_sent) == (300, 0)


def test_steps_are_followed(server):
    r = gp.load(server, steps=[(200, 0.5), (0, 0.5), (1000, 1)], arrival="constant")
    assert r.window_s == pytest.approx(2.0)
    assert r.calls == 100 + 1000
    sent = [window.sent for window in r.windows]  # of 100 ms
    assert len(sent) == 20
    assert sum(sent[:5]) == pytest.approx(100, abs=20)
    assert sum(sent[6:10]) == 0
    assert sum(sent[10:]) == pytest.approx(1000, abs=100)


def test_streams_can_be_opened_at_a_rate(server, transport):
    r = gp.load(
        server, kind="bidi", messages_per_stream=3, rate=500, duration=0.5, warmup=0.1, transport=transport
    )
    assert r.status == {"OK": r.calls}
    assert r.first_message.count > 0.9 * r.calls
    assert r.round_trip.count == pytest.approx(3 * r.first_message.count, rel=0.1)
    assert r.first_message.max <= r.service_time.max


@pytest.mark.parametrize("kind", ["server_stream", "bidi_free"])
def test_messages_of_streams_are_timed(server, kind, transport):
    shape = {"kind": kind, "messages_per_stream": 10, "concurrency": 4}
    r = gp.load(server, **shape, calls=50, warmup=0, transport=transport)
    assert r.first_message.count == 50
    assert r.message_gap.count == pytest.approx(r.messages_received - 50, abs=20)
    assert r.round_trip.count == 0
    assert r.first_message.max <= r.latency.max
    assert r.row()["message_gap_p50_us"] >= 0


def test_unary_calls_have_no_messages_of_their_own(server, transport):
    r = gp.load(server, calls=50, warmup=0, transport=transport)
    assert (r.first_message.count, r.message_gap.count, r.round_trip.count) == (0, 0, 0)
    assert (r.send_lag.count, r.queued.count, r.offered_rate) == (0, 0, None)


# --- a server that stalls


@contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def stalled(**spec):
    """3 s, of which the server is stopped for half a second."""
    with gp.Server() as own:
        run = gp.start(own, duration=3.0, warmup=0.3, **spec)
        time.sleep(1)
        with stopped(own.pid):
            time.sleep(0.5)
        return run.result()


def test_an_open_loop_shows_a_stall(transport):
    r = stalled(rate=500, transport=transport)
    assert r.calls == sum(r.status.values()) > 1300
    assert r.not_sent == 0
    assert r.latency.quantile(0.9) > 0.2  # a sixth of the calls came due while it stood still
    assert r.service_time.quantile(0.9) > 0.2  # there was room for all of them in flight
    assert "rate_not_reached" not in [one.code for one in r.findings]


def test_service_time_hides_what_waits_for_room():
    r = stalled(rate=500, max_in_flight=8, catch_up="full")
    assert r.not_sent == 0
    assert r.latency.quantile(0.9) > 0.2
    assert r.service_time.quantile(0.9) < 0.1
    assert r.queued.count > 200
    assert r.queued.max > 0.4
    assert r.send_lag.count + r.queued.count == r.calls


def test_catch_up_says_what_becomes_of_calls_without_room():
    bounded = stalled(rate=500, max_in_flight=8)
    none = stalled(rate=500, max_in_flight=8, catch_up="none")
    # 0.5 s at 500/s less 8 in flight, and with bounded less the last 100 ms. A machine that robs the client
    # of its CPU as well has more than 8 calls due at once now and then.
    assert 190 < none.not_sent < 700
    assert 140 < bounded.not_sent < 600
    assert bounded.queued.max < 0.2
    for r in (bounded, none):
        assert r.calls + r.not_sent == intended_within(r.spec, 3.0)
        assert r.offered_rate - r.achieved_rate == pytest.approx(r.not_sent / r.window_s)
        assert "not_sent" in [one.code for one in r.findings]
        assert r.row()["not_sent"] == r.not_sent


def test_a_closed_loop_hides_it():
    r = stalled(concurrency=8)
    assert r.latency.quantile(0.95) < 0.1
    assert r.latency.max > 0.4


def test_a_server_that_stays_stopped_does_not_hold_the_run(transport):
    with gp.Server() as own:
        begin = time.monotonic()
        run = gp.start(own, rate=500, duration=1.0, warmup=0.1, drain=0.3, transport=transport)
        time.sleep(0.5)
        with stopped(own.pid):
            r = run.result()
            assert time.monotonic() - begin < 5
    assert r.status["in_flight_at_end"] > 100
    assert r.calls == sum(r.status.values())
    assert r.calls + r.not_sent == intended_within(r.spec, 1.0)


# --- a client that stalls

STALLED_CLIENT = """
import grpcperf as gp, json, sys
r = gp.load(sys.argv[1], rate=500, duration=2.0, warmup=0.2, transport=sys.argv[2])
p90 = {name: getattr(r, name).quantile(0.9) for name in ("send_lag", "latency", "service_time")}
print(json.dumps(r.row() | p90 | {"lag_max": r.send_lag.max}))
"""


def test_a_stalled_client_blames_itself_and_keeps_the_schedule(server, transport):
    command = [sys.executable, "-P", "-c", STALLED_CLIENT, server.address, transport]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(1.2)
    with stopped(client.pid):
        time.sleep(0.5)
    out, _ = client.communicate(timeout=30)
    told = json.loads(out)
    assert told["calls"] + told["not_sent"] == intended_within(gp.Load(rate=500), 2.0)
    assert told["not_sent"] == 0
    assert told["lag_max"] > 0.4
    assert told["send_lag"] > 0.1
    assert told["latency"] > 0.1
    assert told["service_time"] < told["latency"] / 2
    assert told["largest_burst"] > 150
    assert "send_lag" in told["findings"]
    assert not told["valid"]


# --- more than the server can do


def test_an_overloaded_server_is_a_warning(transport):
    with gp.Server(behaviour={"delay-us": 20_000}) as own:
        r = gp.load(own, rate=2000, max_in_flight=10, duration=1.0, warmup=0.2, transport=transport)
    found = {one.code: one for one in r.findings}
    assert r.not_sent > 1000
    assert found["not_sent"].severity == found["rate_not_reached"].severity == "warning"
    assert "(Little's law), max_in_flight is 10" in found["rate_not_reached"].message
    assert 100 < r.throughput_rps < 10 / 0.0195  # at most ten at a time, of 20 ms each
    assert r.latency.max < 1  # 100 ms in the queue, and some


def test_snapshots_tell_rate_and_latency_so_far(server):
    with gp.start(server, rate=1000, duration=1.5, warmup=0.1) as run:
        assert (run.snapshot().p50_s, run.snapshot().p99_s) == (None, None)
        time.sleep(1.2)
        now = run.snapshot()
        r = run.result()
        end = run.snapshot()
    assert now.phase == "measure"
    assert now.sent >= now.calls >= now.ok > 500
    assert now.achieved_rate == pytest.approx(1000, rel=0.2)
    assert 0 < now.p50_s <= now.p99_s
    assert (end.sent, end.calls, end.not_sent) == (r.calls, r.calls, 0)


def test_the_shell_runs_open_loops(cli):
    row = cli.json("load", "--rate", 500, "-d", "500ms", "--warmup", "100ms", "--arrival", "constant",
                   "--max-in-flight", 100, "--catch-up", "full")  # fmt: skip
    asked = [row[name] for name in ("rate", "arrival", "catch_up", "max_in_flight")]
    assert asked == [500, "constant", "full", 100]
    assert row["calls"] == 250
    assert row["offered_rate"] == row["achieved_rate"] == 500
    assert row["service_time_p50_us"] <= row["latency_p50_us"]
