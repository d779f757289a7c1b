"""Calls held in flight: what one costs is seen while they are there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Self

from grpcperf import _engine, units
from grpcperf.descriptors import require_descriptors
from grpcperf.engine import translated
from grpcperf.errors import ConnectError, Interrupted, InvalidRequest, ServerDied
from grpcperf.load import CONNECT_S, engine_client, probe, require_alive
from grpcperf.result import Status
from grpcperf.spec import DEFAULT_TRANSPORT, Load
from grpcperf.targets.target import Counters, Measurable, as_target
from grpcperf.threads import require_client_threads

LEAVE_S = 3.0  # what leaving waits for calls that were cancelled
LOOK_S = 0.005  # between two looks while calls are opened
REST_S = 0.2  # a server whose counts have not changed for so long has begun what it was sent
AGAIN_S = 0.02  # between two releases: what waited behind a limit is parked after the first
# Metadata that says how long a call lasts; without any of it a held call asks to be parked.
LASTING = ("grpcperf-hold", "grpcperf-delay-us", "grpcperf-busy-us")
# Calls that the client ended: their handlers may go on.
_BY_CLIENT = ("CANCELLED", "DEADLINE_EXCEEDED")


class Hold:
    """Calls in flight, from entering to leaving. Made by gp.hold.

    `running` and `queued` are calls at this moment, `refused` those that ended with an error, `expired` those
    whose deadline has passed. `entered_s` is how long it took to open them. `calls` are wanted; lowered
    before entering, it begins with so many, 0 being the connections alone, and grow() opens the others.
    """

    def __init__(self, target: Measurable, spec: Load, *, send_first: bool, timeout: float) -> None:
        self.target = target
        self.spec = spec
        self.calls = spec.concurrency
        self.entered_s: float | None = None
        self._owner = os.getpid()
        self._send_first = send_first
        self._timeout = timeout
        self._park: _engine.Park | None = None
        self._cancelled = False
        self._before = 0  # calls of other clients, running or queued when this hold began; they may leave
        self._started = 0  # calls that the server had started by then
        self._streams: int | None = None  # calls that the server admits on all connections together
        self._seen: tuple[int, ...] = ()  # the server's counts, and since when they are what they are
        self._seen_s = 0.0
        self._last: dict[str, Any] = {
            "connecting": True,
            "connected": 0,
            "sent": 0,
            "finished": 0,
            "status": {},
        }

    # --- entering

    def __enter__(self) -> Self:
        if self._park is not None:
            raise InvalidRequest("a hold is entered once; make another with gp.hold(...)")
        started = time.monotonic()
        try:
            self._open()
            self._wait_until_held(started + self._timeout)
        except ConnectError:
            self._leave()
            require_alive(self.target)
            raise
        except KeyboardInterrupt:
            self._leave()
            raise Interrupted(f"interrupted while {self.calls:,} calls were being opened") from None
        except BaseException:
            self._leave()
            raise
        self.entered_s = time.monotonic() - started
        return self

    def _open(self) -> None:
        target, spec = self.target, self.spec
        target.require_usable()
        require_descriptors(target, spec.connections)
        require_client_threads(spec.threads, spec.transport)
        peer = probe(target)
        admitted = peer.settings["max_concurrent_streams"]
        self._streams = None if admitted is None else admitted * spec.connections
        if target.has_counters:
            counters = target.counters()
            self._before, self._started = counters.running + counters.queued, counters.started
        request = spec.engine_request(_engine.benchmark_request)
        request["messages"] = int(self._send_first)
        with translated():
            self._park = _engine.Park(
                client=engine_client(target, spec, peer),
                request=request,
                calls=spec.concurrency,
                connect_timeout=CONNECT_S,
            )
            self._park.start()
            self._park.open(self.calls)

    def grow(self, calls: int) -> None:
        """Have `calls` in all, at most those that the hold was made for, and wait for them as entering does.

        Raises InvalidRequest, ServerDied when the server dies meanwhile.
        """
        park = self._require_park()
        if self._cancelled:
            raise InvalidRequest("grow: this hold's calls have been cancelled")
        self.calls = units.count(calls, "calls", low=self.calls, high=self.spec.concurrency)
        with translated():
            park.open(self.calls)
        self._wait_until_held(time.monotonic() + self._timeout)

    def _wait_until_held(self, deadline: float) -> None:
        while not self._is_held() and time.monotonic() < deadline:
            time.sleep(LOOK_S)

    def _is_held(self) -> bool:
        counts = self._counts()
        if counts["connecting"] or counts["sent"] < self.calls:
            if reason := self.target.death():
                raise ServerDied(f"{self.target!r} died while calls were being opened: {reason}")
            return False
        if not self.target.has_counters:
            return True
        counters = self.target.counters()
        there = counters.running + counters.queued
        # What the peer's stream limit keeps in the client will not arrive while the others are held.
        wanted = self.calls if self._streams is None else min(self.calls, self._streams)
        wanted -= int(counts["finished"])
        begun = counters.started - self._started + counters.queued
        if begun <= counts["sent"]:
            # All that began since then is ours, whether those of others have left by now or not.
            return max(there - self._before, min(begun, there)) >= wanted
        # Others were on their way when this began, or are sent meanwhile.
        return there - self._before >= wanted or (there >= wanted and self._is_at_rest(counters))

    def _is_at_rest(self, counters: Counters) -> bool:
        seen, now = (counters.running, counters.queued, counters.started), time.monotonic()
        if seen != self._seen:
            self._seen, self._seen_s = seen, now
        return now - self._seen_s >= REST_S

    # --- what is held

    @property
    def connected(self) -> int:
        """Connections that were made."""
        return int(self._counts()["connected"])

    @property
    def admitted(self) -> int:
        """Calls in flight that the server has: all but those that its stream limit keeps in this client."""
        outstanding = self._outstanding()
        return outstanding if self._streams is None else min(outstanding, self._streams)

    @property
    def running(self) -> int:
        """Calls in their handlers: the server's own count, where it has one; else those sent, admitted, not
        ended."""
        admitted = self.admitted
        if not self.target.has_counters:
            return admitted
        # Others may call it too. Ours are at least those that can be neither theirs nor waiting, and at most
        # those that the server has not ended.
        counters = self.target.counters()
        least = min(admitted - counters.queued, counters.running, counters.started - self._started)
        ended = sum(count for name, count in self.status.items() if name not in _BY_CLIENT)
        most = int(self._last["sent"]) - ended
        return max(0, min(max(counters.running - self._before, least), most))

    @property
    def queued(self) -> int:
        """Calls that wait, in the server's queue or behind its stream limit."""
        return max(0, self._outstanding() - self.running)

    @property
    def refused(self) -> int:
        """Calls that ended with an error that neither cancel() nor their deadline explains."""
        return sum(count for name, count in self.status.items() if name not in ("OK", *_BY_CLIENT))

    @property
    def last_ended(self) -> float | None:
        """When the last call ended that has, by time.monotonic()."""
        counts = self._counts()
        return float(counts["last_finished_s"]) if counts["finished"] else None

    @property
    def expired(self) -> int:
        """Calls that their deadline has ended."""
        return self.status["DEADLINE_EXCEEDED"]

    @property
    def status(self) -> Status:
        """Calls that have ended, by class."""
        return Status(self._counts()["status"])

    # --- ending it

    def cancel(self) -> None:
        """Cancel every call that is in flight; returns at once."""
        self._require_park().cancel()
        self._cancelled = True

    def release(self, timeout: float | str = 10.0) -> float:
        """Have the server let its parked calls go and wait for this hold's calls to end; returns how long
        that took, in seconds. After `timeout` it returns although some have not.

        Raises InvalidRequest when the server was not started by grpcperf.
        """
        limit = units.seconds(timeout, "timeout")
        park = self._require_park()
        started = time.monotonic()
        self.target.release()
        with translated():
            while not park.wait_finished(min(AGAIN_S, limit)):
                left = started + limit - time.monotonic()
                if left <= 0:
                    break
                self.target.release()
        return time.monotonic() - started

    def end(self) -> float:
        """End the calls in the way that the target knows, release or else cancel; returns how long that took,
        in seconds."""
        if self.target.has_counters and "grpcperf-hold" in self.spec.metadata:
            return self.release()
        started = time.monotonic()
        self.cancel()
        self.wait()
        return time.monotonic() - started

    def wait(self, timeout: float | str = 10.0) -> bool:
        """Wait until every call has ended, for at most `timeout`; whether they have."""
        with translated():
            return self._require_park().wait_finished(units.seconds(timeout, "timeout"))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        reason = None if self.target.closed else self.target.death()
        self._leave()
        if kind is None and reason is not None:
            raise ServerDied(f"{self.target!r} died while {self.calls:,} calls were held: {reason}")

    def _leave(self) -> None:
        """Cancel what is left and wait for it; a second Ctrl-C only ends the waiting."""
        park = self._park
        if park is None:
            return
        try:
            park.cancel()
            park.wait_finished(LEAVE_S)
            self._last = park.counts()
        except _engine.EngineFailure:
            pass  # it never connected: the cause has been raised
        finally:
            park.close()
            self._park = None

    def _counts(self) -> dict[str, Any]:
        if self._park is not None:
            with translated():
                self._last = self._park.counts()
        return self._last

    def _outstanding(self) -> int:
        counts = self._counts()
        return int(counts["sent"]) - int(counts["finished"])

    def _require_park(self) -> _engine.Park:
        if self._park is None:
            raise InvalidRequest("this hold is not in force: use it inside `with gp.hold(...) as held:`")
        return self._park

    def __repr__(self) -> str:
        return f"<Hold of {self.calls:,} {self.spec.kind} calls on {self.target!r}, {self._state()}>"

    def _state(self) -> str:
        if self._owner != os.getpid():
            return "of the parent process"
        if self._park is None:
            return "not in force"
        ended = "".join(f", {name} {count:,}" for name, count in self.status.items())
        return f"{self._outstanding():,} in flight{ended}"


