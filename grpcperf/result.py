"""What a load run measured: the frozen record, and its views as a row, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from grpcperf.histogram import Histogram, read_entries
from grpcperf.spec import Load
from grpcperf.units import MIB
from grpcperf.values import FrozenDict

if TYPE_CHECKING:
    from grpcperf.stats import Interval

CLASSES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
    *("in_flight_at_end", "transport"),
)


class Status(Mapping[str, int]):
    """Calls by how they ended: gRPC status names, in_flight_at_end, transport. Each call is in exactly one
    class.

    Classes that did not occur are absent (no key, not iterated) and read as 0; a name that is no class is a
    KeyError.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[str, int] = FrozenDict()) -> None:
        for name in counts:
            self._require(name)
        self._counts = {name: counts[name] for name in CLASSES if counts.get(name, 0)}

    def __getitem__(self, name: str) -> int:
        self._require(name)
        return self._counts.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def __hash__(self) -> int:
        return hash(frozenset(self._counts.items()))

    def __repr__(self) -> str:
        return f"Status({self._counts})"

    @staticmethod
    def _require(name: str) -> None:
        if name not in CLASSES:
            import difflib  # only for the message

            near = difflib.get_close_matches(str(name).upper(), CLASSES, n=1, cutoff=0.5)
            raise KeyError(
                f"{name!r} is no class of calls" + (f"; did you mean {near[0]!r}?" if near else "")
            )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A remark on a result's validity. `invalid`: not what was asked for was measured, or it was the
    client."""

    code: str
    severity: Literal["warning", "invalid"]
    message: str  # what is so, with its numbers
    advice: str = ""  # what to do
    measured: float | str | None = None
    threshold: float | str | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"; {self.advice}" if self.advice else "")


@dataclass(frozen=True, kw_only=True)
class Window:
    """A stretch of the measured window: calls sent and finished in it, and the latencies of those that
    count."""

    start_s: float  # from the start of the measured window
    length_s: float  # all alike, but the last may be shorter; twice as long once there are many
    sent: int  # calls handed to the transport inside it
    ok: int  # completions inside it, whenever the call was sent
    failed: int
    entries: bytes = field(repr=False)  # the latencies of OK calls, sparse: see Histogram.entries

    @cached_property
    def latency(self) -> Histogram:
        return Histogram(read_entries(self.entries))


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why calls ended as they did, and how many: "the peer closed the connection"."""

    status: str
    calls: int
    text: str

    def __str__(self) -> str:
        return f"{self.status} {self.calls:,}: {self.text}"


def _causes(told: Iterable[Mapping[str, Any]]) -> tuple[Cause, ...]:
    """Most frequent first. Part of a text may be a server's own words: nothing in it is to move a cursor."""
    causes = [
        Cause(
            status=cause["status"],
            calls=cause["calls"],
            text="".join(c if c.isprintable() else "\ufffd" for c in cause["text"]),
        )
        for cause in told
    ]
    return tuple(sorted(causes, key=lambda cause: -cause.calls))


