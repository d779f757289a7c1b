"""A grpc-go server, in a child process that holds only what is measured."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from grpcperf import units
from grpcperf.errors import EngineError, InvalidRequest
from grpcperf.memstats import MemStats, from_go
from grpcperf.targets.child import READY_S, check_env
from grpcperf.targets.expvar import fetch, fetch_bytes
from grpcperf.targets.forward import forward_options, next_server
from grpcperf.targets.keepalive import Keepalive, require_keepalive
from grpcperf.targets.limits import Limit, limit_options, parse_limits
from grpcperf.targets.process import COMMAND_FILES_FD, LaunchedChild
from grpcperf.targets.server import behaviour_options, clients_tls, tls_files
from grpcperf.targets.target import Counters, Measurable
from grpcperf.tls import TLS

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_VERSION = "1.85.0"
ANSWER_S = 10.0  # two collections of a heap of gigabytes take seconds
DEATH_MS = 300
_LEAST_WINDOW = 65_535
_LEAST_KEEPALIVE_S = 1.0
_T = TypeVar("_T")


class GoServer(LaunchedChild):
    """A grpc-go server of grpc.testing.BenchmarkService, as a child process: built from source of ours at the
    chosen version of grpc-go, when that has not been done before, which takes up to a minute.

    The constructor starts it and returns when it is ready; it lives and ends as gp.Server does. It does what
    calls ask for in their metadata, as gp.Server, and reports over an HTTP port of its own (`reports`:
    /debug/vars, /debug/pprof/, /memstats, /counters), whose goroutines are part of its baseline.

    `version`: of grpc-go. `gomaxprocs`, `gogc` (percent, or "off"): what the runtime calls so. Server options
    of grpc-go, its own defaults where None: `stream_workers` (NumStreamWorkers), `max_concurrent_streams`,
    `read_buffer` and `write_buffer` (bytes per connection), `window` (of each stream and each connection,
    from 64 KiB; no longer sized by measured bandwidth), `max_message` (both ways). `keepalive`,
    `limits`, `tls`, `forward`, `behaviour`, `cpus`, `env`: as for gp.Server. GODEBUG in `env` reaches the
    runtime: "memprofilerate=4096" makes heap_profile finer, at a price.

    A parked stream reads nothing, or with grpcperf-hold=2 one message, which it answers. With `forward` it
    decodes and encodes what goes on, as programs that use grpc-go do; a native server passes it on as it is.

    Raises InvalidRequest for nonsense, EngineError when it cannot be built or does not start. Once the
    process is gone, every method raises ServerDied.
    """

    has_counters = True
    _title = "Go server"

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        gomaxprocs: int | None = None,
        gogc: int | str | None = None,
        stream_workers: int = 0,
        max_concurrent_streams: int | None = None,
        read_buffer: int | str | None = None,
        write_buffer: int | str | None = None,
        window: int | str | None = None,
        max_message: int | str | None = None,
        keepalive: Keepalive | None = None,
        limits: Iterable[Limit | str] = (),
        tls: TLS | None = None,
        forward: Measurable | str | None = None,
        behaviour: Mapping[str, int | str] | None = None,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        from grpcperf.targets import go_build  # which imports what starts processes

        super().__init__()
        self.version = go_build.check_version(version)
        arguments = _numbers(
            stream_workers=units.count(stream_workers, "stream_workers", low=0, high=65_535),
            max_concurrent_streams=None
            if max_concurrent_streams is None
            else units.count(max_concurrent_streams, "max_concurrent_streams"),
            read_buffer=_size(read_buffer, "read_buffer"),
            write_buffer=_size(write_buffer, "write_buffer"),
            window=_size(window, "window", low=_LEAST_WINDOW),
            max_message=_size(max_message, "max_message", low=1),
        )
        arguments += [
            *_keepalive(keepalive),
            *limit_options(parse_limits(limits)),
            *behaviour_options(behaviour),
        ]
        files = tls_files(tls)
        self.forward = None if forward is None else next_server(forward)
        if self.forward is not None:
            told, handed = forward_options(self.forward)
            arguments += told
            files |= handed
        for descriptor, option in enumerate(files, start=COMMAND_FILES_FD):
            arguments += [option, f"/proc/self/fd/{descriptor}"]
        command = [str(go_build.build(self.version)), *arguments]
        settings = check_env(env) | _runtime(gomaxprocs, gogc)
        self._launch(command, env=settings, cpus=cpus, files=files.values())
        try:
            self._meet()
            self.tls = None if tls is None else clients_tls(tls, self.address)
        except BaseException:
            self._give_up()
            raise

    @staticmethod
    def build(version: str = DEFAULT_VERSION) -> Path:
        """Build the server with that version of grpc-go, unless that has been done before; the executable.

        Raises InvalidRequest for what cannot be a version, EngineError with the reason when it fails.
        """
        from grpcperf.targets import go_build

        return go_build.build(version)

    def _meet(self) -> None:
        """Wait until it listens, which it says as one line on stdout, and until it answers."""
        import json

        self._await("says where it listens", READY_S, lambda: None if "\n" in self.stdout else "")
        ready = json.loads(self.stdout.partition("\n")[0])
        self.versions: str = ready["versions"]
        self._reports: int = ready["reports"]
        self.address = f"127.0.0.1:{ready['port']}"
        self.counters()  # its first answer makes what all later ones need: that belongs to the baseline

    # --- what it says of itself

    @property
    def reports(self) -> str:
        """Where it reports: "http://127.0.0.1:PORT", for browsers and `go tool pprof`."""
        return f"http://127.0.0.1:{self._reports}"

    def memstats(self, settle: bool = False) -> MemStats:
        """Its runtime.MemStats, and what the kernel says of the process. `settle`: after two collections."""
        return self._read_memstats(_known(self._ask_json(f"/memstats?settle={int(settle)}")))

    def counters(self) -> Counters:
        """What its handlers have been doing, read at one moment."""
        return Counters(**self._ask_json("/counters"))

    def peek(self, timeout: float) -> dict[str, Any]:
        inside = self._ask_json("/memstats", timeout)
        return {**_known(inside), **inside["counters"]}

    def release(self) -> None:
        """Let every parked call go; returns when all were told."""
        self._ask("/release")

    def reset_peaks(self) -> None:
        """Start peak_running anew from what is running now."""
        self._ask("/reset_peaks")

    def heap_profile(self, top: int = 10) -> list[dict[str, Any]]:
        """The functions whose allocations hold most of the heap, after a collection: rows of function, bytes,
        objects, package.

        Go samples one allocation in 512 KiB and scales up, so small figures are rough (see env= of GoServer).
        """
        from grpcperf.targets import pprof

        rows = pprof.heap_rows(pprof.decode(self._ask("/debug/pprof/heap?gc=1")))
        return rows[: units.count(top, "top")]

    def goroutine_profile(self) -> list[dict[str, Any]]:
        """All goroutines: rows of function (which they began with), count, waits_in (the first function
        outside of Go's runtime, where they are now); most first."""
        from grpcperf.targets import pprof

        return pprof.goroutine_rows(pprof.decode(self._ask("/debug/pprof/goroutine")))

    def cpu_profile(self, seconds: float | str = 1.0) -> list[dict[str, Any]]:
        """Where CPU goes during that time, which this takes: rows of function, flat_s (in itself), cum_s
        (with what it calls), in CPU seconds sampled at 100 Hz; most flat_s first.

        Raises EngineError when another profile is being taken.
        """
        from grpcperf.targets import pprof

        length = units.seconds(seconds, "seconds", low=0.01, high=600.0)
        return pprof.cpu_rows(pprof.decode(self._ask(f"/cpu_profile?seconds={length}", length + ANSWER_S)))

    def _ask_json(self, path: str, timeout: float = ANSWER_S) -> dict[str, Any]:
        return self._fetched(fetch, path, timeout)

    def _ask(self, path: str, timeout: float = ANSWER_S) -> bytes:
        return self._fetched(fetch_bytes, path, timeout)

    def _fetched(self, ask: Callable[[str, float], _T], path: str, timeout: float) -> _T:
        """What it answers. Raises ServerDied, EngineError."""
        self.require_usable()
        try:
            return ask(self.reports + path, timeout)
        except EngineError:
            self._await_death()
            self.require_usable()
            raise

    def _await_death(self) -> None:
        """One that does not answer may be about to die; how is known a little later."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        poll.poll(DEATH_MS)

    def _noun(self) -> str:
        return f"Go server at {self.address}" if hasattr(self, "address") else self._title

    def _about(self) -> dict[str, str]:
        about = {"version": f"grpc-go {self.version}"}
        if self.forward:
            about["forward"] = f"forwarding to {self.forward.address}"
        return about | ({"security": "with TLS"} if self.tls else {})


def _known(said: Mapping[str, Any]) -> dict[str, int | float]:
    """The fields of MemStats in what it says at /memstats."""
    counters = said["counters"]
    streams = counters["running"] + counters["queued"]
    return from_go(said) | {
        "goroutines": said["goroutines"],
        "running": counters["running"],
        "streams": streams,
    }


def _size(value: int | str | None, name: str, low: int = 0) -> int | None:
    return None if value is None else units.size_bytes(value, name, low=low)


def _numbers(**options: int | None) -> list[str]:
    """As the server's command line has them."""
    flags = {"window": ("window", "connection-window"), "max_message": ("max-receive", "max-send")}
    return [
        part
        for name, value in options.items()
        if value is not None
        for flag in flags.get(name, (name.replace("_", "-"),))
        for part in (f"--{flag}", str(value))
    ]


def _keepalive(keepalive: object) -> list[str]:
    wanted = require_keepalive(keepalive)
    if wanted is None:
        return []
    if wanted.time is not None and float(wanted.time) < _LEAST_KEEPALIVE_S:
        raise InvalidRequest("keepalive time of a Go server must be 1 s or more: grpc-go waits no less")
    names = ("time", "timeout", "max_idle", "max_age", "max_age_grace")
    durations = {name: getattr(wanted, name) for name in names}
    arguments = [
        f"--keepalive-{name.replace('_', '-')}={round(float(value) * 1e9)}ns"
        for name, value in durations.items()
        if value is not None
    ]
    if wanted.permit_without_calls:
        arguments.append("--keepalive-permit-without-calls")
    tcp = wanted.tcp_option()
    return arguments if tcp is None else [*arguments, f"--tcp-keepalive={tcp}"]


def _runtime(gomaxprocs: int | None, gogc: int | str | None) -> dict[str, str]:
    """What Go's runtime reads from its environment."""
    settings = {}
    if gomaxprocs is not None:
        settings["GOMAXPROCS"] = str(units.count(gomaxprocs, "gomaxprocs", high=1024))
    if gogc is not None:
        settings["GOGC"] = "off" if gogc == "off" else str(units.count(gogc, 'gogc (percent, or "off")'))
    return settings
