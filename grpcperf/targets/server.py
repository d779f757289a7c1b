"""The native gRPC server, in a child process that holds only what is measured."""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import EngineError, InvalidRequest, ServerDied
from grpcperf.memstats import MemStats
from grpcperf.spec import check_channel_args, check_cpus, refuse_unknown
from grpcperf.targets.models import Model, parse_model
from grpcperf.targets.target import Counters, Measurable, process_sample

if TYPE_CHECKING:
    from pathlib import Path

READY_S = 10.0
ANSWER_S = 10.0  # settling takes up to 2 s, and 10,000 stacks are looked at page by page
BEHAVIOURS = ("hold", "delay-us", "busy-us", "alloc-bytes", "observe-cancel", "status")

_T = TypeVar("_T")
_live: weakref.WeakSet[Server] = weakref.WeakSet()


class Server(Measurable):
    """A native C-core server of grpc.testing.BenchmarkService on the loopback interface, as a child process.

    The constructor starts it and returns when it is ready; `with` closes it. It dies with this process,
    however that ends; one that is dropped is closed with a ResourceWarning.

    `model`: how calls get threads, gp.Async(), gp.ThreadPerCall() or their text. `behaviour`: what every call
    does unless its metadata says otherwise, as {"delay-us": 20000} (names as in metadata, `grpcperf-` may be
    left out). `channel_args`: C core's, by name. `cpus`: those it may use, as [0, 1] or "0-1". `env`:
    variables on top of this process's. `port`: 0 lets the system choose.

    Raises InvalidRequest for nonsense, EngineError with the server's own words when it does not start.
    Afterwards every method raises ServerDied once the process is gone.
    """

    has_counters = True
    _child: _engine.Child | None = None

    def __init__(
        self,
        model: Model | str = "async",
        *,
        limits: Iterable[Any] = (),
        max_concurrent_streams: int | None = None,
        channel_args: Mapping[str, int | str] | None = None,
        keepalive: Any = None,
        tls: Any = None,
        forward: Any = None,
        behaviour: Mapping[str, int | str] | None = None,
        count_allocations: bool = False,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self._owner = os.getpid()
        _refuse_unbuilt(
            limits=list(limits),
            keepalive=keepalive,
            tls=tls,
            forward=forward,
            count_allocations=count_allocations,
        )
        self.model = parse_model(model)
        arguments = [
            *("--control", "3"),
            *("--listen", f"127.0.0.1:{units.count(port, 'port', low=0, high=65_535)}"),
            *("--model", str(self.model)),
        ]
        if max_concurrent_streams is not None:
            streams = units.count(max_concurrent_streams, "max_concurrent_streams")
            arguments += ["--max-concurrent-streams", str(streams)]
        for key, value in check_channel_args(channel_args or {}).items():
            arguments += ["--channel-arg", f"{key}={value}"]
        for key, value in check_behaviour(behaviour or {}).items():
            arguments += ["--behaviour", f"{key}={value}"]
        if (allowed := check_cpus(cpus)) is not None:
            arguments += ["--cpus", ",".join(map(str, allowed))]
        self._start([str(server_executable()), *arguments], {**os.environ, **_check_env(env or {})})

    def _start(self, argv: list[str], env: Mapping[str, str]) -> None:
        with translated():
            self._child = _engine.Child(argv, env)
        try:
            with translated():
                ready = self._child.ready(READY_S)
        except BaseException as error:
            words = self._child.stderr_tail().strip()
            self._child.close(0.0)
            self.closed = True
            if isinstance(error, ServerDied) and words:
                raise EngineError(f"the native server did not start: {words.splitlines()[-1]}") from None
            raise
        self.pid = self._child.pid
        self.address = f"127.0.0.1:{ready['port']}"
        self.versions: str = ready["versions"]
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
            self.require_usable()  # the same with its reason, where it is known by now
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
            words = self._child.stderr_tail().strip()
            last = f"; its last words: {words.splitlines()[-1]}" if words else ""
            raise ServerDied(f"the server at {self.address} (pid {self.pid}) died: {reason}{last}")

    def close(self) -> None:
        """End it, within 2 s also when it is stopped. Idempotent; quiet when it is dead; in a forked child it
        leaves the parent's server alone."""
        self.closed = True
        if self._child is not None:
            self._child.close()

    def __del__(self) -> None:
        if self._child is None or self.closed or os.getpid() != self._owner:
            return
        warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, stacklevel=2, source=self)
        self.close()

    def __repr__(self) -> str:
        if self._child is None or self.pid is None:
            return "<Server not started>"
        return f"<Server {self.model} at {self.address} pid {self.pid}{self._remark()}>"

    def _repr_html_(self) -> str:
        import html

        cells = {
            "server": f"native{self._remark()}",
            "model": str(self.model),
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


def server_executable() -> Path:
    """Where the native server is: in the package, or in the build folder of an editable install.

    Raises FileNotFoundError when the package was built without it.
    """
    from importlib.resources import files
    from pathlib import Path

    path = files("grpcperf").joinpath("_bin").joinpath("grpcperf-server")
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: the package was built without its server; install it again"
        )
    return Path(str(path))


def check_behaviour(behaviour: Mapping[str, int | str]) -> dict[str, str]:
    """What a server's calls do by default, under the names of the metadata. Raises InvalidRequest."""
    if not isinstance(behaviour, Mapping):
        raise InvalidRequest(f"behaviour must be a dict such as {{'delay-us': 20000}}, not {behaviour!r}")
    short = {str(key).lower().replace("_", "-").removeprefix("grpcperf-"): key for key in behaviour}
    refuse_unknown(short, BEHAVIOURS, "behaviour")
    checked = {}
    for name, key in short.items():
        high = 1 if name in ("hold", "observe-cancel") else 16 if name == "status" else 2**40
        checked[f"grpcperf-{name}"] = str(units.count(behaviour[key], f"behaviour {name}", low=0, high=high))
    return checked


def _refuse_unbuilt(**arguments: object) -> None:
    for name, value in arguments.items():
        if value not in (None, False, []):
            raise InvalidRequest(f"{name}={value!r} is not built yet; leave it out")


def _check_env(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if (
            not isinstance(name, str)
            or not isinstance(value, str)
            or not name
            or "=" in name
            or "\0" in name + value
        ):
            raise InvalidRequest(f"env must be a dict of texts, not {{{name!r}: {value!r}}}")
    return dict(env)
