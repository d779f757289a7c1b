"""gp.Keepalive: PINGs, idle and old connections, and TCP's own, as a peer of the server sees them."""

import os
import pickle
import signal
import socket
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import grpcperf as gp

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # preface, empty SETTINGS
ACK = b"\0\0\0\4\1\0\0\0\0"
PING = b"\0\0\x08\6\0\0\0\0\0grpcperf"
PING_FRAME, GOAWAY_FRAME = 6, 7


@contextmanager
def connected(server):
    """A connection that has said hello and no more, without an answer to any PING."""
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=4) as peer:
        peer.sendall(HELLO + ACK)
        yield peer


def frames_until_the_end(peer, seconds, each=None, ping_acks=False):
    """Types of the frames that came, the last GOAWAY's words, and when the server closed (None: not)."""
    begin, data, types, words = time.monotonic(), b"", [], b""
    peer.settimeout(0.02)
    while time.monotonic() - begin < seconds:
        if each is not None:
            time.sleep(0.02)
            try:
                peer.sendall(each)
            except OSError:
                return types, words, time.monotonic() - begin
        try:
            more = peer.recv(65_536)
        except TimeoutError:
            continue
        except OSError:
            more = b""
        if not more:
            return types, words, time.monotonic() - begin
        data += more
        while len(data) >= 9 and len(data) >= 9 + (length := int.from_bytes(data[:3], "big")):
            kind, flags, payload = data[3], data[4], data[9 : 9 + length]
            types.append(kind)
            if kind == GOAWAY_FRAME:
                words = payload[8:]
            if kind == PING_FRAME and not flags & 1 and ping_acks:
                peer.sendall(b"\0\0\x08\6\1\0\0\0\0" + payload)
            data = data[9 + length :]
    return types, words, None


def test_an_idle_connection_is_closed_after_once_to_twice_the_time():
    with gp.Server(keepalive=gp.Keepalive(max_idle="500ms")) as server, connected(server) as peer:
        _, _, closed = frames_until_the_end(peer, 3)
        assert closed is not None
        assert 0.4 < closed < 1.6


def test_without_keepalive_a_silent_connection_stays():
    with gp.Server() as server, connected(server) as peer:
        types, _, closed = frames_until_the_end(peer, 0.5)
        assert closed is None
        assert PING_FRAME not in types


@pytest.mark.parametrize("answers", [True, False])
def test_a_peer_that_does_not_answer_a_ping_is_given_up(answers):
    asking = gp.Keepalive(time="200ms", timeout="200ms", permit_without_calls=True)
    with gp.Server(keepalive=asking) as server, connected(server) as peer:
        types, _, closed = frames_until_the_end(peer, 1.2, ping_acks=answers)
        assert PING_FRAME in types
        assert (closed is None) is answers
        assert types.count(PING_FRAME) >= (3 if answers else 1)


def test_pings_without_calls_need_to_be_permitted():
    with (
        gp.Server(keepalive=gp.Keepalive(time="200ms", timeout="200ms")) as server,
        connected(server) as peer,
    ):
        types, _, closed = frames_until_the_end(peer, 0.7)
        assert (PING_FRAME in types, closed) == (False, None)


def test_an_old_connection_ends_with_its_calls_after_the_grace(within):
    with (
        gp.Server(keepalive=gp.Keepalive(max_age="300ms", max_age_grace="200ms")) as server,
        gp.hold(server, calls=5) as held,
    ):
        assert within(2, lambda: held.running == 0)
        assert server.counters().cancelled == 5
    aged = {"grpc.max_connection_age_ms": 300}
    with gp.Server(channel_args=aged) as server, gp.hold(server, calls=5) as held:
        time.sleep(0.6)
        assert held.running == 5


