"""What memory was measured to cost: readings at rising levels, and for each field of MemStats the slope over
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.memstats import SIZES, MemStats
from grpcperf.result import Finding

if TYPE_CHECKING:
    import pandas as pd

    from grpcperf.stats import Line

FIELDS = (*(one.name for one in fields(MemStats) if one.name != "settled"), "tasks")
_OVER_TIME = ("cpu_user_s", "cpu_system_s", "context_switches", "num_gc", "pause_total_ns", "gc_cpu_fraction")


@dataclass(frozen=True, kw_only=True)
class Slope:
    """What one more call or connection adds to a field of MemStats, in the field's own unit (bytes, seconds
    or a count), with the bounds of its confidence interval.

    `naive` is the plain difference of the last and the first reading, for each call between them; `kept` what
    was still there once all had ended, in all (None unless the first level is 0). Both are means over the
    repeats. The bounds are None with too few readings, `r2` when none of them differ.
    """

    slope: float
    low: float | None
    high: float | None
    r2: float | None
    naive: float
    kept: float | None
    confidence: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Memory while `held` calls or connections were there, of `level` that were asked for. `phase` is
    "held", or "after" when all had ended."""

    repeat: int
    level: int
    held: int
    phase: str
    memory: MemStats


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryCost:
    """A Slope for each field of MemStats that the process has, by name: `cost.heap_alloc.slope`.

    A field that it has not is an AttributeError that says so. `warm`: it was measured in a process that had
    run before. Made by gp.memory_per_call and gp.memory_per_connection.
    """

    per: str  # "call" or "connection"
    title: str
    levels: tuple[int, ...]
    repeats: int
    warm: bool
    readings: tuple[Reading, ...]
    slopes: Mapping[str, Slope] = field(hash=False)
    findings: tuple[Finding, ...]

    @property
    def valid(self) -> bool:
        return all(one.severity != "invalid" for one in self.findings)

    def __getattr__(self, name: str) -> Slope:
        slopes = self.__dict__.get("slopes", {})  # a copy that is being made has none yet
        if name in slopes:
            found: Slope = slopes[name]
            return found
        if name in FIELDS:
            known = ", ".join(slopes)
            raise AttributeError(
                f"{name} is not known of this process; what is: {known}", name=name, obj=self
            )
        raise AttributeError(f"{type(self).__name__} has no {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.slopes]

    def together(self, names: Sequence[str]) -> Line:
        """The slope of several fields added up, as heap and stacks, whose interval is not the sum of
        theirs."""
        from grpcperf.stats import common_slope

        repeats: dict[int, list[tuple[float, float]]] = {}
        for one in self.readings:
            if one.phase == "held":
                value = sum(getattr(one.memory, name) for name in names)
                repeats.setdefault(one.repeat, []).append((one.held, value))
        line = common_slope(list(repeats.values()))
        assert line is not None  # there would be no MemoryCost
        return line

    def rows(self) -> list[dict[str, Any]]:
        """The readings in the order they were made: repeat, level, held, phase, and all fields of
        MemStats."""
        return [
            {"repeat": one.repeat, "level": one.level, "held": one.held, "phase": one.phase}
            | one.memory.as_dict()
            for one in self.readings
        ]

    def frame(self) -> pd.DataFrame:
        """rows() as a pandas frame."""
        from grpcperf.results import pandas

        return pandas().DataFrame(self.rows())

    def __repr__(self) -> str:
        from grpcperf.remarks import MARKS

        lines = ["  " + " ".join(_padded(cells)) for cells in (self._head(), *self._lines())]
        remarks = [f"  {MARKS[one.severity]} {one}" for one in self.findings]
        return "\n".join([self._title(), *lines, *remarks])

    def _repr_html_(self) -> str:
        from html import escape

        from grpcperf.remarks import html_findings

        cell = "padding:2px 12px 2px 0;border-top:1px solid rgba(128,128,128,.3);text-align:right"
        names = cell.replace("right", "left") + ";font-weight:normal"
        heads = "".join(f'<th style="{cell}">{escape(text)}</th>' for text in self._head())
        rows = "".join(
            f'<tr style="background:none"><th style="{names}">{escape(name)}</th>'
            + "".join(f'<td style="{cell}">{escape(text)}</td>' for text in texts)
            + "</tr>"
            for name, *texts in self._lines()
        )
        remarks = html_findings(self.findings)
        return (
            f'<div style="color:inherit">{remarks}<div><b>{escape(self._title())}</b></div>'
            f'<table style="border-collapse:collapse;color:inherit"><tr>{heads}</tr>{rows}</table></div>'
        )

    def _title(self) -> str:
        levels = ", ".join(f"{level:,}" for level in self.levels)
        state = "a running server (warm)" if self.warm else "a fresh server each"
        times = f"{self.repeats} repeat{'s' * (self.repeats != 1)}"
        return f"Memory per {self.per}: {self.title}; levels {levels}; {times}, {state}"

    def _head(self) -> list[str]:
        confidence = next(iter(self.slopes.values())).confidence
        interval = f"{confidence:.0%} interval"
        return ["", f"per {self.per}", f"{interval} from", "to", "R²", "naive", "kept in all"]

    def _lines(self) -> Iterator[list[str]]:
        """What moved, as texts, and not merely because time went by."""
        for name, one in self.slopes.items():
            if (one.slope or one.kept) and name not in _OVER_TIME:
                shown = units.format_bytes if name in SIZES else units.format_number
                r2 = units.NOTHING if one.r2 is None else f"{one.r2:.4f}"
                yield [
                    name,
                    *map(shown, (one.slope, one.low, one.high)),
                    r2,
                    shown(one.naive),
                    shown(one.kept),
                ]


def _padded(cells: Sequence[str]) -> Iterator[str]:
    widths = (16, 14, 18, 14, 8, 14, 14)
    yield f"{cells[0]:<{widths[0]}}"
    yield from (f"{text:>{width}}" for text, width in zip(cells[1:], widths[1:], strict=True))


def slopes_of(repeats: Sequence[Sequence[Reading]]) -> dict[str, Slope]:
    """A slope for every field that is known in every reading; in each repeat at least two have to differ in
    what was held."""
    slopes = {}
    for name in FIELDS:
        columns = [[(one, getattr(one.memory, name)) for one in readings] for readings in repeats]
        if all(value is not None for column in columns for _, value in column):
            slopes[name] = _slope_of(columns)
    return slopes


def _slope_of(columns: Sequence[Sequence[tuple[Reading, float]]]) -> Slope:
    from statistics import fmean  # with stats: importing the package should cost little

    from grpcperf.stats import common_slope

    points = [[(one.held, value) for one, value in column if one.phase == "held"] for column in columns]
    line = common_slope(points)
    assert line is not None
    steps = [(first, last) for first, *_, last in points if last[0] != first[0]]
    naive = (
        fmean((last[1] - first[1]) / (last[0] - first[0]) for first, last in steps) if steps else line.slope
    )
    from_nothing = all(column[0][0].level == 0 for column in columns)
    kept = fmean(column[-1][1] - column[0][1] for column in columns) if from_nothing else None
    return Slope(
        slope=line.slope,
        low=line.low,
        high=line.high,
        r2=line.r2,
        naive=naive,
        kept=kept,
        confidence=line.confidence,
    )