_AS_IN_WINDOW = ("start_s", "length_s", "sent", "ok", "failed", "entries")
_AS_IN_ENGINE = (
    *("window_s", "ok_in_window", "all_in_window", "messages_sent", "payload_sent", "messages_received"),
    "not_sent",
    *("bursts", "burst_calls", "largest_burst", "reconnects", "connections_opened", "tls_resumed"),
    *("connect_s", "drain_s"),
    *("client_cpu_s", "server_cpu_s", "steal", "pressure"),
)
NONE = Histogram()


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What one load run measured.

    `calls` were intended inside the measured window and sent (`not_sent`: those that were not), and each is
    in exactly one class of `status`. `service_time` is from sending to done, of the OK ones. `latency` in an
    open loop is the response time, from the intended time to done: time that a call had to wait for its
    sending counts. In a closed loop both are the same. `error_latency` is the latency of the others. Rates
    are of completions inside the window. None means: not known, or no such thing in this run.
    """

    spec: Load
    status: Status
    latency: Histogram
    service_time: Histogram
    error_latency: Histogram
    window_s: float
    ok_in_window: int
    all_in_window: int
    messages_sent: int = 0  # inside the measured window
    payload_sent: int = 0  # bytes of these messages
    messages_received: int = 0
    not_sent: int = 0  # intended inside the measured window, and dropped (open loop)
    windows: tuple[Window, ...] = ()
    connections: int = 0  # established
    reconnects: int = 0  # of connections that were lost
    connections_opened: int = 0  # inside the measured window: in place of those that were lost or spent
    tls_resumed: int = 0  # of them, those that took up an earlier TLS session (wire)
    connect_s: float | None = None
    drain_s: float | None = None
    client_cpu_s: float | None = None  # inside the measured window
    server_cpu_s: float | None = None
    send_lag: Histogram = NONE  # open loop: how late calls were sent that nothing held back
    queued: Histogram = NONE  # how long calls were held back: by max_in_flight, by the peer's limit
    send_gap: Histogram = NONE  # open loop: between calls, as each load thread sent them
    bursts: int = 0  # open loop: times at which calls were sent that nothing held back,
    burst_calls: int = 0  # these calls,
    largest_burst: int = 0  # and the most of them at once
    first_message: Histogram = NONE  # streams: from sending the call to its first message
    message_gap: Histogram = NONE  # server_stream, bidi_free: from one message to the next
    round_trip: Histogram = NONE  # bidi: from a message to its answer
    steal: float | None = None  # share of the machine's CPU time that its hypervisor gave to others
    pressure: float | None = None  # share of the time in which some task waited for a CPU
    causes: tuple[Cause, ...] = ()  # of errors, as far as known (wire); of warm-up calls too; frequent first
    findings: tuple[Finding, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=FrozenDict)  # effective, read from the wire
    environment: Mapping[str, Any] = field(default_factory=FrozenDict)

    @classmethod
    def from_engine(
        cls,
        spec: Load,
        raw: Mapping[str, Any],
        *,
        findings: Iterable[Finding] = (),
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
    ) -> Result:
        """From the dict of Run.result (see _engine.pyi)."""
        latency = Histogram.from_engine(raw["latency"])
        return cls(
            spec=spec,
            status=Status(raw["status"]),
            latency=latency,
            service_time=Histogram.from_engine(raw["service"]) if spec.is_open_loop else latency,
            error_latency=Histogram.from_engine(raw["errors"]),
            windows=tuple(
                Window(**{name: window[name] for name in _AS_IN_WINDOW}) for window in raw["windows"]
            ),
            connections=raw["connected"],
            **{name: raw[name] for name in _AS_IN_ENGINE},
            send_lag=Histogram.from_engine(raw["send_lag"]),
            queued=Histogram.from_engine(raw["queued"]),
            send_gap=Histogram.from_engine(raw["send_gap"]),
            first_message=Histogram.from_engine(raw["first_message"]),
            message_gap=Histogram.from_engine(raw["message_gap"]),
            round_trip=Histogram.from_engine(raw["round_trip"]),
            causes=_causes(raw.get("causes", ())),
            findings=tuple(findings),
            settings=FrozenDict(settings or {}),
            environment=FrozenDict(environment or {}),
        )

    # --- numbers

    @property
    def calls(self) -> int:
        """All calls intended inside the measured window and sent."""
        return sum(self.status.values())

    @property
    def errors(self) -> int:
        """Calls that did not end as OK."""
        return self.calls - self.status["OK"]

    @property
    def valid(self) -> bool:
        """Whether no finding says that something else was measured than was asked for."""
        return all(finding.severity != "invalid" for finding in self.findings)

    @property
    def throughput_rps(self) -> float:
        """OK calls completed inside the measured window, per second of it."""
        return self._per_second(self.ok_in_window)

    @property
    def offered_rate(self) -> float | None:
        """Calls that the schedule had inside the measured window, per second of it; None in a closed loop."""
        return self._per_second(self.calls + self.not_sent) if self.spec.is_open_loop else None

    @property
    def achieved_rate(self) -> float:
        """Calls of the measured window that were sent, per second of it."""
        return self._per_second(self.calls)

    @property
    def messages_sent_per_s(self) -> float:
        return self._per_second(self.messages_sent)

    @property
    def messages_received_per_s(self) -> float:
        return self._per_second(self.messages_received)

    @property
    def mib_per_s(self) -> float:
        """Payload of requests: of OK calls for unary ones, of messages sent for streams. When those of a pool
        have several sizes, by the mean of the messages that were sent."""
        requests = self.messages_sent_per_s if self.spec.is_stream else self.throughput_rps
        size = self.spec.message_bytes
        if len(set(self.spec.payload_sizes)) > 1:
            size = self.payload_sent / self.messages_sent if self.messages_sent else 0
        return requests * size / MIB

    @property
    def response_mib_per_s(self) -> float | None:
        """Payload of responses; None when the request was given, because the size of its answers is not
        known."""
        if not self.spec.is_benchmark_service:
            return None
        one_each = self.spec.kind in ("unary", "client_stream")
        responses = self.throughput_rps if one_each else self.messages_received_per_s
        return responses * self.spec.response_bytes / MIB

    @property
    def client_cpu_us_per_call(self) -> float | None:
        """CPU of the client inside the measured window, per call completed in it."""
        return self._cpu_us_per_call(self.client_cpu_s)

    @property
    def server_cpu_us_per_call(self) -> float | None:
        """CPU of the server process likewise; None when its pid is not known."""
        return self._cpu_us_per_call(self.server_cpu_s)

    def _per_second(self, count: int) -> float:
        return count / self.window_s if self.window_s > 0 else 0.0

    def _cpu_us_per_call(self, cpu_s: float | None) -> float | None:
        return None if cpu_s is None or not self.all_in_window else cpu_s / self.all_in_window * 1e6

    # --- views

    def row(self) -> dict[str, Any]:
        """One flat row for tables and JSON: units in the names, None for what is not known, never NaN.

        `status` is a dict of the classes that occurred, `findings` a list of codes; `connections` is what was
        asked for and `connected` what was established.
        """
        from grpcperf import views

        return views.row(self)

    def interval(self, metric: str, *, confidence: float = 0.95) -> Interval | None:
        """Confidence interval of a metric ("p99" in seconds, "latency_p99_us", "throughput_rps"), or None
        where it has none. Raises InvalidRequest for an unknown metric. Methods: see grpcperf.stats."""
        from grpcperf import checks

        return checks.metric(metric).interval(self, confidence=confidence)

    def check(self, *texts: str, **bounds: Any) -> Result:
        """Hold bounds against what was measured: `check(p99="<5ms", errors=0)` or `check("p99.9<20ms")`.

        Returns the result itself. Raises CheckFailed when a whole interval is on the wrong side,
        InvalidRequest for an unknown metric or a bound that is none; warns (InconclusiveWarning) when it
        cannot be decided, and when the result is not valid.
        """
        from grpcperf import checks

        wanted = [checks.parse(text) for text in texts]
        wanted += [checks.check(name, bound) for name, bound in bounds.items()]
        checks.require(self, wanted)
        return self

    def __repr__(self) -> str:
        from grpcperf import views

        return views.text(self)

    def _repr_html_(self) -> str:
        from grpcperf import views

        return views.html_table(self)