@pytest.mark.parametrize(
    ("args", "borne"),
    [
        ({}, False),
        ({"grpc.http2.max_ping_strikes": 0}, True),
        ({"grpc.http2.min_ping_interval_without_data_ms": 5, "grpc.keepalive_permit_without_calls": 1}, True),
        (
            {
                "unchecked:grpc.http2.min_recv_ping_interval_without_data_ms": 5,
                "grpc.keepalive_permit_without_calls": 1,
            },
            False,
        ),
        ({"grpc.http2.min_ping_interval_without_data_ms": 5}, False),  # without a call 2 hours count
    ],
)
def test_fast_pings_are_strikes(args, borne):
    with gp.Server(channel_args=args) as server, connected(server) as peer:
        types, words, closed = frames_until_the_end(peer, 0.4, each=PING)
        assert (GOAWAY_FRAME in types or closed is not None) is not borne
        assert borne or b"too_many_pings" in words


@pytest.mark.parametrize(
    ("transport", "time", "status"), [("core", 1, "UNAVAILABLE"), ("wire", 0.3, "transport")]
)
def test_a_server_that_stands_still_is_noticed_by_the_clients_keepalive(transport, time, status, within):
    asking = gp.Keepalive(time=time, timeout="300ms", permit_without_calls=True)
    with (
        gp.Server(keepalive=gp.Keepalive(permit_without_calls=True)) as server,
        gp.hold(server, calls=4, transport=transport, keepalive=asking) as held,
    ):
        assert not within(0.7, lambda: held.running < 4)  # a server that answers is kept
        os.kill(server.pid, signal.SIGSTOP)
        try:
            assert within(4, lambda: held._park.counts()["finished"] == 4)
            assert held._park.counts()["status"] == {status: 4}
        finally:
            os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("without_calls", [True, False])
def test_a_client_that_asks_too_often_is_told_to_go(without_calls, within):
    """By a server with gRPC's default, 5 minutes between PINGs; not a client without a call and the leave to
    ask then."""
    asking = gp.Keepalive(time="20ms", permit_without_calls=without_calls)
    with gp.Server() as server:
        calls = {"metadata": {"grpcperf-delay-us": 400_000}} if not without_calls else {}
        with gp.hold(server, calls=2, keepalive=asking, **calls) as held:
            assert within(2, lambda: held._park.counts()["finished"] == 2)
            assert within(1, lambda: server.counters().running == 0)
        result = gp.load(server, calls=4, concurrency=2, warmup=0, think_time=0.2, keepalive=asking)
        assert result.errors == 0


def timers(server, side=1):
    """Of the connections at the server's end (1) or the other: kind of the timer (2: keepalive) and seconds
    until it runs out."""
    port = f":{int(server.address.rpartition(':')[2]):04X}"
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    rows = [line.split() for line in lines]
    ticks = os.sysconf("SC_CLK_TCK")
    found = [row[5].split(":") for row in rows if row[side].endswith(port) and row[3] == "01"]
    return [(int(kind, 16), int(when, 16) / ticks) for kind, when in found]


def test_tcp_keepalive_of_a_servers_connections(within):
    with gp.Server(keepalive=gp.Keepalive(tcp_idle="10m", tcp_probes=3)) as server, connected(server):
        assert within(2, lambda: [kind for kind, _ in timers(server)] == [2])
        assert 500 < timers(server)[0][1] <= 600
    with gp.Server() as server, connected(server):
        assert within(2, lambda: [kind for kind, _ in timers(server)] == [0])


def test_tcp_keepalive_of_a_clients_connections(server, tmp_path, within):
    probing = gp.Keepalive(tcp_idle="5m", tcp_interval=10)
    with gp.hold(server, calls=3, connections=3, keepalive=probing):
        assert within(2, lambda: [kind for kind, _ in timers(server, side=2)] == [2] * 3)
        assert all(200 < when <= 300 for _, when in timers(server, side=2))
    with (
        gp.Server(listen=f"unix:{tmp_path}/s") as local,
        pytest.raises(gp.InvalidRequest, match="is a Unix socket"),
    ):
        gp.load(local, calls=1, keepalive=probing)


