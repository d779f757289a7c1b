"""One load on one target: checked, probed, run in the engine's threads, and told as a Result."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from grpcperf import _engine
from grpcperf.descriptors import require_descriptors
from grpcperf.engine import translated
from grpcperf.errors import ConnectError, EngineError, Error, Interrupted, InvalidRequest, ServerDied
from grpcperf.progress import Progress
from grpcperf.result import Result
from grpcperf.schedule import engine_schedule
from grpcperf.spec import Load
from grpcperf.targets.target import Measurable, as_target, engine_tls
from grpcperf.threads import require_client_threads, require_cpus

PROBE_S = 5.0
CONNECT_S = 10.0
STEP_S = 0.1  # between two looks at a run that somebody waits for; its end is noticed at once
DEATH_S = 0.5  # a process that closed its connections may be dying: how is known a little later
INTERRUPT_S = 1.0  # what is waited for a run to end after Ctrl-C


@dataclass(frozen=True)
class Peer:
    """A target as the probe found it: the address in gRPC's spelling, how long it took to connect and to
    agree on TLS (0 in plaintext), and the SETTINGS it sent (None: not sent)."""

    resolved: str
    authority: str
    connect_s: float
    handshake_s: float
    settings: Mapping[str, int | None]


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. `phase`: connect, warmup, measure, drain, ended; `elapsed_s` since the measured
    window began; measured calls `sent`, finished (`calls`), `ok` of them as OK, and `not_sent`; `p50_s` and
    `p99_s` of latency in windows that are over (a run has 20 or more), None before the first is."""

    phase: str
    elapsed_s: float
    calls: int
    ok: int
    sent: int = 0
    not_sent: int = 0
    p50_s: float | None = None
    p99_s: float | None = None

    @property
    def achieved_rate(self) -> float:
        """Measured calls sent per second so far."""
        return self.sent / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @classmethod
    def from_engine(cls, raw: Mapping[str, Any]) -> Self:
        """From the dict of Run.snapshot, where a latency of 0 is none."""
        return cls(**{**raw, **{name: raw[name] or None for name in ("p50_s", "p99_s")}})


