"""Keepalive: how a peer that has vanished is noticed, and how long connections last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from grpcperf import units
from grpcperf.errors import InvalidRequest
from grpcperf.targets.channel_args import refuse_twice

_MOST_S = 2_147_483.0  # gRPC counts milliseconds in 32 bits
_LEAST_OF_CORE_S = 1.0
_MOST_TCP_S = 32_767  # the kernel's bounds
_MOST_TCP_PROBES = 127
_TCP = ("tcp_idle", "tcp_interval", "tcp_probes")
_OF_SERVERS = ("max_idle", "max_age", "max_age_grace")


@dataclass(frozen=True, kw_only=True)
class Keepalive:
    """gRPC's keepalive, which is HTTP/2's PING, and TCP's. Durations are seconds or "200ms", "10s"; None
    leaves each to its default. Raises InvalidRequest.

    `time`: a connection that has been quiet for so long is asked by a PING (a C-core client's: 1 s or more);
    `timeout`: how long the answer may take before the connection is given up (20 s). `permit_without_calls`:
    also while it has no call; a server then also bears such PINGs of its clients.

    Of servers alone: `max_idle`: a connection without a call is closed after once to twice this time.
    `max_age`: after it (give or take 10 %) a connection is told to go, and `max_age_grace` later it is
    closed; each needs the other.

    TCP's own, of servers and of transport "wire", in whole seconds: after `tcp_idle` of silence a probe,
    every `tcp_interval` another, and after `tcp_probes` without an answer the connection is dead. What is
    left out is the kernel's.
    """

    time: float | str | None = None
    timeout: float | str | None = None
    max_idle: float | str | None = None
    max_age: float | str | None = None
    max_age_grace: float | str | None = None
    permit_without_calls: bool = False
    tcp_idle: float | str | None = None
    tcp_interval: float | str | None = None
    tcp_probes: int | None = None

    def __post_init__(self) -> None:
        for name in ("time", "timeout", *_OF_SERVERS):
            if (value := getattr(self, name)) is not None:
                self._set(name, units.seconds(value, f"Keepalive {name}", low=1e-3, high=_MOST_S))
        for name in ("tcp_idle", "tcp_interval"):
            if (value := getattr(self, name)) is not None:
                self._set(name, _whole_seconds(value, f"Keepalive {name}"))
        if self.tcp_probes is not None:
            self._set(
                "tcp_probes", units.count(self.tcp_probes, "Keepalive tcp_probes", high=_MOST_TCP_PROBES)
            )
        if not isinstance(self.permit_without_calls, bool):
            raise InvalidRequest(
                "Keepalive permit_without_calls must be True or False, "
                f"not {units.shown(self.permit_without_calls)}"
            )
        self._check_whole()

    def _check_whole(self) -> None:
        if all(getattr(self, field.name) == field.default for field in fields(self)):
            raise InvalidRequest("Keepalive() says nothing: give a time, or leave keepalive out")
        if self.timeout is not None and self.time is None:
            raise InvalidRequest("Keepalive timeout needs time: without one there is no PING to be answered")
        if (self.max_age is None) != (self.max_age_grace is None):
            raise InvalidRequest(
                "Keepalive max_age and max_age_grace need each other: without a grace an old connection "
                "lives on for as long as it has a call"
            )

    def server_args(self) -> dict[str, int | str]:
        """As a server's channel arguments."""
        return self._ping_args() | {
            f"grpc.max_connection_{name.removeprefix('max_')}_ms": _ms(getattr(self, name))
            for name in _OF_SERVERS
            if getattr(self, name) is not None
        }

    def client_args(self) -> dict[str, int | str]:
        """As a C-core client's channel arguments; gRPC's client would stop after two PINGs without data."""
        return self._ping_args() | {"grpc.http2.max_pings_without_data": 0}

    def wire_opts(self) -> tuple[float, float, bool, int, int, int]:
        """As a wire client's: see Client in _engine.pyi."""
        numbers = [float(value or 0) for value in (self.time, self.timeout)]
        tcp = [int(value or 0) for value in (self.tcp_idle, self.tcp_interval, self.tcp_probes)]
        return (numbers[0], numbers[1], self.permit_without_calls, tcp[0], tcp[1], tcp[2])

    def tcp_option(self) -> str | None:
        """The server's --tcp-keepalive; None: TCP is left alone."""
        values = [getattr(self, name) for name in _TCP]
        return None if values == [None] * 3 else ":".join(str(value or 0) for value in values)

    def _ping_args(self) -> dict[str, int | str]:
        args: dict[str, int | str] = {}
        if self.time is not None:
            args["grpc.keepalive_time_ms"] = _ms(self.time)
        if self.timeout is not None:
            args["grpc.keepalive_timeout_ms"] = _ms(self.timeout)
        if self.permit_without_calls:
            args["grpc.keepalive_permit_without_calls"] = 1
        return args

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def require_keepalive(keepalive: object) -> Keepalive | None:
    """A Keepalive or None. Raises InvalidRequest for anything else."""
    if keepalive is None or isinstance(keepalive, Keepalive):
        return keepalive
    raise InvalidRequest(
        f'keepalive must be a gp.Keepalive, as gp.Keepalive(time="10s"), not {units.shown(keepalive)}'
    )


def check_of_client(keepalive: object, channel_args: Mapping[str, Any], transport: str) -> None:
    """Raise InvalidRequest for a Keepalive that a load with this transport cannot have."""
    wanted = require_keepalive(keepalive)
    if wanted is None:
        return
    _leave_out(wanted, _OF_SERVERS, "it is of servers")
    if wanted.permit_without_calls and wanted.time is None:
        raise InvalidRequest("keepalive of a client: permit_without_calls needs time=")
    if transport != "core":
        return
    _leave_out(wanted, _TCP, "C core sets none on its clients' sockets; transport='wire' does")
    if float(wanted.time or 0) < _LEAST_OF_CORE_S:
        raise InvalidRequest(
            "keepalive of transport 'core' needs time= of at least 1 s: C core's client waits so long "
            "between PINGs; transport='wire' does not"
        )
    refuse_twice(channel_args, wanted.client_args(), "keepalive")


def _leave_out(keepalive: Keepalive, names: Iterable[str], why: str) -> None:
    for name in names:
        if getattr(keepalive, name) is not None:
            raise InvalidRequest(f"keepalive of a client: leave {name} out, {why}")


def _ms(seconds: Any) -> int:
    return max(1, round(float(seconds) * 1000))


def _whole_seconds(value: Any, name: str) -> int:
    number = units.seconds(value, name, low=1, high=_MOST_TCP_S)
    if number != int(number):
        raise InvalidRequest(f"{name} must be whole seconds, as the kernel has it, not {units.shown(value)}")
    return int(number)
