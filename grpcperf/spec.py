"""Load: what is to be measured, as one frozen and checked value."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from grpcperf import payloads, schedule, units
from grpcperf.errors import InvalidRequest
from grpcperf.metadata import check_metadata
from grpcperf.values import FrozenDict, check_cpus, refuse_unknown

SERVICE = "/grpc.testing.BenchmarkService/"
METHODS = {
    "unary": SERVICE + "UnaryCall",
    "server_stream": SERVICE + "StreamingFromServer",
    "client_stream": SERVICE + "StreamingFromClient",
    "bidi": SERVICE + "StreamingCall",
    "bidi_free": SERVICE + "StreamingBothWays",
}
KINDS = tuple(METHODS)
# "wire" is our own lean client, "core" the real gRPC C core.
TRANSPORTS = ("wire", "core")
DEFAULT_TRANSPORT = "wire"
PICKS = ("round_robin", "locked", "least_loaded")
DEFAULT_CONCURRENCY = 64

# Calls in flight, connections: far above what a machine holds, far below where counters wrap.
_MOST = 10_000_000
# What may be given as an array (of numpy, say): all else is one value.
_LISTS = ("request", "request_size", "steps", "cpus")

_C = TypeVar("_C", bound=type)


def _remember_given(cls: _C) -> _C:
    """Let the dataclass know which of its fields were given, and refuse an unknown one as InvalidRequest."""
    generated = cls.__init__  # type: ignore[misc]

    @functools.wraps(generated)
    def init(self: Any, **given: Any) -> None:
        refuse_unknown(given, (f.name for f in fields(cls)), f"argument of {cls.__name__}")
        object.__setattr__(self, "_given", frozenset(given))
        generated(self, **given)

    cls.__init__ = init  # type: ignore[misc]
    return cls


@_remember_given
@dataclass(frozen=True, kw_only=True)
class Load:
    """One load on one target. Durations are seconds or "200ms", "2s", "1m"; sizes bytes or "64KiB".

    Everything is checked and brought into its plain form (seconds, bytes, dicts that cannot be changed) when
    it is made; raises InvalidRequest naming the argument, the value and the bounds. `concurrency` (calls kept
    in flight) rises with `connections` unless it was given; `calls` switches `duration` off unless both were
    given, then whichever ends first. `messages_per_stream=None` lets streams run until the end of the run.

    `rate` or `steps` make it an open loop: calls are sent when a schedule says (grpcperf.schedule:
    arrival, steps, seed), whatever becomes of those before, with at most `max_in_flight` at a time. What
    then becomes of a call that finds no room is said by `catch_up`: "none" drops it at its intended time,
    "bounded" lets it wait for 100 ms, "full" to the end of the run. What was dropped is `not_sent`.
    `steps` say how long the window is, unless `calls` or a longer `duration` do: then the last rate goes on.

    `request` may be a pool, an iterable of requests: each message sent is drawn from it, as `seed`, its
    connection, its call's number on that and its own number in the call say. So may `request_size`, a list
    of sizes for the BenchmarkService's requests made here, whose payloads are random bytes of that seed:
    `[16] * 64` for 64 different ones. A pool lies in memory, and costs some ns per message.

    `transport`: "wire" is a lean client of our own, "core" the gRPC C core's, whose costs per call are many
    times those of wire: it is there to be measured itself, and takes `channel_args` (C core's, by name:
    grpcperf.targets.channel_args.TABLE) and `keepalive` (gp.Keepalive). Of wire alone are
    `window` (bytes that the peer may send on a stream and on a connection before it is told to go on; 4 and
    16 MiB) and `busy_poll` (a thread never sleeps: lags of microseconds for a whole CPU). `compression`:
    "gzip" sends messages compressed.

    `pick`: which connection takes the next call. "round_robin": each in its turn; "least_loaded": the one
    with fewest calls in flight (which with core may be one that is broken, as its calls end at once);
    "locked": in turn, under one lock that all load threads share and hold from the choice until the call has
    been handed to its connection, as callers would that share a pool. Each thread has its own connections
    all the same, and no other lock. `calls_per_connection` (wire): a connection that has been given so many
    calls gets no more, another is set up in its place, and it is closed when they have ended; a call that
    finds none waits, and its latency has that wait in it.
    """

    kind: str = "unary"
    method: str | None = None
    request: Any = None
    connections: int = 1
    concurrency: int = DEFAULT_CONCURRENCY
    duration: float | str | None = 2.0
    calls: int | None = None
    warmup: float | str = 0.5
    drain: float | str = 1.0
    rate: float | None = None
    arrival: str = "poisson"
    steps: Any = None
    catch_up: str = "bounded"
    max_in_flight: int = 10_000
    think_time: float | str = 0.0
    request_size: Any = 16
    response_size: int | str = 16
    messages_per_stream: int | None = None
    deadline: float | str | None = None
    metadata: Mapping[str, str | int | bytes] = field(default_factory=dict)
    compression: str | None = None
    transport: str = DEFAULT_TRANSPORT
    pick: str = "round_robin"
    calls_per_connection: int | None = None
    window: int | str | None = None
    channel_args: Mapping[str, int | str] = field(default_factory=dict)
    keepalive: Any = None
    busy_poll: bool = False
    threads: int = 1
    seed: int = 0
    cpus: Any = None

    # Which fields were given by name; set per object before the fields are. Not a field: it takes no part in
    # equality, repr or the constructor.
    _given: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        self._check_arrays()
        self._check_words()
        self._check_transport()
        self._check_request()
        self._check_numbers()
        for name, value in schedule.check_loop(self, self._given).items():
            self._set(name, value)
        self._check_end()

    def replace(self, **changes: Any) -> Load:
        """A spec with these changes, checked anew. What was left to its default is left to it again."""
        given = {name: getattr(self, name) for name in self._given}
        return type(self)(**(given | changes))

    __replace__ = replace  # copy.replace, Python 3.13

    @property
    def path(self) -> str:
        """The method called, "/package.Service/Method"."""
        return self.method or METHODS[self.kind]

    @property
    def is_stream(self) -> bool:
        return self.kind != "unary"

    @property
    def is_endless(self) -> bool:
        """Streams that last as long as the run: few by nature, and their messages are what counts."""
        return self.is_stream and self.messages_per_stream is None

    @property
    def is_benchmark_service(self) -> bool:
        """Whether requests are made by us, so that request_size and response_size mean something."""
        return self.request is None

    @property
    def is_open_loop(self) -> bool:
        return self.rate is not None or self.steps is not None

    @property
    def most_in_flight(self) -> int:
        """Calls kept in flight, or in an open loop never exceeded."""
        return self.max_in_flight if self.is_open_loop else self.concurrency

    @property
    def most_connections(self) -> int:
        """Connections at a time; spent ones live on for their calls, while others are set up."""
        return self.connections + (self.most_in_flight if self.calls_per_connection else 0)

    @property
    def payload_sizes(self) -> tuple[int, ...]:
        """Payload of each request of the pool: request_size, or the lengths of those that were given."""
        if self.request is None:
            return self.request_size if isinstance(self.request_size, tuple) else (self.request_size,)
        return tuple(map(len, self.request)) if isinstance(self.request, tuple) else (len(self.request),)

    @property
    def message_bytes(self) -> int | float:
        """Payload of one request; the mean of a pool."""
        sizes = self.payload_sizes
        return sizes[0] if len(set(sizes)) == 1 else sum(sizes) / len(sizes)

    @property
    def response_bytes(self) -> int:
        """Payload asked of one response; without meaning when the request was given."""
        return int(self.response_size)

    def engine_request(self, benchmark_request: Callable[[int, int, int], bytes]) -> dict[str, Any]:
        """The Request of _engine.pyi; `benchmark_request` is the engine's function of that name."""
        if self.request is None:
            pool = tuple(
                benchmark_request(size, self.response_bytes, (self.seed + i) % 2**64)
                for i, size in enumerate(self.payload_sizes)
            )
        else:
            pool = self.request if isinstance(self.request, tuple) else (self.request,)
        return {
            "kind": self.kind,
            "method": self.path,
            "pool": pool,
            "seed": self.seed,
            "metadata": list(self.metadata.items()),
            "deadline": self.deadline or 0.0,
            "messages": self.messages_per_stream or 0,
        }

    # --- checks, in the order they are made

    def _check_arrays(self) -> None:
        for name in self._given:
            value = getattr(self, name)
            if isinstance(value, memoryview) or not (hasattr(value, "ndim") and hasattr(value, "tolist")):
                continue
            if value.ndim and name not in _LISTS:
                raise InvalidRequest(f"{name} must be one value, not an array")
            self._set(name, value.tolist())

    def _check_words(self) -> None:
        units.one_of(self.kind, "kind", KINDS)
        units.one_of(self.transport, "transport", TRANSPORTS)
        units.one_of(self.pick, "pick", PICKS)
        if self.compression is not None:
            units.one_of(self.compression, "compression", ("gzip",))
        if not isinstance(self.busy_poll, bool):
            raise InvalidRequest(f"busy_poll must be True or False, not {self.busy_poll!r}")
        from grpcperf.targets import channel_args  # a table that is not always wanted

        self._set("metadata", FrozenDict(check_metadata(self.metadata)))
        self._set("channel_args", channel_args.check_channel_args(self.channel_args, "client"))
        self._set("cpus", check_cpus(self.cpus))

    def _check_transport(self) -> None:
        """What one transport cannot do is refused, not ignored."""
        from grpcperf.targets import keepalive

        keepalive.check_of_client(self.keepalive, self.channel_args, self.transport)
        if self.channel_args and self.transport != "core":
            raise InvalidRequest(
                f"channel_args are gRPC C core's; transport {self.transport!r} has none: "
                "give transport='core'"
            )
        if self.busy_poll and self.transport == "core":
            raise InvalidRequest("busy_poll is of transport 'wire': C core waits as it does")
        if self.calls_per_connection is not None and self.transport == "core":
            raise InvalidRequest(
                "calls_per_connection is of transport 'wire': C core's channels keep their connections"
            )
        if self.window is not None and self.transport == "core":
            raise InvalidRequest(
                "window is of transport 'wire'; C core has channel_args for it "
                "(grpc.http2.lookahead_bytes with grpc.http2.bdp_probe=0)"
            )
        if self.window is not None:
            self._set("window", units.size_bytes(self.window, "window", low=1, high=2**31 - 1))

    def _check_request(self) -> None:
        if self.method is not None and not (
            isinstance(self.method, str) and re.fullmatch(r"/[!-.0-~]+/[!-.0-~]+", self.method)
        ):
            raise InvalidRequest(f'method must be "/package.Service/Method", not {self.method!r}')
        if self.request is not None:
            self._set("request", payloads.serialized(self.request))
            for name in ("request_size", "response_size"):
                if name in self._given:
                    raise InvalidRequest(
                        f"{name} is of the requests that are made here; it contradicts request="
                    )
        elif self.method is not None and not self.method.startswith(SERVICE):
            raise InvalidRequest(f"method {self.method} needs request= (bytes, b'' for an empty message)")

    def _check_numbers(self) -> None:
        self._set("connections", units.count(self.connections, "connections", high=_MOST))
        for name in ("concurrency", "max_in_flight"):
            self._set(name, self._checked_in_flight(name))
        if self.calls_per_connection is not None:
            self._set("calls_per_connection", units.count(self.calls_per_connection, "calls_per_connection"))
        self._set("threads", units.count(self.threads, "threads", high=1024))
        if self.threads > self.connections:
            raise InvalidRequest(
                f"threads must be at most connections ({self.connections:,}), not {self.threads}: "
                "each connection belongs to one thread"
            )
        for name in ("warmup", "drain", "think_time"):
            self._set(name, units.seconds(getattr(self, name), name))
        self._set("request_size", payloads.sizes(self.request_size, "request_size"))
        self._set("response_size", units.size_bytes(self.response_size, "response_size"))
        if self.deadline is not None:
            self._set("deadline", units.seconds(self.deadline, "deadline", above=True))
        self._set("seed", units.count(self.seed, "seed", low=0, high=2**64 - 1))
        if self.messages_per_stream is not None:
            self._set("messages_per_stream", units.count(self.messages_per_stream, "messages_per_stream"))
            if not self.is_stream:
                raise InvalidRequest("messages_per_stream has no meaning for kind 'unary'; leave it out")

    def _checked_in_flight(self, name: str) -> int:
        """Calls in flight: at least one for each connection, without which it measures nothing."""
        wanted = units.count(getattr(self, name), name, high=_MOST)
        if name not in self._given:
            return max(wanted, self.connections)
        if wanted < self.connections:
            raise InvalidRequest(
                f"{name} must be at least connections ({self.connections:,}), not {wanted:,}: "
                "a connection without a call in flight measures nothing"
            )
        return wanted

    def _check_end(self) -> None:
        if self.calls is not None:
            self._set("calls", units.count(self.calls, "calls", high=2**62))
            if "duration" not in self._given:
                self._set("duration", None)
        elif self.steps is not None and "duration" not in self._given:
            self._set("duration", schedule.length_s(self.steps))
        if self.duration is not None:
            self._set("duration", units.seconds(self.duration, "duration", above=True))
            self._check_steps_fit()
        elif self.calls is None:
            raise InvalidRequest(
                "duration is None and calls is None: nothing would end the run; give one of them"
            )
        elif self.is_stream and self.messages_per_stream is None:
            raise InvalidRequest(
                f"calls={self.calls:,} of kind {self.kind!r} would never end: "
                "give messages_per_stream or duration"
            )

    def _check_steps_fit(self) -> None:
        if self.steps is None or self.duration is None:
            return
        wanted_s = schedule.length_s(self.steps)
        if float(self.duration) < wanted_s * (1 - 1e-9):
            raise InvalidRequest(
                f"duration must be at least that of the steps ({units.format_seconds(wanted_s)}), "
                f"not {units.format_seconds(float(self.duration))}: it would cut them; leave it out"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
