"""The demo's page: its answers in sentences, figures, and the rows they are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grpcperf import demo, environment, plot
from grpcperf.demo import CONCURRENCY, KIB, KINDS, LEVELS, SIZES, CallCost, Measured
from grpcperf.report import Page, Picture, Section, Table
from grpcperf.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def page(measured: Measured) -> Page:
    """The page of what there is; a part that was not reached is left out."""
    costs = [cost for cost in measured.costs if cost.levels]
    complete = [cost for cost in costs if cost.slopes]
    sections = []
    if costs:
        sections.append(_calls(costs, complete))
    if measured.curve:
        sections.append(_connections(measured.curve))
    return Page(
        title="What this gRPC server costs",
        lead="The native C-core server and a C-core client on one machine, over the loopback interface.",
        sections=sections,
        facts=_facts(),
        warning="Interrupted: this page holds what was measured until then." if measured.interrupted else "",
    )


def _facts() -> dict[str, str]:
    known = environment.summary()
    names = ("cpu", "cpus_allowed", "kernel", "engine_grpc", "grpcperf", "python")
    labels = ("CPU", "CPUs allowed", "Kernel", "gRPC C core", "grpcperf", "Python")
    return {label: str(known[name]) for name, label in zip(names, labels, strict=True) if known.get(name)}


# --- 1. calls


def _calls(costs: list[CallCost], complete: list[CallCost]) -> Section:
    sizes = [f"{name} KiB" for name in SIZES]
    columns = ("model", "kind", "calls", *sizes, "tasks before", "held", "after")
    rows, totals = [], set()
    for cost in costs:
        names = [cost.model, cost.kind]
        for level in cost.levels:
            sizes = [f"{getattr(level, name):.2f}" for name in SIZES]
            tasks = [f"{count:,}" for count in (level.tasks_before, level.tasks_held, level.tasks_after)]
            rows.append([*names, f"{level.calls:,}", *sizes, *tasks])
            names = ["", ""]
        if cost.slopes:
            totals.add(len(rows))
            rows.append([*names, "slope", *(f"{cost.slopes[name]:.2f}" for name in SIZES), "", "", ""])
    pictures = []
    if complete:
        pictures = [
            Picture(title="What one parked call holds", svg=_bars(complete)),
            Picture(
                title="Heap and stack over parked calls",
                svg=_growth(complete),
                caption="Points are measured, lines the slopes.",
            ),
        ]
    return Section(
        title="What a call in flight costs the server",
        verdict=_calls_verdict(complete),
        text=(
            f"Calls are parked in their handlers, {', '.join(f'{level:,}' for level in LEVELS)} at a "
            "time, on one connection, in a fresh server each. Memory comes from inside the server "
            "(mallinfo2, and the resident pages of thread stacks), read once it has come to rest. Tasks are "
            "threads, and handlers that own none. KiB per call: the difference to the same server before; "
            "the slope is of the least-squares line through all levels and none, which leaves out what is "
            "paid once."
        ),
        pictures=pictures,
        table=Table(columns=columns, rows=rows, words=frozenset({0, 1}), totals=frozenset(totals)),
    )


def _calls_verdict(complete: list[CallCost]) -> str:
    sentences = []
    for model, text in (("async", "With completion-queue threads"), ("thread", "with a thread per call")):
        totals = [cost.slopes["total"] for cost in complete if cost.model == model]
        if totals:
            low, high = min(totals), max(totals)
            span = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
            stacks = [cost.slopes["stack"] for cost in complete if cost.model == model]
            stack = f", {sum(stacks) / len(stacks):.1f} of them stack" if max(stacks) >= 0.05 else ""
            sentences.append(f"{text} a parked call holds {span} KiB{stack}")
    sentence = "; ".join(sentences)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _bars(complete: list[CallCost]) -> str:
    """Heap and stack, one on the other, for each model and kind."""
    heaps = [cost.slopes["heap"] for cost in complete]
    stacks = [max(0.0, cost.slopes["stack"]) for cost in complete]
    widest = max(heap + stack for heap, stack in zip(heaps, stacks, strict=True))
    places = _places(complete)
    with plot.style():
        made, (ax,) = plot.figure()
        ax.barh(places, heaps, height=0.66, color=plot.SERIES[0], label="heap")
        ax.barh(places, stacks, height=0.66, left=heaps, color=plot.SERIES[1], label="stack")
        for place, cost in zip(places, complete, strict=True):
            total = cost.slopes["total"]
            ax.text(total + widest * 0.015, place, f"{total:.1f}", va="center", ha="left", color=plot.INK)
        ax.set_yticks(places, [f"{cost.model}, {cost.kind}" for cost in complete], color=plot.INK)
        ax.set_xlim(0, widest * 1.12)
        ax.set_xlabel("KiB per call")
        ax.grid(axis="x")
        ax.spines["bottom"].set_visible(False)
        plot.legend(ax)
        return plot.to_svg(made, "Heap and stack in KiB for each parked call, by model and kind of call")


def _places(complete: list[CallCost]) -> list[float]:
    """Heights of the bars, from the top down, with room between the models."""
    places, at, before = [], 0.0, ""
    for cost in complete:
        at -= 1.0 if cost.model == before or not before else 1.5
        before = cost.model
        places.append(at)
    return places


def _growth(complete: list[CallCost]) -> str:
    """Memory over calls: that it is a line, and that the kind of call hardly matters."""
    markers = dict(zip(KINDS, "os^", strict=True))
    colors = {
        model: plot.SERIES[number] for number, model in enumerate(dict.fromkeys(c.model for c in complete))
    }
    calls = [0, *LEVELS]
    with plot.style():
        made, (ax,) = plot.figure()
        for cost in complete:
            mib = [0.0, *(level.total * level.calls / KIB for level in cost.levels)]
            color = colors[cost.model]
            ax.plot(
                calls, [cost.slopes["total"] * count / KIB for count in calls], color=color, linewidth=1.0
            )
            ax.plot(calls[1:], mib[1:], markers[cost.kind], color=color, markerfacecolor="none", markersize=7)
        for model, color in colors.items():
            top = max(cost.levels[-1].total * LEVELS[-1] / KIB for cost in complete if cost.model == model)
            ax.text(
                LEVELS[-1] * 0.97, top, f"{model} ", ha="right", va="bottom", color=color, fontweight="bold"
            )
        for kind in dict.fromkeys(cost.kind for cost in complete):
            ax.plot([], [], markers[kind], color=plot.MUTED, markerfacecolor="none", markersize=7, label=kind)
        ax.set_xticks(calls, [f"{count:,}" for count in calls])
        ax.set_xlim(-20, LEVELS[-1] * 1.03)
        ax.set_xlabel("parked calls")
        plot.from_zero(ax, "MiB")
        plot.legend(ax)
        return plot.to_svg(made, "Memory of the server over the number of parked calls, with fitted lines")


# --- 2. connections


def _connections(results: list[Result]) -> Section:
    columns = (
        *("connections", "calls/s", "p50 ms", "p99 ms", "errors"),
        *("client CPU µs/call", "server CPU µs/call"),
    )
    rows = [
        [
            f"{result.spec.connections:,}",
            f"{result.throughput_rps:,.0f}",
            _number(result.latency.p50, 1e3, 2),
            _number(result.latency.p99, 1e3, 2),
            f"{result.errors:,}",
            _number(result.client_cpu_us_per_call, 1, 1),
            _number(result.server_cpu_us_per_call, 1, 1),
        ]
        for result in results
    ]
    return Section(
        title="What a connection more brings",
        verdict=_connections_verdict(results),
        text=(
            f"Unary calls of 16 bytes each way, {CONCURRENCY} in flight, spread over the connections, in a "
            f"closed loop of {demo.DURATION_S:g} s after {demo.WARMUP_S:g} s of warm-up. Whiskers are 95 % "
            "intervals within the run, by block bootstrap; they do not hold what differs between runs."
        ),
        pictures=[
            Picture(title="Throughput", svg=_throughput(results)),
            Picture(title="Latency", svg=_latency(results)),
        ],
        table=Table(columns=columns, rows=rows),
        notes=demo.notes(results),
    )


def _number(value: float | None, scale: float, digits: int) -> str:
    return "–" if value is None else f"{value * scale:,.{digits}f}"  # noqa: RUF001


def _connections_verdict(results: list[Result]) -> str:
    best = max(results, key=lambda result: result.throughput_rps)
    one = results[0]
    if best is one or len(results) < 2:
        return f"One connection already carries the most: {one.throughput_rps:,.0f} calls/s."
    gain = best.throughput_rps / one.throughput_rps - 1
    sentence = (
        f"The most, {best.throughput_rps:,.0f} calls/s, came over {best.spec.connections} connections: "
        f"{gain:+.0%} against one connection ({one.throughput_rps:,.0f})"
    )
    top, bottom = best.interval("throughput_rps"), one.interval("throughput_rps")
    if top is None or bottom is None or top.low <= bottom.high:
        return f"{sentence}; their intervals overlap, so that may be noise."
    return f"{sentence}."


def _throughput(results: list[Result]) -> str:
    with plot.style():
        made, (ax,) = plot.figure(height=2.9)
        _curve(ax, results, "throughput_rps", 1e-3, lambda result: result.throughput_rps)
        plot.from_zero(ax, "thousand calls/s")
        return plot.to_svg(made, "Throughput over the number of connections")


def _latency(results: list[Result]) -> str:
    with plot.style():
        made, (ax,) = plot.figure(height=2.9)
        _curve(ax, results, "p50", 1e3, lambda result: result.latency.p50, "p50", 0)
        _curve(ax, results, "p99", 1e3, lambda result: result.latency.p99, "p99", 1)
        plot.logarithmic(ax, "ms, logarithmic")
        plot.legend(ax)
        return plot.to_svg(made, "Median and 99th percentile of latency over the number of connections")


def _curve(
    ax: Axes,
    results: list[Result],
    metric: str,
    scale: float,
    value: Callable[[Result], float | None],
    label: str = "",
    series: int = 0,
) -> None:
    def scaled(number: float | None) -> float | None:
        return None if number is None else number * scale

    intervals = [result.interval(metric) for result in results]
    connections = [result.spec.connections for result in results]
    plot.line(
        ax,
        connections,
        [scaled(value(result)) for result in results],
        label=label,
        series=series,
        low=[None if interval is None else scaled(interval.low) for interval in intervals],
        high=[None if interval is None else scaled(interval.high) for interval in intervals],
    )
    plot.steps_axis(ax, connections, "connections")
