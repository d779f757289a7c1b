"""What a sweep measured: one record for each point and repeat, and their views as rows, frames and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpcperf import store, units
from grpcperf.errors import EngineError, InvalidRequest
from grpcperf.histogram import Histogram
from grpcperf.identity import plain
from grpcperf.result import Finding, Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

HISTOGRAMS = ("latency", "service_time", "error_latency")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One point, measured once. `row` is what was measured (None: it failed, `error` says how), `histograms`
    its latencies in their JSON form, `seconds` how long it took, `at` when it ended (UTC)."""

    point: Mapping[str, Any]
    repeat: int = 0
    row: Mapping[str, Any] | None = None
    error: str | None = None
    findings: tuple[Finding, ...] = ()
    histograms: Mapping[str, Any] = field(default_factory=dict, repr=False)
    at: str = ""
    seconds: float = 0.0

    @property
    def valid(self) -> bool:
        """Measured, and without a finding that says that it does not count."""
        return self.row is not None and bool(self.row.get("valid", True))

    def histogram(self, name: str = "latency") -> Histogram:
        """One of HISTOGRAMS; empty where there is none. In a closed loop service_time is latency, and kept
        once."""
        form = self.histograms.get(name)
        if form is None and name == "service_time":
            form = self.histograms.get("latency")
        return Histogram() if form is None else Histogram.from_json(form)

    def value(self, name: str) -> Any:
        """One cell, by the name of a column; None where the record does not have it."""
        if name in self.point:
            told = (self.row or {}).get(name)
            return told if _is_plain_form(self.point[name], told) else self.point[name]
        row = self.row or {}
        if name in row and not isinstance(row[name], Mapping | list | tuple):
            return row[name]
        return self.cells().get(name)

    def has(self, name: str) -> bool:
        """Whether it has such a column, be its value known or not."""
        return name in self.point or name in (self.row or {}) or name in self.cells()

    def flat(self) -> dict[str, Any]:
        """One flat row: the point, what was measured, `valid`, `findings` (codes), `error`. Axes that the row
        tells in their plain form ("64KiB" as 65536) have that; what was measured under the name of an axis
        and is something else is <name>_measured."""
        made = {**self.point, "repeat": self.repeat}
        for name, value in (self.row or {}).items():
            if name not in self.point or _is_plain_form(self.point[name], value):
                made[name] = value
            elif value is not None and value != self.point[name]:
                made[f"{name}_measured"] = value
        codes = [finding.code for finding in self.findings]
        made |= {"valid": self.valid, "findings": made.get("findings", codes), "error": self.error}
        return made

    def cells(self) -> dict[str, Any]:
        """flat() for tables: `status` as one column for each class, lists as texts, so that every cell is a
        plain value."""
        made: dict[str, Any] = {}
        for name, value in self.flat().items():
            if isinstance(value, Mapping):
                made |= {f"{name}_{key}": item for key, item in value.items()}
            else:
                made[name] = (
                    (", ".join(map(str, value)) or None) if isinstance(value, list | tuple) else value
                )
        made["findings"] = made["findings"] or ""
        if "status" in (self.row or {}):
            made.setdefault("status_OK", 0)
        return made

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Record:
        findings = tuple(Finding(**finding) for finding in form["findings"])
        return cls(**{**form, "findings": findings})

    @classmethod
    def of(cls, measured: Any, **about: Any) -> Record:
        """Of what a sweep's function returned: a Result, a mapping of its own numbers, or anything with
        row() or as_dict(). Raises InvalidRequest for all else."""
        if isinstance(measured, Result):
            kept = [name for name in HISTOGRAMS if name != "service_time" or measured.spec.is_open_loop]
            histograms = {name: getattr(measured, name).to_json() for name in kept}
            row = measured.row()
            return cls(row=row, findings=measured.findings, histograms=histograms, **about)
        for name in ("row", "as_dict"):
            if callable(getattr(measured, name, None)):
                measured = getattr(measured, name)()
        if not isinstance(measured, Mapping):
            raise InvalidRequest(
                "a sweep's function must return a Result or a dict of numbers, "
                f"not {type(measured).__name__}: is there a `return` missing?"
            )
        return cls(row={str(name): _storable(value) for name, value in measured.items()}, **about)


