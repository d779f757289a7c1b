"""What an experiment is made of: a function that yields rows, and what it is handed to measure with.

A module of this folder answers one question. It has a function `measure(kit, **parameters)` that yields a
row (a dict) for each thing measured, functions that say what the rows mean and draw them, and one
Experiment, named by the module, which joins them.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from grpcperf import environment, units
from grpcperf.errors import EngineError, Error, InvalidRequest
from grpcperf.experiments.report import THE_REST, Report
from grpcperf.findings import finding
from grpcperf.identity import plain
from grpcperf.progress import SweepProgress
from grpcperf.result import Finding, Result
from grpcperf.stats import mean_interval
from grpcperf.units import shown
from grpcperf.values import refuse_unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from grpcperf.targets import Measurable

Row = dict[str, Any]
Start = Callable[..., "Measurable"]
SIZES = ("quick", "full")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a report: `draw` puts it on an Axes."""

    title: str
    draw: Callable[[Axes], object]
    caption: str = ""


@dataclass(frozen=True)
class ServerKind:
    """A kind of server to be measured. `name` is the `server` column."""

    name: str
    start_with: Callable[..., Measurable]
    # What may fail here and take long, once; tells the versions that the name does not. Raises EngineError.
    prepare: Callable[[], str | None] = lambda: None
    is_go: bool = False
    is_native: bool = False

    def start(
        self, *, go: Mapping[str, Any] | None = None, native: Mapping[str, Any] | None = None, **both: Any
    ) -> Measurable:
        """Start one: `both` for every kind, `go` for a GoServer, `native` for a Server. A callable of the
        user's gets none of them."""
        own = (go if self.is_go else native if self.is_native else None) or {}
        known = self.is_go or self.is_native
        return self.start_with(**(both | dict(own) if known else {}))


class Kit:
    """What `measure` is handed: servers by their names, repeats, and where to note what a reader must
    know."""

    def __init__(self, size: str, bar: SweepProgress) -> None:
        self.size = size
        self.findings: dict[str, Finding] = {}
        self.skipped: dict[str, str] = {}
        self.data: dict[str, Any] = {}  # of the report, beside what is fitted to its rows
        self.versions: dict[str, str] = {}  # of servers that are built here, by their names
        self._bar = bar

    def servers(self, wanted: Iterable[Any]) -> Iterator[ServerKind]:
        """The kinds of server that can be had here: "native", "native:thread", "native:pool:100:1000",
        "grpc-go", "grpc-go@1.46.2", or a callable that returns a target. What cannot (Go is missing) is
        skipped by name, with its reason; what is no server, or has the name of another, raises
        InvalidRequest."""
        if isinstance(wanted, str) or not isinstance(wanted, Iterable):
            raise InvalidRequest(f'servers must be a list such as ["native", "grpc-go"], not {shown(wanted)}')
        kinds = [server_kind(one) for one in wanted]
        names = [one.name for one in kinds]
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequest(
                    f"two servers are named {name}, by which rows tell them: name them apart"
                )
        for one in kinds:
            try:
                if made := one.prepare():
                    self.versions[one.name] = made
            except EngineError as error:
                self.skip(one.name, str(error))
                continue
            yield one

    def has_go_client(self, name: str, version: str) -> bool:
        """Whether the client of that version of grpc-go can be had here; else it is skipped by name, with the
        reason."""
        from grpcperf import goclient

        try:
            goclient.build(version)
            self.versions[name] = goclient.versions(version)
        except EngineError as error:
            self.skip(f"client {name}", str(error))
            return False
        return True

    def skip(self, name: str, reason: str) -> None:
        """A part that cannot be measured here: the rest goes on, the report shows the gap."""
        self.skipped[name] = reason

    def note(self, measured: Result | Finding, where: str = "", ignore: Container[str] = ()) -> None:
        """Keep what was found, but for codes that the experiment brings about itself. Of one code the worst
        is kept, and the first."""
        found = measured.findings if isinstance(measured, Result) else (measured,)
        for it in (one for one in found if one.code not in ignore):
            before = self.findings.get(it.code)
            if before is None or (before.severity != "invalid" and it.severity == "invalid"):
                self.findings[it.code] = replace(it, message=f"{where}: {it.message}") if where else it

    def say(self, **about: Any) -> None:
        """What is being measured, for the progress bar."""
        self._bar.show(about)

    def repeat(self, times: int, measure: Callable[[], Mapping[str, Any]]) -> Row:
        """Measure so many times: the mean of each number, `repeats`, and for more than one `<metric>_low` and
        `<metric>_high`, the 95 % interval of the mean (Student's t). A number that is unknown (None) in some
        repeat is unknown; what is none is that of the first."""
        rows = [dict(measure()) for _ in range(times)]
        row = dict(rows[0])
        for name in dict.fromkeys(name for one in rows for name in one):
            values: list[Any] = [one.get(name) for one in rows]
            if not all(one is None or _is_number(one) for one in values):
                continue
            if None in values:
                row[name] = None
                continue
            numbers = [float(one) for one in values]
            if times > 1:
                row[name] = _as_before(statistics.fmean(numbers), values)
                bounds = mean_interval(numbers)
                assert bounds is not None
                row[f"{name}_low"], row[f"{name}_high"] = bounds.low, bounds.high
        return row | {"repeats": times}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_before(mean: float, values: Sequence[Any]) -> float | int:
    """A whole number stays one when all are the same: a count of 100 is not 100.0."""
    return values[0] if all(value == values[0] for value in values) else mean


