"""A peer that ends things: streams by RST_STREAM, connections by GOAWAY, silence, close or reset, at every
moment; and one that floods. Every call ends once, in time, in the class that says what happened."""

import resource
import struct
import sys
import threading
import time

import pytest
from adversary import (
    CONTINUATION,
    DATA,
    ENHANCE_YOUR_CALM,
    HEADERS,
    NO_ERROR,
    OK_FIELDS,
    PING,
    PREFACE,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    SETTINGS,
    WINDOW,
    Gone,
    Peer,
    each,
    frame,
    message,
    plain,
    settings,
    together,
    trailers,
)
from adversary_run import ANY, CALLS, TRANSPORTS, Case, check, run

import grpcperf as gp

MOST = 2**31 - 1
BOTH = pytest.mark.parametrize("transport", TRANSPORTS)


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


# --- RST_STREAM

RESET = [
    *("INTERNAL",) * 7,  # NO_ERROR, PROTOCOL_ERROR ... FRAME_SIZE_ERROR
    "UNAVAILABLE",  # REFUSED_STREAM
    "CANCELLED",
    *("INTERNAL",) * 2,
    "RESOURCE_EXHAUSTED",  # ENHANCE_YOUR_CALM
    "PERMISSION_DENIED",  # INADEQUATE_SECURITY
    "INTERNAL",
    "INTERNAL",  # a code nobody knows
]
CODES = [*range(14), 0xBEEF]


@BOTH
@pytest.mark.parametrize("moment", ["before headers", "after headers", "in a message", "after a message"])
def test_reset_with_each_code(transport, moment):
    def script(connection, request):
        code = next(codes, None)
        if code is None:
            connection.reply(request)
            return
        if moment != "before headers":
            connection.headers(request.stream)
        if moment == "in a message":
            connection.data(request.stream, message(b"body")[:7])
        if moment == "after a message":
            connection.data(request.stream, message(b"body"))
        connection.rst(request.stream, code)

    codes = iter(CODES)
    with Peer(each(script)) as peer:
        result = run(peer, transport, calls=len(CODES), concurrency=1, core_retries=True)
    wanted = {name: RESET.count(name) for name in RESET}
    again = peer.requests - len(CODES)
    if again:  # a refused stream was not begun, so it may be sent again; never one that was
        assert moment == "before headers"
        assert again == 1
        wanted["UNAVAILABLE"] -= 1
        wanted["OK"] = 1
    assert dict(result.status) == {name: count for name, count in wanted.items() if count}


@BOTH
def test_streams_that_are_always_refused(transport):
    """Sent again or not, it comes to an end, and each call is counted once."""
    with Peer(each(lambda c, r: c.rst(r.stream, REFUSED_STREAM))) as peer:
        result = run(peer, transport, calls=20, concurrency=5, core_retries=True)
    assert dict(result.status) == {"UNAVAILABLE": 20}
    assert 20 <= peer.requests <= 200


@BOTH
def test_a_reset_leaves_the_connection_in_use(transport):
    def script(connection, request):
        if connection.ended.index(request) % 2:
            connection.reply(request)
        else:
            connection.rst(request.stream, 8)

    with Peer(each(script)) as peer:
        result = run(peer, transport, calls=100, concurrency=10)
    assert dict(result.status) == {"OK": 50, "CANCELLED": 50}
    assert len(peer.connections) == 1
    assert result.reconnects == 0


# --- GOAWAY


def goaway_in_the_middle(last, *, second=None, code=NO_ERROR):
    """Answers ten calls, then ends the first connection; `last` makes the last stream of the newest begun.
    Calls above it are not answered; the connection closes once the others are."""

    def script(connection):
        connection.greet()
        for request in connection.each():
            if connection.number > 1 or connection.ended.index(request) < 10:
                connection.reply(request)
                continue
            newest = max(connection.streams)
            connection.goaway(last(newest), code)
            if second is not None:
                connection.goaway(second(newest), code)
            limit = last(newest) if second is None else second(newest)
            connection.until(lambda: all(r.ended for r in connection.streams.values()))
            for other in connection.ended[10:]:
                if other.stream <= limit:
                    connection.reply(other)
            connection.linger()

    return script


GOAWAYS = {
    "all that were begun": goaway_in_the_middle(lambda newest: newest),
    "some that were begun": goaway_in_the_middle(lambda newest: newest - 4),
    "first none, then some": goaway_in_the_middle(lambda newest: MOST, second=lambda newest: newest - 4),
    "all, then fewer": goaway_in_the_middle(lambda newest: newest, second=lambda newest: newest - 6),
    "with an error, all": goaway_in_the_middle(lambda newest: newest, code=PROTOCOL_ERROR),
}


