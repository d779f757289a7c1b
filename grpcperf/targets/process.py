"""Any command as a target: it knows nothing of grpcperf, and lives and ends as our own servers do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import EngineError, InvalidRequest
from grpcperf.memstats import MemStats
from grpcperf.targets.allocations import Counting
from grpcperf.targets.child import ChildTarget, check_env, executable
from grpcperf.targets.expvar import check_url, read_memory
from grpcperf.targets.ports import Ports, can_connect
from grpcperf.targets.target import Counters, check_address, check_authority, process_sample
from grpcperf.threads import require_cpus
from grpcperf.tls import TLS, require_tls
from grpcperf.values import check_cpus

_ENVIRONMENT_FD = 4  # the launcher's own file; the command's begin behind it
COMMAND_FILES_FD = 5
NOWHERE = "nowhere (no ready=)"  # the address of a command that is not known to listen
_ANSWER_S = 5.0
_LOAD_S = 1.0  # from exec to the end of loading a program, on a busy machine
_MEMSTATS = ("proc", "expvar", "preload")
_PAUSE_S = (0.002, 0.05)  # between two tries, first and longest


class LaunchedChild(ChildTarget):
    """A command under our launcher: in a process group of its own that ends with this process, its output
    kept.

    A class of it calls `_launch`, and `_await_connection` where the command is to listen. When the command
    ends, whatever descends from it is ended too.
    """

    _command: tuple[str, ...] = ()

    def _launch(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        cpus: Iterable[int] | str | None = None,
        files: Iterable[bytes] = (),
    ) -> None:
        """`env`: variables on top of this process's. `files`: what the command finds as descriptors 5, 6, 7
        to read (/proc/self/fd/5), in memory alone.

        Raises EngineError with the reason when it cannot be run.
        """
        self._command = tuple(command)
        argv = [str(executable("grpcperf-launch")), "--control", "3", "--environment", str(_ENVIRONMENT_FD)]
        if cwd is not None:
            argv += ["--folder", check_folder(cwd)]
        if (allowed := check_cpus(cpus)) is not None:
            require_cpus(allowed)
            argv += ["--cpus", ",".join(map(str, allowed))]
        environment = {**os.environ, **check_env(env)}
        block = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
        self._spawn([*argv, "--", *command], os.environ, [block, *files])

    def _await_connection(self, address: str, timeout_s: float) -> None:
        """Until something accepts connections at "host:port" or "unix:/path".

        Raises EngineError with its last words when it ends before, or does not listen in time; it is closed
        then.
        """
        self._await(f"listens at {address}", timeout_s, lambda: None if can_connect(address) else "")

    def _await(self, deed: str, timeout_s: float, lacking: Callable[[], str | None]) -> None:
        """Until nothing is lacking; what is comes with the error."""
        end = time.monotonic() + timeout_s
        pause = _PAUSE_S[0]
        try:
            while (lack := lacking()) is not None or self.death():  # what was seen may be somebody else's
                self._require_started(deed, lack, end, timeout_s)
                time.sleep(pause)
                pause = min(2 * pause, _PAUSE_S[1])
        except BaseException:
            self._give_up()
            raise

    def _require_started(self, deed: str, lack: str | None, end: float, timeout_s: float) -> None:
        """Raise when it has died before it did that, or its time is over."""
        assert self._child is not None
        if reason := self.death():
            background = "; a server is to stay in the foreground" if reason == "exited with code 0" else ""
            raise EngineError(
                f"{self._noun()} did not start, it {_was(reason)}{background}{self._said(self._child)}"
            )
        if time.monotonic() > end:
            lasts = f" ({lack})" if lack else ""
            raise EngineError(
                f"{self._noun()} did not start: nothing {deed} after {timeout_s:g} s{lasts}"
                f"{self._said(self._child)}"
            )

    def _said(self, child: _engine.Child) -> str:
        words = self._last_words(child)
        return f"; its last words: {words}" if words else "; it said nothing"

    def _give_up(self) -> None:
        self.close()  # with grace: the launcher is to end also what has left the process group

    # --- what there is to know of it

    @property
    def stdout(self) -> str:
        """The end of what it wrote to stdout, at most 64 KiB; also after its death. That is a pipe, to which
        most programs write in blocks unless they flush."""
        return self._tail(1)

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr, at most 64 KiB; also after its death."""
        return self._tail(2)

    def _tail(self, descriptor: int) -> str:
        if self._child is None or self.closed:
            return self._words[descriptor - 1]
        with translated():
            return self._child.tail(descriptor)

    def memstats(self, settle: bool = False) -> MemStats:
        """What the kernel says of it. `settle` has no effect on a foreign process."""
        self.require_usable()
        return self._read_memstats()

    def _read_memstats(self, inside: Mapping[str, int | float] | None = None) -> MemStats:
        assert self.pid is not None
        with translated():
            return MemStats.from_process(process_sample(self.pid, maps=True), inside)

    def counters(self) -> Counters:
        raise InvalidRequest(f"counters of {self!r}: only servers of grpcperf count their handlers")

    def release(self) -> None:
        raise InvalidRequest(f"release of {self!r}: only servers of grpcperf can; use cancel()")

    # --- its life

    def close(self) -> None:
        """End it: SIGTERM to its process group, SIGKILL after 1 s to all that descends from it, within 2 s.
        Idempotent; quiet when it is dead; in a forked child it leaves the parent's alone."""
        if self._child is not None and os.getpid() == self._owner and not self.closed:
            with contextlib.suppress(OSError):  # one that was stopped with its group is to hear of it
                signal.pidfd_send_signal(self._child.pidfd, signal.SIGCONT)
        super().close()

    def _noun(self) -> str:
        return f"{self._title} {self._command[0]}" if self._command else self._title

    def _last_words(self, child: _engine.Child) -> str:
        """The last line on stderr, else on stdout."""
        for descriptor in (2, 1):
            if lines := child.tail(descriptor).strip().splitlines():
                return lines[-1]
        return ""


