"""Figures of what was measured, as matplotlib Axes: every function takes an Axes (None: a new figure) and
returns it, with its units on the labels.

Lines differ in colour, marker and dashes, so that they can be told apart in greyscale and by the
colour-blind. What is not valid has a cross, what is not known is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from grpcperf import figures
from grpcperf.errors import InvalidRequest
from grpcperf.figures import look
from grpcperf.histogram import Histogram, slot_high, slot_low
from grpcperf.labels import label, short
from grpcperf.report import require_extras
from grpcperf.result import Result
from grpcperf.summary import Summary, summarise
from grpcperf.units import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.comparison import Comparison
    from grpcperf.memory_cost import MemoryCost
    from grpcperf.results import Results
    from grpcperf.sampler import Sampler

MOST_TICKS = 8  # of values that are marked one by one
NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)


def curve(results: Results, x: str, y: str, by: str | None = None, ax: Axes | None = None) -> Axes:
    """A metric over an axis of a sweep, a line for each value of `by`; bars are intervals over repeats.
    Raises InvalidRequest for a name that no row has."""
    axes = _axes(ax)
    lines: dict[Any, list[Summary]] = {}
    for one in summarise(results, y, [x] if by is None else [by, x]):
        lines.setdefault(None if by is None else one.point[by], []).append(one)
    places = _places([one.point[x] for line in lines.values() for one in line])
    for at, (group, line) in enumerate(lines.items()):
        where = [places.get(one.point[x], one.point[x]) for one in line]
        _line(axes, where, line, at, None if by is None else f"{short(by)} {group}")
    _scale_x(axes, places, [one.point[x] for line in lines.values() for one in line])
    axes.set_xlabel(label(x))
    axes.set_ylabel(label(y))
    _from_zero(axes)
    return _finished(axes, legend=by is not None)


def lines(ax: Axes, rows: Sequence[Mapping[str, Any]], x: str, y: str, by: str | None = None) -> Axes:
    """A metric over a parameter, from rows as experiments have them: a line for each value of `by`, bars from
    <metric>_low to <metric>_high where a row has them."""
    found: dict[Any, list[Summary]] = {}
    for row in rows:
        if row.get(x) is None:
            continue
        low, high = row.get(f"{y}_low"), row.get(f"{y}_high")
        floor = 0.0 if (row.get(y) or 0) >= 0 else -math.inf
        one = Summary(point=row, value=row.get(y), low=None if low is None else max(floor, low), high=high)
        found.setdefault(None if by is None else row.get(by), []).append(one)
    places = _places(row[x] for row in rows if row.get(x) is not None)
    for at, (group, line) in enumerate(found.items()):
        where = [places.get(one.point[x], one.point[x]) for one in line]
        _line(ax, where, line, at, None if by is None else str(group))
    _scale_x(ax, places, [one.point[x] for line in found.values() for one in line])
    ax.set_xlabel(label(x))
    ax.set_ylabel(label(y))
    _from_zero(ax)
    return _finished(ax, legend=by is not None)


def latency_over_rate(
    results: Results,
    percentiles: Sequence[str] = ("p50", "p99"),
    by: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Latency against the rate that was achieved: flat, then steep where the server is full. Points are
    joined in the order of the sweep's first axis."""
    axes = _axes(ax)
    results.require(["achieved_rate", *(f"latency_{one}_us" for one in percentiles)])
    series = 0
    groups = list(dict.fromkeys(record.cells().get(by) for record in results)) if by else [None]
    for group in groups:
        chosen = results if by is None else results.select(**{by: group})
        rates = summarise(chosen, "achieved_rate")
        for name in percentiles:
            points = summarise(chosen, f"latency_{name}_us")
            where = [math.nan if one.value is None else one.value for one in rates]
            _line(axes, where, points, series, " ".join(filter(None, [name, by and f"{short(by)} {group}"])))
            series += 1
    axes.set_xlabel(label("achieved_rate"))
    axes.xaxis.set_major_formatter(figures.plain_digits())
    axes.set_ylabel("latency (µs)")
    _logarithmic_y(axes)
    return _finished(axes, legend=True)


def percentiles(
    results: Result | Histogram | Mapping[str, Result | Histogram], ax: Axes | None = None
) -> Axes:
    """Latency over percentiles, on an axis where each further nine takes the same room. A line ends where
    fewer than ten samples lie beyond."""
    axes = _axes(ax)
    given = results if isinstance(results, Mapping) else {"": results}
    furthest = 0.9
    for at, (name, one) in enumerate(given.items()):
        histogram = one.latency if isinstance(one, Result) else one
        if not isinstance(histogram, Histogram):
            raise InvalidRequest(f"percentiles are of a Result or a Histogram, not {shown(one)}")
        known = [(q, histogram.quantile(q)) for q in _quantiles()]
        points = [(q, value) for q, value in known if value is not None]
        how = {**look(at), "marker": ""}
        axes.plot(
            [_nines(q) for q, _ in points], [value * 1e6 for _, value in points], label=name or None, **how
        )
        furthest = max([furthest, *(q for q, _ in points)])
    ticks = [q for q in NINES if q <= furthest + 1e-9]
    axes.set_xticks([_nines(q) for q in ticks], [f"{q * 100:.10g}" for q in ticks])
    axes.set_xlabel("percentile (%)")
    axes.set_ylabel("latency (µs)")
    _logarithmic_y(axes)
    return _finished(axes, legend=isinstance(results, Mapping))


