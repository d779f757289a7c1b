"""A peer that breaks HTTP/2 (RFC 9113), one case for each rule it can break: what the connection does then,
and that no call is lost, counted twice or left hanging. gRPC's own rules: test_adversary_grpc.py; windows,
silence and death: test_adversary_flow.py."""

import struct

import adversary as peers
import pytest
from adversary import (
    COMPRESSION_ERROR,
    CONTINUATION,
    DATA,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADERS,
    OK_FIELDS,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    each,
    message,
    padded,
    plain,
    together,
    trailers,
)
from adversary_run import ANY, CALLS, TRANSPORTS, Case, check, run

MOST = 2**31 - 1
IDLE = 1001  # a stream that the client has not begun


def u32(*values):
    return struct.pack(f">{len(values)}I", *values)


def frame(*arguments, **more):
    """A script that says one frame once all calls are there."""
    return together(CALLS, lambda connection, requests: connection.frame(*arguments, **more))


def setting(name, value):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", name, value))


def on_first(act):
    """A script that does something on the stream of the first call, without having answered any."""
    return together(CALLS, lambda connection, requests: act(connection, requests[0].stream))


def dead(name, script, says, **more):
    """The connection is over: every call is `transport`, and the client says why."""
    return Case(name, script, "transport", ANY, says=says, **more)


def block_on_first(block):
    return on_first(lambda c, stream: c.headers(stream, block))


# --- what ends a connection

SETTINGS_CASES = [
    dead("settings on a stream", frame(SETTINGS, 0, 1), PROTOCOL_ERROR),
    dead("settings of 5 bytes", frame(SETTINGS, 0, 0, b"\0\4\0\0\0"), FRAME_SIZE_ERROR),
    dead("settings acknowledged with a payload", frame(SETTINGS, 1, 0, bytes(6)), FRAME_SIZE_ERROR),
    dead("push enabled by a server", setting(peers.ENABLE_PUSH, 1), PROTOCOL_ERROR),
    dead("push neither on nor off", setting(peers.ENABLE_PUSH, 2), PROTOCOL_ERROR),
    dead("window of 2^31", setting(peers.WINDOW, 2**31), FLOW_CONTROL_ERROR),
    dead("frames of 16383", setting(peers.FRAME_SIZE, 16_383), PROTOCOL_ERROR),
    dead("frames of 2^24", setting(peers.FRAME_SIZE, 2**24), PROTOCOL_ERROR),
]

CONTROL_CASES = [
    dead("ping on a stream", frame(PING, 0, 1, bytes(8)), PROTOCOL_ERROR),
    dead("ping of 7 bytes", frame(PING, 0, 0, bytes(7)), FRAME_SIZE_ERROR),
    dead("goaway on a stream", frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL_ERROR),
    dead("goaway of 7 bytes", frame(GOAWAY, 0, 0, bytes(7)), FRAME_SIZE_ERROR),
    dead("connection window plus 0", frame(WINDOW_UPDATE, 0, 0, u32(0)), PROTOCOL_ERROR),
    dead("connection window beyond 2^31-1", frame(WINDOW_UPDATE, 0, 0, u32(MOST)), FLOW_CONTROL_ERROR),
    dead("window update of 3 bytes", frame(WINDOW_UPDATE, 0, 0, bytes(3)), FRAME_SIZE_ERROR),
    dead("window update on an idle stream", frame(WINDOW_UPDATE, 0, IDLE, u32(1)), PROTOCOL_ERROR),
    dead("reset on stream 0", frame(RST_STREAM, 0, 0, u32(8)), PROTOCOL_ERROR),
    dead("reset of an idle stream", frame(RST_STREAM, 0, IDLE, u32(8)), PROTOCOL_ERROR),
    dead("reset of 3 bytes", on_first(lambda c, s: c.frame(RST_STREAM, 0, s, bytes(3))), FRAME_SIZE_ERROR),
    dead("priority on stream 0", frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL_ERROR),
    dead(
        "push promise",
        on_first(lambda c, s: c.frame(PUSH_PROMISE, 4, s, u32(2) + plain(OK_FIELDS))),
        PROTOCOL_ERROR,
    ),
]