class Process(LaunchedChild):
    """Any command as a target: gp.Process(["./my-server", "--port", "{port}"], ready="127.0.0.1:{port}").

    In the command, `ready`, `expvar` and the values of `env`, {port} stands for a free TCP port, {port2},
    {port3}, ... for further ones. The constructor starts it and returns when it is ready; `with` closes it.
    It is in a process group of its own and ends with this process, together with all that it has started.
    `.pid` is the command's own.

    `ready`: an address, when something accepts connections there; "grpc:" before it, when
    grpc.health.v1.Health/Check answers SERVING there; None: at once. It is also the address that loads use.
    `timeout`: for getting ready. `memstats`: what is known of its memory, beside /proc: "proc" nothing,
    "expvar" what a Go program publishes at the URL `expvar`, "preload" exact counts of what it allocates,
    where it is dynamically linked. `tls`, `authority`: how to call it. `cpus`: those it may use. `env`:
    variables on top of this process's. `cwd`: where it starts.

    A command that puts itself in the background ends as far as can be seen from here, and what it leaves
    behind is ended with it: tell it to stay in the foreground.

    Raises InvalidRequest for nonsense, EngineError with the reason and its last words when it cannot be run,
    ends at once, does not get ready, or cannot be counted. Afterwards every method raises ServerDied once it
    is gone; .stdout and .stderr stay.
    """

    _title = "command"
    _counting: Counting | None = None

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        ready: str | None = None,
        memstats: str = "proc",
        expvar: str | None = None,
        tls: TLS | None = None,
        authority: str | None = None,
        timeout: float | str = 10.0,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        ports = Ports()
        words = [ports.fill(word) for word in check_command(command)]
        timeout_s = units.seconds(timeout, "timeout", high=3600.0)
        self.tls = require_tls(tls)
        self.authority = check_authority(authority)
        health, address = _parse_ready(_filled(ports, ready, "ready"))
        self._expvar = _check_memstats(memstats, _filled(ports, expvar, "expvar"))
        filled = {name: ports.fill(value) for name, value in check_env(env).items()}
        if address is not None and can_connect(address):
            raise EngineError(f"something listens at {address} already: it would be taken for {words[0]}")
        if memstats == "preload":
            self._counting = Counting()
            filled = self._counting.environment({**os.environ, **filled})
        self.address = address or NOWHERE
        self._launch(words, env=filled, cwd=cwd, cpus=cpus)
        if health:
            self._await_health(timeout_s)
        elif address is not None:
            self._await_connection(address, timeout_s)
        if self._counting is not None:
            self._require_counted(self._counting, at_once=address is None)

    def _await_health(self, timeout_s: float) -> None:
        from grpcperf.targets.health import check_health

        def lacking() -> str | None:
            try:
                state = check_health(self.address, self.authority, self.tls, min(timeout_s, _ANSWER_S))
            except OSError as error:
                state = str(error)
            return None if state == "SERVING" else f"the last answer: {state}"

        self._await(f"answers the health check with SERVING at {self.address}", timeout_s, lacking)

    def memstats(self, settle: bool = False) -> MemStats:
        """Its memory: what the kernel says, and what `memstats` was chosen to know from inside. `settle` has
        no effect on a foreign process. Raises EngineError when it does not answer."""
        self.require_usable()
        return self._read_memstats(self._inside(_ANSWER_S))

    def peek(self, timeout: float) -> Mapping[str, int | float]:
        return self._inside(timeout)

    def _inside(self, timeout_s: float) -> Mapping[str, int | float]:
        if self._counting is not None and self.pid is not None:
            return self._counting.read(self.pid) or {}
        return {} if self._expvar is None else read_memory(self._expvar, timeout_s)

    def _require_counted(self, counting: Counting, *, at_once: bool) -> None:
        """Raise when its allocations are not counted. One that was not waited for has hardly begun: it is
        given time to load the object, and need not have allocated anything."""
        assert self.pid is not None
        end = time.monotonic() + _LOAD_S
        while counting.read(self.pid) is None and self.death() is None and time.monotonic() < end:
            time.sleep(_PAUSE_S[0])
        uncounted = counting.read(self.pid) is None and self.death() is None
        if (uncounted or not at_once) and (why := counting.missing(self.pid)):
            self._give_up()
            raise EngineError(f'memstats="preload" of {self._noun()}: {why}')

    def close(self) -> None:
        super().close()
        if self._counting is not None:
            self._counting.close()


