"""Progress bars on stderr, for what takes over a second and only when a person is watching."""

from __future__ import annotations

import sys
import time
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpcperf.load import Snapshot
    from grpcperf.spec import Load

SHORTEST_S = 1.0
_inside_another: ContextVar[bool] = ContextVar("grpcperf_inside_another", default=False)


def someone_watches() -> bool:
    """Whether stderr is a terminal, or this is a notebook's kernel."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Progress:
    """Shows a run's way through warm-up and measured window; shows nothing when it is short or nobody
    watches."""

    def __init__(self, spec: Load, show: bool | None = None) -> None:
        self._spec = spec
        self._bar: Any = None
        duration = float(spec.duration) if spec.duration is not None else None
        wanted = someone_watches() and not _inside_another.get() if show is None else show
        short = duration is not None and float(spec.warmup) + duration <= SHORTEST_S
        self._wanted = wanted and not short and sys.stderr is not None
        self._by_time = duration is not None

    def update(self, now: Snapshot) -> None:
        if not self._wanted or now.phase == "connect":
            return
        try:
            self._show(now)
        except (OSError, ValueError):  # the terminal is gone: a run is not lost for that
            self._wanted = False

    def _show(self, now: Snapshot) -> None:
        if self._bar is None:
            self._bar = self._make(now.phase)
        done = now.elapsed_s if self._by_time else float(now.calls)
        self._bar.n = min(done, self._bar.total)
        self._bar.set_description_str(f"{now.phase:<8}", refresh=False)
        rate = f"{now.calls / now.elapsed_s:,.0f} calls/s" if now.elapsed_s > 0 else ""
        failed = now.calls - now.ok
        self._bar.set_postfix_str(f"{rate}, {failed:,} failed" if failed else rate, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.disable |= not self._wanted  # then it is not to be cleared either
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, phase: str) -> Any:
        total = self._spec.duration if self._by_time else self._spec.calls
        unit = "s" if self._by_time else "call"
        form = "{desc} {percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} s{postfix}"
        if not self._by_time:
            form = "{desc} {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} calls{postfix}"

        # leave=False: the result that follows says it all.
        return _bar(total=float(total or 0), unit=unit, desc=phase, bar_format=form, leave=False)


class SweepProgress:
    """Shows how many measurements of a sweep are made, which is being made, and how long the rest will take.
    Runs inside show no bar of their own, which would fight with it for the line."""

    def __init__(self, total: int | None, show: bool | None = None) -> None:
        """`total`: measurements to make; None: not known."""
        wanted = someone_watches() and not _inside_another.get() if show is None else show
        self._bar: Any = None
        self._failed = 0
        self._started_s = time.monotonic()
        if wanted and total != 0 and sys.stderr is not None:
            form = "{n_fmt}/{total_fmt}|{bar}| {elapsed} gone, {remaining} left{postfix}"
            if total is None:
                form = "{elapsed} gone, {n_fmt} measured{postfix}"
            self._bar = _bar(total=total, bar_format=form, dynamic_ncols=True, leave=False, delay=SHORTEST_S)

    def show(self, point: Mapping[str, Any]) -> None:
        """The point that comes next."""
        failed = f"; {self._failed:,} failed" if self._failed else ""
        self._tell(", ".join(f"{name}={value}" for name, value in point.items()) + failed, 0)

    def step(self, *, failed: bool) -> None:
        """It has been measured."""
        self._failed += failed
        self._tell("", 1)

    def _tell(self, text: str, more: int) -> None:
        if self._bar is None:
            return
        try:
            if text:
                self._bar.set_postfix_str(text, refresh=False)
            self._bar.n += more
            if time.monotonic() - self._started_s > SHORTEST_S:
                self._bar.refresh()
        except (OSError, ValueError):  # the terminal is gone: a sweep is not lost for that
            self._bar = None

    def __enter__(self) -> Self:
        self._outer = _inside_another.set(_inside_another.get() or self._bar is not None)
        return self

    def __exit__(self, *_: object) -> None:
        _inside_another.reset(self._outer)
        if self._bar is not None:
            self._bar.close()


def _bar(**how: Any) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # its monitor is a thread that would live on after the run

    return Bar(file=sys.stderr, **how)
