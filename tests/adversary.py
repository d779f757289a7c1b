"""A scripted HTTP/2 server for tests: it says exactly the bytes a script tells it to, right or wrong, and
writes down what the client says. Plain sockets and frames by hand (RFC 9113), so that nothing of it can be
as careful as the client under test; only HPACK is a library's.

A script is a function of a Connection, run on a thread of its own for each connection that a client makes:

    def script(connection):
        connection.greet()
        for request in connection.each():
            connection.reply(request)

    with Peer(script) as peer:
        gp.load(peer.address, calls=4, warmup=0)
    assert peer.requests == 4

Scripts wait for what the client does, never for time to pass. The engine looks at an address before a load
(csrc/net/probe.h); that visit is answered as a good server would, so that scripts meet the load itself.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import hpack

PATIENCE_S = 10.0  # what a script waits for a client at most; then the test fails
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULT_WINDOW = 65_535

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY = range(8)
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20
TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, WINDOW, FRAME_SIZE, LIST_SIZE = range(1, 7)

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED = range(6)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR = range(6, 11)
ENHANCE_YOUR_CALM, INADEQUATE_SECURITY, HTTP_1_1_REQUIRED = range(11, 14)

Fields = Sequence[tuple[str, str]]
OK_FIELDS: Fields = ((":status", "200"), ("content-type", "application/grpc"))


class Gone(Exception):
    """The client has closed the connection, or the peer is being closed."""


class Frame(NamedTuple):
    type: int
    flags: int
    stream: int
    payload: bytes


@dataclass(eq=False)
class Request:
    """One call as it has come in so far."""

    stream: int
    fields: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False  # the client's side
    reset: int | None = None  # by the client, with this code
    credit: int = DEFAULT_WINDOW  # what the client may still send; below zero: it broke the rules, or we did

    @property
    def messages(self) -> int:
        """Whole ones received."""
        count, at = 0, 0
        while at + 5 <= len(self.body):
            at += 5 + int.from_bytes(self.body[at + 1 : at + 5], "big")
            count += at <= len(self.body)
        return count


# --- bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"", *, length: int | None = None) -> bytes:
    """Any frame; `length` overrides the true one."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size << 8 | kind) + bytes([flags]) + struct.pack(">I", stream) + payload


def settings(values: dict[int, int] | Iterable[tuple[int, int]] = ()) -> bytes:
    pairs = values.items() if isinstance(values, dict) else values
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", name, value) for name, value in pairs))


def message(body: bytes = b"", *, flag: int = 0, length: int | None = None) -> bytes:
    """A length-prefixed message; `length` overrides the true one."""
    return struct.pack(">BI", flag, len(body) if length is None else length) + body


def plain(fields: Fields) -> bytes:
    """A header block that leaves the dynamic table alone: literals never indexed, with new names."""

    def text(value: str) -> bytes:
        raw = value.encode("latin-1")
        return number(len(raw), 7) + raw

    return b"".join(b"\x10" + text(name) + text(value) for name, value in fields)


