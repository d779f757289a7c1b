"""The checkup of a machine, gp.doctor() and `grpcperf doctor`: in words, what makes it a poor place to
measure, and what to do about it. Where it looks is in checkup_looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One line of the report. `ok`: it does not stand in the way of measuring. `advice`: what to do, or what
    it means; empty when there is nothing to say."""

    name: str
    value: str
    ok: bool = True
    advice: str = ""


@dataclass(frozen=True)
class Checkup:
    """What was looked at. `fingerprint` is the same as long as figures can be compared."""

    checks: tuple[Check, ...]
    fingerprint: str

    @property
    def ok(self) -> bool:
        return not self.troubles

    @property
    def troubles(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.ok)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "fingerprint": self.fingerprint,
            "checks": [asdict(check) for check in self.checks],
        }

    def __str__(self) -> str:
        import textwrap

        width = max(len(check.name) for check in self.checks)
        indent = " " * (width + 8)
        lines = []
        for check in self.checks:
            lines.append(f"{'ok  ' if check.ok else 'WARN'}  {check.name:<{width}}  {check.value}")
            lines += textwrap.wrap(check.advice, 100, initial_indent=indent, subsequent_indent=indent)
        return "\n".join([*lines, "", self.verdict()])

    __repr__ = __str__

    def verdict(self) -> str:
        """The report in a line."""
        if self.ok:
            return f"Fit for measuring. Fingerprint {self.fingerprint}."
        names = ", ".join(check.name for check in self.troubles)
        count = len(self.troubles)
        things = "One thing makes" if count == 1 else f"{count} things make"
        return (
            f"{things} this machine a poor place to measure: {names}.\n"
            "Ratios measured in turn on it (gp.compare) and memory still hold; absolute figures may not. "
            f"Fingerprint {self.fingerprint}."
        )

    def _repr_html_(self) -> str:
        import html

        rows = ""
        for check in self.checks:
            colour = "inherit" if check.ok else "rgb(204,136,0)"
            cells = ("ok" if check.ok else "warn", check.name, check.value, check.advice)
            inner = "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in cells)
            rows += f'<tr style="color:{colour}">{inner}</tr>'
        return f"<div>{html.escape(self.verdict())}</div><table>{rows}</table>"


def doctor(sample_s: float = 0.5) -> Checkup:
    """Look at this machine for `sample_s` seconds (others' load, steal, swapping) and say what stands in the
    way of measuring. Changes nothing. Raises InvalidRequest for nonsense."""
    from grpcperf import checkup_looks, environment, units

    seconds = units.seconds(sample_s, "sample_s", above=True)
    return Checkup(tuple(_all(checkup_looks.LOOKS, seconds)), environment.fingerprint())


def _all(looks: Any, sample_s: float) -> Iterator[Check]:
    for look in looks:
        yield from look(sample_s)
