"""The command `experiment`: list the questions, run one or all of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpcperf.cli_options import FAILED, INTERRUPTED, INVALID, OK, failure, print_json, tell
from grpcperf.errors import Error, InvalidRequest

if TYPE_CHECKING:
    from grpcperf.experiments import Experiment, Report

_FLAGS = ("quick", "full", "json", "strict")
_FILES = ("html", "save")


@dataclass
class _Asked:
    action: str = ""
    name: str = ""
    flags: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)  # as they were typed


def experiment(options: argparse.Namespace) -> int:
    asked = _read(options.words)
    return _list(asked) if asked.action == "list" else _run(asked)


def _read(words: Sequence[str]) -> _Asked:
    """What was typed after `experiment`. The parameters depend on the experiment, so argparse cannot know
    them."""
    asked = _Asked()
    plain = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            plain.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if name in _FLAGS and not equals:
            asked.flags.add(name)
            continue
        if not equals:
            if not left:
                raise InvalidRequest(f"--{name} needs a value")
            value = left.pop(0)
        (asked.files if name in _FILES else asked.parameters)[name] = value
    if not plain or plain[0] not in ("list", "run") or len(plain) != (1 if plain[0] == "list" else 2):
        raise InvalidRequest("say `experiment list` or `experiment run NAME` (or all)")
    if {"quick", "full"} <= asked.flags:
        raise InvalidRequest("--quick contradicts --full")
    asked.action, asked.name = plain[0], plain[-1]
    return asked


def _list(asked: _Asked) -> int:
    from grpcperf.experiments import NAMES, find

    known = [find(name) for name in NAMES]
    if "json" in asked.flags:
        print_json(
            [{"name": one.name, "question": one.question, "columns": list(one.columns)} for one in known]
        )
        return OK
    width = max(map(len, NAMES))
    for one in known:
        print(f"{one.name:<{width}}  {one.question}")
    return OK


def _run(asked: _Asked) -> int:
    from grpcperf.experiments import NAMES, find

    chosen = [find(name) for name in (NAMES if asked.name == "all" else (asked.name,))]
    size = "full" if "full" in asked.flags else "quick"
    given = [_typed(one, asked.parameters, all_of_them=asked.name == "all") for one in chosen]
    _require_writable(asked.files)
    reports: list[Report] = []
    failed: dict[str, str] = {}
    code = OK
    for one, parameters in zip(chosen, given, strict=True):
        if asked.name == "all":
            tell(one.name, OK)
        try:
            report = one(size=size, progress=False if "json" in asked.flags else None, **parameters)
        except Error as error:
            if isinstance(error, InvalidRequest | KeyboardInterrupt):
                raise
            failed[one.name] = str(error)
            tell(f"{one.name}: {error}", OK)
            continue
        reports.append(report)
        if "save" in asked.files:
            report.save(asked.files["save"])
        if any(finding.code == "interrupted" for finding in report.findings):
            code = tell("interrupted: the report holds what was measured until then", INTERRUPTED)
            break
    _show(asked, reports, failed)
    if code != OK:
        return code
    if failed or any(not report.rows for report in reports):
        return FAILED
    return INVALID if "strict" in asked.flags and not all(report.valid for report in reports) else OK


def _show(asked: _Asked, reports: Sequence[Report], failed: Mapping[str, str]) -> None:
    if "html" in asked.files:
        from pathlib import Path

        from grpcperf import report as pages
        from grpcperf.experiments.page import page_of

        written = pages.write(page_of(reports, failed), Path(asked.files["html"]))
        print(f"wrote {written}", file=sys.stderr)
    if "json" not in asked.flags:
        print("\n\n".join(map(repr, reports)))
    elif asked.name == "all":
        print_json({"reports": [report.as_dict() for report in reports], "failed": dict(failed)})
    elif reports:
        print_json(reports[0].as_dict())
    else:
        print_json(failure(*failed.values()))


def _require_writable(files: Mapping[str, str]) -> None:
    """Before measuring for a minute."""
    from pathlib import Path

    from grpcperf import report as pages

    if "html" in files:
        pages.require_extras()
    for path in files.values():
        pages.require_writable(Path(path))


def _typed(one: Experiment, texts: Mapping[str, str], *, all_of_them: bool) -> dict[str, Any]:
    """Parameters as the experiment takes them, by what its own are. `all`: each takes those it knows."""
    known = {**one.full, **one.quick}
    if not all_of_them:
        from grpcperf.values import refuse_unknown

        refuse_unknown(texts, known, f"parameter of {one.name}")
    return {name: _value(text, known[name]) for name, text in texts.items() if name in known}


def _value(text: str, like: Any) -> Any:
    if isinstance(like, list | tuple):
        return [_plain(part.strip()) for part in text.split(",") if part.strip()]
    return _plain(text)


def _plain(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