class LoadRun:
    """A load in the background. Made by gp.start; as a context manager it ends with its block.

    One that is dropped ends at once, without a drain.
    """

    def __init__(self, target: Measurable, spec: Load, peer: Peer) -> None:
        from grpcperf import environment  # late: importing the package should cost little

        self.target = target
        self.spec = spec
        self._peer = peer
        self._before = environment.moment("before")
        self._result: Result | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._threadless = _refused_for_want_of_threads(target)  # before this run
        with translated():
            self._run: _engine.Run | None = _engine.Run(
                client=engine_client(target, spec, peer),
                request=spec.engine_request(_engine.benchmark_request),
                threads=spec.threads,
                concurrency=spec.most_in_flight,
                connect_timeout=CONNECT_S,
                warmup=float(spec.warmup),
                duration=float(spec.duration or 0.0),
                calls=spec.calls or 0,
                drain=float(spec.drain),
                think_time=float(spec.think_time),
                schedule=engine_schedule(spec),
                server_pid=target.pid or 0,
                server_pidfd=target.pidfd,
                cpus=spec.cpus,
            )
            self._run.start()

    def snapshot(self) -> Snapshot:
        """How far it is."""
        with translated():
            return Snapshot.from_engine(self._engine_run().snapshot())

    def stop(self) -> None:
        """End it now: it drains, and result() then has what was measured. Returns at once."""
        with translated():
            self._engine_run().stop()

    def result(self, *, progress: bool | None = False) -> Result:
        """Wait for the end and return what was measured; again and again the same.

        `progress`: show a bar on stderr; None: when a person is watching. Raises ConnectError or ServerDied
        when it never came to measure, Interrupted (with the partial result) on Ctrl-C.
        """
        if self._owner != os.getpid():  # the lock may be held by a thread that was not forked with the rest
            raise EngineError(
                f"this run belongs to process {self._owner}, which forked this one; start one here"
            )
        with self._lock:
            if self._result is None:
                self._wait(progress)
                try:
                    self._result = self._collect(interrupted=False)
                except KeyboardInterrupt:  # it had ended by itself, so nothing need be lost
                    self._result = self._collect(interrupted=False)
                    raise Interrupted(
                        "interrupted when the run had ended: it is complete", self._result
                    ) from None
            return self._result

    def _wait(self, progress: bool | None) -> None:
        run = self._engine_run()
        try:
            with Progress(self.spec, progress) as bar, translated():
                while not run.wait(STEP_S):
                    bar.update(Snapshot.from_engine(run.snapshot()))
        except KeyboardInterrupt:
            raise self._interrupted(run) from None

    def _interrupted(self, run: _engine.Run) -> Interrupted:
        """Stop the run; a second Ctrl-C only ends the waiting for it."""
        ended, until = False, time.monotonic() + INTERRUPT_S
        try:
            run.stop()
            while not ended and time.monotonic() < until:
                ended = run.wait(STEP_S)
        except KeyboardInterrupt:
            pass
        if ended:
            self._result = self._collect(interrupted=True)
        return Interrupted("interrupted: the result holds what was measured until then", self._result)

    def _collect(self, *, interrupted: bool) -> Result:
        from grpcperf import environment

        try:
            with translated():
                raw = self._engine_run().result()
        except ConnectError:
            require_alive(self.target)
            raise
        except EngineError:
            if not interrupted:
                raise
            raw = dict(NOTHING)  # it had not begun to measure
        death = None
        if raw["server_died"]:
            death = "it was closed during the run" if self.target.closed else self.target.death()
        threadless = 0
        if "RESOURCE_EXHAUSTED" in raw["status"] and death is None:
            threadless = _refused_for_want_of_threads(self.target) - self._threadless
        return result_of(
            self.spec,
            raw,
            {**_live(self._peer.settings, raw["settings"]), "tls": self.target.tls is not None},
            around={**self._before, **environment.moment("after")},
            interrupted=interrupted,
            death=death,
            server_cpus=_cpus_of(self.target.pid),
            threads_exhausted=threadless,
        )

    def _engine_run(self) -> _engine.Run:
        if self._run is None:
            raise InvalidRequest("this run has been closed")
        return self._run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._result is None and self._run is not None:
            self._run = None  # which ends it, without a drain

    def __del__(self) -> None:
        self._run = None  # before the target, whose descriptor it watches

    def __repr__(self) -> str:
        if self._owner != os.getpid():
            state = "of the parent process"
        else:
            state = "closed" if self._run is None else self.snapshot().phase
        return f"<LoadRun of {self.spec.kind} on {self.target!r}: {state}>"


def result_of(
    spec: Load,
    raw: dict[str, Any],
    settings: Mapping[str, int | None],
    *,
    around: Mapping[str, Any] | None = None,
    **known: Any,
) -> Result:
    """The Result of the engine's record, with what `known` (arguments of diagnose) has to say about it.
    `around`: how busy the machine was before and after."""
    from grpcperf import calibrate, environment  # late: importing the package should cost little
    from grpcperf.diagnose import diagnose

    ceiling = calibrate.known_ceiling() if spec.transport == "wire" else None
    cpus = os.sched_getaffinity(0)
    return Result.from_engine(
        spec,
        raw,
        findings=diagnose(spec, raw, settings=settings, client_cpus=cpus, ceiling_rps=ceiling, **known),
        settings=settings,
        environment={**environment.summary(), **(around or {})},
    )


def _live(probed: Mapping[str, int | None], at_end: Mapping[str, int | None]) -> Mapping[str, int | None]:
    """What the peer's SETTINGS came to be by the end of the run; what the probe was told, where no connection
    could say (with core, or when all were gone)."""
    return {**probed, **at_end} if at_end.get("initial_window_size") is not None else probed


def _refused_for_want_of_threads(target: Measurable) -> int:
    """Calls so far; 0 where nobody counts them, or no more."""
    try:
        return target.counters().threads_exhausted if target.has_counters else 0
    except Error:
        return 0


def _cpus_of(pid: int | None) -> set[int] | None:
    """Those a process of this machine may run on; None when there is none, or no more."""
    try:
        return None if pid is None else os.sched_getaffinity(pid)
    except OSError:
        return None