STREAM_CASES = [
    dead("data on stream 0", frame(DATA, 0, 0, message()), PROTOCOL_ERROR),
    dead("data on an idle stream", frame(DATA, 0, IDLE, message()), PROTOCOL_ERROR),
    dead("data on a stream of the server's", frame(DATA, 0, 2, message()), PROTOCOL_ERROR),
    dead("headers on stream 0", frame(HEADERS, 4, 0, plain(OK_FIELDS)), PROTOCOL_ERROR),
    dead("headers on an idle stream", frame(HEADERS, 4, IDLE, plain(OK_FIELDS)), PROTOCOL_ERROR),
    dead("headers on a stream of the server's", frame(HEADERS, 4, 2, plain(OK_FIELDS)), PROTOCOL_ERROR),
    dead(
        "padding as long as the frame",
        on_first(lambda c, s: (c.headers(s), c.frame(DATA, 8, s, b"\6" + bytes(5)))),
        PROTOCOL_ERROR,
    ),
    dead(
        "padding longer than the headers",
        on_first(lambda c, s: c.frame(HEADERS, 12, s, b"\xff" + plain(OK_FIELDS))),
        PROTOCOL_ERROR,
    ),
    dead(
        "padding without its length",
        on_first(lambda c, s: (c.headers(s), c.frame(DATA, 8, s))),
        FRAME_SIZE_ERROR,
    ),
    dead(
        "priority without its bytes",
        on_first(lambda c, s: c.frame(HEADERS, 0x24, s, bytes(4))),
        FRAME_SIZE_ERROR,
    ),
    dead("a frame of 16 MiB", frame(DATA, 0, 1, length=2**24 - 1), FRAME_SIZE_ERROR),
    dead("an unknown frame of 16 MiB", frame(0xBE, 0, 0, length=2**24 - 1), FRAME_SIZE_ERROR),
]


def split(*between):
    """A header block in two parts with something in between."""

    def act(connection, stream):
        block = plain(OK_FIELDS)
        connection.frame(HEADERS, 0, stream, block[:5])
        connection.frame(*(stream if part == "stream" else part for part in between))
        connection.frame(CONTINUATION, 4, stream, block[5:])

    return on_first(act)


CONTINUATION_CASES = [
    dead("continuation of nothing", on_first(lambda c, s: c.frame(CONTINUATION, 4, s)), PROTOCOL_ERROR),
    dead("continuation on stream 0", frame(CONTINUATION, 4, 0), PROTOCOL_ERROR),
    dead("data in a block", split(DATA, 0, "stream", message()), PROTOCOL_ERROR),
    dead("ping in a block", split(PING, 0, 0, bytes(8)), PROTOCOL_ERROR),
    dead("headers in a block", split(HEADERS, 4, "stream", plain(OK_FIELDS)), PROTOCOL_ERROR),
    dead("an unknown frame in a block", split(0xBE, 0, "stream", b"x"), PROTOCOL_ERROR),
    dead("another stream's continuation", split(CONTINUATION, 0, 3, b""), PROTOCOL_ERROR),
]

HPACK_CASES = [
    dead(f"hpack: {name}", block_on_first(block), COMPRESSION_ERROR)
    for name, block in {
        "index 0": b"\x80",
        "index beyond the tables": b"\xff\x7f",
        "number without an end": b"\xff" + b"\xff" * 12,
        "text cut off": b"\x00\x05ab",
        "name cut off": b"\x40\x7f\xff",
        "huffman with bad padding": b"\x00\x81\x00\x00",
        "huffman with its end mark": b"\x00\x84\xff\xff\xff\xff\x00",
        "table above what was allowed": b"\x3f\xe1\xff\xff\x7f" + plain(OK_FIELDS),
        "table changed inside a block": plain(OK_FIELDS) + b"\x20",
    }.items()
]

DEADLY = SETTINGS_CASES + CONTROL_CASES + STREAM_CASES + CONTINUATION_CASES + HPACK_CASES


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@named(DEADLY)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_ends_a_connection(case, transport):
    check(case, transport)


# --- what ends one stream and leaves the others alone


def one_bad(name, spoil, says=PROTOCOL_ERROR, wire="INTERNAL", core=None, **more):
    """The first call is spoilt, the others are answered; `spoil` gets connection and stream."""

    def act(connection, requests):
        spoil(connection, requests[0].stream)
        for request in requests[1:]:
            connection.reply(request)

    def counts(told):
        return told if told in (None, ANY) else {told: 1, "OK": CALLS - 1}

    return Case(name, together(CALLS, act), counts(wire), counts(core), says=says, **more)


