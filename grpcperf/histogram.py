"""Latencies as Python sees them: an immutable histogram in the layout of csrc/base/histogram.h.

The layout is HdrHistogram's (Gil Tene) with three significant digits and a unit of 1 ns: values below 2,048
ns have a slot each; above that, each doubling is cut into 1,024 slots, so a slot is at most 1/1,024 of its
value wide.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from grpcperf.errors import InvalidRequest
from grpcperf.units import format_number, format_seconds

SLOTS = 33_792
MAX_NS = 3_600_000_000_000
BEYOND = 10  # samples that must lie beyond a percentile for it to be told

_HALF = 1024
_HALF_BITS = 10


def slot_of(value_ns: int) -> int:
    """The slot in which a value from 0 to an hour is counted."""
    if not 0 <= value_ns <= MAX_NS:
        raise ValueError(f"{value_ns} ns is not from 0 to {MAX_NS}")
    shift = max(0, value_ns.bit_length() - _HALF_BITS - 1)
    return (shift << _HALF_BITS) + (value_ns >> shift)


def slot_low(slot: int) -> int:
    """The smallest value counted in a slot, in ns."""
    shift = max(0, (slot >> _HALF_BITS) - 1)
    return (slot - (shift << _HALF_BITS)) << shift


def slot_high(slot: int) -> int:
    """The largest value counted in a slot, in ns."""
    shift = max(0, (slot >> _HALF_BITS) - 1)
    return slot_low(slot) + (1 << shift) - 1


class Histogram:
    """Latencies, exact to three digits. `min`, `max`, `mean` and quantiles are in seconds, None when there is
    nothing to tell; histograms of parts join exactly with `+`."""

    __slots__ = ("_max_ns", "_min_ns", "_slots", "_sum_ns", "count", "overflow")

    count: int
    overflow: int
    _slots: tuple[tuple[int, int], ...]
    _sum_ns: int
    _min_ns: int
    _max_ns: int

    def __init__(
        self,
        slots: Iterable[tuple[int, int]] = (),
        *,
        overflow: int = 0,
        sum_ns: int | None = None,
        min_ns: int | None = None,
        max_ns: int | None = None,
    ) -> None:
        """From (slot, count) pairs; what is not given of sum, min and max is taken from the slots' edges.

        `overflow` counts values above an hour: they are in the count and the sum, but in no slot.
        """
        kept = tuple(sorted((slot, n) for slot, n in slots if n))
        if any(not 0 <= slot < SLOTS or n < 0 for slot, n in kept) or len({s for s, _ in kept}) != len(kept):
            raise ValueError("slots must be distinct, inside the layout, and counted from 0 up")
        put = object.__setattr__
        put(self, "_slots", kept)
        put(self, "overflow", overflow)
        put(self, "count", overflow + sum(n for _, n in kept))
        if sum_ns is None:
            sum_ns = sum(n * (slot_low(s) + slot_high(s)) // 2 for s, n in kept) + overflow * MAX_NS
        put(self, "_sum_ns", sum_ns if self.count else 0)
        if min_ns is None:
            min_ns = slot_low(kept[0][0]) if kept else MAX_NS
        if max_ns is None:
            max_ns = MAX_NS + 1 if overflow else slot_high(kept[-1][0]) if kept else 0
        put(self, "_min_ns", min_ns if self.count else 0)
        put(self, "_max_ns", max_ns if self.count else 0)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Histogram cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return Histogram.from_json, (self.to_json(),)

    @classmethod
    def from_engine(cls, raw: Mapping[str, Any]) -> Histogram:
        """From the engine's form, see Run.result in _engine.pyi."""
        if not raw["count"]:
            return cls()
        return cls(
            read_entries(raw["entries"]),
            overflow=raw["overflow"],
            sum_ns=raw["sum_ns"],
            min_ns=raw["min_ns"],
            max_ns=raw["max_ns"],
        )

    @classmethod
    def from_values(cls, values_s: Iterable[float]) -> Histogram:
        """From latencies in seconds."""
        counts: dict[int, int] = {}
        total = overflow = 0
        low, high = None, None
        for value in values_s:
            ns = round(value * 1e9)
            total += ns
            low, high = ns if low is None else min(low, ns), ns if high is None else max(high, ns)
            if ns > MAX_NS:
                overflow += 1
            else:
                counts[slot_of(ns)] = counts.get(slot_of(ns), 0) + 1
        return cls(counts.items(), overflow=overflow, sum_ns=total, min_ns=low, max_ns=high)

    def to_json(self) -> dict[str, Any]:
        """A compact form of plain ints: slots as steps from the one before, each followed by its count."""
        flat: list[int] = []
        previous = 0
        for slot, n in self._slots:
            flat += (slot - previous, n)
            previous = slot
        return {
            "layout": "hdr-3-1ns",
            "overflow": self.overflow,
            "sum_ns": self._sum_ns,
            "min_ns": self._min_ns,
            "max_ns": self._max_ns,
            "slots": flat,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Histogram:
        """The reverse of to_json."""
        if form.get("layout") != "hdr-3-1ns":
            raise InvalidRequest(f"histogram layout must be 'hdr-3-1ns', not {form.get('layout')!r}")
        pairs, slot = [], 0
        for step, n in zip(form["slots"][::2], form["slots"][1::2], strict=True):
            slot += step
            pairs.append((slot, n))
        if not pairs and not form["overflow"]:
            return cls()
        return cls(
            pairs,
            overflow=form["overflow"],
            sum_ns=form["sum_ns"],
            min_ns=form["min_ns"],
            max_ns=form["max_ns"],
        )

    @property
    def entries(self) -> bytes:
        """The slots in the engine's form: pairs of native uint64 (slot, count) in rising order."""
        return array("Q", chain.from_iterable(self._slots)).tobytes()

    @property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """(slot, count) pairs in rising order, without empty ones."""
        return self._slots

    def quantile(self, q: float) -> float | None:
        """The value at or below which a share `q` of the samples lies, by nearest rank, in seconds.

        It is the upper edge of its slot, kept inside [min, max]. None with fewer than ten samples beyond it
        on its outer side (above it for q of 0.5 and more, else below it): it would be the luck of a few.
        """
        rank = self._rank(q)
        beyond = self.count - rank if q >= 0.5 else rank - 1
        return self.at_rank(rank) if beyond >= BEYOND else None

    def at_rank(self, rank: int) -> float | None:
        """The value of the sample of this rank (1 is the smallest) in seconds; None when there is none."""
        if not 1 <= rank <= self.count:
            return None
        if rank == 1:
            return self._min_ns / 1e9
        for slot, n in self._slots:
            rank -= n
            if rank <= 0:
                return min(max(slot_high(slot), self._min_ns), self._max_ns) / 1e9
        return self._max_ns / 1e9

    def _rank(self, q: float) -> int:
        if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
            raise InvalidRequest(f"a quantile must be from 0 to 1, not {q!r}")
        from fractions import Fraction  # late: it is not cheap to import

        # By way of the decimal text: 0.07 * 100 in floating point is above 7 and would be rank 8.
        return max(1, math.ceil(Fraction(repr(float(q))) * self.count))

    @property
    def p50(self) -> float | None:
        return self.quantile(0.5)

    @property
    def p90(self) -> float | None:
        return self.quantile(0.9)

    @property
    def p99(self) -> float | None:
        return self.quantile(0.99)

    @property
    def p999(self) -> float | None:
        return self.quantile(0.999)

    @property
    def min(self) -> float | None:
        return self._min_ns / 1e9 if self.count else None

    @property
    def max(self) -> float | None:
        return self._max_ns / 1e9 if self.count else None

    @property
    def mean(self) -> float | None:
        return self._sum_ns / self.count / 1e9 if self.count else None

    @property
    def sum(self) -> float:
        return self._sum_ns / 1e9

    def __add__(self, other: object) -> Histogram:
        if not isinstance(other, Histogram):
            return NotImplemented
        if not self.count or not other.count:
            return self if self.count else other
        counts = dict(self._slots)
        for slot, n in other._slots:
            counts[slot] = counts.get(slot, 0) + n
        return Histogram(
            counts.items(),
            overflow=self.overflow + other.overflow,
            sum_ns=self._sum_ns + other._sum_ns,
            min_ns=min(self._min_ns, other._min_ns),
            max_ns=max(self._max_ns, other._max_ns),
        )

    def __radd__(self, other: object) -> Histogram:
        return self if other == 0 else NotImplemented  # so that sum() works

    def _key(self) -> tuple[Any, ...]:
        return self._slots, self.overflow, self._sum_ns, self._min_ns, self._max_ns

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Histogram) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if not self.count:
            return "Histogram(empty)"
        told = {"p50": self.p50, "p90": self.p90, "p99": self.p99, "p99.9": self.p999, "max": self.max}
        values = ", ".join(f"{name} {format_seconds(value)}" for name, value in told.items())
        return f"Histogram({format_number(self.count)} samples, min {format_seconds(self.min)}, {values})"


def read_entries(raw: bytes) -> Iterator[tuple[int, int]]:
    """(slot, count) pairs from the engine's bytes: pairs of native uint64."""
    flat = memoryview(raw).cast("B").cast("Q")
    return zip(flat[::2].tolist(), flat[1::2].tolist(), strict=True)