def heatmap(result: Result, ax: Axes | None = None, bins: int = 60) -> Axes:
    """Latency over time: for each window of the run how many OK calls took how long, darker for more. Stalls
    are gaps with a streak above them. Raises InvalidRequest when the result kept no windows."""
    if not result.windows:
        raise InvalidRequest("this result has no windows: a heat map needs a run longer than 10 ms")
    axes = _axes(ax)
    import numpy as np
    from matplotlib.colors import LogNorm

    low, high = result.latency.min or 1e-6, result.latency.max or 1e-3
    edges = np.geomspace(max(low * 0.9, 1e-9), max(high * 1.1, low * 1.5), bins + 1)
    starts = [window.start_s for window in result.windows]
    times = [*starts, starts[-1] + result.windows[-1].length_s]
    counts = np.full((bins, len(starts)), np.nan)
    for column, window in enumerate(result.windows):
        slots = window.latency.slots
        middles = [(slot_low(slot) + slot_high(slot)) / 2e9 for slot, _ in slots]
        found, _ = np.histogram(middles, edges, weights=[count for _, count in slots])
        counts[found > 0, column] = found[found > 0]
    drawn = axes.pcolormesh(
        times,
        edges * 1e6,
        counts,
        norm=LogNorm(1, max(2.0, float(np.nanmax(counts, initial=0)))),
        cmap="cividis_r",
        rasterized=True,
    )
    bar = axes.figure.colorbar(drawn, ax=axes, pad=0.02)
    bar.set_label("calls in a window")
    axes.set_xlabel("time in the measured window (s)")
    axes.set_ylabel("latency (µs)")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(figures.plain_digits())
    return axes


def memory(cost: MemoryCost, field: str = "heap_alloc", ax: Axes | None = None) -> Axes:
    """Readings of a field of MemStats over the number of calls (or connections), with the fitted line and the
    interval of its slope as a wedge. Raises AttributeError for a field that the process does not have."""
    axes = _axes(ax)
    slope = getattr(cost, field)
    rows = [row for row in cost.rows() if row["phase"] == "held" and row.get(field) is not None]
    scale, unit = figures.memory_unit(field, max(abs(row[field]) for row in rows))
    held = [row["held"] for row in rows]
    values = [row[field] / scale for row in rows]
    mean_x, mean_y = sum(held) / len(held), sum(values) / len(values)
    ends = [min(held), max(held)]
    line = [mean_y + slope.slope / scale * (x - mean_x) for x in ends]
    per = f"{slope.slope / (1024 if scale > 1 else 1):,.4g} {'KiB' if scale > 1 else ''} per {cost.per}"
    axes.plot(ends, line, **{**look(0), "marker": ""}, label=" ".join(per.split()))
    if slope.low is not None and slope.high is not None:
        low, high = ([mean_y + b / scale * (x - mean_x) for x in ends] for b in (slope.low, slope.high))
        axes.fill_between(ends, low, high, color=look(0)["color"], alpha=0.18, linewidth=0)
    axes.plot(held, values, **{**look(1), "linestyle": ""}, label=field)
    axes.set_xlabel(f"{cost.per}s held")
    axes.set_ylabel(f"{field} ({unit})" if unit else field)
    return _finished(axes, legend=True)


def series(sampler: Sampler, fields: Sequence[str] = ("rss",), ax: Axes | None = None) -> Axes:
    """What a Sampler read, over time: columns of Sampler.frame(), which should be of one unit. May be called
    again and again on the same Axes while it runs (`ax.clear()` first)."""
    axes = _axes(ax)
    rows = sampler.rows()
    unknown = [name for name in fields if rows and name not in rows[0]]
    if unknown or not fields:
        raise InvalidRequest(f"a sampler has no column {', '.join(unknown)}; it has {', '.join(rows[0])}")
    known = [abs(row[name]) for row in rows for name in fields if row[name] is not None]
    scale, unit = figures.memory_unit(fields[0], max(known, default=0))
    for at, name in enumerate(fields):
        points = [(row["time"], row[name] / scale) for row in rows if row[name] is not None]
        how = {**look(at), "marker": "" if len(points) > 30 else look(at)["marker"]}
        axes.plot([x for x, _ in points], [y for _, y in points], label=name, **how)
    axes.set_xlabel("time (s)")
    axes.set_ylabel(
        (f"{fields[0]} ({unit})" if unit else label(fields[0])) if len(fields) == 1 else unit or ""
    )
    _from_zero(axes)
    return _finished(axes, legend=len(fields) > 1)


