"""What is measured: an address, and perhaps a process behind it. Target is somebody else's server."""

from __future__ import annotations

import os
import re
import select
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import InvalidRequest
from grpcperf.memstats import MemStats
from grpcperf.targets.expvar import check_url, read_memory
from grpcperf.tls import TLS, require_tls

_ANSWER_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What a server's handlers have been doing since it started, counted in calls but for
    `work_after_cancel_us`.

    `running` and `peak_running` count handlers that are past the limits; a handler counts as finished before
    its answer is queued. `queued` are calls that wait in a limit or for a thread of a pool. `rejected` ended
    before a handler began: for want of room, by a rate, of these `pruned` for want of time and
    `threads_exhausted` because the system gave no thread. `degraded` got a cheap answer instead of a handler.
    `work_after_cancel_us` is time that handlers went on after their call had been cancelled.
    """

    running: int
    peak_running: int
    parked: int
    queued: int
    started: int
    finished: int
    rejected: int
    cancelled: int
    deadline_exceeded: int
    work_after_cancel_us: int
    pruned: int = 0
    degraded: int = 0
    threads_exhausted: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class Measurable(ABC):
    """What load, hold and Sampler need of a target. `pid` is None when the process is not known."""

    address: str
    authority: str | None = None
    tls: TLS | None = None  # what a client of it needs; None: plaintext
    pid: int | None = None
    has_counters = False  # whether counters() has an answer
    closed = False
    _asked: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """What it was made with is kept: it says what a sweep's function measures (grpcperf.identity)."""
        made = super().__new__(cls)
        made._asked = args, kwargs
        return made

    @abstractmethod
    def memstats(self, settle: bool = False) -> MemStats: ...

    @abstractmethod
    def counters(self) -> Counters: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def release(self) -> None:
        """Let every parked call go."""

    def peek(self, timeout: float) -> Mapping[str, int | float]:
        """What the server itself says right now: the names of MemStats and Counters; empty where it has no
        voice."""
        return {}

    @property
    @abstractmethod
    def pidfd(self) -> int:
        """A descriptor that is readable once the process is dead; -1 when there is none. The target owns
        it."""

    @abstractmethod
    def death(self) -> str | None:
        """Why the process is dead ("killed by SIGKILL"), or None while it lives or is not known."""

    @abstractmethod
    def require_usable(self) -> None:
        """Raise when it can no longer be measured: closed, dead, or another process's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Target(Measurable):
    """Somebody else's server, at "host:port", "[ipv6]:port" or "unix:/path".

    `pid` is its process, when that runs here: for memory, CPU, and to notice its death. `expvar`: the URL at
    which a Go program publishes its memory, as "http://127.0.0.1:8080/debug/vars", wherever it runs. `tls`:
    how to call it. `authority` overrides what the address implies. Raises InvalidRequest. Nothing is
    connected before a measurement.
    """

    _pidfd = -1

    def __init__(
        self,
        address: str,
        *,
        tls: TLS | None = None,
        authority: str | None = None,
        pid: int | None = None,
        expvar: str | None = None,
    ) -> None:
        self.tls = require_tls(tls)
        self.address = check_address(address)
        self.authority = check_authority(authority)
        self._expvar = None if expvar is None else check_url(expvar)
        self.pid = None if pid is None else units.count(pid, "pid", high=2**22)
        if self.pid is not None:
            self._pidfd = _open_process(self.pid)

    @property
    def pidfd(self) -> int:
        return self._pidfd

    def memstats(self, settle: bool = False) -> MemStats:
        """What the kernel says of the process (`sys` is its writable mappings), and what it publishes itself.

        `settle` has no effect on a foreign process. Raises InvalidRequest without pid= and expvar=,
        ServerDied when it is gone, EngineError when what it publishes cannot be read.
        """
        if self.pid is None and self._expvar is None:
            raise InvalidRequest(
                f"memstats of {self.address}: the process is not known; give pid= to gp.Target (or --pid)"
            )
        inside = self.peek(_ANSWER_S)
        if self.pid is None:
            return MemStats.from_process({}, inside)
        with translated():
            return MemStats.from_process(process_sample(self.pid, maps=True), inside)

    def peek(self, timeout: float) -> dict[str, int | float]:
        return {} if self._expvar is None else read_memory(self._expvar, timeout)

    def counters(self) -> Counters:
        raise InvalidRequest(
            f"counters of {self.address}: only servers started by grpcperf count their handlers"
        )

    def release(self) -> None:
        raise InvalidRequest(f"release of {self.address}: only servers started by grpcperf can; use cancel()")

    def death(self) -> str | None:
        if self._pidfd < 0:
            return None
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return "ended (its exit is not ours to see)" if poll.poll(0) else None

    def require_usable(self) -> None:
        """A foreign target can always be tried: the probe tells what is wrong."""

    def close(self) -> None:
        """Let go of it; the server itself is left alone."""
        self.closed = True

    def __del__(self) -> None:  # not in close(): a load that still runs watches the descriptor
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def __repr__(self) -> str:
        about = (" with TLS" if self.tls else "") + (f" pid {self.pid}" if self.pid else "")
        return f"<Target {self.address}{about}>"


def as_target(target: Measurable | str) -> Measurable:
    """A target from itself or its address. Raises InvalidRequest."""
    return Target(target) if isinstance(target, str) else _required(target)


def _required(target: object) -> Measurable:
    if isinstance(target, Measurable):
        return target
    raise InvalidRequest(
        f'target must be a server or an address such as "127.0.0.1:50051", not {units.shown(target)}'
    )


def check_address(address: object) -> str:
    """The address as given, when it has the form of one. Raises InvalidRequest."""
    if isinstance(address, str) and address.strip().isprintable():
        text = address.strip()
        if text.startswith("unix:") and len(text) > len("unix:"):
            return text
        host, colon, port = text.rpartition(":")
        plain = ":" not in host or (host.startswith("[") and host.endswith("]"))
        if host and colon and plain and "/" not in host and port.isascii() and port.isdigit():
            units.count(port, f"port of {text}", high=65_535)
            return text
    raise InvalidRequest(
        f'address must be "host:port", "[ipv6]:port" or "unix:/path", not {units.shown(address)}'
    )


def check_authority(authority: object) -> str | None:
    """What a client says that it calls. Raises InvalidRequest."""
    if authority is None or (isinstance(authority, str) and re.fullmatch(r"[!-~]{1,512}", authority)):
        return authority
    raise InvalidRequest(
        f"authority must be a text such as 'host:port', without spaces, not {units.shown(authority)}"
    )


def engine_tls(target: Measurable) -> dict[str, Any] | None:
    """The Tls of _engine.pyi. The certificate must be for :authority, when that was chosen."""
    if target.tls is None:
        return None
    opts = target.tls.engine_opts()
    if opts["server_name"] is None and target.authority is not None:
        opts["server_name"] = host_of(target.authority)
    return opts


def host_of(address: str) -> str:
    """The host in "host:port" or "[ipv6]:port"; the port may be missing."""
    host, colon, _ = address.rpartition(":")
    if not colon or "]" in address[len(host) :] or (":" in host and not host.endswith("]")):
        host = address  # no port: a name, or an IPv6 address
    return host.removeprefix("[").removesuffix("]")


def process_sample(pid: int, *, maps: bool = False, pss: bool = True) -> dict[str, int | float]:
    """A full reading of a process. Context switches are a file for each thread, so a thousand threads cost 20
    ms; the memory of sockets is a pass over all those of the machine."""
    return _engine.process_sample(pid, pss=pss, maps=maps, switches=True, fds=True, socket_bytes=True)


def _open_process(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise InvalidRequest(f"pid={pid}: there is no such process") from None
    except OSError:  # no right to, or a kernel before 5.3: its death then goes unnoticed
        return -1
