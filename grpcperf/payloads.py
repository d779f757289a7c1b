"""The request messages of a load: one, or a pool that each message is drawn from, encoded before the run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Set
from typing import Any

from grpcperf import units
from grpcperf.errors import InvalidRequest

# Of a pool: its messages lie in memory, framed, as long as the run lasts.
MOST_MESSAGES = 1_000_000
MOST_BYTES = units.GIB


def serialized(request: Any) -> bytes | tuple[bytes, ...]:
    """The bytes of a request, or of each of a pool. Raises InvalidRequest naming what is none."""
    if (message := _message(request, "request")) is not None:
        return message
    if not isinstance(request, Iterable) or isinstance(request, (str, Set)):
        hint = ", for a set has no order" if isinstance(request, Set) else ""
        raise InvalidRequest(
            f"request must be bytes, a protobuf message or a list of these{hint}, not {units.shown(request)}"
        )
    messages: list[bytes] = []
    for i, one in enumerate(itertools.islice(request, MOST_MESSAGES + 1)):
        if (message := _message(one, name := f"request[{i}]")) is None:
            raise InvalidRequest(f"{name} must be bytes or a protobuf message, not {units.shown(one)}")
        messages.append(message)
    check_pool([len(message) for message in messages], "request")
    return messages[0] if len(messages) == 1 else tuple(messages)


def sizes(given: Any, name: str) -> int | tuple[int, ...]:
    """A size in bytes, or that of each request of a pool. Raises InvalidRequest."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, bytearray, memoryview, Set)):
        return units.size_bytes(given, name)
    several = itertools.islice(given, MOST_MESSAGES + 1)
    checked = tuple(units.size_bytes(one, f"{name}[{i}]") for i, one in enumerate(several))
    check_pool(checked, name)
    return checked[0] if len(checked) == 1 else checked


def check_pool(lengths: Iterable[int], name: str) -> None:
    """Raise InvalidRequest for a pool that is empty, or more than fits into memory."""
    count, total = 0, 0
    for length in lengths:
        count, total = count + 1, total + length
    if count == 0:
        raise InvalidRequest(f"{name} is a pool without a request; give one at least")
    if count > MOST_MESSAGES or total > MOST_BYTES:
        raise InvalidRequest(
            f"{name}: a pool is encoded before the run and holds at most {MOST_MESSAGES:,} requests of "
            f"{units.format_bytes(MOST_BYTES)} together"
        )


def _message(request: Any, name: str) -> bytes | None:
    """None: it is no message."""
    if isinstance(request, (bytes, bytearray, memoryview)):
        return bytes(request)
    if isinstance(request, dict):
        raise InvalidRequest(
            f"{name} must be bytes or a protobuf message: a dict needs descriptors, not built yet"
        )
    if not hasattr(request, "SerializeToString"):
        return None
    try:
        return bytes(request.SerializeToString())
    except Exception as error:  # protobuf's EncodeError, for a required field that is missing
        raise InvalidRequest(f"{name} cannot be serialized: {error}") from None