class Results(Sequence[Record]):
    """The records of a sweep, in the order they were measured. Made by Sweep.run and Results.load."""

    def __init__(self, records: Iterable[Record], axes: Sequence[str], header: store.Header) -> None:
        self.records = tuple(records)
        self.axes = tuple(axes)
        self.header = header

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        return self._with(self.records[index]) if isinstance(index, slice) else self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __add__(self, other: object) -> Results:
        """Both, one after the other; of the same axes."""
        if not isinstance(other, Results):
            return NotImplemented
        if set(other.axes) != set(self.axes):
            raise InvalidRequest(f"results over {self.axes} and over {other.axes} do not belong together")
        return self._with(self.records + other.records)

    def _with(self, records: Iterable[Record]) -> Results:
        return Results(records, self.axes, self.header)

    @property
    def failed(self) -> Results:
        """The records of points that could not be measured."""
        return self._with(record for record in self if record.row is None)

    def select(self, where: Callable[[Mapping[str, Any]], bool] | None = None, **values: Any) -> Results:
        """Those whose flat row (or point, as it was given) has these values, and for which `where` (a
        callable of the flat row) holds."""
        self.require(values)
        wanted = plain(values)

        def chosen(record: Record) -> bool:
            for name, value in wanted.items():
                if value not in (record.value(name), record.point.get(name, record.value(name))):
                    return False
            return where is None or where(record.flat())

        return self._with(record for record in self if chosen(record))

    def histogram(self, name: str = "latency", **values: Any) -> Histogram:
        """The merged histogram of all records (with these values): "latency", "service_time" or
        "error_latency". Merging is exact: no percentile is averaged."""
        if name not in HISTOGRAMS:
            raise InvalidRequest(f"histogram must be one of {', '.join(HISTOGRAMS)}, not {name!r}")
        total = Histogram()
        for record in self.select(**values):
            total += record.histogram(name)
        return total

    # --- views

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each record: the axes, `repeat`, the metrics with units in their names, `valid`,
        `findings` (a list of codes), `error`. None for what is not known."""
        return [record.flat() for record in self]

    def table(self) -> list[dict[str, Any]]:
        """The same in plain cells, all rows with the columns of all: a class of calls that occurred anywhere
        is status_NAME, 0 where it did not (status_OK always)."""
        rows = [record.cells() for record in self]
        names = dict.fromkeys([*self.axes, "repeat", *(name for row in rows for name in row)])
        for last in ("valid", "findings", "error"):
            names.pop(last, None)
            names[last] = None
        blank = {name: 0 if name.startswith("status_") else None for name in names}
        empty: dict[str, Any] = dict.fromkeys(names)
        return [
            (empty if record.row is None else blank) | row for record, row in zip(self, rows, strict=True)
        ]

    def frame(self) -> pd.DataFrame:
        """A tidy pandas frame of table(): a row for each point and repeat. Raises EngineError with the
        command to type when pandas is missing."""
        rows = self.table()
        names = list(rows[0]) if rows else [*self.axes, "repeat", "valid", "findings", "error"]
        return pandas().DataFrame(rows, columns=names)

    def pivot(
        self,
        index: str,
        columns: str | None = None,
        values: str = "throughput_rps",
        *,
        aggregate: str = "median",
    ) -> pd.DataFrame:
        """`values` over two axes, repeats brought together by `aggregate` ("median", "mean", "min",
        "max")."""
        self.require([name for name in (index, columns, values) if name is not None])
        return self.frame().pivot_table(index=index, columns=columns, values=values, aggfunc=aggregate)

    def plot(self, x: str, y: str, by: str | None = None, ax: Axes | None = None) -> Axes:
        """`y` over `x`, a line for each value of `by`, with intervals over repeats where there are any, and
        points that are not valid marked. Returns the Axes."""
        from grpcperf.plot import curve

        return curve(self, x, y, by=by, ax=ax)

    def require(self, names: Iterable[str]) -> None:
        """Raise InvalidRequest for a name that no row has, with those nearest to it."""
        from grpcperf.values import refuse_unknown

        missing = [name for name in names if self.records and not any(record.has(name) for record in self)]
        if missing:
            refuse_unknown(missing, dict.fromkeys(name for row in self.table() for name in row), "column")

    # --- files

    def save(self, path: str | Path) -> Path:
        """Write them to a file: ".csv" for tables (histograms and reasons are left out), all else as a store
        of JSON lines, which load() and a sweep's store= read. Returns the path. Raises EngineError."""
        path = Path(path)
        if path.suffix == ".csv":
            _write_csv(path, self)
        elif path.suffix in (".xls", ".xlsx", ".parquet", ".html", ".tsv"):
            raise InvalidRequest(f"{path}: results are saved as .csv or .jsonl; for others there is frame()")
        else:
            store.write(path, self.header, (record.to_json() for record in self))
        return path

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """From a store or a CSV file. Of a point measured again, as after a failure, the last record counts.
        Raises EngineError when it cannot be read, InvalidRequest when it is something else."""
        path = Path(path)
        if path.suffix == ".csv":
            return _read_csv(path)
        header, lines = store.read(path)
        return cls(latest(lines).values(), header.axes, header)

    def __repr__(self) -> str:
        points = len({_point_key(record.point) for record in self})
        text = f"<Results: {len(self):,} records of {points:,} points over {', '.join(self.axes)}"
        return text + "".join(f", {count:,} {what}" for what, count in self._troubles().items()) + ">"

    def _troubles(self) -> dict[str, int]:
        failed = len(self.failed)
        invalid = sum(not record.valid for record in self) - failed
        return {what: count for what, count in (("failed", failed), ("not valid", invalid)) if count}

    def _repr_html_(self) -> str:
        from grpcperf import tables

        return tables.results_table(self)