_EMPTY: Mapping[str, Any] = {
    "count": 0,
    "overflow": 0,
    "sum_ns": 0,
    "min_ns": 0,
    "max_ns": 0,
    "entries": b"",
}
_HISTOGRAMS = (
    *("latency", "errors", "service", "send_lag", "queued", "send_gap"),
    *("first_message", "message_gap", "round_trip"),
)
_COUNTS = (
    *("not_sent", "ok_in_window", "all_in_window", "messages_sent", "payload_sent", "messages_received"),
    *("ahead", "connected", "reconnects", "alive", "connections_opened", "tls_resumed"),
    *("bursts", "burst_calls", "largest_burst", "polls", "idle_polls"),
)
NOTHING: Mapping[str, Any] = {
    "status": {},
    **dict.fromkeys(_HISTOGRAMS, _EMPTY),
    **dict.fromkeys(_COUNTS, 0),
    "windows": [],
    "causes": [],
    "settings": {},
    **dict.fromkeys(("window_s", "connect_s", "drain_s"), 0.0),
    **dict.fromkeys(("client_cpu_s", "server_cpu_s", "steal", "pressure")),
    "server_died": False,
    "stopped": True,
}


def load(
    target: Measurable | str, spec: Load | None = None, *, progress: bool | None = None, **changes: Any
) -> Result:
    """Put a load on a target and return what was measured.

    `spec` is a gp.Load; keywords build one, or change the one given. `progress`: None shows a bar on stderr
    when a person is watching and the run takes over a second.

    Raises InvalidRequest, ConnectError when the target is not reachable or not gRPC, EngineError when there
    are too few file descriptors, ServerDied, Interrupted with the partial result on Ctrl-C. Failed calls are
    data, not exceptions: see `.status` and `.findings`.
    """
    with start(target, spec, **changes) as run:
        return run.result(progress=progress)


def start(target: Measurable | str, spec: Load | None = None, **changes: Any) -> LoadRun:
    """The same in the background: returns once the target has answered a probe and the run has begun."""
    if spec is not None and not isinstance(spec, Load):
        raise InvalidRequest(f"spec must be a gp.Load, not {spec!r}; other arguments go by name")
    spec = Load(**changes) if spec is None else spec.replace(**changes) if changes else spec
    target = as_target(target)
    target.require_usable()
    require_descriptors(target, spec.most_connections)
    require_client_threads(spec.threads, spec.transport)
    require_cpus(spec.cpus)
    try:
        return LoadRun(target, spec, probe(target))
    except KeyboardInterrupt:
        raise Interrupted("interrupted before anything was measured", unmeasured(spec)) from None


def unmeasured(spec: Load) -> Result:
    """The result of a run that was interrupted before it could measure anything."""
    return result_of(spec, dict(NOTHING), {}, interrupted=True)


def engine_client(target: Measurable, spec: Load, peer: Peer) -> dict[str, Any]:
    """The Client of _engine.pyi. C core takes compression as one of its arguments, by number."""
    from grpcperf.targets.channel_args import engine_args  # its table costs the import of the package

    channel_args = engine_args(spec.channel_args)
    if spec.transport == "core" and spec.keepalive is not None:
        channel_args |= spec.keepalive.client_args()
    if spec.transport == "core" and spec.compression is not None:
        channel_args.setdefault("grpc.default_compression_algorithm", 2)
    return {
        "transport": spec.transport,
        "target": peer.resolved,
        "authority": target.authority or peer.authority,
        "connections": spec.connections,
        "tls": engine_tls(target),
        "channel_args": channel_args,
        "window": spec.window or 0,
        "gzip": spec.compression == "gzip",
        "busy_poll": spec.busy_poll,
        "keepalive": spec.keepalive.wire_opts() if spec.transport == "wire" and spec.keepalive else None,
        "pick": spec.pick,
        "calls_per_connection": spec.calls_per_connection or 0,
    }


def probe(target: Measurable) -> Peer:
    """Look whether the target speaks HTTP/2, before a load would fail a million times.

    Raises ConnectError naming the address and the cause: unknown host, refused, HTTP/1, TLS, silence;
    ServerDied when its process is known to be dead.
    """
    try:
        with translated():
            found = _engine.probe(target.address, PROBE_S, engine_tls(target))
    except ConnectError:
        require_alive(target)
        raise
    return Peer(*(found[name] for name in ("resolved", "authority", "connect_s", "handshake_s", "settings")))


def require_alive(target: Measurable) -> None:
    """Raise ServerDied when it cannot be reached because its process has died, as far as that is known."""
    if target.closed or target.pidfd < 0:
        return
    poll = select.poll()
    poll.register(target.pidfd, select.POLLIN)
    poll.poll(DEATH_S * 1e3)
    target.require_usable()
    if reason := target.death():
        raise ServerDied(f"{target!r} died: {reason}")