def comparison(found: Comparison, ax: Axes | None = None) -> Axes:
    """The ratio B / A of each round, with its mean, its interval, and the band of changes that do not
    count."""
    axes = _axes(ax)
    pairs = [(at, a, b) for at, (a, b) in enumerate(zip(found.a, found.b, strict=False), 1)]
    ratios = [(at, b / a) for at, a, b in pairs if a and b is not None]
    axes.axhspan(
        1 / (1 + found.min_effect), 1 + found.min_effect, color=figures.muted(), alpha=0.25, linewidth=0
    )
    axes.axhline(1, color=figures.muted(), linewidth=1)
    axes.plot(
        [x for x, _ in ratios], [y for _, y in ratios], **{**look(0), "linestyle": ""}, label="one round"
    )
    if found.ratio is not None and found.interval is not None:
        end = len(pairs) + 1
        bounds = [[found.ratio - found.interval.low], [found.interval.high - found.ratio]]
        axes.errorbar(
            [end], [found.ratio], bounds, **{**look(1), "linestyle": ""}, capsize=4, label=found.verdict
        )
    axes.set_xlabel("round" if found.interleaved else "repeat")
    axes.set_ylabel(f"{short(found.metric)}, B / A")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(figures.plain_digits())
    axes.yaxis.set_minor_formatter(figures.plain_digits())
    return _finished(axes, legend=True)


# --- parts


def _axes(ax: Axes | None) -> Axes:
    require_extras(["matplotlib"])
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    made: Axes = plt.subplots(layout="constrained")[1]
    return made


def _line(axes: Axes, x: Sequence[Any], points: Sequence[Summary], series: int, name: str | None) -> None:
    """A line with its intervals; a cross on what is not valid."""
    nan = math.nan
    values = [nan if one.value is None else one.value for one in points]
    # Of values that are all alike the mean may be a rounding error beside its interval.
    below = [nan if one.low is None else max(y - one.low, 0.0) for one, y in zip(points, values, strict=True)]
    above = [
        nan if one.high is None else max(one.high - y, 0.0) for one, y in zip(points, values, strict=True)
    ]
    drawn = None if all(math.isnan(one) for one in below) else [below, above]
    axes.errorbar(x, values, yerr=drawn, capsize=2.5, elinewidth=1, label=name, **look(series))
    amiss = [(at, y) for at, y, one in zip(x, values, points, strict=True) if not one.valid]
    if amiss:
        label = None if any(one.get_label() == "not valid" for one in axes.lines) else "not valid"
        axes.plot(
            [at for at, _ in amiss],
            [y for _, y in amiss],
            linestyle="",
            marker="x",
            markersize=11,
            markeredgewidth=1.6,
            color=figures.ink(),
            label=label,
            zorder=4,
        )


def _places(values: Iterable[Any]) -> dict[Any, int]:
    """Where values that are no numbers stand; empty when they are."""
    distinct = dict.fromkeys(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct):
        return {}
    return {value: at for at, value in enumerate(distinct)}


def _scale_x(axes: Axes, places: Mapping[Any, int], values: Iterable[Any]) -> None:
    """Names as they come; numbers that grow by factors on a logarithmic axis, with a tick at each where there
    is room."""
    if places:
        axes.set_xticks(list(places.values()), [str(name) for name in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
        for line in axes.lines:
            line.set_linestyle("")  # there is nothing between names
        return
    distinct = sorted(set(values))
    if len(distinct) > 2 and distinct[0] > 0 and distinct[-1] / distinct[0] >= 8:
        if _apart([math.log(value) for value in distinct]):
            figures.steps_axis(axes, distinct, "")
        else:
            figures.logarithmic_x(axes)
    elif len(distinct) <= MOST_TICKS and all(value == int(value) for value in distinct) and _apart(distinct):
        axes.set_xticks(distinct, [f"{int(value):,}" for value in distinct])


def _apart(values: Sequence[float]) -> bool:
    """Whether there is room for the digits of each, so far from each other."""
    gaps = [after - before for before, after in pairwise(values)]
    return not gaps or min(gaps) >= sum(gaps) / 20


def _from_zero(axes: Axes) -> None:
    """Heights can be compared only from 0; an axis of what is negative stays as it is."""
    low, high = axes.dataLim.y0, axes.dataLim.y1
    if math.isfinite(low) and math.isfinite(high) and low >= 0 and high > 0:
        axes.set_ylim(0, high * 1.08)
    axes.yaxis.set_major_formatter(figures.plain_digits())
    axes.grid(axis="y", alpha=0.4)


def _logarithmic_y(axes: Axes) -> None:
    if axes.lines and any(len(one.get_ydata()) for one in axes.lines):  # type: ignore[arg-type]
        figures.logarithmic(axes, axes.get_ylabel())


def _finished(axes: Axes, *, legend: bool) -> Axes:
    if (legend or "not valid" in axes.get_legend_handles_labels()[1]) and axes.get_legend_handles_labels()[0]:
        axes.legend()
    return axes


def _nines(q: float) -> float:
    """Where a quantile stands: 0 for the least of all, one further for each nine."""
    return -math.log10(1 - q)


def _quantiles() -> list[float]:
    return [1 - 10 ** (-at / 40) for at in range(5 * 40 + 1)]