def test_a_load_goes_on_over_connections_that_age():
    aged = gp.Keepalive(max_age="150ms", max_age_grace="500ms")
    with gp.Server(keepalive=aged) as server:
        result = gp.load(server, concurrency=4, duration=0.7, warmup=0)
        assert result.errors == 0
        assert result.reconnects > 0


# --- the value


def test_durations_are_as_elsewhere():
    made = gp.Keepalive(
        time="10s", timeout=1, max_idle="3m", max_age="5m", max_age_grace="100ms", tcp_idle="2h"
    )
    assert made == gp.Keepalive(
        time=10, timeout="1s", max_idle=180, max_age=300, max_age_grace=0.1, tcp_idle=7200
    )
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert made.server_args() == {
        "grpc.keepalive_time_ms": 10_000,
        "grpc.keepalive_timeout_ms": 1000,
        "grpc.max_connection_idle_ms": 180_000,
        "grpc.max_connection_age_ms": 300_000,
        "grpc.max_connection_age_grace_ms": 100,
    }
    assert made.tcp_option() == "7200:0:0"
    assert gp.Keepalive(time=1).tcp_option() is None
    with pytest.raises(AttributeError):
        made.time = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "says nothing"),
        ({"time": 0}, "Keepalive time must be"),
        ({"time": "soon"}, "Keepalive time must be"),
        ({"time": "30d"}, "Keepalive time must be"),
        ({"timeout": 1}, "timeout needs time"),
        ({"max_age": 1}, "need each other"),
        ({"max_age_grace": 1}, "need each other"),
        ({"permit_without_calls": 1}, "True or False"),
        ({"tcp_idle": 0.5}, "tcp_idle"),
        ({"tcp_idle": 1.5}, "whole seconds"),
        ({"tcp_interval": 40_000}, "tcp_interval"),
        ({"tcp_probes": 128}, "tcp_probes"),
        ({"tcp_probes": 0}, "tcp_probes"),
    ],
)
def test_nonsense_is_refused(arguments, says):
    with pytest.raises(gp.InvalidRequest, match=says):
        gp.Keepalive(**arguments)


@pytest.mark.parametrize("keepalive", [10, "10s", {"time": 10}])
def test_what_is_no_keepalive(keepalive, server):
    for make in (gp.Server, gp.Load, lambda keepalive: gp.hold(server, calls=1, keepalive=keepalive)):
        with pytest.raises(gp.InvalidRequest, match=r"keepalive must be a gp\.Keepalive"):
            make(keepalive=keepalive)


@pytest.mark.parametrize(
    ("transport", "keepalive", "says"),
    [
        ("core", gp.Keepalive(time=0.5), "at least 1 s"),
        ("core", gp.Keepalive(time=5, tcp_probes=1), "leave tcp_probes out"),
        ("core", gp.Keepalive(permit_without_calls=True), "needs time="),
        ("wire", gp.Keepalive(permit_without_calls=True), "needs time="),
        ("core", gp.Keepalive(time=5, max_idle=1), "leave max_idle out"),
        ("wire", gp.Keepalive(max_age=5, max_age_grace=1), "leave max_age out"),
    ],
)
def test_what_a_client_cannot_have(transport, keepalive, says):
    with pytest.raises(gp.InvalidRequest, match=says):
        gp.Load(keepalive=keepalive, transport=transport)


def test_where_it_cannot_be(tmp_path):
    with pytest.raises(gp.InvalidRequest, match="no TCP"):
        gp.Server(listen=f"unix:{tmp_path}/s", keepalive=gp.Keepalive(tcp_idle=5))
    with pytest.raises(gp.InvalidRequest, match="keepalive= says too"):
        gp.Load(keepalive=gp.Keepalive(time=5), transport="core", channel_args={"grpc.keepalive_time_ms": 1})