def number(value: int, bits: int, first: int = 0) -> bytes:
    """An integer of HPACK (RFC 7541, 5.1) in the low `bits` of its first byte."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = [first | most], value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def padded(body: bytes, pad: int) -> bytes:
    return bytes([pad]) + body + bytes(pad)


def trailers(status: int | str | None = 0, text: str | None = None) -> Fields:
    fields = [] if status is None else [("grpc-status", str(status))]
    return fields if text is None else [*fields, ("grpc-message", text)]


# --- one connection


class Connection:
    """The server's end of one connection: says what the script wants, reads what the client sends.

    Sending never blocks on a client that is itself sending: what it says meanwhile is taken in, unless the
    script has set `deaf`. What the client sends is acknowledged as a good server does: SETTINGS and PING,
    and flow control for what it has sent, unless `generous` is off.
    """

    def __init__(self, peer: Peer, sock: socket.socket) -> None:
        self.peer, self.sock = peer, sock
        self.number = 0  # 1 for the first that is no look
        self.inbox = bytearray()
        self.frames: list[Frame] = []  # all that came, in order
        self.streams: dict[int, Request] = {}
        self.ended: list[Request] = []  # those whose client's side has ended, in the order they did
        self.settings: dict[int, int] = {}  # the client's
        self.pongs: list[bytes] = []
        self.goaways: list[tuple[int, int, bytes]] = []  # (last stream, code, debug data) by the client
        self.windows: dict[int, int] = {0: DEFAULT_WINDOW}  # what we may send; streams: above the initial one
        self.credit = DEFAULT_WINDOW  # what it may send on the connection
        self.initial = DEFAULT_WINDOW  # and on a new stream, as last acknowledged
        self.deaf, self.generous, self.acknowledging = False, True, True
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self._unacknowledged: list[dict[int, int]] = []
        self._block: tuple[int, int, bytearray] | None = None
        sock.settimeout(PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) if sock.family != socket.AF_UNIX else None

    # what is said

    def raw(self, data: bytes, *, pieces: int | None = None) -> None:
        """Bytes as they are; `pieces`: that many at a time, each in a segment of its own."""
        for at in range(0, len(data), pieces or len(data) or 1):
            self._pour(data[at : at + pieces] if pieces else data)

    def _pour(self, data: bytes) -> None:
        view, until = memoryview(data), time.monotonic() + PATIENCE_S
        while view:
            self._check_open(until)
            readers = [] if self.deaf else [self.sock]
            readable, writable, _ = select.select(readers, [self.sock], [], 0.2)
            try:
                if readable:
                    self._take_in()
                if writable:
                    view = view[self.sock.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Gone from error

    def frame(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"", **more: int) -> None:
        self.raw(frame(kind, flags, stream, payload, **more))

    def greet(self, values: dict[int, int] | None = None) -> None:
        """The server's preface, and the client's: preface and SETTINGS."""
        self.send_settings(values or {})
        self.hear_preface()

    def send_settings(self, values: dict[int, int]) -> None:
        self._unacknowledged.append(values)
        self.raw(settings(values))

    def headers(
        self, stream: int, fields: Fields | bytes = OK_FIELDS, *, end: bool = False, flags: int = END_HEADERS
    ) -> None:
        block = fields if isinstance(fields, bytes) else self.encoder.encode(list(fields))
        self.frame(HEADERS, flags | (END_STREAM if end else 0), stream, block)

    def data(self, stream: int, body: bytes, *, end: bool = False, rude: bool = False) -> None:
        """DATA, in frames and at times the client allows; `rude`: whatever its windows are. What a client
        that has reset the stream no longer wants is left out."""
        most, left = self.settings.get(FRAME_SIZE, 16_384), memoryview(body)
        while True:
            if left and not rude:
                self.until(lambda: self.window(stream) > 0 or self.is_reset(stream))
            if self.is_reset(stream) and not rude:
                return
            size = most if rude else min(most, max(0, self.window(stream)))
            part, left = bytes(left[:size]), left[size:]
            self.windows[0] -= len(part)
            self.windows[stream] = self.windows.get(stream, 0) - len(part)
            self.frame(DATA, END_STREAM if end and not left else 0, stream, part)
            if not left:
                return

    def window(self, stream: int) -> int:
        """What the client lets us send there."""
        own = self.settings.get(WINDOW, DEFAULT_WINDOW) + self.windows.get(stream, 0)
        return min(self.windows[0], own)

    def is_reset(self, stream: int) -> bool:
        return stream in self.streams and self.streams[stream].reset is not None

    def reply(self, request: Request, *bodies: bytes, status: int | str = 0, text: str | None = None) -> None:
        """A correct response: headers, messages (one empty one unless told otherwise), trailers."""
        self.raw(self.reply_bytes(request, *bodies, status=status, text=text))

    def reply_bytes(
        self, request: Request, *bodies: bytes, status: int | str = 0, text: str | None = None
    ) -> bytes:
        body = b"".join(map(message, bodies or (b"",)))
        last = self.encoder.encode
        return (
            frame(HEADERS, END_HEADERS, request.stream, last(list(OK_FIELDS)))
            + frame(DATA, 0, request.stream, body)
            + frame(HEADERS, END_HEADERS | END_STREAM, request.stream, last(list(trailers(status, text))))
        )

    def rst(self, stream: int, code: int) -> None:
        self.frame(RST_STREAM, 0, stream, struct.pack(">I", code))

    def goaway(self, last: int, code: int = NO_ERROR, debug: bytes = b"") -> None:
        self.frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + debug)

    def window_update(self, stream: int, increment: int) -> None:
        if stream == 0:
            self.credit += increment
        elif stream in self.streams:
            self.streams[stream].credit += increment
        self.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))

    def abort(self) -> None:
        """Close with a TCP reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
        raise Gone

    def close(self) -> None:
        """Close with a FIN, and let the client close too: a socket closed with something unread in it would
        take back what was said."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Gone from error
        self.linger()

    # what is heard

    def is_look(self) -> bool:
        """The engine's look at an address says an empty SETTINGS; its transports have something to say."""
        start = PREFACE + frame(SETTINGS, 0, 0)
        self._fill(len(start))
        return self.inbox.startswith(start)

    def hear_preface(self) -> None:
        first = self.next()
        assert first.type == SETTINGS, first
        assert not first.flags & ACK, first

    def next(self) -> Frame:
        """The next frame, noted and acknowledged. Raises Gone at the end."""
        if not self.frames:
            self._fill(len(PREFACE))
            assert self.inbox.startswith(PREFACE), bytes(self.inbox[:40])
            del self.inbox[: len(PREFACE)]
        self._fill(9)
        size = int.from_bytes(self.inbox[:3], "big")
        assert size <= 16_384, f"the client sent a frame of {size} bytes"
        kind, flags = self.inbox[3], self.inbox[4]
        stream = int.from_bytes(self.inbox[5:9], "big")
        self._fill(9 + size)
        got = Frame(kind, flags, stream, bytes(self.inbox[9 : 9 + size]))
        del self.inbox[: 9 + size]
        self.frames.append(got)
        self._note(got)
        return got

    def until(self, condition: Callable[[], object]) -> None:
        """Read frames until it is so."""
        while not condition():
            self.next()

    def begun(self, count: int) -> list[Request]:
        """The first `count` requests, once their headers are here."""
        self.until(lambda: len(self.streams) >= count)
        return list(self.streams.values())[:count]

    def whole(self, count: int) -> list[Request]:
        """The first `count` requests, once all of them have ended."""
        self.until(lambda: len(self.ended) >= count)
        return self.ended[:count]

    def each(self) -> Iterator[Request]:
        """Requests, each once its client's side has ended, until the client leaves."""
        given = 0
        try:
            while True:
                while given < len(self.ended):
                    given += 1
                    yield self.ended[given - 1]
                self.next()
        except Gone:
            return

    def linger(self) -> None:
        """Read on until the client leaves."""
        while True:
            self.next()

    def wait(self, event: threading.Event) -> None:
        """Until the test sets it; nothing is read meanwhile."""
        until = time.monotonic() + PATIENCE_S
        while not event.wait(0.05):
            self._check_open(until)

    def _check_open(self, until: float) -> None:
        if self.peer.closing.is_set():
            raise Gone
        assert time.monotonic() < until, f"connection {self.number}: the client did nothing for too long"

    def _fill(self, size: int) -> None:
        until = time.monotonic() + PATIENCE_S
        while len(self.inbox) < size:
            self._check_open(until)
            if select.select([self.sock], [], [], 0.2)[0]:
                self._take_in()

    def _take_in(self) -> None:
        try:
            got = self.sock.recv(1 << 18)
        except OSError as error:
            raise Gone from error
        if not got:
            raise Gone
        self.inbox += got

    def _note(self, got: Frame) -> None:
        if self._block is not None:
            assert got.type == CONTINUATION, f"the client sent {got} inside a header block"
        handler = self._HANDLERS.get(got.type)
        if handler:
            handler(self, got)

    def _note_settings(self, got: Frame) -> None:
        if got.flags & ACK:
            values = self._unacknowledged.pop(0) if self._unacknowledged else {}
            change = values.get(WINDOW, self.initial) - self.initial
            self.initial += change
            for request in self.streams.values():
                request.credit += change
            return
        for at in range(0, len(got.payload), 6):
            name, value = struct.unpack_from(">HI", got.payload, at)
            self.settings[name] = value
        if self.acknowledging:
            self.frame(SETTINGS, ACK)

    def _note_headers(self, got: Frame) -> None:
        assert got.stream % 2 == 1, got
        body = got.payload[5:] if got.flags & PRIORITIZED else got.payload
        self._block = (got.stream, got.flags, bytearray(body))
        self._finish_block(got)

    def _note_continuation(self, got: Frame) -> None:
        assert self._block is not None, got
        assert self._block[0] == got.stream, got
        self._block[2].extend(got.payload)
        self._finish_block(got)

    def _finish_block(self, got: Frame) -> None:
        if not got.flags & END_HEADERS:
            return
        assert self._block is not None
        stream, flags, block = self._block
        self._block = None
        fields = {_text(name): _text(value) for name, value in self.decoder.decode(bytes(block))}
        assert stream > max(self.streams, default=-1), f"stream {stream} was begun out of order"
        self.streams[stream] = Request(stream, fields, credit=self.initial)
        if flags & END_STREAM:
            self._end(self.streams[stream])

    def _end(self, request: Request) -> None:
        request.ended = True
        self.ended.append(request)

    def _note_data(self, got: Frame) -> None:
        request = self.streams[got.stream]
        assert not request.ended, f"DATA on stream {got.stream} after its end"
        request.body += got.payload
        if got.flags & END_STREAM:
            self._end(request)
        request.credit -= len(got.payload)
        self.credit -= len(got.payload)
        assert not got.payload or min(request.credit, self.credit) >= 0, (
            f"the client sent more than its windows allow: {request.credit}, {self.credit}"
        )
        if self.generous and got.payload:
            self.window_update(0, len(got.payload))
            if not request.ended:
                self.window_update(got.stream, len(got.payload))

    def _note_reset(self, got: Frame) -> None:
        assert got.stream in self.streams, f"RST_STREAM on idle stream {got.stream}"
        self.streams[got.stream].reset = int.from_bytes(got.payload, "big")

    def _note_ping(self, got: Frame) -> None:
        if got.flags & ACK:
            self.pongs.append(got.payload)
        elif self.acknowledging:
            self.frame(PING, ACK, 0, got.payload)

    def _note_goaway(self, got: Frame) -> None:
        last, code = struct.unpack_from(">II", got.payload)
        self.goaways.append((last, code, got.payload[8:]))

    def _note_window(self, got: Frame) -> None:
        increment = int.from_bytes(got.payload, "big")
        assert increment > 0, got
        self.windows[got.stream] = self.windows.get(got.stream, 0) + increment

    _HANDLERS: ClassVar[dict[int, Callable[[Connection, Frame], None]]] = {
        SETTINGS: _note_settings,
        HEADERS: _note_headers,
        CONTINUATION: _note_continuation,
        DATA: _note_data,
        RST_STREAM: _note_reset,
        PING: _note_ping,
        GOAWAY: _note_goaway,
        WINDOW_UPDATE: _note_window,
    }


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