def server_kind(wanted: Any) -> ServerKind:
    """See Kit.servers."""
    from functools import partial

    from grpcperf.targets import GoServer, Server
    from grpcperf.targets.go import DEFAULT_VERSION
    from grpcperf.targets.models import parse_model

    if callable(wanted):
        name = getattr(wanted, "__name__", type(wanted).__name__)
        return ServerKind("callable" if name == "<lambda>" else name, wanted)
    if isinstance(wanted, str):
        kind, at, version = wanted.partition("@")
        if kind == "grpc-go" and (version or not at):
            chosen = version or DEFAULT_VERSION
            prepare = partial(_build, chosen)
            return ServerKind(wanted, partial(GoServer, version=chosen), prepare=prepare, is_go=True)
        kind, colon, model = wanted.partition(":")
        if kind == "native" and (model or not colon):
            return ServerKind(wanted, partial(Server, model=parse_model(model or "async")), is_native=True)
    raise InvalidRequest(
        'server must be "native", "native:MODEL", "grpc-go", "grpc-go@VERSION" or a callable, '
        f"not {shown(wanted)}"
    )


def _build(version: str) -> str:
    from grpcperf.targets import go_build

    go_build.build(version)
    return go_build.versions(version)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One question, and how it is answered: called with its parameters, it measures and returns a Report."""

    name: str
    question: str
    columns: tuple[str, ...]  # that every row has, in order
    measure: Callable[..., Iterator[Row]] = field(repr=False)
    verdict: Callable[[Report], str] = field(repr=False)  # a sentence, computed from the rows
    quick: Mapping[str, Any] = field(repr=False)  # parameters of measure: seconds
    full: Mapping[str, Any] = field(repr=False)  # and the sizes of the article
    figures: Callable[[Report], Sequence[Figure]] = field(default=lambda report: (), repr=False)
    data: Callable[[Sequence[Row]], Mapping[str, Any]] = field(default=lambda rows: {}, repr=False)  # fits
    source: str = ""  # who asked, and what was published

    def __call__(self, *, size: str = "quick", progress: bool | None = None, **parameters: Any) -> Report:
        """Measure. `size`: "quick" (seconds) or "full"; parameters override those of the size. A part that
        cannot be had here is skipped by name; Ctrl-C gives what there is, with the finding `interrupted`.
        Raises InvalidRequest for a parameter that it does not have."""
        chosen = self.chosen(size, parameters)
        begun, started = environment.now(), time.monotonic()
        rows: list[Row] = []
        with SweepProgress(None, progress) as bar:
            kit = Kit(size, bar)
            try:
                for row in self.measure(kit, **chosen):
                    rows.append({**dict.fromkeys(self.columns), "repeats": 1, **row})
            except KeyboardInterrupt:
                kit.note(finding("interrupted", "rows are missing"))
            except Error as error:
                if isinstance(error, InvalidRequest) or not rows:
                    raise
                kit.skip(THE_REST, str(error))
        report = self._report(rows, kit, chosen)
        return replace(report, measured_at=begun, seconds=time.monotonic() - started)

    def chosen(self, size: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters that it would measure with. Raises InvalidRequest for one that it does not have or
        that has another form."""
        if size not in SIZES:
            raise InvalidRequest(f"size must be quick or full, not {shown(size)}")
        known = self.quick if size == "quick" else self.full
        refuse_unknown(parameters, known, f"parameter of {self.name}")
        given = {**known, **parameters}
        return {name: _checked(name, given[name], like) for name, like in known.items()}

    def is_answered_by(self, report: Report, size: str, parameters: Mapping[str, Any]) -> bool:
        """Whether a report is its answer in this size and with these parameters: it has rows and was not cut
        short. No report answers a function: its name does not tell what it does. Raises InvalidRequest."""
        chosen = self.chosen(size, parameters)
        same = report.name == self.name and report.size == size and bool(report.rows)
        asked = same and dict(report.parameters) == plain(chosen) and not report.is_cut_short
        return asked and not _has_function(chosen)

    def _report(self, rows: list[Row], kit: Kit, chosen: Mapping[str, Any]) -> Report:
        tidy = tuple({name: _finite(value) for name, value in row.items()} for row in rows)
        return Report(
            name=self.name,
            rows=tidy,
            data=plain({**kit.data, **self.data(tidy)}) if tidy else {},
            findings=tuple(kit.findings.values()),
            skipped=dict(kit.skipped),
            size=kit.size,
            parameters=plain(chosen),
            environment=environment.summary() | kit.versions,
            answered_by=self,
        )


def _has_function(value: Any) -> bool:
    """Whether it is one, or holds one."""
    if isinstance(value, Mapping):
        return any(map(_has_function, value.values()))
    return callable(value) or (isinstance(value, list | tuple) and any(map(_has_function, value)))


def _checked(name: str, value: Any, like: Any) -> Any:
    """A parameter in the form of the experiment's own: a list of values, a count, a number, a boolean. Raises
    InvalidRequest."""
    if isinstance(like, list | tuple):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise InvalidRequest(f"{name} must be a list such as {like!r}, not {shown(value)}")
        values = list(value)
        if not values and name == "servers":
            raise InvalidRequest(f"{name} is empty")
        numbers = all(_is_number(one) for one in like)
        if like and numbers and not all(_is_number(one) and one >= 0 for one in values):
            raise InvalidRequest(f"{name} must be numbers such as {like!r}, not {values!r}")
        if like and all(isinstance(one, bool) for one in like):
            return [_boolean(name, one) for one in values]
        return values
    if isinstance(like, bool):
        return _boolean(name, value)
    if name == "repeats":
        return units.count(value, name)
    if _is_number(like) and (not _is_number(value) or value < 0):
        raise InvalidRequest(f"{name} must be a number such as {like!r}, not {shown(value)}")
    return value


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{name} must be true or false, not {shown(value)}")
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return plain(value)