def bad_headers(name, *fields, core=ANY, **more):
    return one_bad(name, lambda c, s: c.headers(s, plain(fields), **more), core=core)


def bad_trailers(name, *fields, core=ANY):
    def spoil(connection, stream):
        connection.headers(stream)
        connection.data(stream, message())
        connection.headers(stream, plain(fields), end=True)

    return one_bad(name, spoil, core=core)


STATUS, TYPE, DONE = (":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "0")

ONE_BAD = [
    one_bad("window plus 0", lambda c, s: c.frame(WINDOW_UPDATE, 0, s, u32(0)), core=ANY),
    one_bad(
        "window beyond 2^31-1",
        lambda c, s: c.frame(WINDOW_UPDATE, 0, s, u32(MOST)),
        FLOW_CONTROL_ERROR,
        core=ANY,
    ),
    one_bad("priority of 4", lambda c, s: c.frame(PRIORITY, 0, s, bytes(4)), FRAME_SIZE_ERROR, core=ANY),
    one_bad("data before headers", lambda c, s: c.data(s, message()), core=ANY),
    one_bad("the end before headers", lambda c, s: c.frame(DATA, 1, s), core=ANY),
    one_bad("headers after headers", lambda c, s: (c.headers(s), c.headers(s)), core=ANY),
    bad_headers("upper case", STATUS, TYPE, ("X-Key", "v")),
    bad_headers("no status", TYPE),
    bad_headers("two statuses", STATUS, STATUS, TYPE),
    bad_headers("a status that is no number", (":status", "2OO"), TYPE),
    bad_headers("a status of four digits", (":status", "2000"), TYPE),
    bad_headers("an empty status", (":status", ""), TYPE),
    bad_headers("a status after a field", TYPE, STATUS),
    bad_headers("a field of requests", STATUS, (":path", "/"), TYPE),
    bad_headers("a pseudo-field nobody knows", STATUS, (":grpc", "1"), TYPE),
    bad_headers("a field about the connection", STATUS, TYPE, ("connection", "close")),
    bad_headers("transfer-encoding", STATUS, TYPE, ("transfer-encoding", "chunked")),
    bad_headers("a line break in a value", STATUS, TYPE, ("key", "a\r\nb")),
    bad_headers("an empty name", STATUS, TYPE, ("", "v")),
    bad_headers("switching protocols", (":status", "101")),
    bad_headers("an interim response that ends", (":status", "100"), end=True),
    bad_trailers("a status in the trailers", STATUS, DONE),
    bad_trailers("upper case in the trailers", DONE, ("Key", "v")),
]


@named(ONE_BAD)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_ends_one_stream_alone(case, transport):
    check(case, transport)


# --- what is unusual and right


def fine(name, answer, **more):
    """Every call is OK, on both transports, and the client complains of nothing."""
    return Case(name, each(answer), "OK", **more)


def between(*frames):
    """Correct answers with frames put everywhere between their own."""

    def answer(connection, request):
        def extra():
            for kind, flags, stream, payload in frames:
                connection.frame(kind, flags, request.stream if stream else 0, payload)

        extra()
        connection.headers(request.stream)
        extra()
        connection.data(request.stream, message())
        extra()
        connection.headers(request.stream, trailers(), end=True)
        extra()

    return answer


def in_pieces(*sizes):
    """The response's header block cut into HEADERS and CONTINUATIONs of these sizes, and the rest."""

    def answer(connection, request):
        block = connection.encoder.encode([*OK_FIELDS, ("x-filler", "f" * 60)])
        kind = HEADERS
        for size in sizes:
            connection.frame(kind, 0, request.stream, block[:size])
            kind, block = CONTINUATION, block[size:]
        connection.frame(kind, 4, request.stream, block)
        connection.data(request.stream, message())
        connection.headers(request.stream, trailers(), end=True)

    return answer


def with_padding(pad):
    def answer(connection, request):
        stream = request.stream
        connection.frame(HEADERS, 0xC, stream, padded(connection.encoder.encode(list(OK_FIELDS)), pad))
        connection.frame(DATA, 8, stream, padded(message(b"body")[:3], pad))
        connection.frame(DATA, 8, stream, padded(b"", pad))
        connection.frame(DATA, 8, stream, padded(message(b"body")[3:], pad))
        connection.frame(HEADERS, 0xD, stream, padded(connection.encoder.encode(list(trailers())), pad))

    return answer


def with_priority(connection, request):
    block = connection.encoder.encode(list(OK_FIELDS))
    connection.frame(HEADERS, 0x24, request.stream, bytes(5) + block)
    connection.data(request.stream, message())
    connection.frame(HEADERS, 0x25, request.stream, bytes(5) + plain(trailers()))


def table_size(size):
    """Changes the size of its dynamic table, as a decoder must follow."""

    def answer(connection, request):
        connection.encoder.header_table_size = size if request.stream % 4 == 1 else 4096
        connection.reply(request)

    return answer


def reserved_bits(connection, request):
    top = 1 << 31
    connection.frame(HEADERS, 4, request.stream | top, plain(OK_FIELDS))
    connection.frame(DATA, 0, request.stream | top, message())
    connection.frame(HEADERS, 5, request.stream | top, plain(trailers()))


def undefined_flags(connection, request):
    connection.frame(HEADERS, 0xD2 & ~0x8 | 4, request.stream, plain(OK_FIELDS))
    connection.frame(DATA, 0xF6, request.stream, message())
    connection.frame(HEADERS, 0x57, request.stream, plain(trailers()))


def late(*frames):
    """Frames on a stream that has ended."""

    def answer(connection, request):
        connection.reply(request)
        for kind, flags, payload in frames:
            connection.frame(kind, flags, request.stream, payload)

    return answer


FINE = [
    fine("unknown frames", between((0xBE, 0xFF, 0, b"?"), (0xBE, 0xFF, 1, b"?"), (0xFA, 0, 1, b""))),
    fine("unknown frames of 16384", between((0xBE, 0, 1, bytes(16_384)))),
    fine("priority frames", between((PRIORITY, 0, 1, bytes(5)))),
    fine("pings", between((PING, 0, 0, b"question"))),
    fine("answers to pings never sent", between((PING, 1, 0, b"an answer"[:8]))),
    fine("settings nobody knows", between((SETTINGS, 0, 0, struct.pack(">HI", 0xBEEF, 1)))),
    fine("empty settings", between((SETTINGS, 0, 0, b""))),
    fine("window updates", between((WINDOW_UPDATE, 0, 1, u32(1)), (WINDOW_UPDATE, 0, 0, u32(1)))),
    fine("headers in two frames", in_pieces(3)),
    fine("headers byte by byte", in_pieces(*[1] * 8)),
    fine("empty continuations", in_pieces(0, 0, 5, 0, 0)),
    fine("no padding, and said so", with_padding(0), core=ANY),  # C core knows no padding
    fine("padding", with_padding(1), core=ANY),
    fine("the most padding", with_padding(255), core=ANY),
    fine("priority with headers", with_priority),
    fine("reserved bits", reserved_bits),
    fine("flags nobody has defined", undefined_flags, core=ANY),  # RFC 9113, 4.1: to be ignored
    fine("a table that comes and goes", table_size(0)),
    fine("a table of one entry", table_size(64)),
    fine("never indexed", lambda c, r: (c.headers(r.stream, plain(OK_FIELDS)), c.data(r.stream, message()),
                                        c.headers(r.stream, plain(trailers()), end=True))),
    fine("reset after the end", late((RST_STREAM, 0, u32(peers.NO_ERROR)))),
    fine("cancelled after the end", late((RST_STREAM, 0, u32(peers.CANCEL)))),
    fine("window update after the end", late((WINDOW_UPDATE, 0, u32(1)))),
    fine("priority after the end", late((PRIORITY, 0, bytes(5)))),
]  # fmt: skip


@named(FINE)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_is_unusual_and_right(case, transport):
    check(case, transport)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_more_of_the_same(transport):
    """Many calls one after the other: what one leaves behind must not harm the next."""
    for script in (each(between((0xBE, 0xFF, 1, b"?"))), each(table_size(64)), each(in_pieces(1, 0, 9))):
        with peers.Peer(script) as peer:
            result = run(peer, transport, calls=200, concurrency=20)
        assert result.status == {"OK": 200}
        assert peer.requests == 200
