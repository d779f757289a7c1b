"""A peer that gives streams too few messages, too many, or an end at the wrong moment: the table of
csrc/base/call.h on when a call is OK, line by line, on both transports."""

import pytest
from adversary import each, message, trailers
from adversary_run import ANY, TRANSPORTS, Case, check

ONE = message(b"one")
MESSAGES = 3  # each way, of every stream here


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def case(kind, name, script, wire, core=None, **load):
    spec = {"kind": kind, "messages_per_stream": MESSAGES} | load
    return Case(f"{kind}: {name}", script, wire, core, load=spec)


def after_all(count, status=0):
    """So many messages once the client has ended its side, then the end; None: no end."""

    def answer(connection, request):
        connection.headers(request.stream)
        connection.data(request.stream, ONE * count)
        if status is not None:
            connection.headers(request.stream, trailers(status), end=True)

    return each(answer)


def in_turn(answers, status=0):
    """`answers[n]` messages for the n-th that comes; after the last of them the end; None: no end, and the
    client's own end is answered by one."""

    def script(connection):
        connection.greet()
        done = {}
        while True:
            for request in list(connection.streams.values()):
                answer(connection, request, done)
            connection.next()

    def answer(connection, request, done):
        given = done.setdefault(request.stream, 0)
        if given == 0 and request.messages:
            connection.headers(request.stream)
        while given < min(request.messages, len(answers)) and not connection.is_reset(request.stream):
            connection.data(request.stream, ONE * answers[given])
            given += 1
            if given == len(answers) and status is not None:
                connection.headers(request.stream, trailers(status), end=True)
                given = MESSAGES + 1
        if request.ended and given <= MESSAGES and status is None:
            connection.headers(request.stream, trailers(), end=True)
            given = MESSAGES + 1
        done[request.stream] = given

    return script


CLIENT_STREAM = [
    case("client_stream", "one", after_all(1), "OK"),
    case("client_stream", "none", after_all(0), "UNIMPLEMENTED"),
    case("client_stream", "two", after_all(2), "UNIMPLEMENTED", "DEADLINE_EXCEEDED", deadline=0.3),
    case("client_stream", "one, and an error", after_all(1, 5), "NOT_FOUND"),
    case("client_stream", "no end", after_all(1, None), "DEADLINE_EXCEEDED", deadline=0.3),
    case("client_stream", "an end after the first message", in_turn([1]), "OK", ANY),
]

SERVER_STREAM = [
    case("server_stream", "all", after_all(MESSAGES), "OK"),
    case("server_stream", "all, and no end", after_all(MESSAGES, None), "OK"),
    case("server_stream", "more", after_all(MESSAGES + 7), "OK"),
    case("server_stream", "fewer: its choice", after_all(1), "OK"),
    case("server_stream", "none", after_all(0), "UNKNOWN"),
    case("server_stream", "fewer, and an error", after_all(1, 13), "INTERNAL"),
    case("server_stream", "none, and an error", after_all(0, 5), "NOT_FOUND"),
    case("server_stream", "fewer, and no end", after_all(1, None), "DEADLINE_EXCEEDED", deadline=0.3),
]

BIDI = [
    case("bidi", "one for each", in_turn([1] * MESSAGES, None), "OK"),
    case("bidi", "one for each, and the end at once", in_turn([1] * MESSAGES), "OK"),
    case("bidi", "the end too early", in_turn([1]), "UNKNOWN"),
    case("bidi", "an error too early", in_turn([1, 1], 13), "INTERNAL"),
    case("bidi", "an error after all", in_turn([1] * MESSAGES, 13), "INTERNAL"),
    case("bidi", "no answer to the second", in_turn([1, 0, 0], None), "DEADLINE_EXCEEDED", deadline=0.3),
    case("bidi", "an answer too many at the end", in_turn([1, 1, 2]), "UNKNOWN", ANY, deadline=0.3),
    case("bidi", "an answer too many between", in_turn([2, 1, 1]), "UNKNOWN", ANY, deadline=0.3),
]

BIDI_FREE = [
    case("bidi_free", "as many", in_turn([1] * MESSAGES), "OK"),
    case("bidi_free", "more", in_turn([MESSAGES + 5], None), "OK"),
    case("bidi_free", "fewer", in_turn([1, 1, 0]), "UNKNOWN"),
    case("bidi_free", "none", in_turn([0, 0, 0]), "UNKNOWN"),
    case("bidi_free", "an error after all", in_turn([0, 0, MESSAGES - 1], 13), "INTERNAL"),
]


@named(CLIENT_STREAM + SERVER_STREAM + BIDI + BIDI_FREE)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_when_a_stream_is_ok(case, transport):
    check(case, transport)
