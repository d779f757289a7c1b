"""The commands that compose: sweep, compare, report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from grpcperf.cli_options import (
    FAILED,
    INTERRUPTED,
    INVALID,
    OK,
    SPEC_OPTIONS,
    print_json,
    spec_of,
    target_of,
    tell,
)
from grpcperf.errors import Interrupted, InvalidRequest

# Options that take one value each time: commas in them mean something else.
_NOT_AXES = ("cpus", "method")


def sweep(options: argparse.Namespace) -> int:
    """Every option with a list of values is an axis; the others hold for all points."""
    from grpcperf.load import load
    from grpcperf.results import Results
    from grpcperf.sweep import Sweep

    axes = _take_axes(options)
    base = spec_of(options)
    groups = ({name: values} for name, values in axes.items())
    plan = Sweep(*groups, repeats=options.repeats, order=options.order, seed=base.seed)
    for point in plan.points:
        base.replace(**point)  # nonsense is refused before anything is measured
    code = OK
    with target_of(options) as target:
        try:
            results = plan.run(
                lambda point: load(target, base.replace(**point), progress=False),
                store=options.store,
                key=f"{base!r} on {_told_target(options)}",
                force=options.force,
                progress=False if options.json else None,
            )
        except Interrupted as interrupted:
            results, code = interrupted.result, tell(interrupted, INTERRUPTED)
    assert isinstance(results, Results)
    _show(results, options)
    if code != OK:
        return code
    if results and len(results.failed) == len(results):
        return FAILED  # the sweep has warned, with the first cause
    if results and all(_all_failed(record.row or {}) for record in results):
        return tell("every call of every point failed", FAILED)
    if results.failed:
        tell(f"warning: {len(results.failed)} of {len(results)} measurements failed", OK)
    return INVALID if options.strict and not all(record.valid for record in results) else OK


def _all_failed(row: Mapping[str, Any]) -> bool:
    return not row or (row.get("calls", 0) == row.get("errors", 0))


def _told_target(options: argparse.Namespace) -> str:
    """What is measured, for the key of a store: all options that say so."""
    names = ("target", "authority", "tls", "cacert", "cert", "key", "server_name", "insecure")
    return ", ".join(f"{name}={getattr(options, name)!r}" for name in names if getattr(options, name, None))


def _take_axes(options: argparse.Namespace) -> dict[str, Any]:
    """Take the options that are lists out of the namespace; with none, the first that was given is an axis of
    one value."""
    given = {name: getattr(options, name) for name in SPEC_OPTIONS if isinstance(getattr(options, name), str)}
    lists = {
        name: [part.strip() for part in text.split(",")]
        for name, text in given.items()
        if "," in text and name not in _NOT_AXES
    }
    if any(not part for values in lists.values() for part in values):
        raise InvalidRequest("a list of values has an empty one: give them as --connections 1,2,4")
    single = {name: [text] for name, text in given.items() if name not in _NOT_AXES}
    axes = lists or dict(list(single.items())[:1]) or {"connections": ["1"]}
    for name in axes:
        setattr(options, name, None)
    return {name: [_number(text) for text in values] for name, values in axes.items()}


def _number(text: str) -> Any:
    """What is plainly a number is one, so that axes sort and plot as such."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _show(results: Any, options: argparse.Namespace) -> None:
    from grpcperf import tables

    if options.json:
        print_json({"rows": results.rows()})
    else:
        print(tables.results_text(results))


def compare(options: argparse.Namespace) -> int:
    """Two stores, point by point. They were not measured in turn, which is said."""
    from grpcperf.comparison import compare_stores
    from grpcperf.results import Results

    found = compare_stores(
        Results.load(options.a), Results.load(options.b), options.metric, min_effect=options.min_effect
    )
    if options.json:
        print_json({"interleaved": False, "rows": [{**point, **one.row()} for point, one in found]})
    else:
        tell("not interleaved: what the machine did between the two is part of every ratio", OK)
        for point, one in found:
            where = ", ".join(f"{name}={value}" for name, value in point.items())
            print(f"{where or 'all'}: {one!r}")
    undecided = any(one.verdict == "inconclusive" or not one.valid for _, one in found)
    return INVALID if options.strict and undecided else OK


def report(options: argparse.Namespace) -> int:
    """A page of a store."""
    from pathlib import Path

    from grpcperf import report as pages
    from grpcperf.results import Results
    from grpcperf.sweep_page import page_of

    path = Path(options.html)
    if path.exists() and path.samefile(options.store):
        raise InvalidRequest("--html names the store itself, which the page would overwrite")
    pages.require_extras()
    pages.require_writable(path)
    written = pages.write(page_of(Results.load(options.store)), path)
    print(f"wrote {written}", file=sys.stderr)
    return OK
