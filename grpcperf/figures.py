"""How figures look: one style for pages, whose colours are the page's own, and one palette for notebooks.

matplotlib is imported late. For a page colours are drawn as stand-ins, which become the page's CSS variables
in to_svg, so one figure serves the light scheme and the dark one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from grpcperf.memstats import SIZES
from grpcperf.report import require_extras

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter

# Stand-ins and the variables they become. Values are otherwise unused, and tell a reader of raw SVG what is
# meant.
INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#040404"
SERIES = ("#0a0001", "#0a0002", "#0a0003", "#0a0004", "#0a0005", "#0a0006")
# Outside of pages. Okabe and Ito (2008), Color Universal Design: told apart by the colour-blind; in another
# order, so that neighbours differ in lightness too. Markers and dashes tell them apart in greyscale.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_on_a_page: ContextVar[bool] = ContextVar("grpcperf_on_a_page", default=False)
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    **{color: f"--series-{number}" for number, color in enumerate(SERIES, 1)},
}
_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: selectable, and in the page's font
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}


@contextmanager
def style() -> Iterator[None]:
    """The look, for figures made inside. Raises EngineError naming the command when matplotlib is missing."""
    require_extras()
    import matplotlib

    before = _on_a_page.set(True)
    try:
        with matplotlib.rc_context(_STYLE):
            yield
    finally:
        _on_a_page.reset(before)


def look(series: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th line, as arguments of Axes.plot."""
    at = series % len(PALETTE)
    colours = SERIES if _on_a_page.get() else PALETTE
    return {"color": colours[at], "marker": MARKERS[at], "linestyle": DASHES[at]}


def ink() -> str:
    """The colour of text, for what is drawn by hand."""
    import matplotlib

    return INK if _on_a_page.get() else str(matplotlib.rcParams["text.color"])


def muted() -> str:
    """The colour of what stands back."""
    return MUTED if _on_a_page.get() else "#808080"


def figure(
    columns: int = 1, *, width: float = 5.4, height: float = 3.3, **kwargs: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of `columns` axes side by side, sizes in inches, that belongs to no window or notebook."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(1, columns, squeeze=False, **kwargs)
    return made, list(axes[0])


def line(
    ax: Axes,
    x: Sequence[float],
    y: Sequence[float | None],
    *,
    label: str = "",
    series: int = 0,
    low: Sequence[float | None] = (),
    high: Sequence[float | None] = (),
) -> None:
    """A line with its points; whiskers from `low` to `high` where both are known. None leaves a gap."""
    nothing = float("nan")
    color = SERIES[series % len(SERIES)]
    values = [nothing if value is None else value for value in y]
    ax.plot(x, values, marker="o", color=color, label=label or None, markeredgecolor=PAPER, zorder=3)
    known = [
        (at, bottom, top)
        for at, bottom, top in zip(x, low, high, strict=False)
        if bottom is not None and top is not None
    ]
    if known:
        at, bottom, top = zip(*known, strict=True)
        ax.vlines(at, bottom, top, color=color, linewidth=1.2, alpha=0.55, zorder=2)


def steps_axis(ax: Axes, values: Sequence[int], label: str) -> None:
    """An x axis over a few chosen numbers that double: each a tick, evenly spaced, in plain digits."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(list(values)))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{value:,}" for value in values]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(label)


def logarithmic_x(ax: Axes) -> None:
    """A logarithmic x axis in plain digits, for many numbers that are far apart."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(plain_digits())


def from_zero(ax: Axes, label: str) -> None:
    """A y axis that begins at 0, so that heights can be compared, with its unit in `label` and lines to read
    it by."""
    top = float(ax.dataLim.y1)
    if 0 < top < float("inf"):  # else nothing was drawn
        ax.set_ylim(0, top * 1.08)
    ax.set_ylabel(label)
    ax.grid(True, axis="y")
    ax.yaxis.set_major_formatter(plain_digits())
    ax.spines["left"].set_visible(False)


def logarithmic(ax: Axes, label: str) -> None:
    """A logarithmic y axis in plain digits, over at least a factor of ten: for values far apart, as
    percentiles are."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high / low < 10:
        middle = (low * high) ** 0.5
        ax.set_ylim(middle / 10**0.5, middle * 10**0.5)
    subdivided = (1, 2, 5) if high / low < 300 else (1,)
    ax.yaxis.set_major_locator(LogLocator(base=10, subs=subdivided))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(plain_digits())
    ax.set_ylabel(label)
    ax.grid(True, axis="y")
    ax.spines["left"].set_visible(False)


def plain_digits() -> Formatter:
    """Ticks in plain digits, thousands separated."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value:,.10g}")


def memory_unit(field: str, most: float) -> tuple[float, str]:
    """What a field of MemStats is divided by for its axis, and the unit that this makes: (1, "") for what
    are no bytes."""
    if field not in SIZES:
        return 1.0, ""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if most >= 2 * size:
            return float(size), unit
    return 1.0, "bytes"


def legend(ax: Axes) -> None:
    """What is what, in a line above the axes."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=4,
        borderaxespad=0.0,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.4,
    )


def to_svg(made: Figure, description: str) -> str:
    """The figure as inline SVG that takes its colours and font from the page. `description` is for who cannot
    see it."""
    import html

    buffer = io.StringIO()
    made.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"font: (?:(\w+) )?([\d.]+px)[^;\"]*", r"font: \1 \2 var(--font)", text)
    for stand_in, variable in _VARIABLES.items():
        text = text.replace(stand_in, f"var({variable})")
    used = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([\w-]+)"', lambda m: m[0] if m[1] in used else "", text)
    opening = f'<svg role="img" aria-label="{html.escape(description)}" style="width:100%;height:auto"'
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    return text.replace("<svg", opening, 1)
