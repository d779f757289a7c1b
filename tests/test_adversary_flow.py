"""A peer that is slow, narrow or out of order, and right: windows (RFC 9113, 5.2 and 6.9), the bound on
streams, answers in any order and in any pieces. The peer checks each byte the client sends against the
windows it has given (adversary.py), so a client that sends too much fails here whatever it reports."""

import random
import struct
import threading
import time

import pytest
from adversary import (
    DATA,
    FLOW_CONTROL_ERROR,
    MAX_STREAMS,
    OK_FIELDS,
    SETTINGS,
    TABLE_SIZE,
    WINDOW,
    Peer,
    each,
    frame,
    message,
    padded,
    settings,
    together,
    trailers,
)
from adversary_run import ANY, CALLS, TRANSPORTS, Case, check, run

import grpcperf as gp

MOST = 2**31 - 1
BOTH = pytest.mark.parametrize("transport", TRANSPORTS)
REQUEST = 1000  # bytes of payload asked for; a message on the wire is a little longer


def message_size(request_size):
    from grpcperf import _engine

    return 5 + len(_engine.benchmark_request(request_size, 16))


# --- what the client may send


@BOTH
def test_a_window_that_changes_in_the_middle_and_falls_below_zero(transport):
    """6.9.2: a change applies to streams that are open, and what was sent stays sent."""
    size = message_size(REQUEST)

    def act(connection):
        connection.generous = False
        connection.greet({WINDOW: 500})
        requests = connection.begun(CALLS)
        connection.until(lambda: all(len(r.body) == 500 for r in requests))
        connection.send_settings({WINDOW: 100})  # now at -400
        for request in requests:
            connection.window_update(request.stream, 400)  # now at 0
        answered = len(connection.pongs) + 1
        connection.frame(6, 0, 0, b"question")
        connection.until(lambda: len(connection.pongs) >= answered and connection.initial == 100)
        assert all(len(r.body) == 500 and r.credit == 0 for r in requests)
        for request in requests:
            connection.window_update(request.stream, 7)
        connection.until(lambda: all(len(r.body) == 507 for r in requests))
        connection.send_settings({WINDOW: size})  # the rest, and more
        connection.until(lambda: all(r.ended for r in requests))
        for request in requests:
            assert request.messages == 1
            connection.reply(request)
        connection.linger()

    check(Case("shrinking", act, "OK", load={"request_size": REQUEST}), transport)


@BOTH
def test_a_window_of_nothing_at_first(transport):
    def act(connection):
        connection.generous = False
        connection.greet({WINDOW: 0})
        requests = connection.begun(CALLS)
        connection.frame(6, 0, 0, b"question")
        connection.until(lambda: connection.pongs)
        assert all(len(r.body) == 0 for r in requests)
        for request in reversed(requests):
            connection.window_update(request.stream, 5000)
        connection.until(lambda: all(r.ended for r in requests))
        for request in requests:
            connection.reply(request)
        connection.linger()

    check(Case("none", act, "OK", load={"request_size": REQUEST}), transport)


@BOTH
def test_windows_that_open_by_a_byte(transport):
    """16 bytes of payload, a byte at a time, over windows of stream and connection by turns."""
    size = message_size(16)

    def act(connection):
        connection.generous = False
        connection.greet({WINDOW: 0})
        requests = connection.begun(2)
        for count in range(1, size + 1):
            for request in requests:
                connection.window_update(request.stream, 1)
            connection.until(lambda count=count: all(len(r.body) == count for r in requests))
        for request in connection.whole(2):
            connection.reply(request)
        connection.linger()

    with Peer(act) as peer:
        result = run(peer, transport, calls=2)
    assert dict(result.status) == {"OK": 2}


@BOTH
def test_the_connections_window_is_shared(transport):
    """65,535 bytes for all; each stream would be let more. The rest comes as the window opens, for all."""

    def act(connection):
        connection.generous = False
        connection.greet({WINDOW: 2**20})
        requests = connection.begun(1)
        connection.until(lambda: connection.credit == 0)
        while connection.credit == 0 and len(connection.ended) < CALLS:
            connection.window_update(0, 10_000)
            connection.until(lambda: connection.credit == 0 or len(connection.ended) == CALLS)
        requests = connection.whole(CALLS)
        assert all(r.messages == 1 for r in requests)
        for request in requests:
            connection.reply(request)
        connection.linger()

    check(Case("shared", act, "OK", load={"request_size": "40KiB"}), transport)


