"""Sweeps: one function measured at every point of a few axes, again and again, in an order of its own, and
kept as it goes."""

from __future__ import annotations

import itertools
import math
import random
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpcperf import environment, units
from grpcperf.errors import Interrupted, InvalidRequest
from grpcperf.identity import digest, key_of, plain
from grpcperf.progress import SweepProgress
from grpcperf.results import Record, Results, latest, record_key
from grpcperf.store import Header, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_POINTS = 1_000_000
ORDERS = ("random", "given")
_RESERVED = ("repeats", "where", "order", "seed", "repeat", "row", "error", "valid", "findings")


class Point(dict[str, Any]):
    """The values of the axes at one point, also as attributes: `point.connections`. `repeat` counts from
    0."""

    repeat: int = 0

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            there = ", ".join(self)
            raise AttributeError(f"this point has no {name!r}; its axes are {there}") from None


@dataclass(frozen=True)
class _Cell:
    """One thing to be measured: a point, and which time it is."""

    point: Point
    stored: dict[str, Any]  # the point as JSON has it
    repeat: int

    @property
    def key(self) -> str:
        return record_key(self.stored, self.repeat)


class Sweep:
    """Every combination of the axes' values, `repeats` times.

    Axes are keywords with a list of values each: `Sweep(connections=[1, 2, 4], request_size=[16, "64KiB"])`.
    A dict of lists as a positional argument is a group of axes that go together, value by value, as one:
    `Sweep({"connections": [1, 4], "concurrency": [64, 256]})`. `where`: a callable of a point that says
    whether it is measured. Each repeat is a round over all points, so that slow changes of the machine meet
    all of them; within a round the order is "random" (by `seed`) or as "given". Raises InvalidRequest.
    """

    def __init__(
        self,
        *groups: Mapping[str, Iterable[Any]],
        repeats: int = 1,
        where: Callable[[Point], bool] | None = None,
        order: str = "random",
        seed: int = 0,
        **axes: Iterable[Any],
    ) -> None:
        self.repeats = units.count(repeats, "repeats", high=1_000_000)
        self.order = units.one_of(order, "order", ORDERS)
        self.seed = units.count(seed, "seed", low=0, high=2**64 - 1)
        if where is not None and not callable(where):
            raise InvalidRequest(f"where must be a callable of a point, not {units.shown(where)}")
        parts = [_group(group) for group in groups] + [_group({name: axes[name]}) for name in axes]
        self.axes = tuple(name for part in parts for name in part[0])
        if not self.axes:
            raise InvalidRequest("a sweep needs an axis, as Sweep(connections=[1, 2, 4])")
        if len(set(self.axes)) < len(self.axes):
            raise InvalidRequest(f"an axis is given twice: {', '.join(self.axes)}")
        if math.prod(map(len, parts)) > MOST_POINTS:
            raise InvalidRequest(f"{math.prod(map(len, parts)):,} points are more than {MOST_POINTS:,}")
        all_points = (Point(_joined(chosen)) for chosen in itertools.product(*parts))
        self.points = [point for point in all_points if where is None or where(point)]
        if not self.points:
            raise InvalidRequest("where= leaves no point to be measured")
        _require_distinct(self.points)

    def __len__(self) -> int:
        """Points times repeats."""
        return len(self.points) * self.repeats

    def run(
        self,
        function: Callable[[Point], Any],
        *,
        store: str | Path | None = None,
        key: str | None = None,
        force: bool = False,
        progress: bool | None = None,
    ) -> Results:
        """Call the function with every point and keep what it returns: a Result, or a dict of numbers.

        `store`: a file to which every record is written at once. When it is there already, what it holds is
        not measured again: the same points and repeats, measured by the same function (its code, its closure,
        the plain globals it names; or the same `key`, which then stands for all that), by the same versions
        on the same machine (unless `force`). Points that failed are tried again. `progress`: show a bar;
        None: when a person is watching.

        A point whose measurement raises is recorded as failed, and the sweep goes on. Ctrl-C raises
        Interrupted, whose `result` are the Results so far. Raises InvalidRequest, EngineError when the store
        cannot be written.
        """
        if not callable(function):
            raise InvalidRequest(f"a sweep runs a callable of a point, not {units.shown(function)}")
        header = _header(self.axes, function, key)
        file = None if store is None else Store(Path(store), header, force=force)
        cells = list(self._cells())
        found: dict[str, Record] = {}
        try:
            done = {} if file is None else latest(file.lines)
            found |= {cell.key: done[cell.key] for cell in cells if _is_done(done.get(cell.key))}
            self._measure([cell for cell in cells if cell.key not in found], function, file, found, progress)
        except KeyboardInterrupt:
            told = _interrupted(len(found), len(cells), store)
            raise Interrupted(told, Results(found.values(), self.axes, header)) from None
        finally:
            if file is not None:
                file.close()
        results = Results(found.values(), self.axes, header)
        if results and len(results.failed) == len(results):
            warnings.warn(f"every point failed; the first: {results[0].error}", RuntimeWarning, stacklevel=2)
        return results

    def _measure(
        self,
        cells: list[_Cell],
        function: Callable[[Point], Any],
        file: Store | None,
        found: dict[str, Record],
        progress: bool | None,
    ) -> None:
        with SweepProgress(len(cells), progress) as bar:
            for cell in cells:
                bar.show(cell.stored)
                record = _measured(function, cell)
                found[cell.key] = record
                bar.step(failed=record.row is None)
                if file is not None:
                    file.append(record.to_json())

    def _cells(self) -> Iterator[_Cell]:
        """Round by round, each in an order of its own."""
        order = random.Random(self.seed)
        for repeat in range(self.repeats):
            points = list(self.points)
            if self.order == "random":
                order.shuffle(points)
            for point in points:
                own = Point(point)
                object.__setattr__(own, "repeat", repeat)
                yield _Cell(own, plain(point), repeat)

    def __repr__(self) -> str:
        times = f", each {self.repeats} times" if self.repeats > 1 else ""
        return f"<Sweep over {', '.join(self.axes)}: {len(self.points):,} points{times}>"


