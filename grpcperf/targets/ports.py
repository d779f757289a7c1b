"""Addresses on this machine: ports that are free, and whether something listens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import overload

from grpcperf.errors import EngineError
from grpcperf.targets.target import host_of

_TRY_S = 0.5  # for one try to connect


class Ports:
    """The free ports that stand for {port}, {port2}, ... in the texts of one process."""

    def __init__(self) -> None:
        self._chosen: dict[str, int] = {}

    @overload
    def fill(self, text: str) -> str: ...
    @overload
    def fill(self, text: None) -> None: ...
    def fill(self, text: str | None) -> str | None:
        if not isinstance(text, str):
            return text
        return re.sub(r"\{(port(?:[1-9]\d?)?)\}", lambda match: str(self._port(match[1])), text)

    def _port(self, name: str) -> int:
        if name not in self._chosen:
            self._chosen[name] = free_port(taken=self._chosen.values())
        return self._chosen[name]


def can_connect(address: str) -> bool:
    """Whether something accepts a connection at "host:port" or "unix:/path" now."""
    import socket

    try:
        if address.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as tried:
                tried.settimeout(_TRY_S)
                tried.connect(address.removeprefix("unix:"))
                return True
        port = int(address.rpartition(":")[2])
        with socket.create_connection((host_of(address), port), timeout=_TRY_S) as tried:
            return bool(tried.getsockname() != tried.getpeername())  # TCP can meet itself on a free port
    except OSError:
        return False


def free_port(taken: Iterable[int] = ()) -> int:
    """A TCP port that nobody uses now, of those that the kernel does not take for outgoing connections: one
    of these could be in use again before the command listens."""
    import random

    low, high = _ephemeral_ports()
    choices = range(10_000, low) if low > 12_000 else range(high + 1, 65_536)
    for _ in range(1_000):
        port = random.choice(choices) if choices else 0
        if port not in taken and (bound := _try_port(port)):
            return bound
    raise EngineError(f"no free TCP port was found from {choices.start} to {choices.stop - 1}")


def _ephemeral_ports() -> tuple[int, int]:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            low, high = map(int, file.read().split())
            return low, high
    except (OSError, ValueError):
        return 32_768, 60_999


def _try_port(port: int) -> int | None:
    import socket

    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return None
        return int(tried.getsockname()[1])