@BOTH
def test_no_window_comes_and_the_deadline_does(transport):
    def act(connection):
        connection.generous = False
        connection.greet({WINDOW: 10})
        connection.linger()

    check(Case("stuck", act, "DEADLINE_EXCEEDED", load={"deadline": 0.2}), transport)


@BOTH
def test_a_stuck_stream_does_not_hold_up_the_others(transport):
    """One call never gets a window; those after it on the same connection do."""

    def act(connection):
        connection.generous = False
        connection.greet({WINDOW: 10})
        stuck = connection.begun(1)[0]
        while True:
            for request in list(connection.streams.values()):
                if request is not stuck and request.credit <= 10 and not request.ended:
                    connection.window_update(request.stream, 100_000)
            for request in connection.ended:
                if request.reset is None and not getattr(request, "answered", False):
                    request.answered = True
                    connection.reply(request)
            connection.next()

    with Peer(act) as peer:
        result = run(peer, transport, calls=50, concurrency=5, deadline=0.5)
    assert dict(result.status) == {"OK": 49, "DEADLINE_EXCEEDED": 1}


def test_a_change_that_lifts_a_stream_above_the_most():
    """6.9.2: its window is at the most already, and INITIAL_WINDOW_SIZE adds to that."""

    def act(connection):
        connection.generous = False
        connection.greet({WINDOW: 10})
        request = connection.begun(1)[0]
        connection.until(lambda: len(request.body) == 10)
        connection.window_update(request.stream, MOST)
        connection.frame(SETTINGS, 0, 0, struct.pack(">HI", WINDOW, 2**20))
        connection.linger()

    with Peer(act) as peer:
        result = run(peer, "wire", calls=1, request_size="64KiB")
        peer.finish()
    assert dict(result.status) == {"transport": 1}
    assert peer.goaways == [FLOW_CONTROL_ERROR]


@BOTH
def test_large_requests_arrive_whole(transport):
    """Through default windows, by a peer that gives back what it has read."""
    bodies = set()

    def answer(connection, request):
        bodies.add(bytes(request.body))
        connection.reply(request)

    with Peer(each(answer)) as peer:
        result = run(peer, transport, calls=20, concurrency=4, request_size="300KiB")
    assert dict(result.status) == {"OK": 20}
    assert len(bodies) == 1
    assert len(bodies.pop()) == message_size(300 * 1024)


@BOTH
def test_small_frames_are_respected(transport):
    """No frame above MAX_FRAME_SIZE: the peer checks that, and a larger one may be used."""
    sizes = []

    def answer(connection, request):
        sizes.extend(len(got.payload) for got in connection.frames if got.type == DATA)
        connection.reply(request)

    with Peer(each(answer, {WINDOW: 2**20})) as peer:
        assert run(peer, transport, request_size="100KiB").status == {"OK": CALLS}
    assert max(sizes) <= 16_384


# --- what the client lets the peer send


@BOTH
def test_large_responses_come_back_through_the_windows(transport):
    """Several times the windows: the client must give back what it has read, on streams and connection."""

    def answer(connection, request):
        connection.headers(request.stream)
        connection.data(request.stream, message(bytes(3 << 20)))
        connection.headers(request.stream, trailers(), end=True)

    with Peer(each(answer)) as peer:
        result = run(peer, transport, calls=12, concurrency=3, deadline=8)
    assert dict(result.status) == {"OK": 12}


@BOTH
def test_a_long_server_stream_is_given_back(transport):
    def answer(connection, request):
        connection.headers(request.stream)
        for _ in range(200):
            connection.data(request.stream, message(bytes(100_000)))
        connection.headers(request.stream, trailers(), end=True)

    with Peer(each(answer)) as peer:
        result = run(
            peer, transport, kind="server_stream", messages_per_stream=200, calls=2, concurrency=2, deadline=8
        )
    assert dict(result.status) == {"OK": 2}
    assert result.messages_received == 400


@pytest.mark.parametrize("late", [False, True], ids=["for a call", "for a call that has ended"])
def test_padding_and_late_data_are_given_back_too(late):
    """They count against the connection's window (6.1, 5.1), of which there is no other."""

    def act(connection):
        connection.greet()
        for request in connection.each():
            stream = request.stream
            connection.headers(stream)
            connection.data(stream, message(bytes(100_000))[:90_000])
            if late:
                connection.until(lambda request=request: request.reset is not None)
            for _ in range(40):
                connection.until(lambda: connection.windows[0] > 16_000)
                connection.windows[0] -= 10_256
                connection.frame(DATA, 8, stream, padded(bytes(10_000), 255))

    with Peer(act) as peer:
        result = run(peer, "wire", calls=60, concurrency=1, deadline=0.02 if late else 0.05)
        peer.finish()
    assert result.status["OK"] == 0
    assert peer.goaways == []  # 60 * 40 * 10 KB went through a window of 16 MiB


