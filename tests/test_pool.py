"""Which connection takes the next call, and connections that are replaced after so many: seen from the
server's end."""

import dataclasses
import os
import signal
import time

import pytest
from adversary import Peer, each

import grpcperf as gp

TRANSPORTS = ("wire", "core")


def answer(connection, request):
    connection.reply(request)


def answer_but_the_first(connection, request):
    """The first connection takes calls and says nothing."""
    if connection.number > 1:
        connection.reply(request)


def calls_of(peer):
    return sorted(len(connection.streams) for connection in peer.connections)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("pick", "threads"), [("round_robin", 1), ("locked", 1), ("locked", 2)])
def test_connections_take_turns(transport, pick, threads):
    with Peer(each(answer)) as peer:
        asked = {"transport": transport, "pick": pick, "threads": threads}
        result = gp.load(peer.address, connections=4, concurrency=8, calls=40, warmup=0, **asked)
        assert dict(result.status) == {"OK": 40}
        assert calls_of(peer) == [10, 10, 10, 10]
        assert result.row()["pick"] == pick


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("pick", "stuck"), [("round_robin", 10), ("least_loaded", 2)])
def test_who_has_most_to_do_is_spared(transport, pick, stuck):
    """Of eight calls each of four connections has two; one that never answers gets no more, or its turn."""
    with Peer(each(answer_but_the_first)) as peer:
        asked = {"transport": transport, "pick": pick, "deadline": 0.5}
        result = gp.load(peer.address, connections=4, concurrency=8, calls=40, warmup=0, **asked)
        assert dict(result.status) == {"OK": 40 - stuck, "DEADLINE_EXCEEDED": stuck}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_least_loaded_of_equals_is_the_one_that_waited_longest(transport):
    with Peer(each(answer)) as peer:
        asked = {"transport": transport, "pick": "least_loaded"}
        result = gp.load(peer.address, connections=4, concurrency=4, calls=40, warmup=0, **asked)
        assert dict(result.status) == {"OK": 40}
        assert len(calls_of(peer)) == 4
        assert min(calls_of(peer)) >= 1


# --- connections that are replaced


@pytest.mark.parametrize("number", [1, 3, 10])
def test_a_connection_has_so_many_calls(number):
    with Peer(each(answer)) as peer:
        spec = {"concurrency": 1, "calls": 30, "warmup": 0, "calls_per_connection": number}
        result = gp.load(peer.address, **spec)
        peer.finish()
        assert dict(result.status) == {"OK": 30}
        used = [one for one in calls_of(peer) if one]  # one more may stand ready
        assert used == [number] * (30 // number)
        assert result.connections_opened in (30 // number - 1, 30 // number)
        assert (result.connections, result.reconnects) == (1, 0)
        assert peer.goaways == peer.resets == []


def test_its_calls_end_before_it_is_closed():
    """Also those that the peer lets wait, as it allows two at a time."""
    with gp.Server(behaviour={"delay-us": 20_000}, max_concurrent_streams=2) as server:
        spec = {"connections": 2, "concurrency": 16, "calls": 60, "warmup": 0}
        result = gp.load(server, calls_per_connection=5, **spec)
        assert dict(result.status) == {"OK": 60}
        assert 9 <= result.connections_opened <= 14
        assert server.counters().cancelled == 0


def test_the_next_is_there_before_the_last_has_ended():
    def script(connection):
        connection.greet()
        for request in connection.each():
            end = time.monotonic() + 5
            while len(connection.peer.connections) <= connection.number and time.monotonic() < end:
                time.sleep(0.001)
            connection.reply(request)

    with Peer(script) as peer:
        result = gp.load(peer.address, concurrency=1, calls=5, warmup=0, calls_per_connection=1)
        assert dict(result.status) == {"OK": 5}
        assert result.latency.max < 1


def test_the_wait_for_a_connection_is_in_the_latency():
    def script(connection):
        if connection.number > 1:
            time.sleep(0.05)
        connection.greet()
        for request in connection.each():
            connection.reply(request)

    with Peer(script) as peer:
        result = gp.load(peer.address, concurrency=1, calls=4, warmup=0, calls_per_connection=1)
        assert dict(result.status) == {"OK": 4}
        assert result.latency.max >= 0.045
        assert result.latency.quantile(0.1) is None or result.latency.min < 0.045


def test_streams_count_as_calls(server):
    spec = {"kind": "bidi", "messages_per_stream": 3, "concurrency": 4, "calls": 40, "warmup": 0}
    result = gp.load(server, calls_per_connection=4, **spec)
    assert dict(result.status) == {"OK": 40}
    assert 9 <= result.connections_opened <= 11


def test_two_threads_and_a_schedule(server):
    spec = {"connections": 4, "threads": 2, "rate": 500, "duration": 0.3, "warmup": 0}
    result = gp.load(server, calls_per_connection=2, **spec)
    assert result.errors == 0
    assert result.connections_opened == pytest.approx(result.calls / 2, abs=8)


@pytest.mark.parametrize("resume", [False, True])
def test_a_new_connection_takes_up_the_session_of_the_last(resume):
    with gp.Server(tls=gp.TLS.self_signed()) as server:
        target = gp.Target(server.address, tls=dataclasses.replace(server.tls, resume=resume))
        result = gp.load(target, concurrency=1, calls=20, warmup=0, calls_per_connection=1)
        assert dict(result.status) == {"OK": 20}
        assert result.connections_opened >= 19
        assert result.tls_resumed >= 15 if resume else result.tls_resumed == 0


def test_the_death_of_the_server_ends_it():
    with gp.Server() as server:
        with gp.start(server, concurrency=8, connections=8, duration=30, calls_per_connection=1) as run:
            time.sleep(0.8)
            os.kill(server.pid, signal.SIGKILL)
            result = run.result()
        assert result.window_s < 10
        assert "server_died" in {finding.code for finding in result.findings}


def test_spent_connections_need_descriptors_too():
    spec = gp.Load(connections=4, concurrency=10)
    assert spec.most_connections == 4
    assert spec.replace(calls_per_connection=1).most_connections == 14