def _group(axes: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """The values that axes which go together have, one dict for each step."""
    if not isinstance(axes, Mapping) or not axes:
        raise InvalidRequest(
            f"axes that go together must be a dict of lists, not {units.shown(axes)}: "
            'Sweep({"connections": [1, 4], "concurrency": [64, 256]})'
        )
    values = {name: _values(name, given) for name, given in axes.items()}
    lengths = {name: len(given) for name, given in values.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidRequest(f"axes that go together must be equally long, not {lengths}")
    return [dict(zip(values, step, strict=True)) for step in zip(*values.values(), strict=True)]


def _values(name: str, given: Any) -> list[Any]:
    if not isinstance(name, str) or not name.isidentifier() or name in (*_RESERVED, *dir(dict)):
        raise InvalidRequest(f"an axis cannot be named {name!r}")
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidRequest(f"axis {name} must be a list of values, not {units.shown(given)}: [{given!r}]?")
    values = list(itertools.islice(given, MOST_POINTS + 1))
    if len(values) > MOST_POINTS:
        raise InvalidRequest(f"axis {name} has more than {MOST_POINTS:,} values")
    if not values:
        raise InvalidRequest(f"axis {name} is empty")
    return values


def _joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def _require_distinct(points: list[Point]) -> None:
    seen: set[str] = set()
    for point in points:
        key = record_key(point, 0)
        if key in seen:
            raise InvalidRequest(
                f"the point {plain(point)} comes twice: give repeats= to measure points again, or values "
                "that differ as text"
            )
        seen.add(key)


def _header(axes: tuple[str, ...], function: Callable[..., Any], key: str | None) -> Header:
    return Header(
        axes=axes,
        function=key_of(function) if key is None else digest(["key", str(key)]),
        fingerprint=environment.fingerprint(),
        environment=environment.summary(),
        created=environment.now(),
    )


def _measured(function: Callable[[Point], Any], cell: _Cell) -> Record:
    started = time.monotonic()
    measured: Any = None
    error: str | None = None
    try:
        measured = function(cell.point)
    except Exception as failure:
        if isinstance(failure, KeyboardInterrupt):  # gp.Interrupted is both
            raise
        error = f"{type(failure).__name__}: {failure}"
    about: dict[str, Any] = {"point": cell.stored, "repeat": cell.repeat, "at": environment.now()}
    seconds = time.monotonic() - started
    if error is not None:
        return Record(**about, seconds=seconds, error=error)
    return Record.of(measured, **about, seconds=seconds)


def _is_done(record: Record | None) -> bool:
    """Those that failed are tried again."""
    return record is not None and record.row is not None


def _interrupted(done: int, cells: int, store: str | Path | None) -> str:
    where = f"in {store}; the same again goes on from there" if store is not None else "as .result"
    return f"interrupted: {done:,} of {cells:,} measurements are kept {where}"
