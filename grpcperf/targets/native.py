"""What our own servers have in common: a child process and its control channel."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import EngineError, Error, InvalidRequest, ServerDied
from grpcperf.memstats import MemStats
from grpcperf.targets.allocations import Counting
from grpcperf.targets.child import ChildTarget, check_env, executable
from grpcperf.targets.target import Counters, process_sample
from grpcperf.threads import require_cpus
from grpcperf.values import check_cpus

_FILES_FD = 4  # where a child finds the first file that it is handed (csrc/process/child.h)
ANSWER_S = 10.0  # settling takes up to 2 s, and 10,000 stacks are looked at page by page
STOPPED_S = 2.5  # after that it may be stopped

_T = TypeVar("_T")


class NativeChild(ChildTarget):
    """An executable of ours that listens, on the loopback interface unless told otherwise, for as long as
    this process wants it.

    A class of it names the executable, says what it is in `_title` ("native server"), and calls `_start` with
    its own arguments.
    """

    has_counters = True
    versions: str
    _executable: str
    _counting: Counting | None = None  # of its allocations, when these are asked for
    _socket: tuple[str, int] | None = None  # of a Unix socket: path, and since when it is there

    def _start(
        self,
        arguments: Iterable[str] = (),
        *,
        listen: str = "127.0.0.1",
        port: int = 0,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """`files`: options whose value is a file, and what is in it. It is in the child's memory alone, for
        a key must not be on a disk or a command line."""
        number = units.count(port, "port", low=0, high=65_535)
        host = check_listen(listen)
        if host.startswith("unix:") and number:
            raise InvalidRequest(f"port={number} contradicts listen={host!r}: a Unix socket has none")
        argv = [str(executable(self._executable)), "--control", "3"]
        argv += ["--listen", host if host.startswith("unix:") else f"{host}:{number}", *arguments]
        for descriptor, option in enumerate(files or {}, start=_FILES_FD):
            argv += [option, f"/proc/self/fd/{descriptor}"]
        if (allowed := check_cpus(cpus)) is not None:
            require_cpus(allowed)
            argv += ["--cpus", ",".join(map(str, allowed))]
        environment = {**os.environ, **check_env(env)}
        if self._counting is not None:
            environment = self._counting.environment(environment)
        ready = self._spawn(argv, environment, (files or {}).values())
        if self._counting is not None and (why := self._counting.missing(ready["pid"])):
            self._give_up()
            raise EngineError(f"count_allocations of the {self._title}: {why}")
        self.address = host if host.startswith("unix:") else f"{_reached(host)}:{ready['port']}"
        if host.startswith("unix:"):
            path = host.removeprefix("unix:")
            try:
                self._socket = (path, os.stat(path).st_mtime_ns)
            except OSError as error:
                self._give_up()
                raise EngineError(f"{path}: its socket is gone: {error.strerror}") from None
        self.versions = ready["versions"]

    # --- what it says of itself

    def memstats(self, settle: bool = False) -> MemStats:
        """Its memory, from inside and from the kernel. `settle`: trim the heap and let the numbers come to
        rest first, for at most 2 s; `.settled` says whether they did."""
        inside = self._ask_patiently(lambda child, timeout: child.memstats(settle, timeout))
        outside = self._ask(lambda child: process_sample(child.pid))
        return MemStats.from_native(inside | self._counted(), outside)

    def counters(self) -> Counters:
        """What its handlers have been doing, read at one moment."""
        return Counters(**self._ask_patiently(lambda child, timeout: child.counters(timeout)))

    def peek(self, timeout: float) -> dict[str, int | bool]:
        memory = self._ask(lambda child: child.memstats(False, timeout)) | self._counted()
        return memory | self._ask(lambda child: child.counters(timeout))

    def _counted(self) -> dict[str, int]:
        """What MemStats has by the exact counts; heap_alloc is then live bytes, as C's malloc_usable_size has
        them."""
        counted = self._counting.read(self.pid) if self._counting and self.pid else None
        return counted or {}

    def release(self) -> None:
        """Let every parked call go, and those that still wait for their handler: they do not park any more.
        Returns when all were told."""
        self._ask(lambda child: child.release(ANSWER_S))

    def reset_peaks(self) -> None:
        """Start peak_running anew from what is running now."""
        self._ask(lambda child: child.reset_peaks(ANSWER_S))

    def _ask_patiently(self, question: Callable[[_engine.Child, float], _T]) -> _T:
        """For ANSWER_S, unless it is stopped: then it will not answer."""
        try:
            return self._ask(lambda child: question(child, STOPPED_S))
        except EngineError:
            if self._is_stopped():
                raise EngineError(
                    f"{self!r} does not answer: it is stopped (SIGSTOP, a debugger?); the kernel still tells "
                    f'of it: gp.Target("{self.address}", pid={self.pid}).memstats(), and a gp.Sampler'
                ) from None
            return self._ask(lambda child: question(child, ANSWER_S - STOPPED_S))

    def _is_stopped(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rsplit(")", 1)[1].split()[0] in ("T", "t")
        except (OSError, IndexError):
            return False

    def _ask(self, question: Callable[[_engine.Child], _T]) -> _T:
        self.require_usable()
        assert self._child is not None
        try:
            with translated():
                return question(self._child)
        except ServerDied:
            try:
                self.require_usable()
            except Error as told:  # the same with its reason, where it is known by now
                raise told from None
            raise

    def close(self) -> None:
        super().close()
        if self._counting is not None:
            self._counting.close()
        if self._socket is not None and os.getpid() == self._owner:
            _remove(*self._socket)

    def _last_words(self, child: _engine.Child) -> str:
        """The last line it wrote in its own name, before its usage say; else the last of all."""
        lines = child.tail(2).strip().splitlines()
        own = [line for line in lines if line.startswith(self._executable)]
        return (own or lines or [""])[-1]


def check_listen(listen: object) -> str:
    """What is to be listened on: an IP address or "localhost" as it stands before a port, or "unix:/path".
    Raises InvalidRequest."""
    if isinstance(listen, str):
        if listen.startswith("unix:/") and "\0" not in listen:
            return listen
        plain = listen.removeprefix("[").removesuffix("]")
        if re.fullmatch(r"[0-9a-fA-F:]*:[0-9a-fA-F:.]*", plain):
            return f"[{plain}]"
        if re.fullmatch(r"[A-Za-z0-9.-]+", listen):
            return listen
    raise InvalidRequest(
        'listen must be an IP address such as "127.0.0.1" or "::1", or "unix:/path", '
        f"not {units.shown(listen)}"
    )


def _remove(path: str, since_ns: int) -> None:
    """Remove a Unix socket, unless it is somebody else's by now; inodes would not tell, they come again."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_mtime_ns == since_ns:
            os.unlink(path)


def _reached(host: str) -> str:
    """Where what listens on `host` is reached from here: any address means also the loopback one."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