@BOTH
@pytest.mark.parametrize("how", GOAWAYS)
def test_goaway_under_load_loses_no_call(transport, how):
    """What the server says it will not serve is served by the next connection: 172,254 of 200,000 calls
    once ended as errors of another tool for want of this."""
    with Peer(GOAWAYS[how]) as peer:
        result = run(peer, transport, calls=200, concurrency=8, core_retries=True)
    assert dict(result.status) == {"OK": 200}
    assert len(peer.connections) == 2
    assert result.reconnects == 1
    assert result.connections == 1


@BOTH
def test_goaway_after_every_few_calls(transport):
    """As a server with a bound on calls per connection does: nginx's keepalive_requests."""

    def script(connection):
        connection.greet()
        for served, request in enumerate(connection.each(), 1):
            connection.reply(request)
            if served == 25:
                connection.goaway(request.stream)
                connection.linger()

    with Peer(script) as peer:
        result = run(peer, transport, calls=500, concurrency=5, core_retries=True)
        peer.finish()
    assert dict(result.status) == {"OK": 500}
    assert len(peer.connections) in (20, 21)
    assert result.reconnects == len(peer.connections) - 1


@BOTH
def test_a_goaway_that_refuses_all_names_its_cause(transport):
    act = together(CALLS, lambda c, rs: (c.goaway(MOST, ENHANCE_YOUR_CALM, b"too_many_pings"), c.close()))
    cause = "transport 4: .*GOAWAY.*ENHANCE_YOUR_CALM.*too_many_pings"
    check(Case("calm", act, "transport", cause=cause), transport)


@BOTH
def test_a_server_that_only_says_goodbye(transport):
    """GOAWAY on every connection, at once: no endless loop, and every call has an end in time."""

    def script(connection):
        connection.greet()
        connection.goaway(0)
        connection.linger()

    told, classes = "", set()
    with Peer(script) as peer:
        try:
            result = run(peer, transport, calls=8, concurrency=4, deadline=0.5, core_retries=True)
            classes = set(result.status)
        except gp.ConnectError as error:  # when it came together with the greeting
            told = str(error)
    assert "GOAWAY" in told or classes
    assert classes <= {"transport", "UNAVAILABLE", "DEADLINE_EXCEEDED"}
    assert len(peer.connections) < 200


@BOTH
def test_a_goaway_that_changes_its_mind_upwards(transport):
    """RFC 9113, 6.8 forbids it; what was refused stays refused, and the rest is answered."""

    def act(connection, requests):
        connection.goaway(requests[1].stream)
        connection.goaway(MOST)
        for request in requests[:2]:
            connection.reply(request)

    with Peer(together(CALLS, act)) as peer:
        result = run(peer, transport, core_retries=True)
    assert dict(result.status) == {"OK": CALLS}
    assert len(peer.connections) == 2


# --- the end of a connection


@BOTH
@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize(
    "moment", ["at once", "after headers", "in a message", "in a frame", "in a frame's head"]
)
def test_a_connection_that_ends(transport, how, moment):
    """By FIN or by RST. The first call was answered and stays so."""

    def act(connection, requests):
        connection.reply(requests[0])
        if how == "abort":  # which throws away what was not read: so the first answer has to have got there
            connection.frame(PING, 0, 0, b"have you")
            connection.until(lambda: b"have you" in connection.pongs)
        for request in requests[1:]:
            if moment in ("after headers", "in a message"):
                connection.headers(request.stream)
            if moment == "in a message":
                connection.data(request.stream, message(b"body")[:7])
        if moment == "in a frame":
            connection.frame(HEADERS, 4, requests[1].stream, b"\x88", length=50)
        if moment == "in a frame's head":
            connection.raw(frame(HEADERS, 4, requests[1].stream)[:4])
        getattr(connection, how)()

    lost = {"OK": 1, "transport": CALLS - 1}
    core = ANY if "frame" in moment else {"OK": 1, "UNAVAILABLE": CALLS - 1}
    cause = "transport 3: .*" + {"close": "closed", "abort": "reset"}[how]
    check(Case(f"{how} {moment}", together(CALLS, act), lost, core, cause=cause), transport)


@BOTH
def test_a_server_that_always_hangs_up(transport):
    """On every connection after the request came: calls fail, are counted once each, and the run goes on to
    its end without a storm of connections."""

    def script(connection):
        connection.greet()
        connection.whole(1)
        connection.close()

    with Peer(script) as peer:
        result = run(peer, transport, calls=6, concurrency=2, deadline=4)
    assert result.status["OK"] == 0
    assert set(result.status) <= {"transport", "UNAVAILABLE"}
    assert len(peer.connections) <= 20