# --- the server

Script = Callable[[Connection], None]


class Peer:
    """Listens, and runs the script for each connection. At the end, what went wrong in a script is raised."""

    def __init__(self, script: Script, *, look: Script | None = None) -> None:
        self._script, self._look = script, look or answer_look
        self.connections: list[Connection] = []  # without the looks
        self.looks = 0
        self.closing = threading.Event()
        self._errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, name="adversary", daemon=True)
        self._accepting.start()

    # what was seen, over all connections

    @property
    def requests(self) -> int:
        """Calls the client has begun."""
        return sum(len(connection.streams) for connection in self.connections)

    @property
    def resets(self) -> list[int]:
        """Codes of the streams the client has reset."""
        return [r.reset for c in self.connections for r in c.streams.values() if r.reset is not None]

    @property
    def goaways(self) -> list[int]:
        """Codes of the client's GOAWAYs that name an error."""
        return [code for c in self.connections for _, code, _ in c.goaways if code != NO_ERROR]

    @property
    def errors_said(self) -> set[int]:
        """All that the client has complained of, on streams or connections."""
        return {*self.goaways, *self.resets} - {NO_ERROR, CANCEL}

    # life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()
        if self._errors and kind is None:
            raise self._errors[0]

    def finish(self, seconds: float = 2.0) -> None:
        """Let scripts take in what the client said last: until it has closed its connections."""
        for thread in list(self._threads):
            thread.join(seconds)

    def close(self) -> None:
        self.closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for sock in self._sockets:
            with suppress(OSError):  # wakes who reads from it; it may be closed already
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a script did not end"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                connection = Connection(self, sock)
                if connection.is_look():
                    self.looks += 1
                    self._look(connection)
                    return
                with self._lock:
                    self.connections.append(connection)
                    connection.number = len(self.connections)
                self._script(connection)
            except Gone:
                pass
            except BaseException as error:
                self._errors.append(error)


def answer_look(connection: Connection) -> None:
    connection.greet()
    connection.linger()


# --- scripts made of one step


def each(answer: Callable[[Connection, Request], None], values: dict[int, int] | None = None) -> Script:
    """A good server but for how it answers a request."""

    def script(connection: Connection) -> None:
        connection.greet(values)
        for request in connection.each():
            answer(connection, request)

    return script


def together(
    count: int, act: Callable[[Connection, list[Request]], None], values: dict[int, int] | None = None
) -> Script:
    """What is done once, when so many requests are there; then it listens on. Later connections are
    answered as a good server does."""

    def script(connection: Connection) -> None:
        connection.greet(values)
        if connection.number == 1:
            act(connection, connection.whole(count))
            connection.linger()
        for request in connection.each():
            connection.reply(request)

    return script
