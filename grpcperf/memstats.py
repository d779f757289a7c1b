"""One reading of a process's memory, in Go's words where the meaning is Go's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from grpcperf.units import format_bytes, format_number

_GO_NAMES = {
    "heap_alloc": "HeapAlloc",
    "heap_sys": "HeapSys",
    "heap_idle": "HeapIdle",
    "stack_inuse": "StackInuse",
    "stack_sys": "StackSys",
    "sys": "Sys",
    "total_alloc": "TotalAlloc",
    "mallocs": "Mallocs",
    "frees": "Frees",
    "heap_objects": "HeapObjects",
    "num_gc": "NumGC",
    "pause_total_ns": "PauseTotalNs",
    "gc_cpu_fraction": "GCCPUFraction",
}
_FRACTIONS = {"GCCPUFraction"}
SIZES = {
    *("heap_alloc", "heap_sys", "heap_idle", "stack_inuse", "stack_sys", "sys", "total_alloc"),
    *("rss", "rss_anon", "pss", "peak_rss", "socket_bytes"),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class MemStats:
    """Sizes in bytes, CPU in seconds since the process's start, the rest counts. A field that has no meaning
    for the process, or was not asked for, is None and never 0.

    `socket_bytes` is what the kernel charges to the process's TCP and Unix sockets: what lies in their queues
    with its overhead, and what they have reserved ahead. The socket objects themselves are charged to nobody
    and are not in it (about 10 KiB for the two ends of a connection), so for idle connections it is near 0.
    None for a process in another network namespace.
    `context_switches` are those of the threads alive, `sys` of a process that does not tell it itself its
    private writable mappings.
    `settled` is False when settle was asked for and the numbers did not come to rest.
    """

    heap_alloc: int | None = None
    heap_sys: int | None = None
    heap_idle: int | None = None
    stack_inuse: int | None = None
    stack_sys: int | None = None
    sys: int | None = None
    total_alloc: int | None = None
    mallocs: int | None = None
    frees: int | None = None
    heap_objects: int | None = None
    num_gc: int | None = None
    pause_total_ns: int | None = None
    gc_cpu_fraction: float | None = None
    rss: int | None = None
    rss_anon: int | None = None
    pss: int | None = None
    peak_rss: int | None = None
    socket_bytes: int | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    context_switches: int | None = None
    threads: int | None = None
    fds: int | None = None
    streams: int | None = None
    running: int | None = None
    goroutines: int | None = None
    threadless: int | None = None  # running handlers that own no thread
    own_threads: int | None = None  # without those of gRPC's own pools, which come and go by themselves
    settled: bool = True

    @property
    def tasks(self) -> int | None:
        """What is scheduled: goroutines, or threads and the handlers that own no thread.

        Where the server can tell its own threads from gRPC's pools, only its own count: the pools grow with
        load and shrink when they like, which would blur a baseline.
        """
        if self.goroutines is not None:
            return self.goroutines
        threads = self.threads if self.own_threads is None else self.own_threads
        return None if threads is None else threads + (self.threadless or 0)

    def as_go(self) -> dict[str, int | float]:
        """What is known, under the names of Go's runtime.MemStats in JSON."""
        values = ((go, getattr(self, name)) for name, go in _GO_NAMES.items())
        return {go: value for go, value in values if value is not None}

    def as_dict(self) -> dict[str, int | float | bool | None]:
        """All fields and `tasks`, for JSON and frames."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"tasks": self.tasks}

    @classmethod
    def from_native(cls, inside: Mapping[str, Any], outside: Mapping[str, Any]) -> MemStats:
        """From what the native server says (Child.memstats), with its exact counts over it where it has them
        (Counting.read), and what the kernel says of it (process_sample)."""
        return cls(**_outside(outside), **{name: inside[name] for name in _INSIDE if name in inside})

    @classmethod
    def from_process(
        cls, outside: Mapping[str, Any], inside: Mapping[str, int | float] | None = None
    ) -> MemStats:
        """Of any process, from process_sample; `sys` is its writable mappings, where these were asked for.
        `inside`: what is known from within, by the fields' names, and goes before that."""
        known = {"threads": outside.get("threads"), "sys": outside.get("writable")}
        return cls(**(_outside(outside) | known | dict(inside or {})))

    def __repr__(self) -> str:
        return "\n".join(
            ["MemStats" + self._remark(), *(f"  {name:<16} {text:>12}" for name, text in self._lines())]
        )

    def _repr_html_(self) -> str:
        import html

        name_cell = '<th style="text-align:left;padding-right:1em;font-weight:normal">'
        rows = "".join(
            f'<tr style="background:none">{name_cell}{html.escape(name)}</th>'
            f'<td style="text-align:right">{html.escape(text)}</td></tr>'
            for name, text in self._lines()
        )
        caption = f"<caption>MemStats{html.escape(self._remark())}</caption>"
        return f'<table style="border-collapse:collapse;color:inherit">{caption}{rows}</table>'

    def _remark(self) -> str:
        return "" if self.settled else " (did not come to rest)"

    def _lines(self) -> list[tuple[str, str]]:
        """What is known, as (name, text), for both representations."""
        known = (
            (name, value) for name, value in self.as_dict().items() if value is not None and name != "settled"
        )
        return [
            (name, format_bytes(value) if name in SIZES else format_number(value)) for name, value in known
        ]


_INSIDE = (
    *("heap_alloc", "heap_sys", "heap_idle", "stack_inuse", "stack_sys", "sys"),
    *("total_alloc", "mallocs", "frees", "heap_objects"),  # with the malloc counter
    *("threads", "own_threads", "running", "streams", "threadless", "settled"),
)
_OUTSIDE = (
    *("rss", "rss_anon", "pss", "peak_rss", "socket_bytes"),
    *("cpu_user_s", "cpu_system_s", "context_switches", "fds"),
)


def _outside(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {name: sample[name] for name in _OUTSIDE if name in sample}


def from_go(memory: Mapping[str, Any]) -> dict[str, int | float]:
    """The fields of MemStats in the JSON of Go's runtime.MemStats; what is no number there is left out."""
    fields: dict[str, int | float] = {}
    for name, go in _GO_NAMES.items():
        value = memory.get(go)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            fields[name] = float(value) if go in _FRACTIONS else int(value)
    return fields