@BOTH
def test_the_run_goes_on_after_a_loss(transport):
    def script(connection):
        connection.greet()
        if connection.number == 1:
            connection.whole(CALLS)
            connection.close()
        for request in connection.each():
            connection.reply(request)

    with Peer(script) as peer:
        result = run(peer, transport, calls=100, concurrency=CALLS, deadline=4)
    dead = "transport" if transport == "wire" else "UNAVAILABLE"
    assert result.status[dead] >= CALLS
    assert result.status["OK"] + result.status[dead] == 100
    assert result.status["OK"] >= 50
    assert result.reconnects == 1
    assert peer.requests >= result.status["OK"] + CALLS


# --- silence


@BOTH
def test_a_server_that_accepts_and_never_speaks(transport, monkeypatch):
    """The look got an answer, the load does not: told before a call is sent."""
    monkeypatch.setattr(sys.modules["grpcperf.load"], "CONNECT_S", 0.3)
    begin = time.monotonic()
    with Peer(lambda connection: connection.linger()) as peer, pytest.raises(gp.ConnectError) as caught:
        run(peer, transport)
    assert time.monotonic() - begin < 2
    assert peer.address in str(caught.value)
    assert peer.requests == 0


@BOTH
def test_settings_that_never_come(transport, monkeypatch):
    monkeypatch.setattr(sys.modules["grpcperf.load"], "CONNECT_S", 0.3)

    def script(connection):
        connection.hear_preface()
        connection.frame(PING, 0, 0, bytes(8))
        connection.linger()

    with Peer(script) as peer, pytest.raises(gp.ConnectError):
        run(peer, transport)
    if transport == "wire":  # SETTINGS must come first: RFC 9113, 3.4
        assert peer.goaways == [PROTOCOL_ERROR]


@BOTH
def test_settings_that_are_never_acknowledged(transport):
    """The client's own: it has no need to know, and nothing to wait for."""

    def script(connection):
        connection.acknowledging = False
        connection.greet()
        for request in connection.each():
            connection.reply(request)

    check(Case("unacknowledged", script, "OK"), transport)


@BOTH
def test_a_server_that_answers_nothing(transport):
    check(Case("mute", each(lambda c, r: None), "DEADLINE_EXCEEDED", load={"deadline": 0.2}), transport)


@BOTH
def test_a_server_that_stops_in_a_message(transport):
    def half(connection, request):
        connection.headers(request.stream)
        connection.data(request.stream, message(bytes(100))[:50])

    check(Case("half", each(half), "DEADLINE_EXCEEDED", load={"deadline": 0.2}), transport)


@BOTH
def test_a_server_that_stops_in_a_frame(transport):
    def half(connection, requests):
        connection.frame(HEADERS, 4, requests[0].stream, b"\x88", length=50)
        connection.linger()

    script = together(CALLS, half)
    check(Case("half", script, "DEADLINE_EXCEEDED", load={"deadline": 0.2}), transport)


@BOTH
@pytest.mark.parametrize("size", [16, "256KiB"])
def test_a_server_that_never_reads(transport, size):
    """Half-open: it takes connection and preface, then nothing. Writes come to a halt, deadlines do not."""
    over = threading.Event()

    def script(connection):
        connection.greet({WINDOW: 2**20})
        connection.window_update(0, 2**30)
        connection.deaf = True
        connection.wait(over)

    load = {"concurrency": 50, "deadline": 0.2, "request_size": size}
    with Peer(script) as peer:
        if transport == "wire":
            result = run(peer, transport, calls=200, **load)
            assert dict(result.status) == {"DEADLINE_EXCEEDED": 200}
        else:  # C core keeps a call as long as a part of it is in a write, so only the run's end is bounded
            begin = time.monotonic()
            result = gp.load(peer.address, transport=transport, duration=0.3, warmup=0, drain=0.1, **load)
            assert time.monotonic() - begin < 6
            assert set(result.status) <= {"DEADLINE_EXCEEDED", "in_flight_at_end"}
        over.set()


@BOTH
def test_without_a_deadline_silence_ends_with_the_run(transport):
    with Peer(each(lambda c, r: None)) as peer:
        begin = time.monotonic()
        result = gp.load(peer.address, transport=transport, concurrency=4, duration=0.2, warmup=0, drain=0.1)
        assert time.monotonic() - begin < 1.5
    assert dict(result.status) == {"in_flight_at_end": 4}
    assert peer.requests == 4


# --- floods


def memory_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@BOTH
def test_a_flood_of_pings_that_reads_the_answers(transport):
    def act(connection, requests):
        for start in range(0, 20_000, 500):
            ask = range(start, start + 500)
            connection.raw(b"".join(frame(PING, 0, 0, struct.pack(">Q", number)) for number in ask))
            connection.until(lambda most=start + 500: len(connection.pongs) >= most)
        assert connection.pongs == [struct.pack(">Q", number) for number in range(20_000)]
        for request in requests:
            connection.reply(request)

    core = ANY if transport == "core" else None
    check(Case("pings", together(CALLS, act), "OK", core), transport)


