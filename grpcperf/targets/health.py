"""Readiness by gRPC's health protocol: one call of grpc.health.v1.Health/Check, over a connection of its own.

As much of HTTP/2 (RFC 9113) and HPACK (RFC 7541) as one call takes. The answer's message decides, and nothing
else does, so header blocks are not read: https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import TYPE_CHECKING

from grpcperf.targets.target import host_of

if TYPE_CHECKING:
    import ssl

    from grpcperf.tls import TLS

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _END_HEADERS, _PADDED, _ACK = 1, 4, 8, 1
_STATES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
NO_SERVICE = "no state (does it have the service grpc.health.v1.Health?)"


def check_health(address: str, authority: str | None, tls: TLS | None, timeout_s: float) -> str:
    """What the server at "host:port" or "unix:/path" answers for itself as a whole: "SERVING" or another
    state of the protocol, NO_SERVICE when it ends the call without one. Raises OSError, also for TLS and
    when the time is over."""
    end = time.monotonic() + timeout_s
    with _connected(address, tls, timeout_s) as connection:
        connection.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _call(authority or address, tls))
        return _answer(connection, end)


def _connected(address: str, tls: TLS | None, timeout_s: float) -> socket.socket:
    if address.startswith("unix:"):
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(timeout_s)
        try:
            plain.connect(address.removeprefix("unix:"))
        except OSError:
            plain.close()
            raise
    else:
        plain = socket.create_connection((host_of(address), int(address.rpartition(":")[2])), timeout_s)
    if tls is None:
        return plain
    try:
        return _context(tls).wrap_socket(plain, server_hostname=tls.server_name or host_of(address))
    except BaseException:
        plain.close()
        raise


def _context(tls: TLS) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context(cadata=None if tls.ca is None else _pem(tls.ca))
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if tls.cert is not None and tls.key is not None:
        _load_certificate(context, f"{_pem(tls.cert)}\n{_pem(tls.key)}")
    return context


def _pem(text: object) -> str:
    return str(text)  # a path was read when the TLS was made


def _load_certificate(context: ssl.SSLContext, text: str) -> None:
    """The ssl module reads keys from files only: this one is in memory."""
    descriptor = os.memfd_create("grpcperf-key", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _call(authority: str, tls: TLS | None) -> bytes:
    """A HEADERS frame, each field a literal without indexing, and an empty request (all of the server)."""
    fields = (
        (":method", "POST"),
        (":scheme", "https" if tls else "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", "localhost" if authority.startswith("unix:") else authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    )
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
    return _frame(_HEADERS, _END_HEADERS, 1, block) + _frame(_DATA, _END_STREAM, 1, bytes(5))


def _text(text: str) -> bytes:
    """RFC 7541, section 5.2: not Huffman-coded; lengths over 126 take a second byte."""
    data = text.encode("ascii", "replace")[:254]
    length = bytes([len(data)]) if len(data) < 127 else bytes([127, len(data) - 127])
    return length + data


def _answer(connection: socket.socket, end: float) -> str:
    message = b""
    while True:
        kind, flags, stream, payload = _next_frame(connection, end)
        if kind == _SETTINGS and not flags & _ACK:
            connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        if kind == _DATA and stream == 1:
            message += _unpadded(payload) if flags & _PADDED else payload
            if len(message) >= 5 and len(message) - 5 >= int.from_bytes(message[1:5], "big"):
                return _state(message[5 : 5 + int.from_bytes(message[1:5], "big")])
        ended = kind in (_DATA, _HEADERS) and flags & _END_STREAM
        if kind == _GOAWAY or (stream == 1 and (ended or kind == _RST_STREAM)):
            return NO_SERVICE


def _unpadded(payload: bytes) -> bytes:
    """RFC 9113, section 6.1: how much padding comes first."""
    if not payload or payload[0] >= len(payload):
        raise ConnectionError("it does not speak HTTP/2")
    return payload[1 : len(payload) - payload[0]]


def _state(message: bytes) -> str:
    """HealthCheckResponse: field 1, an enum."""
    number = message[1] if len(message) >= 2 and message[0] == 0x08 else 0
    return _STATES[number] if number < len(_STATES) else str(number)


def _next_frame(connection: socket.socket, end: float) -> tuple[int, int, int, bytes]:
    head = _read(connection, 9, end)
    kind, flags, stream = struct.unpack(">BBI", head[3:])
    size = int.from_bytes(head[:3], "big")
    if size > 2**14:
        raise ConnectionError("it does not speak HTTP/2")
    return kind, flags, stream & 0x7FFFFFFF, _read(connection, size, end)


def _read(connection: socket.socket, size: int, end: float) -> bytes:
    data = b""
    while len(data) < size:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer")
        connection.settimeout(left)
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("it closed the connection")
        data += piece
    return data
