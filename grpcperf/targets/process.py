"""Any command as a target: it knows nothing of grpcperf, and lives and ends as our own servers do."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterable, Mapping, Sequence

from grpcperf import _engine
from grpcperf.engine import translated
from grpcperf.errors import EngineError, InvalidRequest
from grpcperf.memstats import MemStats
from grpcperf.spec import check_cpus
from grpcperf.targets.child import ChildTarget, check_env, executable
from grpcperf.targets.target import Counters, host_of, process_sample

_ENVIRONMENT_FD = 4  # the launcher's own file; the command's begin behind it
COMMAND_FILES_FD = 5
_TRY_S = 0.5  # for one try to connect
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
            argv += ["--folder", os.fspath(cwd)]
        if (allowed := check_cpus(cpus)) is not None:
            argv += ["--cpus", ",".join(map(str, allowed))]
        environment = {**os.environ, **check_env(env)}
        block = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
        self._spawn([*argv, "--", *command], os.environ, [block, *files])

    def _await_connection(self, address: str, timeout_s: float) -> None:
        """Until something accepts connections at "host:port" or "unix:/path".

        Raises EngineError with its last words when it ends before, or does not listen in time; it is closed
        then.
        """
        end = time.monotonic() + timeout_s
        pause = _PAUSE_S[0]
        try:
            while not can_connect(address):
                self._require_started(f"listened at {address}", end, timeout_s)
                time.sleep(pause)
                pause = min(2 * pause, _PAUSE_S[1])
        except BaseException:
            self._give_up()
            raise

    def _require_started(self, deed: str, end: float, timeout_s: float) -> None:
        """Raise when it has died before it did that, or its time is over."""
        assert self._child is not None
        if reason := self.death():
            background = (
                "; a server that puts itself in the background has to be told to stay in the foreground"
                if reason == "exited with code 0"
                else ""
            )
            raise EngineError(
                f"{self._noun()} {reason} before it {deed}{background}{self._said(self._child)}"
            )
        if time.monotonic() > end:
            raise EngineError(
                f"{self._noun()} has not {deed} within {timeout_s:g} s{self._said(self._child)}"
            )

    def _said(self, child: _engine.Child) -> str:
        words = self._last_words(child)
        return f"; its last words: {words}" if words else "; it said nothing"

    def _give_up(self) -> None:
        self.close()  # with grace: the launcher is to end also what has left the process group

    # --- what there is to know of it

    @property
    def stdout(self) -> str:
        """The end of what it wrote to stdout, at most 64 KiB; also after its death."""
        return self._tail(1)

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr, at most 64 KiB; also after its death."""
        return self._tail(2)

    def _tail(self, descriptor: int) -> str:
        if self._child is None:
            return ""
        with translated():
            return self._child.tail(descriptor)

    def memstats(self, settle: bool = False) -> MemStats:
        """What the kernel says of it. `settle` has no effect on a foreign process."""
        self.require_usable()
        assert self.pid is not None
        with translated():
            return MemStats.from_process(process_sample(self.pid, maps=True))

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


def can_connect(address: str) -> bool:
    """Whether something accepts a connection at "host:port" or "unix:/path" now."""
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


def free_ports(count: int) -> list[int]:
    """TCP ports that nobody uses now, below (or else above) those that the kernel takes for connections: one
    of these could be taken before the command listens."""
    import random

    low, high = _ephemeral_ports()
    choices = range(10_000, low) if low > 12_000 else range(high + 1, 65_536)
    found: list[int] = []
    for _ in range(2_000):
        port = random.choice(choices) if choices else 0
        if (taken := _try_port(port)) and taken not in found:
            found.append(taken)
        if len(found) == count:
            return found
    raise EngineError(f"no free TCP port was found among {choices.start} to {choices.stop - 1}")


def _ephemeral_ports() -> tuple[int, int]:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            low, high = map(int, file.read().split())
            return low, high
    except (OSError, ValueError):
        return 32_768, 60_999


def _try_port(port: int) -> int | None:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return None
        return int(tried.getsockname()[1])
