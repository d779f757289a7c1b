"""The transport wire as Python and the shell see it: that it agrees with C core, and what it alone can do.
What it makes of peers that misbehave is in test_adversary*.py."""

import os
import socket
import struct
import threading
import time
from contextlib import contextmanager

import pytest

import grpcperf as gp
from grpcperf.spec import KINDS

TRANSPORTS = ("wire", "core")

pytestmark = pytest.mark.usefixtures("no_leftovers")


# --- the same as core


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 16, 100_000])
def test_counts_are_those_of_core(server, within, kind, size):
    told = []
    for transport in TRANSPORTS:
        before = server.counters()
        spec = gp.Load(
            kind=kind,
            connections=3,
            concurrency=12,
            calls=300,
            warmup=0,
            messages_per_stream=None if kind == "unary" else 7,
            request_size=size,
            response_size=size,
        )
        result = gp.load(server, spec, transport=transport)
        assert within(2, lambda: server.counters().finished - before.finished == 300)  # noqa: B023
        told.append((dict(result.status), server.counters().cancelled - before.cancelled, result.connections))
    # Streams that the server would fill for ever are ended by the client, which is a good end.
    assert told[0] == told[1] == ({"OK": 300}, 300 if kind in ("server_stream", "bidi_free") else 0, 3)


@pytest.mark.parametrize(
    ("metadata", "more", "status"),
    [
        *(({"grpcperf-status": str(code)}, {}, None) for code in range(1, 17)),
        ({"grpcperf-delay-us": "300000"}, {"deadline": 0.03}, "DEADLINE_EXCEEDED"),
        ({}, {"method": "/no.Such/Method", "request": b""}, "UNIMPLEMENTED"),
        ({}, {"response_size": 5 << 20}, "RESOURCE_EXHAUSTED"),
        ({}, {"request_size": 5 << 20}, "RESOURCE_EXHAUSTED"),
    ],
)
def test_statuses_are_those_of_core(server, metadata, more, status):
    told = [
        dict(
            gp.load(
                server, concurrency=2, calls=4, warmup=0, metadata=metadata, transport=transport, **more
            ).status
        )
        for transport in TRANSPORTS
    ]
    assert told[0] == told[1]
    assert sum(told[0].values()) == 4
    assert len(told[0]) == 1
    assert status is None or status in told[0]


@pytest.mark.parametrize("kind", KINDS)
def test_gzip_is_read_by_the_server_and_answers_are_read(server, kind):
    spec = gp.Load(
        kind=kind,
        concurrency=4,
        calls=40,
        warmup=0,
        messages_per_stream=None if kind == "unary" else 3,
        request_size=50_000,
        response_size=50_000,
        compression="gzip",
    )
    for transport in TRANSPORTS:
        assert gp.load(server, spec, transport=transport).status == {"OK": 40}


def test_compressed_requests_are_smaller():
    sizes = {}
    for compression in (None, "gzip"):
        spec = gp.Load(request=bytes(30_000), concurrency=1, duration=0.3, warmup=0, drain=0)
        with recorder() as (address, connections):
            gp.load(address, spec, compression=compression)
        sizes[compression] = len(connections[1])
    assert sizes["gzip"] < 2_000 < 30_000 < sizes[None]


# --- connections and flow control


@contextmanager
def recorder():
    """An HTTP/2 peer that greets and then only listens; yields its address, and what came on each
    connection (the first is the probe's)."""
    connections = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen(stream, came):
        with stream:
            try:
                stream.sendall(b"\0\0\0\4\0\0\0\0\0")
                while data := stream.recv(65536):
                    came.extend(data)
            except OSError:
                pass

    def accept():
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            connections.append(bytearray())
            threading.Thread(target=listen, args=(stream, connections[-1]), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", connections
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def frames(data):
    """(type, stream, payload) of each frame after the client's preface."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    assert data.startswith(preface)
    rest = bytes(data[len(preface) :])
    while len(rest) >= 9:
        length = int.from_bytes(rest[:3], "big")
        yield rest[3], int.from_bytes(rest[5:9], "big"), rest[9 : 9 + length]
        rest = rest[9 + length :]


@pytest.mark.parametrize(
    ("window", "stream", "connection"), [("1MiB", 1 << 20, 1 << 20), (None, 4 << 20, 16 << 20)]
)
def test_the_window_asked_for_is_announced(window, stream, connection):
    with recorder() as (address, connections):
        gp.load(address, window=window, concurrency=1, duration=0.2, warmup=0, drain=0)
    sent = list(frames(connections[1]))
    settings = dict(struct.iter_unpack(">HI", next(payload for kind, _, payload in sent if kind == 4)))
    update = next(payload for kind, number, payload in sent if kind == 8 and number == 0)
    assert settings[4] == stream
    assert 65535 + int.from_bytes(update, "big") == connection


@pytest.mark.parametrize("window", [1, 1000, "64KiB"])
def test_small_windows_only_slow_answers_down(server, window):
    result = gp.load(server, window=window, response_size=3000, concurrency=2, calls=10, warmup=0)
    assert result.status == {"OK": 10}


def test_connections_are_real_and_go_with_the_run(within):
    with gp.Server() as server:

        def descriptors():
            return len(os.listdir(f"/proc/{server.pid}/fd"))

        before = descriptors()
        with gp.hold(server, calls=100, connections=100) as held:
            assert held.running == 100
            assert 100 <= descriptors() - before <= 110
        assert within(2, lambda: descriptors() - before <= 10)


def test_calls_beyond_the_peers_stream_limit_wait_apart():
    with gp.Server(max_concurrent_streams=4, behaviour={"delay-us": 10_000}) as server:
        result = gp.load(server, concurrency=16, duration=0.6, warmup=0.1)
        assert result.errors == 0
        assert server.counters().peak_running == 4
        assert "server_stream_limit" in [finding.code for finding in result.findings]


def test_a_death_is_told_apart_from_a_status(within):
    with gp.Server() as server, gp.start(server, concurrency=8, duration=5, warmup=0) as run:
        time.sleep(0.3)
        os.kill(server.pid, 9)
        result = run.result()
        assert result.calls == sum(result.status.values())
        assert result.status["transport"] >= 1  # what was in flight, but for answers already on their way
        assert set(result.status) == {"OK", "transport"}
        assert "server_died" in [finding.code for finding in result.findings]


def test_many_connections_with_tls():
    with gp.Server(tls=gp.TLS.self_signed()) as server:
        result = gp.load(server, connections=100, threads=2, calls=500, warmup=0)
        assert result.status == {"OK": 500}
        assert result.connections == 100


# --- busy polling


def test_a_busy_poller_uses_its_cpu_and_is_not_blamed_for_it(server):
    """At 200 calls/s there is nothing to do for a client, most of the time."""
    results = {
        busy: gp.load(server, rate=200, duration=0.8, warmup=0.1, busy_poll=busy) for busy in (False, True)
    }
    used = {
        busy: result.client_cpu_us_per_call * 1e-6 * result.calls / 0.8 for busy, result in results.items()
    }
    assert used[True] > 2 * used[False]
    assert "client_cpu_saturated" not in [finding.code for finding in results[True].findings]
    assert results[True].errors == 0
