"""What our own servers have in common: a child process and its control channel."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import EngineError, Error, InvalidRequest, ServerDied
from grpcperf.memstats import MemStats
from grpcperf.spec import check_cpus
from grpcperf.targets.target import Counters, Measurable, process_sample

if TYPE_CHECKING:
    from pathlib import Path

READY_S = 10.0
_FILES_FD = 4  # where a child finds the first file that it is handed (csrc/process/child.h)
ANSWER_S = 10.0  # settling takes up to 2 s, and 10,000 stacks are looked at page by page

_T = TypeVar("_T")
_live: weakref.WeakSet[NativeChild] = weakref.WeakSet()


class NativeChild(Measurable):
    """An executable of ours that listens, on the loopback interface unless told otherwise, for as long as
    this process wants it.

    A class of it names the executable, says what it is in `_title` ("native server"), and calls `_start` with
    its own arguments.
    """

    has_counters = True
    versions: str
    _executable: str
    _title: str
    _socket: tuple[str, int] | None = None  # of a Unix socket: path, and since when it is there
    _child: _engine.Child | None = None  # until it is started, and for good when that fails

    def __init__(self) -> None:
        self._owner = os.getpid()

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
            argv += ["--cpus", ",".join(map(str, allowed))]
        environment = {**os.environ, **_check_env(env)}
        _require_encodable(argv)
        with translated():
            self._child = _engine.Child(argv, environment, list((files or {}).values()))
        try:
            with translated():
                ready = self._child.ready(READY_S)
        except BaseException as error:
            words = self._last_words(self._child)
            self._child.close(0.0)
            self.closed = True
            if isinstance(error, ServerDied) and words:
                raise EngineError(f"the {self._title} did not start: {words}") from None
            raise
        self.pid = self._child.pid
        self.address = host if host.startswith("unix:") else f"{_reached(host)}:{ready['port']}"
        if host.startswith("unix:"):
            path = host.removeprefix("unix:")
            self._socket = (path, os.stat(path).st_mtime_ns)
        self.versions = ready["versions"]
        _live.add(self)

    # --- what it says of itself

    def memstats(self, settle: bool = False) -> MemStats:
        """Its memory, from inside and from the kernel. `settle`: trim the heap and let the numbers come to
        rest first, for at most 2 s; `.settled` says whether they did."""
        inside = self._ask(lambda child: child.memstats(settle, ANSWER_S))
        outside = self._ask(lambda child: process_sample(child.pid))
        return MemStats.from_native(inside, outside)

    def counters(self) -> Counters:
        """What its handlers have been doing, read at one moment."""
        return Counters(**self._ask(lambda child: child.counters(ANSWER_S)))

    def peek(self, timeout: float) -> dict[str, int | bool]:
        memory = self._ask(lambda child: child.memstats(False, timeout))
        return memory | self._ask(lambda child: child.counters(timeout))

    def release(self) -> None:
        """Let every parked call go; returns when all were told."""
        self._ask(lambda child: child.release(ANSWER_S))

    def reset_peaks(self) -> None:
        """Start peak_running anew from what is running now."""
        self._ask(lambda child: child.reset_peaks(ANSWER_S))

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

    # --- its life

    @property
    def pidfd(self) -> int:
        return -1 if self._child is None or self.closed else self._child.pidfd

    def death(self) -> str | None:
        """Why it is dead ("killed by SIGKILL", "exited with code 1"), or None while it lives."""
        if self._child is None:
            return "never started"
        with translated():
            return self._child.dead()

    def require_usable(self) -> None:
        if os.getpid() != self._owner:
            raise EngineError(
                f"{self!r} belongs to process {self._owner}, which forked this one; make a server here"
            )
        if self.closed or self._child is None:
            raise InvalidRequest(f"{self!r}: it cannot be used any more")
        if reason := self.death():
            words = self._last_words(self._child)
            last = f"; its last words: {words}" if words else ""
            raise ServerDied(f"the server at {self.address} (pid {self.pid}) died: {reason}{last}")

    def _last_words(self, child: _engine.Child) -> str:
        """The last line it wrote in its own name, before its usage say; else the last of all."""
        lines = child.stderr_tail().strip().splitlines()
        own = [line for line in lines if line.startswith(self._executable)]
        return (own or lines or [""])[-1]

    def close(self) -> None:
        """End it, within 2 s also when it is stopped. Idempotent; quiet when it is dead; in a forked child it
        leaves the parent's server alone."""
        self.closed = True
        if self._child is not None:
            self._child.close()
            if self._socket is not None and os.getpid() == self._owner:
                _remove(*self._socket)

    def __del__(self) -> None:
        if self._child is None or self.closed or os.getpid() != self._owner:
            return
        try:
            warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, stacklevel=2, source=self)
        finally:  # a warning may have been made an error
            self.close()

    def __repr__(self) -> str:
        if self._child is None or self.pid is None:
            return f"<{type(self).__name__} not started>"
        about = "".join(f" {text}" for text in self._about().values())
        return f"<{type(self).__name__}{about} at {self.address} pid {self.pid}{self._remark()}>"

    def _about(self) -> dict[str, str]:
        """What there is to say beyond address and process, for both representations."""
        return {}

    def _repr_html_(self) -> str:
        import html

        cells = {
            "server": f"{self._title.removesuffix(' server')}{self._remark()}",
            **self._about(),
            "address": self.address,
            "pid": str(self.pid),
        }
        rows = "".join(
            f'<tr style="text-align:left"><th>{name}</th><td>{html.escape(text)}</td></tr>'
            for name, text in cells.items()
        )
        return f"<table>{rows}</table>"

    def _remark(self) -> str:
        if self.closed:
            return ", closed"
        if os.getpid() != self._owner:
            return ", of the parent process"
        return f", {reason}" if (reason := self.death()) else ""


@atexit.register
def _close_all() -> None:
    """At the interpreter's end no one is to blame for an open server: close without a warning."""
    for server in list(_live):
        server.close()


def executable(name: str) -> Path:
    """Where an executable of ours is: in the package, or in the build folder of an editable install.

    Raises FileNotFoundError when the package was built without it.
    """
    from importlib.resources import files
    from pathlib import Path

    path = files("grpcperf").joinpath("_bin").joinpath(name)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: the package was built without its executables; install it again"
        )
    return Path(str(path))


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


def _check_env(env: Mapping[str, str] | None) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise InvalidRequest(f"env must be a dict of texts, not {units.shown(env)}")
    for name, value in env.items():
        if (
            not isinstance(name, str)
            or not isinstance(value, str)
            or not name
            or "=" in name
            or "\0" in name + value
        ):
            raise InvalidRequest(
                f"env must be a dict of texts, not {{{units.shown(name)}: {units.shown(value)}}}"
            )
        _require_encodable((name, value))
    return dict(env)


def _require_encodable(texts: Iterable[str]) -> None:
    for text in texts:
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise InvalidRequest(f"{units.shown(text)} has no encoding that a process could take") from None
