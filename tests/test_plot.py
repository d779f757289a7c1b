"""Figures by their data: lines, labels, marks; not by pixels."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

mpl.use("Agg")

import grpcperf as gp
from grpcperf import figures, plot
from grpcperf.comparison import Comparison
from grpcperf.histogram import Histogram
from grpcperf.labels import label
from grpcperf.memory_cost import MemoryCost, Reading, slopes_of
from grpcperf.memstats import MemStats
from grpcperf.result import Window


@pytest.fixture(scope="module")
def sweep() -> gp.Results:
    def measure(point: Any) -> dict[str, Any]:
        rate = 1000.0 * point.x * (2 if point.kind == "b" else 1) + point.repeat
        told = {"throughput_rps": rate, "achieved_rate": rate, "latency_p50_us": 10.0, "latency_p99_us": None}
        return {**told, "valid": not (point.x == 4 and point.kind == "b")}

    return gp.Sweep(x=[1, 2, 4, 8], kind=["a", "b"], repeats=3).run(measure)


def points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def main_lines(ax: Any) -> list[Any]:
    return [line for line in ax.lines if len(line.get_xdata()) > 1 and line.get_linestyle() != "None"]


def test_curve_has_a_line_for_each_group(sweep: gp.Results) -> None:
    ax = sweep.plot("x", "throughput_rps", by="kind")
    one, two = main_lines(ax)
    assert points(one) == [(1, 1001), (2, 2001), (4, 4001), (8, 8001)]
    assert points(two)[3] == (8, 16001)
    assert ax.get_xlabel() == "x"
    assert ax.get_ylabel() == "throughput (calls/s)"
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told == ["kind a", "kind b", "not valid"] or told == ["not valid", "kind a", "kind b"]
    assert ax.get_ylim()[0] == 0


def test_lines_can_be_told_apart_without_colour(sweep: gp.Results) -> None:
    one, two = main_lines(sweep.plot("x", "throughput_rps", by="kind"))
    assert one.get_marker() != two.get_marker()
    assert one.get_linestyle() != two.get_linestyle()


def test_points_that_are_not_valid_have_a_cross(sweep: gp.Results) -> None:
    ax = sweep.plot("x", "throughput_rps", by="kind")
    marked = [line for line in ax.lines if line.get_marker() == "x"]
    assert [points(line) for line in marked] == [[(4, 8001)]]


def test_bars_are_intervals_over_repeats(sweep: gp.Results) -> None:
    ax = sweep.select(kind="a").plot("x", "throughput_rps")
    (bars,) = ax.collections
    low, high = (float(end[1]) for end in bars.get_segments()[0])
    assert (low + high) / 2 == pytest.approx(1001)
    assert high - low == pytest.approx(
        2 * 4.302653 / math.sqrt(3), rel=1e-4
    )  # Student's t, 2 degrees of freedom


def test_what_is_not_known_is_a_gap(sweep: gp.Results) -> None:
    ax = sweep.plot("x", "latency_p99_us")
    assert all(math.isnan(y) for line in ax.lines for _, y in points(line))


def test_names_are_places_without_lines_between(sweep: gp.Results) -> None:
    ax = sweep.plot("kind", "throughput_rps")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b"]
    assert {line.get_linestyle() for line in ax.lines} == {"None"}


def test_one_point_and_an_unknown_name(sweep: gp.Results) -> None:
    ax = sweep.select(x=1, kind="a").plot("x", "throughput_rps")
    assert points(ax.lines[0]) == [(1, 1001)]
    with pytest.raises(gp.InvalidRequest, match="throughput_rps"):
        sweep.plot("x", "throughput")


def test_an_axes_that_is_given_is_used(sweep: gp.Results) -> None:
    with figures.style():
        _, (ax,) = figures.figure()
        assert sweep.plot("x", "throughput_rps", ax=ax) is ax
    assert ax.lines[0].get_color() == figures.SERIES[0]
    assert sweep.plot("x", "throughput_rps").lines[0].get_color() == figures.PALETTE[0]


def test_latency_over_rate(sweep: gp.Results) -> None:
    ax = plot.latency_over_rate(sweep.select(kind="a"), ["p50"])
    assert points(main_lines(ax)[0])[0] == (1001, 10)
    assert ax.get_xlabel() == "achieved rate (calls/s)"
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize(
    "values", [(4545, 9089, 13634, 16361, 22013, 22893, 79249, 82416), (0, 100, 1000, 9000)]
)
def test_numbers_that_stand_too_close_have_no_tick_each(values: tuple[int, ...]) -> None:
    figure = Figure()
    ax = figure.subplots()
    plot.lines(ax, [{"x": value, "y": 1.0, "of": "a"} for value in values], "x", "y", by="of")
    figure.canvas.draw()
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    places = [ax.transData.transform((tick, 0))[0] for tick in ticks]
    assert 2 <= len(ticks) <= 10
    assert all(after - before > 20 for before, after in pairwise(places))  # pixels


def test_a_mean_beside_its_interval_by_a_rounding_error_is_drawn() -> None:
    row = {"x": 1, "y": 0.1 + 0.2, "y_low": 0.3, "y_high": 0.3}
    rows = [row, {**row, "x": 2, "y": 0.29999999999999993}]
    assert plot.lines(Figure().subplots(), rows, "x", "y").has_data()


def test_percentiles_stand_on_an_axis_of_nines() -> None:
    histogram = Histogram.from_values([1e-3] * 900 + [5e-3] * 100)
    ax = plot.percentiles({"one": histogram, "two": histogram})
    at = [float(tick) for tick in ax.get_xticks()]
    assert at == pytest.approx([-math.log10(0.5), 1, 2])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["50", "90", "99"]
    line = points(ax.lines[0])
    assert max(x for x, _ in line) == pytest.approx(2)  # ten of a thousand lie beyond
    assert {round(y, -1) for _, y in line} == {1000, 5000}
    with pytest.raises(gp.InvalidRequest, match="Result or a Histogram"):
        plot.percentiles(3)  # type: ignore[arg-type]


@pytest.fixture
def result(server: Any) -> gp.Result:
    return gp.load(server, concurrency=2, duration=0.2, warmup=0.02)


def test_heat_map_counts_every_call(result: gp.Result) -> None:
    ax = plot.heatmap(result)
    (mesh,) = [one for one in ax.collections if one.get_array() is not None]
    assert float(mesh.get_array().sum()) == sum(window.latency.count for window in result.windows) > 0
    with pytest.raises(gp.InvalidRequest, match="no windows"):
        plot.heatmap(replace(result, windows=()))


def test_heat_map_of_windows_without_calls(result: gp.Result) -> None:
    idle = Window(start_s=0.0, length_s=0.1, sent=0, ok=0, failed=0, entries=b"")
    plot.heatmap(replace(result, windows=(idle, idle), latency=Histogram()))


def test_memory_has_readings_and_the_line() -> None:
    readings = [
        [Reading(repeat=0, level=n, held=n, phase="held", memory=MemStats(heap_alloc=10_000_000 + 2048 * n))
         for n in (0, 500, 1000)]
    ]  # fmt: skip
    cost = MemoryCost(
        per="call",
        title="unary",
        levels=(0, 500, 1000),
        repeats=1,
        warm=False,
        readings=tuple(readings[0]),
        slopes=slopes_of(readings),
        findings=(),
    )
    ax = plot.memory(cost)
    line, dots = ax.lines
    assert dots.get_xdata().tolist() == [0, 500, 1000]
    assert points(line)[1][1] - points(line)[0][1] == pytest.approx(2048 * 1000 / 2**20)
    assert "2 KiB per call" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert ax.get_ylabel() == "heap_alloc (MiB)"


def test_series_of_a_sampler(server: Any) -> None:
    import time

    with gp.Sampler(server, interval=0.01) as sampler:
        time.sleep(0.1)
    ax = plot.series(sampler, ["rss", "rss_anon"])
    assert len(ax.lines) == 2
    assert ax.get_ylabel() == "MiB"
    assert plot.series(sampler, ["threads"]).get_ylabel() == "threads"
    with pytest.raises(gp.InvalidRequest, match="no column heap"):
        plot.series(sampler, ["heap"])


def test_comparison_shows_every_round() -> None:
    found = gp.compare(lambda: 1.0, lambda: 2.0, metric="throughput_rps", rounds=5)
    ax = plot.comparison(found)
    rounds = next(line for line in ax.lines if line.get_label() == "one round")
    assert points(rounds) == [(at, 2) for at in (1, 2, 3, 4, 5)]
    assert "changed" in ax.get_legend_handles_labels()[1]
    nothing = Comparison(
        metric="y", verdict="inconclusive", ratio=None, interval=None, min_effect=0.1, a=(None,), b=(1.0,)
    )
    plot.comparison(nothing)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("latency_p99_us", "latency p99 (µs)"),
        ("throughput_rps", "throughput (calls/s)"),
        ("heap_kib_per_call", "heap (KiB per call)"),
        ("connections", "connections"),
        ("elapsed_ms", "elapsed (ms)"),
    ],
)
def test_labels_have_their_units(name: str, told: str) -> None:
    assert label(name) == told