def check_command(command: object) -> list[str]:
    """The words of a command. Raises InvalidRequest."""
    if isinstance(command, (list, tuple)) and command:
        words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in command]
        if all(isinstance(word, str) and "\0" not in word for word in words) and words[0]:
            return words
    raise InvalidRequest(
        'command must be a list of words such as ["./server", "--port", "{port}"], '
        f"not {units.shown(command)}"
    )


def check_folder(folder: object) -> str:
    """A path as text. Raises InvalidRequest."""
    path = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
    if isinstance(path, str) and path and "\0" not in path:
        return path
    raise InvalidRequest(f"cwd must be the path of a folder, not {units.shown(folder)}")


def _filled(ports: Ports, text: str | None, name: str) -> str | None:
    """With its ports; no address has braces. Raises InvalidRequest."""
    filled = ports.fill(text)
    if isinstance(filled, str) and (unknown := re.search(r"\{[^{}]*\}", filled)):
        raise InvalidRequest(
            f"{name}={units.shown(text)}: there is no {unknown[0]}; {{port}}, {{port2}}, ... are free ports"
        )
    return filled


def _parse_ready(ready: object) -> tuple[bool, str | None]:
    """Whether by health, and the address; None: at once."""
    if ready is None:
        return False, None
    if isinstance(ready, str):
        return ready.startswith("grpc:"), check_address(ready.removeprefix("grpc:"))
    raise InvalidRequest(
        f'ready must be an address such as "127.0.0.1:{{port}}", with "grpc:" before it for a health check, '
        f"or None, not {units.shown(ready)}"
    )


def _check_memstats(memstats: object, expvar: str | None) -> str | None:
    """The URL, where there is one."""
    if memstats not in _MEMSTATS:
        raise InvalidRequest(f'memstats must be "proc", "expvar" or "preload", not {units.shown(memstats)}')
    if memstats == "expvar" and expvar is None:
        raise InvalidRequest(
            'memstats="expvar" needs to know where: expvar="http://127.0.0.1:{port2}/debug/vars"'
        )
    if memstats != "expvar" and expvar is not None:
        raise InvalidRequest(f'expvar={units.shown(expvar)} is read with memstats="expvar" only')
    return None if expvar is None else check_url(expvar)


def _was(reason: str) -> str:
    return f"was {reason}" if reason.startswith("killed") else reason