def _storable(value: Any) -> Any:
    """A number that is none, as of 0 / 0, is not known."""
    if isinstance(value, float) and value - value != 0:
        return None
    return plain(value)


def _is_plain_form(given: Any, told: Any) -> bool:
    """Whether a row tells the plain form of what was given for an axis: 65536 of "64KiB", 0.5 of "500ms"."""
    if not isinstance(given, str) or not isinstance(told, int | float) or isinstance(told, bool):
        return False
    for read in (units.size_bytes, units.seconds):
        try:
            if read(given, "axis") == told:
                return True
        except InvalidRequest:
            continue
    return False


def latest(lines: Iterable[Mapping[str, Any]]) -> dict[str, Record]:
    """The last record of each point and repeat, by their key."""
    found: dict[str, Record] = {}
    for number, line in enumerate(lines, 2):
        try:
            record = Record.from_json(line)
        except (KeyError, TypeError, AttributeError):
            told = f"line {number} of the store is no record of one: it was changed by hand?"
            raise InvalidRequest(told) from None
        key = record_key(record.point, record.repeat)
        found.pop(key, None)
        found[key] = record
    return found


def record_key(point: Mapping[str, Any], repeat: int) -> str:
    return f"{_point_key(point)} {repeat}"


def _point_key(point: Mapping[str, Any]) -> str:
    return json.dumps(plain(point), sort_keys=True)


def pandas() -> Any:
    """The library. Raises EngineError with the command to type when it is missing."""
    try:
        import pandas
    except ImportError:
        raise EngineError("pandas is missing, for frames: pip install pandas") from None
    return pandas


def _write_csv(path: Path, results: Results) -> None:
    """The axes come first and end with `repeat`, by which _read_csv knows them."""
    import csv

    store.require_file(path)
    rows = results.table()
    names = list(rows[0]) if rows else [*results.axes, "repeat"]
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, restval="")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror}") from None


def _read_csv(path: Path) -> Results:
    import csv

    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            texts = list(reader)
            names = list(reader.fieldnames or [])
    except OSError as error:
        raise EngineError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise InvalidRequest(f"{path} is no text of a CSV file") from None
    if any(None in row or None in row.values() for row in texts):
        raise InvalidRequest(f"{path} has rows of another length than its first line")
    if "repeat" not in names:
        raise InvalidRequest(f"{path} was not written by Results.save: it has no column `repeat`")
    axes = names[: names.index("repeat")]
    rows = [{name: _value(text) for name, text in row.items()} for row in texts]
    records = []
    for row in rows:
        failure = row.pop("error", None)
        point, repeat = {name: row[name] for name in axes}, row.pop("repeat")
        row["findings"] = [code for code in (row.get("findings") or "").split(", ") if code]
        measured = {name: value for name, value in row.items() if name not in axes}
        records.append(Record(point=point, repeat=repeat, row=None if failure else measured, error=failure))
    return Results(records, axes, store.Header(axes=tuple(axes), function="", fingerprint=""))


def _value(text: Any) -> Any:
    """A cell of a CSV file as the value it was written from; a text that reads like a number comes back as
    one."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    try:
        return json.loads(text)
    except ValueError:
        return text
