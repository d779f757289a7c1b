"""Metadata of calls: what gRPC allows on the wire, and how the shell writes it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from grpcperf.errors import InvalidRequest
from grpcperf.units import shown

RESERVED = {"te", "content-type", "user-agent", "host", "connection", "transfer-encoding", "upgrade"}


def check_metadata(metadata: Any) -> dict[str, str | bytes]:
    """Metadata with lower-case keys, and values as gRPC has them: bytes where the key ends in "-bin" (base64
    on the wire), printable ASCII elsewhere. Raises InvalidRequest."""
    if not isinstance(metadata, Mapping):
        raise InvalidRequest(f"metadata must be a dict of texts, not {shown(metadata)}")
    checked: dict[str, str | bytes] = {}
    for given, value in metadata.items():
        key = given.lower() if isinstance(given, str) else ""
        if not re.fullmatch(r"[0-9a-z_.-]+", key):
            raise InvalidRequest(f"metadata key {shown(given)} must be of the characters a-z 0-9 _ . -")
        if key.startswith("grpc-") or key in RESERVED:
            raise InvalidRequest(f"metadata key {given!r} is reserved by gRPC")
        if key in checked:
            raise InvalidRequest(f"metadata key {given!r} is given twice")
        checked[key] = _binary(key, value) if key.endswith("-bin") else _text(key, value)
    return checked


def _binary(key: str, value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise InvalidRequest(
        f"metadata {key!r} is binary, for its key ends in -bin: it must be bytes, not {shown(value)}"
    )


def _text(key: str, value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and re.fullmatch(r"(?:[!-~](?:[ -~]*[!-~])?)?", text):
        return text
    hint = "; keys of binary metadata end in -bin" if isinstance(value, (bytes, bytearray)) else ""
    raise InvalidRequest(
        f"metadata {key!r} must be printable ASCII without spaces at its ends, not {shown(value)}{hint}"
    )


def from_shell(pairs: Mapping[str, str]) -> dict[str, str | bytes]:
    """What the shell gives: binary values are in base64 (RFC 4648, 4), padded or not. Raises
    InvalidRequest."""
    return {key: _decoded(key, text) if key.lower().endswith("-bin") else text for key, text in pairs.items()}


def _decoded(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"metadata {key}: {text!r} is not base64, which its -bin asks for") from None
