"""A peer whose HTTP/2 is right and whose gRPC is not (gRPC over HTTP/2, "Responses"; statuscodes.md;
http-grpc-status-mapping.md): each answer has one class, the same on both transports unless said otherwise."""

import gzip
import zlib

import pytest
from adversary import (
    COMPRESSION_ERROR,
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    OK_FIELDS,
    Peer,
    each,
    frame,
    message,
    plain,
    together,
    trailers,
)
from adversary_run import CALLS, TRANSPORTS, Case, check, run

NAMES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)
MIB = 1 << 20


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


DONE = trailers()


def answer(*parts, headers=OK_FIELDS, body=None, end=DONE):
    """Headers, then the bytes of the body as DATA, then trailers; None leaves a part out."""

    def script(connection, request):
        payload = b"".join(parts) if body is None else body
        if headers is not None:
            connection.headers(request.stream, headers, end=payload is None and end is None)
        if payload:
            connection.data(request.stream, payload, end=end is None)
        elif end is None:
            connection.data(request.stream, b"", end=True)
        if end is not None:
            connection.headers(request.stream, end, end=True)

    return script


def only(*fields):
    """One HEADERS that is all of the response: "Trailers-Only"."""
    return lambda connection, request: connection.headers(request.stream, fields, end=True)


def case(name, script, wire, core=None, **load):
    return Case(name, each(script), wire, core, load=load)


ONE = message(b"one")
STATUS, TYPE = OK_FIELDS

# --- statuses


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", ["trailers", "trailers only"])
def test_every_status_is_its_class(transport, how):
    def script(connection, request):
        code = next(codes)
        if how == "trailers":
            connection.reply(request, status=code, text="because")
        else:
            connection.headers(request.stream, [*OK_FIELDS, *trailers(code, "because")], end=True)

    codes = iter(range(len(NAMES)))
    with Peer(each(script)) as peer:
        result = run(peer, transport, calls=len(NAMES), concurrency=1)
    wanted = dict.fromkeys(NAMES, 1)
    if how == "trailers only":  # OK without the one message that a unary call must have
        del wanted["OK"]
        wanted["UNIMPLEMENTED"] = 2
    assert dict(result.status) == wanted
    assert result.errors == len(NAMES) - (how == "trailers")


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("plain", "plain"),
        ("50%25 done%21", "50% done!"),
        ("%E2%82%AC", "€"),
        ("%", "%"),
        ("%4", "%4"),
        ("%zz%20x", "%zz x"),
        ("a%00b", "a"),
        ("%1B[31mred%0A", "\ufffd[31mred\ufffd"),
        ("%FF%FE", "\ufffd\ufffd"),
        ("x" * 2000, "x" * 200),
    ],
)
def test_messages_are_percent_decoded_and_told(sent, read):
    with Peer(each(lambda c, r: c.reply(r, status=9, text=sent))) as peer:
        result = run(peer, "wire")
    assert dict(result.status) == {"FAILED_PRECONDITION": CALLS}
    (cause,) = result.causes
    assert (cause.status, cause.calls) == ("FAILED_PRECONDITION", CALLS)
    assert read in cause.text
    assert len(cause.text) < 250
    assert len(cause.text) > 60 or cause.text in repr(result)
    assert result.row()["causes"] == [str(cause)]


NONSENSE = [
    case(f"grpc-status {text!r}", answer(ONE, end=(("grpc-status", text),)), "UNKNOWN", core)
    for text, core in {
        "17": None,
        "99999999999999999999": None,
        "-1": None,
        "abc": None,
        "0x0": None,
        "1.0": None,
        "": None,
        "OK": None,
    }.items()
]

STATUS_CASES = [
    case("no status in the trailers", answer(ONE, end=(("x-key", "v"),)), "UNKNOWN"),
    case("no trailers", answer(ONE, end=None), "UNKNOWN"),
    case("no trailers and no message", answer(body=b"", end=None), "UNKNOWN"),
    case("headers alone", only(*OK_FIELDS), "UNKNOWN"),
    case("headers that promise no gRPC alone", only(STATUS), "UNKNOWN"),
    case("status in the headers, none in the trailers", answer(
        ONE, headers=(*OK_FIELDS, ("grpc-status", "0")), end=(("x-key", "v"),)), "UNKNOWN"),
    case("many other trailers", answer(ONE, end=(
        *((f"x-{n}", "v" * 50) for n in range(40)), ("grpc-status", "0"))), "OK"),
    case("binary trailers", answer(ONE, end=(*DONE, ("grpc-status-details-bin", "CAESBWhlbGxv"))), "OK"),
]  # fmt: skip


