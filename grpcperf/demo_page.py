"""The demo's page: its answers in sentences, figures, and the rows they are drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpcperf import demo, environment, figures
from grpcperf.demo import CONCURRENCY, KIB, KINDS, LEVELS, SIZES, CallCost, Figure, Measured, Point
from grpcperf.report import Page, Picture, Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def page(measured: Measured) -> Page:
    """The page of what there is; a part that was not reached is left out."""
    costs = [cost for cost in measured.costs if cost.levels]
    complete = [cost for cost in costs if cost.slopes]
    sections = []
    if costs:
        sections.append(_calls(costs, complete))
    if measured.runs:
        sections.append(_connections(measured))
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
    with figures.style():
        made, (ax,) = figures.figure()
        ax.barh(places, heaps, height=0.66, color=figures.SERIES[0], label="heap")
        ax.barh(places, stacks, height=0.66, left=heaps, color=figures.SERIES[1], label="stack")
        for place, cost in zip(places, complete, strict=True):
            total = cost.slopes["total"]
            ax.text(total + widest * 0.015, place, f"{total:.1f}", va="center", ha="left", color=figures.INK)
        ax.set_yticks(places, [f"{cost.model}, {cost.kind}" for cost in complete], color=figures.INK)
        ax.set_xlim(0, widest * 1.12)
        ax.set_xlabel("KiB per call")
        ax.grid(axis="x")
        ax.spines["bottom"].set_visible(False)
        figures.legend(ax)
        return figures.to_svg(made, "Heap and stack in KiB for each parked call, by model and kind of call")


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
        model: figures.SERIES[number] for number, model in enumerate(dict.fromkeys(c.model for c in complete))
    }
    calls = [0, *LEVELS]
    with figures.style():
        made, (ax,) = figures.figure()
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
            how: dict[str, Any] = {"color": figures.MUTED, "markerfacecolor": "none", "markersize": 7}
            ax.plot([], [], markers[kind], label=kind, **how)
        ax.set_xticks(calls, [f"{count:,}" for count in calls])
        ax.set_xlim(-20, LEVELS[-1] * 1.03)
        ax.set_xlabel("parked calls")
        figures.from_zero(ax, "MiB")
        figures.legend(ax)
        return figures.to_svg(made, "Memory of the server over the number of parked calls, with fitted lines")


# --- 2. connections


def _connections(measured: Measured) -> Section:
    points = measured.points
    columns = (
        *("connections", "calls/s", "least", "most", "p50 ms", "p99 ms", "errors"),
        *("client CPU µs/call", "server CPU µs/call"),
    )
    rows = [
        [
            f"{point.connections:,}",
            *(_number(part, 1, 0) for part in (point.throughput_rps.median, *_span(point.throughput_rps))),
            _number(point.p50.median, 1e3, 2),
            _number(point.p99.median, 1e3, 2),
            f"{point.errors:,}",
            _number(point.client_cpu_us.median, 1, 1),
            _number(point.server_cpu_us.median, 1, 1),
        ]
        for point in points
    ]
    return Section(
        title="What a connection more brings",
        verdict=_connections_verdict(points),
        text=(
            f"Unary calls of 16 bytes each way, {CONCURRENCY} in flight, spread over connections, in a "
            f"closed loop of {demo.DURATION_S:g} s after {demo.WARMUP_S:g} s of warm-up, in {demo.ROUNDS} "
            "rounds, each in an order of its own. Figures are medians of the rounds, whiskers their least "
            "and most."
        ),
        pictures=[
            Picture(title="Throughput", svg=_throughput(points)),
            Picture(title="Latency", svg=_latency(points)),
        ],
        table=Table(columns=columns, rows=rows),
        notes=demo.notes(measured.runs),
    )


def _span(figure: Figure) -> tuple[float | None, float | None]:
    return figure.low, figure.high


def _number(value: float | None, scale: float, digits: int) -> str:
    return "–" if value is None else f"{value * scale:,.{digits}f}"  # noqa: RUF001


def _connections_verdict(points: list[Point]) -> str:
    """Differences count only where no round of one reaches a round of the other."""
    first = points[0]
    best = max(points, key=lambda point: point.throughput_rps.median or 0.0)
    one, most = first.throughput_rps, best.throughput_rps
    if not one.median or not most.median or not one.high or not most.low:
        return ""
    connections = f"{first.connections:,} connection{'s' * (first.connections != 1)}"
    if best is first:
        rate = f"{most.median:,.0f} calls/s"
        return f"More connections bring nothing here: {connections} carried the most, {rate}."
    sentence = (
        f"{best.connections:,} connections carried the most, {most.median:,.0f} calls/s: "
        f"{most.median / one.median - 1:+.0%} against {connections} ({one.median:,.0f})"
    )
    return f"{sentence}, but the rounds overlap." if most.low <= one.high else f"{sentence}, in every round."


def _throughput(points: list[Point]) -> str:
    with figures.style():
        made, (ax,) = figures.figure(height=2.9)
        _curve(ax, points, [point.throughput_rps for point in points], 1e-3)
        figures.from_zero(ax, "thousand calls/s")
        return figures.to_svg(made, "Throughput over the number of connections")


def _latency(points: list[Point]) -> str:
    with figures.style():
        made, (ax,) = figures.figure(height=2.9)
        _curve(ax, points, [point.p50 for point in points], 1e3, "p50", 0)
        _curve(ax, points, [point.p99 for point in points], 1e3, "p99", 1)
        figures.logarithmic(ax, "ms, logarithmic")
        figures.legend(ax)
        return figures.to_svg(made, "Median and 99th percentile of latency over the number of connections")


def _curve(
    ax: Axes, points: list[Point], values: list[Figure], scale: float, label: str = "", series: int = 0
) -> None:
    def scaled(number: float | None) -> float | None:
        return None if number is None else number * scale

    connections = [point.connections for point in points]
    figures.line(
        ax,
        connections,
        [scaled(figure.median) for figure in values],
        label=label,
        series=series,
        low=[scaled(figure.low) for figure in values],
        high=[scaled(figure.high) for figure in values],
    )
    figures.steps_axis(ax, connections, "connections")
