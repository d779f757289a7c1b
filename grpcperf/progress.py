"""A progress bar on stderr, for runs over a second and only when a person is watching."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from grpcperf.load import Snapshot
    from grpcperf.spec import Load

SHORTEST_S = 1.0


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
        wanted = someone_watches() if show is None else show
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
        from tqdm import tqdm

        total = self._spec.duration if self._by_time else self._spec.calls
        unit = "s" if self._by_time else "call"
        form = "{desc} {percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} s{postfix}"
        if not self._by_time:
            form = "{desc} {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} calls{postfix}"

        class Bar(tqdm):  # type: ignore[misc]
            monitor_interval = 0  # its monitor is a thread that would live on after the run

        # leave=False: the result that follows says it all.
        return Bar(
            total=float(total or 0), unit=unit, file=sys.stderr, desc=phase, bar_format=form, leave=False
        )
