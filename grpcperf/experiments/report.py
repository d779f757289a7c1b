"""What an experiment answered: rows, a verdict, and what makes it valid or not."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpcperf.errors import EngineError, InvalidRequest
from grpcperf.result import Finding
from grpcperf.store import append_text
from grpcperf.units import format_interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from grpcperf.experiments.kit import Experiment

SCHEMA = 1
THE_REST = "the rest"  # in `skipped`: what a fault in the middle left unmeasured
_BEGINNING = b'{"name": '  # of every line of a file of reports


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """`rows` are tidy (units in the names, None for what is not known), `data` what was fitted to them,
    `skipped` the parts that could not be measured here with their reasons."""

    name: str
    rows: tuple[Mapping[str, Any], ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    size: str = "quick"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    measured_at: str = ""  # when it was begun: ISO 8601, UTC; "" in files of before
    environment: Mapping[str, Any] = field(default_factory=dict)
    answered_by: Experiment | None = field(default=None, compare=False)

    @property
    def experiment(self) -> Experiment:
        """What made it, or for a report from a file what is known by its name."""
        from grpcperf.experiments import find

        return self.answered_by or find(self.name)

    @property
    def question(self) -> str:
        return self.experiment.question

    @property
    def valid(self) -> bool:
        """Whether there are rows and no finding says that they do not count."""
        return bool(self.rows) and all(one.severity != "invalid" for one in self.findings)

    @property
    def is_cut_short(self) -> bool:
        """Whether an interrupt or a fault ended it before all its rows were measured."""
        return THE_REST in self.skipped or any(one.code == "interrupted" for one in self.findings)

    @property
    def verdict(self) -> str:
        """The answer in a sentence, computed from the rows, and what is missing from it."""
        told = self.experiment.verdict(self) if self.rows else "Nothing was measured."
        missing = "; ".join(f"{name}: {reason}" for name, reason in self.skipped.items())
        return f"{told} Left out: {missing}." if missing else told

    def select(self, **values: Any) -> list[Mapping[str, Any]]:
        """The rows that have these values."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in values.items())]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: name, rows, verdict, data, valid, findings (codes) and remarks (in words), skipped, and
        how it was measured."""
        return {
            "name": self.name,
            "rows": [dict(row) for row in self.rows],
            "verdict": self.verdict,
            "data": dict(self.data),
            "valid": self.valid,
            "findings": [one.code for one in self.findings],
            "remarks": [str(one) for one in self.findings],
            "skipped": dict(self.skipped),
            "size": self.size,
            "parameters": dict(self.parameters),
            "seconds": self.seconds,
            "measured_at": self.measured_at,
            "environment": dict(self.environment),
        }

    def frame(self) -> pd.DataFrame:
        """The rows as a pandas frame. Raises EngineError with the command to type when pandas is missing."""
        from grpcperf.results import pandas

        return pandas().DataFrame([dict(row) for row in self.rows])

    def columns(self) -> list[str]:
        """Those of the experiment, then what else the rows have but bounds, which table() puts beside their
        metric."""
        names = dict.fromkeys([*self.experiment.columns, *(name for row in self.rows for name in row)])
        return [name for name in names if not name.endswith(("_low", "_high")) and not self._is_empty(name)]

    def _is_empty(self, name: str) -> bool:
        return name not in self.experiment.columns and all(row.get(name) is None for row in self.rows)

    def table(self) -> list[list[str]]:
        """Headings and rows of texts; an interval stands beside its metric: as ± its half, or as [low, high]
        when the metric is not its middle."""
        names = self.columns()
        return [names, *([_cell(row, name) for name in names] for row in self.rows)]

    def plot(self, number: int = 0, ax: Axes | None = None) -> Axes:
        """Draw one of its figures; returns the Axes. Raises InvalidRequest when there is no such figure."""
        from grpcperf.report import require_extras

        drawn = self.experiment.figures(self) if self.rows else ()
        if not 0 <= number < len(drawn):
            raise InvalidRequest(
                f"{self.name} has {len(drawn)} figures here, counted from 0; there is no {number}"
            )
        require_extras()
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        drawn[number].draw(ax)
        ax.set_title(drawn[number].title)
        return ax

    def plot_all(self) -> Figure | None:
        """All its figures side by side, in a matplotlib Figure; None when it has none."""
        from grpcperf.report import require_extras

        require_extras()
        import matplotlib.pyplot as plt

        count = len(self.experiment.figures(self)) if self.rows else 0
        if not count:
            return None
        across = min(count, 2)
        size = (6.0 * across, 3.8 * -(-count // across))
        made, axes = plt.subplots(
            -(-count // across), across, figsize=size, layout="constrained", squeeze=False
        )
        for number, ax in enumerate(axes.flat):
            if number < count:
                self.plot(number, ax)
            else:
                ax.set_visible(False)
        return made

    # --- files

    def save(self, path: str | Path) -> None:
        """Append it to a file of JSON lines, from which load_all reads; a last line that was cut off when it
        was written is taken away. Raises EngineError."""
        form = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "answered_by"}
        form |= {"findings": [asdict(one) for one in self.findings], "schema": SCHEMA}
        try:
            _end_last_line(Path(path))
            with Path(path).open("ab", buffering=0) as file:
                append_text(file.fileno(), json.dumps(form, allow_nan=False, default=str) + "\n")
        except OSError as error:
            raise EngineError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def load_all(cls, path: str | Path) -> dict[str, Report]:
        """The reports of a file, by name; of one name the last. Raises as read_all."""
        return {report.name: report for report in cls.read_all(path)}

    @classmethod
    def read_all(cls, path: str | Path) -> list[Report]:
        """The reports of a file, in its order; a last line that was cut off when it was written is left out,
        with a RuntimeWarning. Raises EngineError, InvalidRequest."""
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise EngineError(f"{path} cannot be read: {error.strerror}") from None
        if torn := _torn_bytes(raw):
            warnings.warn(f"{path}: its last line was cut off, and is left out", RuntimeWarning, stacklevel=2)
        found = []
        for number, line in enumerate(raw[: len(raw) - torn].splitlines(), 1):
            try:
                form = json.loads(line)
                if form.pop("schema") != SCHEMA:
                    raise InvalidRequest(f"{path}, line {number}: written by another version of grpcperf")
                form["findings"] = tuple(Finding(**one) for one in form["findings"])
                form["rows"] = tuple(form["rows"])
                found.append(cls(**form))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if isinstance(error, InvalidRequest):
                    raise
                raise InvalidRequest(f"{path}, line {number}, is no report of an experiment") from None
        return found

    # --- for people

    def __repr__(self) -> str:
        from grpcperf.remarks import MARKS

        table = self.table() if self.rows else []
        widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))] if table else []
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in table]
        mark = "" if self.valid else " (NOT VALID)"
        told = [f"{MARKS[one.severity]} {one}" for one in self.findings]
        return "\n".join([f"{self.name}{mark}: {self.question}", *lines, self.verdict, *told])

    def _repr_html_(self) -> str:
        import html

        from grpcperf.remarks import Remark, html_findings, html_remark
        from grpcperf.tables import html_rows

        remarks = html_findings(self.findings)
        gaps = "".join(html_remark(Remark("warning", f"{n} skipped", why)) for n, why in self.skipped.items())
        table = self.table() if self.rows else [[]]
        return (
            f'<div style="color:inherit">{remarks}{gaps}<div><b>{html.escape(self.verdict)}</b></div>'
            f"{html_rows(table[0], table[1:])}</div>"
        )


def _torn_bytes(raw: bytes) -> int:
    """How long the last line is, if it is one of ours that was not written to its end; else 0."""
    last = raw[raw.rfind(b"\n") + 1 :]
    if not last.startswith(_BEGINNING[: len(last)]):
        return 0
    try:
        json.loads(last)
    except ValueError:
        return len(last)
    return 0


def _end_last_line(path: Path) -> None:
    """So that what is appended is a line of its own. Raises OSError."""
    if not path.is_file():
        return
    raw = path.read_bytes()
    if torn := _torn_bytes(raw):
        os.truncate(path, len(raw) - torn)
    elif raw and not raw.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return (
            ", ".join(map(str, value))
            if isinstance(value, Sequence) and not isinstance(value, str)
            else str(value)
        )
    return format_interval(value, row.get(f"{name}_low"), row.get(f"{name}_high"))
