"""A child process as a target: how it starts, lives and ends."""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import EngineError, InvalidRequest, ServerDied
from grpcperf.targets.target import Measurable

if TYPE_CHECKING:
    from pathlib import Path

READY_S = 10.0

_live: weakref.WeakSet[ChildTarget] = weakref.WeakSet()


class ChildTarget(Measurable):
    """A process that this one starts, and that lives for as long as this one wants it.

    A class of it says what it is in `_title` ("native server") and calls `_spawn`. It belongs to the process
    that made it, not to the thread; a forked child's copy leaves it alone.
    """

    _title: str
    _child: _engine.Child | None = None  # until it is started, and for good when that fails
    _words = ("", "")  # the ends of stdout and stderr, once it is closed

    def __init__(self) -> None:
        self._owner = os.getpid()

    def _spawn(
        self, argv: Sequence[str], env: Mapping[str, str], files: Iterable[bytes] = ()
    ) -> dict[str, Any]:
        """Start it, and give its Ready: port, pid, versions. `files`: what it finds as descriptors 4, 5, ...

        Raises EngineError with its last words when it does not get ready.
        """
        require_encodable(argv)
        with translated():
            self._child = _engine.Child(argv, env, list(files))
        try:
            with translated():
                ready = self._child.ready(READY_S)
        except BaseException as error:
            words = self._last_words(self._child)
            self._give_up()
            if isinstance(error, ServerDied) and words:
                raise EngineError(f"the {self._title} did not start: {words}") from None
            raise
        self.pid = ready["pid"]
        _live.add(self)
        return ready

    def _give_up(self) -> None:
        """What is started does not become a target."""
        self.closed = True
        if self._child is not None:
            self._child.close(0.0)

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
                f"{self!r} belongs to process {self._owner}, which forked this one; make one here"
            )
        if self.closed or self._child is None:
            raise InvalidRequest(f"{self!r}: it cannot be used any more")
        if reason := self.death():
            words = self._last_words(self._child)
            last = f"; its last words: {words}" if words else ""
            raise ServerDied(f"the {self._noun()} (pid {self.pid}) died: {reason}{last}")

    def _noun(self) -> str:
        return f"server at {self.address}"

    def _last_words(self, child: _engine.Child) -> str:
        """What it said last, as one line."""
        return (child.tail(2).strip().splitlines() or [""])[-1]

    def close(self) -> None:
        """End it, within 2 s also when it is stopped. Idempotent; quiet when it is dead; in a forked child it
        leaves the parent's server alone."""
        self.closed = True
        if self._child is not None:
            words = self._child.close()
            self._words = words if any(words) else self._words  # of a second close there are none

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

    def _details(self) -> dict[str, str]:
        """What there is to say where there is room for it."""
        return {}

    def _repr_html_(self) -> str:
        import html

        cells = {
            "server": f"{self._title.removesuffix(' server')}{self._remark()}",
            **self._about(),
            "address": self.address,
            "pid": str(self.pid),
            **self._details(),
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


def check_env(env: Mapping[str, str] | None) -> dict[str, str]:
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
        require_encodable((name, value))
    return dict(env)


def require_encodable(texts: Iterable[str]) -> None:
    for text in texts:
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise InvalidRequest(f"{units.shown(text)} has no encoding that a process could take") from None