@BOTH
@pytest.mark.parametrize("window", [100, "16KiB", "1MiB"])
def test_a_window_of_ones_own(transport, window):
    """As small as one likes, for responses larger than it; the peer keeps to it."""

    def answer(connection, request):
        connection.headers(request.stream)
        connection.data(request.stream, message(bytes(20_000)))
        connection.headers(request.stream, trailers(), end=True)

    with Peer(each(answer)) as peer:
        if transport == "core":
            with pytest.raises(gp.InvalidRequest, match="window"):
                run(peer, transport, window=window)
            return
        result = run(peer, transport, window=window)
    assert dict(result.status) == {"OK": CALLS}
    assert peer.connections[0].settings[WINDOW] == {100: 100, "16KiB": 1 << 14, "1MiB": 1 << 20}[window]


# --- MAX_CONCURRENT_STREAMS


@BOTH
@pytest.mark.parametrize("most", [1, 3, 100])
def test_no_more_streams_than_the_peer_allows(transport, most):
    open_now, peak = set(), []

    def act(connection):
        connection.greet({MAX_STREAMS: most})
        connection.until(lambda: len(connection.ended) >= min(most, 8))
        for request in connection.each():
            unanswered = len(connection.streams) - len(open_now)
            peak.append(unanswered)
            open_now.add(request.stream)
            connection.reply(request)

    with Peer(act) as peer:
        result = run(peer, transport, calls=100, concurrency=8)
    assert dict(result.status) == {"OK": 100}
    assert max(peak) <= most
    assert max(peak) == min(most, 8) or most == 100
    assert peer.requests == 100


def test_waiting_for_a_stream_is_no_time_of_service():
    """Seven of eight calls wait 50 ms in the client, behind the first: that is told apart."""

    def act(connection):
        connection.greet({MAX_STREAMS: 1})
        for request in connection.each():
            if len(connection.ended) == 1:
                threading.Event().wait(0.05)
            connection.reply(request)

    with Peer(act) as peer:
        result = run(peer, "wire", calls=8)
    assert dict(result.status) == {"OK": 8}
    assert result.queued.count == 7
    assert 0.05 <= result.queued.min <= result.queued.max
    assert result.latency.max >= 0.05  # the first
    assert result.latency.min < 0.05


@BOTH
def test_no_streams_allowed_at_all(transport):
    with Peer(each(lambda c, r: c.reply(r), {MAX_STREAMS: 0})) as peer:
        result = run(peer, transport, deadline=0.3)
    assert dict(result.status) == {"DEADLINE_EXCEEDED": CALLS}
    assert peer.requests == 0
    if transport == "wire":
        assert result.queued.count == CALLS
        assert result.queued.min >= 0.3


@BOTH
def test_streams_allowed_later(transport):
    """A bound that rises lets those go that wait; one that falls holds back the next ones."""

    def act(connection):
        connection.greet({MAX_STREAMS: 0})
        connection.until(lambda: any(got.type == SETTINGS and got.flags & 1 for got in connection.frames))
        connection.frame(6, 0, 0, b"question")
        connection.until(lambda: connection.pongs)
        assert not connection.streams
        connection.send_settings({MAX_STREAMS: 2})
        first = connection.whole(2)
        connection.frame(6, 0, 0, b"question")
        connection.until(lambda: len(connection.pongs) == 2)
        assert len(connection.streams) == 2
        connection.send_settings({MAX_STREAMS: 1})
        connection.frame(6, 0, 0, b"question")
        connection.until(lambda: len(connection.pongs) == 3)
        connection.reply(first[0])
        connection.frame(6, 0, 0, b"question")
        connection.until(lambda: len(connection.pongs) == 4)
        assert len(connection.streams) == 2  # one is open still, and one is what is allowed
        connection.reply(first[1])
        for request in connection.each():
            if request not in first:
                connection.reply(request)

    check(Case("later", act, "OK", ANY), transport)  # C core looks at what waits only when a stream ends


# --- order and pieces