def hold(
    target: Measurable | str,
    *,
    calls: int,
    kind: str = "unary",
    method: str | None = None,
    request: Any = None,
    connections: int = 1,
    transport: str = DEFAULT_TRANSPORT,
    metadata: Mapping[str, str | int] | None = None,
    send_first: bool = False,
    deadline: float | str | None = None,
    keepalive: Any = None,
    channel_args: Mapping[str, int | str] | None = None,
    timeout: float | str = 10.0,
) -> Hold:
    """Hold `calls` calls in flight for as long as the `with` block lasts.

    The block begins when the server says that all run or are queued (a foreign target: when all were sent),
    or after `timeout`: then `held.running` is smaller than `calls`. The calls ask for grpcperf-hold, unless
    `metadata` says how long they last. `send_first`: streams send one message before they fall silent.
    Leaving cancels what is left.

    `method` and `request` as in gp.Load: of a service of one's own, whose calls have to last by themselves.
    They carry the `metadata` given and nothing else.

    Raises InvalidRequest, ConnectError, ServerDied when the server dies meanwhile, Interrupted.
    """
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidRequest(f"metadata must be a dict of texts, not {units.shown(metadata)}")
    wanted = dict(metadata or {})
    if method is None and not {str(key).lower() for key in wanted} & set(LASTING):
        wanted["grpcperf-hold"] = "2" if send_first else "1"
    most = 10_000_000
    held, opened = units.count(calls, "calls", high=most), units.count(connections, "connections", high=most)
    if held < opened:
        raise InvalidRequest(
            f"calls must be at least connections ({opened:,}), not {held:,}: each connection holds one"
        )
    spec = Load(
        kind=kind,
        method=method,
        request=request,
        concurrency=held,
        connections=opened,
        transport=transport,
        metadata=wanted,
        deadline=deadline,
        keepalive=keepalive,
        channel_args={} if channel_args is None else channel_args,
    )
    return Hold(
        as_target(target), spec, send_first=bool(send_first), timeout=units.seconds(timeout, "timeout")
    )
