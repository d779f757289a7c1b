"""The load by grpc-go's own client, held against what servers have seen and against the engine's rows."""

import os
import signal
import subprocess
import sys

import pytest
from adversary import Peer

import grpcperf as gp
from grpcperf import goclient
from grpcperf.histogram import slot_high, slot_low


def test_a_row_as_a_load_has_it(server):
    before = server.counters().finished
    row = gp.goclient.load(server, workers=10, connections=3, calls=500, warmup=0)
    assert server.counters().finished - before == 500
    assert set(gp.load(server, calls=10, warmup=0).row()) <= set(row)
    assert (row["transport"], row["concurrency"], row["connections"]) == ("grpc-go", 10, 3)
    assert (row["calls"], row["errors"], row["status"]) == (500, 0, {"OK": 500})
    assert row["throughput_rps"] == pytest.approx(500 / row["window_s"])
    assert row["latency_min_us"] <= row["latency_p50_us"] <= row["latency_p90_us"] <= row["latency_max_us"]
    assert row["client_cpu_us_per_call"] == pytest.approx(row["client_cpu_s"] / 500 * 1e6)
    assert row["client_cpu_s"] > 0
    assert row["context_switches"] > 0
    assert row["versions"].startswith("grpc-go 1.85.0, go ")


def test_a_window_of_time_after_a_warm_up(server):
    before = server.counters().finished
    row = goclient.load(server, workers=4, duration=0.3, warmup=0.2)
    finished = server.counters().finished - before
    assert row["window_s"] == pytest.approx(0.3, abs=0.15)
    assert row["calls"] < finished  # those of the warm-up are not measured
    assert row["status"] == {"OK": row["calls"]}


def test_its_histogram_is_ours(server):
    spec = gp.Load(transport="core", concurrency=4, calls=200, warmup=0)
    target = gp.Target(server.address)
    told = goclient._run(str(goclient.build()), goclient.request(target, spec, goclient.probe(target)))
    slots, latency = told["latency"]["slots"], told["latency"]
    assert sum(count for _, count in slots) == 200
    assert slot_low(slots[0][0]) <= latency["min_ns"] <= slot_high(slots[0][0])
    assert slot_low(slots[-1][0]) <= latency["max_ns"] <= slot_high(slots[-1][0])
    middle = sum((slot_low(slot) + slot_high(slot)) / 2 * count for slot, count in slots)
    assert latency["sum_ns"] == pytest.approx(middle, rel=1e-3)


class Answers:
    """Connections as they come, the first of which looks whether somebody is there; the second is answered
    only by one that is not `dumb`."""

    def __init__(self, *, dumb=False):
        self.dumb = dumb
        self.connections = []

    def __call__(self, connection):
        connection.greet()
        self.connections.append(connection)
        is_second = self.connections.index(connection) == 1
        for request in connection.each():
            if not (is_second and self.dumb):
                connection.reply(request)

    def peer(self):
        return Peer(self, look=self)  # grpc-go begins as the look does


@pytest.mark.parametrize("pick", ["round_robin", "locked"])
def test_connections_take_turns(pick):
    answers = Answers()
    with answers.peer() as peer:
        row = goclient.load(peer.address, workers=4, connections=4, calls=40, warmup=0, pick=pick)
        assert row["status"] == {"OK": 40}
        assert [len(connection.streams) for connection in answers.connections] == [0, *[10] * 4]


def test_who_has_most_to_do_is_spared():
    """A connection that never answers stops everybody, unless it is seen how many calls it has."""
    done = {}
    for pick in ("round_robin", "least_loaded"):
        with Answers(dumb=True).peer() as peer:
            how = {"workers": 8, "connections": 4, "duration": 0.4, "warmup": 0, "drain": 0.05}
            done[pick] = goclient.load(peer.address, pick=pick, **how)["status"]
    assert done["round_robin"]["in_flight_at_end"] == 8
    assert done["least_loaded"]["OK"] > 2 * done["round_robin"]["OK"]


def test_failures_are_data(server):
    row = goclient.load(server, calls=50, warmup=0, metadata={"grpcperf-status": 8})
    assert row["status"] == {"RESOURCE_EXHAUSTED": 50}
    assert row["causes"][0].startswith("RESOURCE_EXHAUSTED: ")
    assert row["findings"] == ["all_failed"]
    assert row["throughput_rps"] == 0
    assert row["latency_p50_us"] is None


def test_tls_and_an_old_version():
    with gp.Server(tls=gp.TLS.self_signed()) as server:
        row = goclient.load(server, calls=50, warmup=0, version="1.46.2", retries=False)
        assert row["status"] == {"OK": 50}
        assert (row["retries"], row["tls"]) == (False, True)
        assert "1.46.2" in row["versions"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"pick": "random"}, "pick must be"),
        ({"workers": 0}, "concurrency must be"),
        ({"workers": 2, "connections": 3}, "at least connections"),
        ({"version": "latest"}, "version must be"),
        ({"metadata": {"a-bin": b"1"}}, "texts alone"),
        ({"request_size": [1, 2]}, "one size"),
        ({"duration": -1}, "duration must be"),
    ],
)
def test_nonsense_is_refused(server, arguments, says):
    with pytest.raises(gp.InvalidRequest, match=says):
        goclient.load(server, **arguments)


def test_what_cannot_be_reached_is_told():
    with pytest.raises(gp.ConnectError, match="refused"):
        goclient.load("127.0.0.1:1")


def test_without_go_it_says_what_is_missing(monkeypatch, server):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(gp.EngineError, match=r"the grpc-go client is built from source.*install Go"):
        goclient.load(server)


def test_a_client_that_dies_at_once_is_told():
    with pytest.raises(gp.EngineError, match=r"grpc-go's client failed \(1\): it said nothing"):
        goclient._run("/bin/false", "x" * 1_000_000)  # more than a pipe holds


HEARD = 7


def long_load(server):
    code = (
        f"import grpcperf as gp\ntry: gp.goclient.load('{server.address}', duration=60, warmup=0)\n"
        f"except gp.Interrupted: raise SystemExit({HEARD})\n"
    )
    return subprocess.Popen([sys.executable, "-P", "-c", code], stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_who_started_it(server, ending, children, alive, within):
    before = server.counters().finished
    with long_load(server) as python:
        assert within(10, lambda: server.counters().finished > before)
        (client,) = children(python.pid)
        os.kill(python.pid, ending)
        assert within(3, lambda: not alive(client))
        assert python.wait(3) == (HEARD if ending == signal.SIGINT else -ending)