@BOTH
@pytest.mark.parametrize("order", ["reversed", "shuffled", "interleaved"])
def test_answers_out_of_order(transport, order):
    def act(connection, requests):
        requests = list(requests)
        if order == "interleaved":
            for step in (
                lambda r: connection.headers(r.stream),
                lambda r: connection.data(r.stream, message(b"body")[:3]),
                lambda r: connection.data(r.stream, message(b"body")[3:8]),
                lambda r: connection.data(r.stream, message(b"body")[8:]),
                lambda r: connection.headers(r.stream, trailers(r.stream % 3), end=True),
            ):
                random.Random(7).shuffle(requests)
                for request in requests:
                    step(request)
            return
        requests.reverse() if order == "reversed" else random.Random(7).shuffle(requests)
        for request in requests:
            connection.reply(request, status=request.stream % 3)

    with Peer(together(30, act)) as peer:
        result = run(peer, transport, calls=30)
    assert dict(result.status) == {"OK": 10, "CANCELLED": 10, "UNKNOWN": 10}
    assert peer.requests == 30


@BOTH
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_everything_in_small_pieces(transport, pieces):
    """Each in a segment of its own, the greeting too."""

    def script(connection):
        connection._unacknowledged.append({WINDOW: 10_000})
        connection.raw(settings({WINDOW: 10_000, MAX_STREAMS: 100, TABLE_SIZE: 0}), pieces=pieces)
        connection.decoder.header_table_size = 0
        connection.decoder.max_allowed_table_size = 4096
        connection.hear_preface()
        for request in connection.each():
            answer = connection.reply_bytes(request, b"first", text="50%25 done")
            connection.raw(frame(0xBE, 0, 0, b"x") + answer + frame(6, 0, 0, bytes(8)), pieces=pieces)

    check(Case("pieces", script, "OK"), transport)


@BOTH
def test_a_slow_drip(transport):
    """A byte every few milliseconds: slower than anything, and right."""

    def act(connection, requests):
        stop = threading.Event()
        connection.raw(b"".join(connection.reply_bytes(r) for r in requests[1:]))
        for byte in connection.reply_bytes(requests[0]):
            connection.raw(bytes([byte]))
            stop.wait(0.003)

    result = check(Case("drip", together(CALLS, act), "OK"), transport)
    assert result.latency.max > 0.1
    assert result.latency.min < result.latency.max / 2


@BOTH
def test_a_hundred_answers_in_one_write(transport):
    def script(connection):
        connection.greet({MAX_STREAMS: 1000})
        for start in range(0, 1000, 100):
            requests = connection.whole(start + 100)[start:]
            connection.raw(b"".join(connection.reply_bytes(r) for r in requests))
        connection.linger()

    with Peer(script) as peer:
        result = run(peer, transport, calls=1000, concurrency=100)
    assert dict(result.status) == {"OK": 1000}
    assert peer.requests == 1000


# --- answers that come too late


@BOTH
def test_late_answers_do_not_harm_the_calls_after_them(transport):
    """Their header blocks change the tables all the same (4.3), and their bytes belong to nobody."""

    def script(connection):
        connection.greet()
        late = []
        for request in connection.each():
            if len(connection.ended) <= 3:
                late.append(request)
                continue
            for old in late:
                if old.reset is not None:
                    connection.headers(old.stream, [*OK_FIELDS, (f"x-{old.stream}", "late")])
                    connection.data(old.stream, message(b"late"), rude=True)
                    connection.headers(old.stream, [*trailers(5), (f"y-{old.stream}", "late")], end=True)
            late = [old for old in late if old.reset is None]
            connection.reply(request)

    with Peer(script) as peer:
        result = run(peer, transport, calls=60, concurrency=1, deadline=0.1)
    assert dict(result.status) == {"OK": 57, "DEADLINE_EXCEEDED": 3}
    assert len(peer.connections) == 1


@BOTH
def test_what_is_cut_at_the_end_is_cancelled_on_the_wire(transport):
    """A run that ends tells the peer so: RST_STREAM(CANCEL), or the end of the connection."""
    with Peer(each(lambda c, r: None)) as peer:
        result = gp.load(peer.address, transport=transport, concurrency=6, duration=0.1, warmup=0, drain=0)
        begin = time.monotonic()
        peer.finish()
        assert time.monotonic() - begin < 1
    assert dict(result.status) == {"in_flight_at_end": 6}
    assert all(request.reset in (None, 8) for request in peer.connections[0].streams.values())