FLOODS = {
    "pings": frame(PING, 0, 0, bytes(8)) * 1000,
    "settings": settings() * 1000,
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_that_reads_no_answers(what):
    """What is owed to the peer must not fill memory: the client gives up, or stops reading."""
    stuck = threading.Event()

    def act(connection, requests):
        connection.deaf = True
        connection.sock.settimeout(1)
        for _ in range(20_000):
            try:
                connection.sock.sendall(FLOODS[what])
            except TimeoutError:  # it reads no more: as good
                stuck.set()
                break
            except OSError as error:
                stuck.set()
                raise Gone from error
        assert stuck.is_set()

    before = memory_kib()
    with Peer(together(CALLS, act)) as peer:
        result = run(peer, "wire", deadline=1.5)
    assert set(result.status) <= {"transport", "DEADLINE_EXCEEDED"}
    assert memory_kib() - before < 16_384


@BOTH
@pytest.mark.parametrize("part", [0, 100, 16_000])
def test_a_header_block_that_never_ends(transport, part):
    """CONTINUATION without end: bounded in bytes, and in frames when they are empty."""

    def act(connection, requests):
        stream = requests[0].stream
        connection.frame(HEADERS, 0, stream, b"")
        piece = frame(CONTINUATION, 0, stream, plain([("x", "y" * (part - 4))]) if part else b"")
        while True:
            connection.raw(piece * 20)

    before = memory_kib()
    case = Case("endless block", together(CALLS, act), "transport", ANY, says=ENHANCE_YOUR_CALM)
    with Peer(case.script) as peer:
        result = run(peer, transport, deadline=0.5)
    if transport == "wire":
        assert dict(result.status) == case.wanted("wire")
        assert memory_kib() - before < 16_384


@BOTH
@pytest.mark.parametrize("what", ["empty data", "unknown frames", "interim responses", "window updates"])
def test_an_endless_flood_ends_with_the_deadline(transport, what):
    """Nothing of it is wrong by itself; it must cost neither memory nor the deadline."""
    stop = threading.Event()

    def act(connection, requests):
        stream = requests[0].stream
        pieces = {
            "empty data": frame(DATA, 0, stream),
            "unknown frames": frame(0xBE, 0, 0, bytes(100)),
            "interim responses": frame(HEADERS, 4, stream, plain([(":status", "103")])),
            "window updates": frame(8, 0, 0, struct.pack(">I", 1)),
        }
        if what == "empty data":
            connection.headers(stream)
        while not stop.is_set():
            connection.raw(pieces[what] * 200)

    before = memory_kib()
    with Peer(together(CALLS, act)) as peer:
        result = run(peer, transport, deadline=0.4)
        stop.set()
    if transport == "wire":
        assert dict(result.status) == {"DEADLINE_EXCEEDED": CALLS}
        assert memory_kib() - before < 16_384


# --- greetings

BAD_GREETINGS = {
    "HTTP/1": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "a client's": PREFACE + settings(),
    "noise": bytes(range(64)),
    "headers first": frame(HEADERS, 5, 1, plain(OK_FIELDS)),
    "an acknowledgement first": frame(SETTINGS, 1, 0),
    "settings of 5 bytes": frame(SETTINGS, 0, 0, bytes(5)),
    "a window of 2^31": settings({4: 2**31}),
    "goaway": settings() + frame(7, 0, 0, struct.pack(">II", 0, ENHANCE_YOUR_CALM) + b"not today"),
    "an end": b"",
}


@BOTH
@pytest.mark.parametrize("what", BAD_GREETINGS)
def test_a_bad_greeting_after_a_good_look(transport, what, monkeypatch):
    """The look was answered well, the load's own connections are not: an error, or calls that say so."""
    monkeypatch.setattr(sys.modules["grpcperf.load"], "CONNECT_S", 0.5)

    def script(connection):
        connection.raw(BAD_GREETINGS[what])
        if what == "an end":
            connection.close()
        connection.linger()

    begin = time.monotonic()
    with Peer(script) as peer:
        told = ""
        try:
            result = run(peer, transport, deadline=0.3)
        except gp.ConnectError as error:
            told = str(error)
        assert peer.address in told or result.status["OK"] == 0
    assert time.monotonic() - begin < 3


def test_trailers_are_what_ends_a_call():
    """The table of scripts above would pass with a peer that cannot answer at all: it can."""
    with Peer(each(lambda c, r: (c.headers(r.stream), c.data(r.stream, message()),
                                 c.headers(r.stream, trailers(), end=True)))) as peer:  # fmt: skip
        assert run(peer, "core").status == {"OK": CALLS}
