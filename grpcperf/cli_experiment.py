"""The command `experiment`: list the questions, run one or all of them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpcperf.cli_options import FAILED, INTERRUPTED, INVALID, OK, failure, print_json, tell
from grpcperf.errors import Error, InvalidRequest

if TYPE_CHECKING:
    from grpcperf.experiments import Experiment, Report

_FLAGS = {
    "quick": "in sizes that take seconds each (default)",
    "full": "in the sizes that were published, repeated: minutes each",
    "json": "print one JSON document",
    "strict": "exit 3 when a report is not valid",
}
_FILES = {
    "html": "a page to write: verdicts, figures and tables",
    "save": "add every report to this file, a line of JSON each, as soon as it is measured",
    "resume": "as --save, but what the file answers already is taken from it: the same experiment, size, "
    "parameters, versions and machine, not interrupted",
}
_HELP = {"-h", "--help"}


@dataclass
class _Asked:
    action: str = ""
    name: str = ""
    flags: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)  # as they were typed


def experiment(options: argparse.Namespace) -> int:
    if options.help or _HELP & set(options.words):
        return _help(options.words)
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
    if {"save", "resume"} <= asked.files.keys():
        raise InvalidRequest("--resume adds to its file by itself: it contradicts --save")
    asked.action, asked.name = plain[0], plain[-1]
    return asked


def _help(words: Sequence[str]) -> int:
    """Of the command, of `run`, or of the experiment that is named."""
    from grpcperf.experiments import NAMES, find

    plain = [word for word in words if not word.startswith("-")]
    if plain[:1] != ["run"]:
        parser = _parser("list [--json]", f"run NAME|all {_RUN_USAGE}", "run NAME --help")
        parser.description = "Answer one of the questions that come with it, or all."
        parser.epilog = "`list` names the questions; `run NAME --help` tells of one, with its parameters."
    elif len(plain) == 1 or plain[1] == "all":
        parser = _parser(f"run NAME|all {_RUN_USAGE}", "run NAME --help")
        parser.description = "Measure, and tell what was found: a table and a verdict for each experiment."
        parser.epilog = "The experiments, of which `run NAME --help` tells more:\n" + _named_questions()
    else:
        # A parameter's value may stand before the name.
        one = find(next((word for word in plain[1:] if word.replace("_", "-") in NAMES), plain[1]))
        parser = _parser(f"run {one.name} {_RUN_USAGE}")
        published = f"\n\nPublished: {one.source}." if one.source else ""
        parser.description = f"{one.question}{published}"
        _describe_parameters(parser, one)
    _describe_options(parser)
    parser.print_help()
    return OK


_RUN_USAGE = (
    "[--quick | --full] [--PARAMETER VALUE ...]\n"
    "           [--html FILE] [--save FILE | --resume FILE] [--json] [--strict]"
)


def _parser(*usages: str) -> argparse.ArgumentParser:
    """That prints help; _read does the parsing."""
    lines = "\n       ".join(f"grpcperf experiment {usage}" for usage in usages)
    return argparse.ArgumentParser(usage=lines, add_help=False, formatter_class=_Paragraphs)


class _Paragraphs(argparse.HelpFormatter):
    """Lines of a description stay lines, those of a list with their text in its column, and the longest
    option has its text beside it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=36)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap

        def fill(line: str) -> str:
            named = re.match(r"\S+  +", line)
            return textwrap.fill(line, width, subsequent_indent=" " * (named.end() if named else 0))

        return "\n".join(map(fill, text.split("\n")))


def _describe_options(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("options of run")
    for name, text in _FLAGS.items():
        options.add_argument(f"--{name}", action="store_true", help=text)
    for name, text in _FILES.items():
        options.add_argument(f"--{name}", metavar="FILE", help=text)
    options.add_argument(
        "--PARAMETER",
        metavar="VALUE",
        help="in place of that of the size; of a list as 1,2,4 or native,grpc-go",
    )


def _describe_parameters(parser: argparse.ArgumentParser, one: Experiment) -> None:
    group = parser.add_argument_group("parameters: values of --quick (and of --full, where they differ)")
    for name in dict.fromkeys([*one.quick, *one.full]):
        quick, full = _shown(one.quick[name]), _shown(one.full[name])
        text = quick if quick == full else f"{quick} (full: {full})"
        like = one.quick[name]
        number = isinstance(like, int | float) and not isinstance(like, bool)
        metavar = "LIST" if isinstance(like, list | tuple) else "N" if number else "VALUE"
        if isinstance(like, Mapping):
            text += "; others in Python alone"
        group.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text.replace("%", "%%"))


def _shown(value: Any) -> str:
    """As it is typed, see _value."""
    if isinstance(value, list | tuple | Mapping):
        parts = [_shown(part) for part in value]
        comma = ", " if any(" " in part for part in parts) else ","
        return comma.join(f'"{part}"' if "," in part else part for part in parts)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _named_questions() -> str:
    from grpcperf.experiments import NAMES, find

    width = max(map(len, NAMES))
    return "\n".join(f"{name:<{width}}  {find(name).question}" for name in NAMES)


def _list(asked: _Asked) -> int:
    from grpcperf.experiments import NAMES, find

    if "json" in asked.flags:
        known = [find(name) for name in NAMES]
        print_json(
            [{"name": one.name, "question": one.question, "columns": list(one.columns)} for one in known]
        )
        return OK
    print(_named_questions())
    return OK


def _run(asked: _Asked) -> int:
    from grpcperf.experiments import NAMES, Answers, find
    from grpcperf.values import refuse_unknown

    chosen = [find(name) for name in (NAMES if asked.name == "all" else (asked.name,))]
    known = [name for one in chosen for name in one.full]
    refuse_unknown(asked.parameters, dict.fromkeys(known), f"parameter of {asked.name}")
    size = "full" if "full" in asked.flags else "quick"
    given = [_typed(one, asked.parameters) for one in chosen]
    for one, parameters in zip(chosen, given, strict=True):
        one.chosen(size, parameters)  # refused before anything is measured
    _require_writable(asked.files)
    resumed = asked.files.get("resume")
    answers = Answers(resumed, here=True)
    reports: list[Report] = []
    failed: dict[str, str] = {}
    code = OK
    for one, parameters in zip(chosen, given, strict=True):
        taken = answers.find(one, size, parameters)
        if taken is not None:
            tell(f"{one.name}: taken from {resumed}", OK)
            reports.append(taken)
            continue
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
        answers.add(report)
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


def _typed(one: Experiment, texts: Mapping[str, str]) -> dict[str, Any]:
    """Parameters as the experiment takes them, by what its own are: those that it knows."""
    known = {**one.full, **one.quick}
    return {name: _value(text, known[name]) for name, text in texts.items() if name in known}


_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _value(text: str, like: Any) -> Any:
    if isinstance(like, list | tuple):
        import csv  # "client: core, no retries" is one value

        parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
        if like and all(isinstance(one, bool) for one in like):
            return [_BOOLEANS.get(part.lower(), part) for part in parts if part]
        return [part if part in like else _plain(part) for part in parts if part]  # "none" may be a name
    return _BOOLEANS.get(text.strip().lower(), text) if isinstance(like, bool) else _plain(text)


def _plain(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