@named(NONSENSE + STATUS_CASES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_statuses(case, transport):
    check(case, transport)


# --- HTTP

MAPPING = {
    400: "INTERNAL", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "UNIMPLEMENTED",
    429: "UNAVAILABLE", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "UNAVAILABLE",
    204: "UNKNOWN", 301: "UNKNOWN", 302: "UNKNOWN", 402: "UNKNOWN", 405: "UNKNOWN", 408: "UNKNOWN",
    413: "UNKNOWN", 418: "UNKNOWN", 500: "UNKNOWN", 501: "UNKNOWN", 505: "UNKNOWN",
    599: "UNKNOWN", 999: "UNKNOWN",
}  # fmt: skip


def kind(text):
    return ("content-type", text)


HTML = kind("text/html")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", ["headers alone", "a page", "a page and trailers"])
def test_http_statuses_map_as_grpc_says(transport, how):
    def script(connection, request):
        stream, fields = request.stream, ((":status", str(next(statuses))), HTML)
        connection.headers(stream, fields, end=how == "headers alone")
        if how != "headers alone":
            connection.data(stream, b"<html>no</html>", end=how == "a page")
        if how == "a page and trailers":
            connection.headers(stream, (("x-key", "v"),), end=True)

    statuses = iter(MAPPING)
    with Peer(each(script)) as peer:
        result = run(peer, transport, calls=len(MAPPING), concurrency=1)
    wanted = {}
    for name in MAPPING.values():
        wanted[name] = wanted.get(name, 0) + 1
    assert dict(result.status) == wanted
    assert result.errors == len(MAPPING)


HTTP_CASES = [
    case("404 that says grpc-status 5", only((":status", "404"), TYPE, ("grpc-status", "5")), "NOT_FOUND"),
    case("503 that says grpc-status 0", only((":status", "503"), TYPE, *DONE), "UNIMPLEMENTED"),
    case("a page with 200", answer(headers=(STATUS, HTML), body=b"<html>", end=None), "UNKNOWN"),
    case("a page with 200 that never ends", lambda c, r: c.headers(r.stream, (STATUS, HTML)), "UNKNOWN",
         "DEADLINE_EXCEEDED", deadline=0.3),
    case("no content-type", answer(ONE, headers=(STATUS,)), "OK"),
    case("content-type +proto", answer(ONE, headers=(STATUS, kind("application/grpc+proto"))), "OK"),
    case("content-type ;charset", answer(ONE, headers=(STATUS, kind("application/grpc;a=b"))), "OK"),
    case("content-type grpcx", answer(ONE, headers=(STATUS, kind("application/grpcx"))), "UNKNOWN", "any"),
    case("interim responses", lambda c, r: (
        c.headers(r.stream, ((":status", "103"), ("link", "x"))), c.headers(r.stream, ((":status", "100"),)),
        c.reply(r)), "OK", "any"),
]  # fmt: skip


@named(HTTP_CASES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_http(case, transport):
    check(case, transport)


# --- messages


def gzipped(body):
    return gzip.compress(body, mtime=0)


GZIP = (*OK_FIELDS, ("grpc-encoding", "gzip"))
SOUND = gzipped(b"x" * 1000)


def compressed(body, **more):
    return answer(message(body, flag=1), headers=GZIP, **more)


MESSAGE_CASES = [
    case("none", answer(body=b""), "UNIMPLEMENTED"),
    case("two", answer(ONE, ONE), "UNIMPLEMENTED", "DEADLINE_EXCEEDED", deadline=0.3),
    case("a thousand", answer(ONE * 1000), "UNIMPLEMENTED", "DEADLINE_EXCEEDED", deadline=0.3),
    case("none, and an error", answer(body=b"", end=trailers(5)), "NOT_FOUND"),
    case("one, and an error", answer(ONE, end=trailers(5)), "NOT_FOUND"),
    case("two, and an error", answer(ONE, ONE, end=trailers(5)), "UNIMPLEMENTED", "any", deadline=0.3),
    case("an empty one", answer(message()), "OK"),
    case("cut off in its prefix", answer(ONE[:3]), "INTERNAL", "any", deadline=0.3),
    case("cut off after its prefix", answer(ONE[:5]), "INTERNAL", "any", deadline=0.3),
    case("cut off in its body", answer(ONE[:-1]), "INTERNAL", "any", deadline=0.3),
    case("cut off, and an error", answer(ONE[:-1], end=trailers(5)), "NOT_FOUND", "any"),
    case("a second one begun", answer(ONE + ONE[:2]), "INTERNAL", "any", deadline=0.3),
    case("flag 2", answer(message(b"x", flag=2)), "INTERNAL", "any"),
    case("flag 255", answer(message(b"x", flag=255)), "INTERNAL", "any"),
    case("of exactly 4 MiB", answer(message(bytes(4 * MIB))), "OK"),
    case("above 4 MiB", answer(message(bytes(4 * MIB + 1))), "RESOURCE_EXHAUSTED"),
    case("that claims 4 GiB", answer(message(b"x", length=2**32 - 1)), "RESOURCE_EXHAUSTED", "any"),
    case("that claims 4 GiB and never comes", lambda c, r: (
        c.headers(r.stream), c.data(r.stream, message(b"x", length=2**32 - 1))), "RESOURCE_EXHAUSTED", "any"),
]  # fmt: skip

GZIP_CASES = [
    case("gzip", compressed(SOUND), "OK"),
    case("gzip of nothing", compressed(gzipped(b"")), "OK"),
    case("gzip announced, not used", answer(ONE, headers=GZIP), "OK"),
    case("gzip not announced", answer(message(SOUND, flag=1)), "INTERNAL", "any"),
    case("identity announced, gzip used", answer(
        message(SOUND, flag=1), headers=(*OK_FIELDS, ("grpc-encoding", "identity"))), "INTERNAL", "any"),
    case("gzip that is no gzip", compressed(b"this is not gzip"), "INTERNAL", "any"),
    case("gzip cut off", compressed(SOUND[:-9]), "INTERNAL", "any"),
    case("gzip with a wrong checksum", compressed(SOUND[:-8] + bytes(4) + SOUND[-4:]), "INTERNAL", "any"),
    case("gzip with something behind", compressed(SOUND + b"more"), "INTERNAL", "any"),
    case("a bomb", compressed(gzipped(bytes(5 * MIB))), "RESOURCE_EXHAUSTED", "any"),
    case("deflate in gzip's name", compressed(zlib.compress(b"x" * 100)), "INTERNAL", "any"),
    case("an encoding nobody knows, not used", answer(
        ONE, headers=(*OK_FIELDS, ("grpc-encoding", "snappy"))), "OK", "any"),
    case("an encoding nobody knows, used", answer(
        message(b"x", flag=1), headers=(*OK_FIELDS, ("grpc-encoding", "snappy"))), "INTERNAL", "any"),
]  # fmt: skip


@named(MESSAGE_CASES + GZIP_CASES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_messages(case, transport):
    check(case, transport)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("size", [16, 65_536])
def test_requests_are_compressed_as_asked(transport, size):
    """Flag, grpc-encoding and bytes agree; what is inside is the request that goes out uncompressed."""
    bodies = {}

    def script(connection, request):
        encoding = request.fields.get("grpc-encoding", "identity")
        bodies.setdefault(encoding, set()).add(bytes(request.body))
        connection.reply(request)

    with Peer(each(script)) as peer:
        for compression in (None, "gzip"):
            result = run(peer, transport, request=bytes(size), compression=compression)
            assert result.status == {"OK": CALLS}
    (whole,), (small,) = bodies["identity"], bodies["gzip"]
    if transport == "core" and size == 16:  # it leaves alone what would not become smaller
        assert small == whole
        return
    assert (whole[0], small[0]) == (0, 1)
    assert int.from_bytes(small[1:5], "big") == len(small) - 5
    assert gzip.decompress(small[5:]) == whole[5:]
    assert size == 16 or len(small) < len(whole) / 10


# --- header lists

LIMIT = 8192  # of the header list we take, RFC 9113, 6.5.2: name + value + 32 for each field


def filler(size):
    """Fields that bring OK_FIELDS up to so many bytes of a header list."""
    rest = size - sum(len(name) + len(value) + 32 for name, value in OK_FIELDS) - 34
    return (*OK_FIELDS, ("xx", "f" * rest))


def bomb(connection, request):
    """One large field in the dynamic table, then named a thousand times by a byte each."""
    large = b"\x40\x01a" + b"\x7f\x89\x16" + b"v" * 3080  # literal with indexing; length 127 + 9 + 22 * 128
    connection.headers(request.stream, plain(OK_FIELDS) + large + b"\xbe" * 1000)


HEADER_CASES = [
    case("as long as is allowed", answer(ONE, headers=filler(LIMIT)), "OK"),
    case("a byte longer", answer(ONE, headers=filler(LIMIT + 1)), "RESOURCE_EXHAUSTED", "any"),
    case("of 200 KB", lambda c, r: c.raw(split_headers(r.stream, [*OK_FIELDS, *[("x", "y" * 300)] * 500])),
         "RESOURCE_EXHAUSTED", "any"),
    # nghttp2's inflater takes no value above 64 KiB, and is of no use afterwards.
    Case("a value of 200 KB", together(
        CALLS, lambda c, rs: c.raw(split_headers(rs[0].stream, filler(200_000)))),
         "transport", "any", COMPRESSION_ERROR),
    case("trailers a byte longer", answer(ONE, end=(("grpc-status", "0"), ("xx", "f" * LIMIT))),
         "RESOURCE_EXHAUSTED", "any"),
    case("a bomb", bomb, "RESOURCE_EXHAUSTED", "any"),
]  # fmt: skip


def split_headers(stream, fields):
    """A block of several frames of the size that needs no leave."""
    block = plain(fields)
    parts = [block[at : at + 16_384] for at in range(0, len(block), 16_384)]
    return b"".join(
        frame(CONTINUATION if at else HEADERS, END_HEADERS if at + 1 == len(parts) else 0, stream, part)
        for at, part in enumerate(parts)
    )


@named(HEADER_CASES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_header_lists(case, transport):
    check(case, transport)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_refused_header_list_does_not_harm_the_table(transport):
    """What it put into the dynamic table is there for the next block, though its stream has failed."""

    def script(connection, request):
        connection.encoder.huffman = False
        if connection.ended.index(request) % 2 == 0:
            fields = [*OK_FIELDS, (f"x-{request.stream}", "v" * 900), ("large", "f" * LIMIT)]
            connection.headers(request.stream, connection.encoder.encode(fields, huffman=False))
        else:
            fields = [*OK_FIELDS, (f"x-{request.stream - 2}", "v" * 900)]
            connection.headers(request.stream, connection.encoder.encode(fields, huffman=False))
            connection.data(request.stream, ONE)
            connection.headers(request.stream, trailers(), end=True)

    with Peer(each(script)) as peer:
        result = run(peer, transport, calls=10, concurrency=1)
        peer.finish()
    if transport == "wire":  # C core takes up to twice as much in a lottery of its own
        assert dict(result.status) == {"OK": 5, "RESOURCE_EXHAUSTED": 5}
    assert peer.goaways == []


# --- one answer for several


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_answer_before_the_request_has_ended(transport):
    """A server may end a call early (RFC 9113, 8.1); then the rest of the request is of no use."""

    def script(connection):
        connection.generous = False
        connection.greet()
        for request in connection.begun(CALLS):
            connection.reply(request, status=9)
        connection.linger()

    with Peer(script) as peer:
        result = run(peer, transport, request_size="256KiB")
        peer.finish()
    assert dict(result.status) == {"FAILED_PRECONDITION": CALLS}
    assert all(len(request.body) <= 65_535 for request in peer.connections[0].streams.values())


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_trailers_in_the_segment_of_the_headers(transport):
    def act(connection, requests):
        connection.raw(b"".join(connection.reply_bytes(request) for request in requests))

    check(Case("together", together(CALLS, act), "OK"), transport)
