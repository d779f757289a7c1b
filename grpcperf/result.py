"""What a load run measured: the frozen record, and its views as a row, as text and as HTML."""

from __future__ import annotations

import difflib
import html
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from grpcperf.histogram import Histogram, read_entries
from grpcperf.spec import FrozenDict, Load
from grpcperf.units import MIB, format_bytes, format_number, format_seconds

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
    """A stretch of the measured window: completions inside it, and the latencies of those that count."""

    start_s: float  # from the start of the measured window
    length_s: float  # the last one may be shorter
    ok: int
    failed: int
    entries: bytes = field(repr=False)  # the latencies of OK calls, sparse: see Histogram.entries

    @cached_property
    def latency(self) -> Histogram:
        return Histogram(read_entries(self.entries))


_AS_IN_WINDOW = ("start_s", "length_s", "ok", "failed", "entries")
_AS_IN_ENGINE = (
    *("window_s", "ok_in_window", "all_in_window", "messages_sent", "messages_received"),
    *("reconnects", "connect_s", "drain_s", "client_cpu_s", "server_cpu_s"),
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What one load run measured.

    `calls` were sent inside the measured window, and each is in exactly one class of `status`; `latency` and
    `service_time` are those of the OK ones (in closed loop the same: from sending to done), `error_latency`
    those of the others. Rates are of completions inside the window. None means: not known, or no such thing
    in this run.
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
    messages_received: int = 0
    not_sent: int = 0
    windows: tuple[Window, ...] = ()
    connections: int = 0  # established
    reconnects: int = 0
    connect_s: float | None = None
    drain_s: float | None = None
    client_cpu_s: float | None = None  # inside the measured window
    server_cpu_s: float | None = None
    offered_rate: float | None = None  # calls per second that the schedule asked for; None in closed loop
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
            service_time=latency,
            error_latency=Histogram.from_engine(raw["errors"]),
            windows=tuple(
                Window(**{name: window[name] for name in _AS_IN_WINDOW}) for window in raw["windows"]
            ),
            connections=raw["connected"],
            **{name: raw[name] for name in _AS_IN_ENGINE},
            findings=tuple(findings),
            settings=FrozenDict(settings or {}),
            environment=FrozenDict(environment or {}),
        )

    # --- numbers

    @property
    def calls(self) -> int:
        """All calls sent inside the measured window."""
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
    def achieved_rate(self) -> float:
        """Calls sent inside the measured window, per second of it."""
        return self._per_second(self.calls)

    @property
    def messages_sent_per_s(self) -> float:
        return self._per_second(self.messages_sent)

    @property
    def messages_received_per_s(self) -> float:
        return self._per_second(self.messages_received)

    @property
    def mib_per_s(self) -> float:
        """Payload of requests: of OK calls for unary ones, of messages sent for streams."""
        requests = self.messages_sent_per_s if self.spec.is_stream else self.throughput_rps
        return requests * self.spec.message_bytes / MIB

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
        spec = self.spec
        row = {
            "transport": spec.transport,
            "kind": spec.kind,
            "method": spec.path,
            "connections": spec.connections,
            "concurrency": spec.concurrency,
            "threads": spec.threads,
            "request_size": spec.message_bytes,
            "response_size": spec.response_bytes if spec.is_benchmark_service else None,
            "messages_per_stream": spec.messages_per_stream,
            "calls": self.calls,
            "errors": self.errors,
            "status": dict(self.status),
            "not_sent": self.not_sent,
            "throughput_rps": self.throughput_rps,
            "mib_per_s": self.mib_per_s,
            "response_mib_per_s": self.response_mib_per_s,
            "messages_sent_per_s": self.messages_sent_per_s,
            "messages_received_per_s": self.messages_received_per_s,
            **_latencies("latency", self.latency),
            **_latencies("service_time", self.service_time),
            **_latencies("error_latency", self.error_latency),
            "offered_rate": self.offered_rate,
            "achieved_rate": self.achieved_rate,
            "client_cpu_us_per_call": self.client_cpu_us_per_call,
            "server_cpu_us_per_call": self.server_cpu_us_per_call,
            "connected": self.connections,
            "reconnects": self.reconnects,
            "connect_s": self.connect_s,
            "window_s": self.window_s,
            "valid": self.valid,
            "findings": [finding.code for finding in self.findings],
        }
        return {key: None if _is_no_number(value) else value for key, value in row.items()}

    def interval(self, metric: str, *, confidence: float = 0.95) -> Interval | None:
        """Confidence interval of a metric ("p99" in seconds, "latency_p99_us", "throughput_rps"), or None
        where it has none. Raises InvalidRequest for an unknown metric. Methods: see grpcperf.stats."""
        from grpcperf import checks

        return checks.metric(metric).interval(self, confidence=confidence)

    def check(self, *texts: str, **bounds: Any) -> Result:
        """Hold bounds against what was measured: `check(p99="<5ms", errors=0)` or `check("p99.9<20ms")`.

        Returns the result itself. Raises CheckFailed when a whole interval is on the wrong side,
        InvalidRequest for an unknown metric or a bound that is none; warns (InconclusiveWarning) when it
        cannot be decided.
        """
        from grpcperf import checks

        wanted = [checks.parse(text) for text in texts]
        wanted += [checks.check(name, bound) for name, bound in bounds.items()]
        checks.require(self, wanted)
        return self

    def __repr__(self) -> str:
        head = f"Result{'' if self.valid else ' (NOT VALID)'}: {self._title()}"
        lines = [f"  {name:<13} {'   '.join(parts)}" for name, parts in self._lines()]
        for one in self.findings:
            mark = "✗" if one.severity == "invalid" else "!"
            lines += textwrap.wrap(f"{mark} {one}", 108, initial_indent="  ", subsequent_indent="    ")
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        """A table for notebooks; colours are translucent, so that it reads on light and dark."""
        colours = {"warning": "204,136,0", "invalid": "221,51,51"}
        cell = "padding:2px 12px 2px 0;border-top:1px solid rgba(128,128,128,.3);text-align:left"
        apart = "display:inline-block;margin-right:1.4em"
        remarks = rows = ""
        for one in self.findings:
            colour = colours[one.severity]
            style = f"border-left:4px solid rgb({colour});background:rgba({colour},.12);padding:2px 8px"
            code, text = html.escape(one.code), html.escape(str(one).removeprefix(f"{one.code}: "))
            remarks += f'<div style="{style}"><b>{code}</b> ({one.severity}): {text}</div>'
        for name, parts in self._lines():
            rows += (
                f'<tr style="background:none"><th style="{cell};font-weight:normal">{html.escape(name)}</th>'
            )
            spans = "".join(f'<span style="{apart}">{html.escape(part)}</span>' for part in parts)
            rows += f'<td style="{cell}">{spans}</td></tr>'
        valid = "" if self.valid else ' <b style="color:rgb(221,51,51)">not valid</b>'
        return (
            f'<div style="color:inherit">{remarks}<div><b>{html.escape(self._title())}</b>{valid}</div>'
            f'<table style="border-collapse:collapse;color:inherit">{rows}</table></div>'
        )

    def _title(self) -> str:
        spec = self.spec
        sizes = format_bytes(spec.message_bytes)
        if spec.is_benchmark_service:
            sizes += f" → {format_bytes(spec.response_bytes)}"
        parts = [
            f"{spec.kind if spec.method is None else f'{spec.kind} {spec.path}'} over {spec.transport}",
            f"{self.connections:,} connection{'s' * (self.connections != 1)}",
            f"{spec.concurrency:,} in flight",
            sizes,
            format_seconds(self.window_s),
        ]
        if spec.messages_per_stream is not None:
            parts.insert(3, f"{spec.messages_per_stream:,} messages per stream")
        return ", ".join(parts)

    def _lines(self) -> Iterator[tuple[str, list[str]]]:
        """What both representations show: a name and its parts."""
        payload = {"out": self.mib_per_s, "back": self.response_mib_per_s}
        flow = [f"{format_number(mib)} MiB/s {way}" for way, mib in payload.items() if mib is not None]
        endless = self.spec.is_endless
        yield "throughput", flow if endless else [f"{format_number(self.throughput_rps)} calls/s", *flow]
        if self.spec.is_stream:
            rates = {"out": self.messages_sent_per_s, "back": self.messages_received_per_s}
            yield "messages", [f"{format_number(rate)}/s {way}" for way, rate in rates.items()]
        failed = ", ".join(f"{name} {n:,}" for name, n in self.status.items() if name != "OK")
        yield (
            "calls",
            [
                f"{self.calls:,}",
                f"errors {self.errors:,}" + (f" ({failed})" if failed else ""),
                *([f"not sent {self.not_sent:,}"] if self.not_sent else []),
            ],
        )
        if self.latency.count:
            told = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max"}
            label = "stream's life" if self.spec.is_stream else "latency"
            yield label, [f"{name} {format_seconds(getattr(self.latency, x))}" for name, x in told.items()]
            if not (endless or self.spec.is_open_loop):
                yield "", ["service time of a closed loop: coordinated omission possible"]
        costs = {"client": self.client_cpu_us_per_call, "server": self.server_cpu_us_per_call}
        shown = [f"{who} {format_number(us)} µs" for who, us in costs.items() if us is not None]
        if shown:
            yield "CPU per call", shown


def _latencies(name: str, histogram: Histogram) -> dict[str, float | None]:
    """A histogram's columns in µs."""
    parts = ("p50", "p90", "p99", "p999", "min", "mean", "max")
    values = ((part, getattr(histogram, part)) for part in parts)
    # To the ns, which is what was measured, and without the dust of the conversion.
    return {f"{name}_{part}_us": None if value is None else round(value * 1e6, 3) for part, value in values}


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
