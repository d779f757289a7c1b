"""Write the page of results, RESULTS.md, and the pictures in results/, from the reports of a full run.

Usage: results.py FILE      (a file of `grpcperf experiment run all --full --resume FILE`)
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from grpcperf.errors import Error, InvalidRequest
from grpcperf.experiments import NAMES, Report
from grpcperf.identity import plain

PAGE = Path("RESULTS.md")
PICTURES = Path("results")
DPI = 110
COLOURS = 64  # of a picture: lines and bars need no more, and a page of them is a fifth the size
_FACTS = {
    "cpu": "CPU",
    "cpus": "CPUs",
    "virtual": "machine",
    "kernel": "kernel",
    "grpcperf": "grpcperf",
    "engine_grpc": "gRPC C core",
    "grpc-go": "grpc-go",
    "grpc-go@1.46.2": "grpc-go, the older",
    "python": "Python",
    "engine_compiler": "gcc",
}


def page(reports: Sequence[Report]) -> Iterator[str]:
    """The lines of the page."""
    minutes = sum(one.seconds for one in reports) / 60
    days = sorted({one.measured_at[:10] for one in reports} - {""})  # of old files it is not known
    when = f" on {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    valid = sum(one.valid for one in reports)
    yield "# Results of a full run"
    yield ""
    yield (
        f"Measured{when}: {questions(reports)} of "
        f"`grpcperf experiment list` in full size, {minutes:,.0f} minutes together, client and servers on "
        f"one machine. {valid} of {len(reports)} reports are valid by their own findings; what spoils the "
        "others stands with them. A ± is half of the 95 % interval, mostly of the mean over the repeats; an "
        "interval of which the figure is not the middle stands as [low, high]. "
        "The rows are in [results/reports.jsonl](results/reports.jsonl), from which `tools/results.py` made "
        "this page."
    )
    yield ""
    if missing := left_out(reports):
        yield f"Not measured: {', '.join(missing)}."
        yield ""
    yield from table([["", "here"], *([told, fact(reports, name)] for name, told in _FACTS.items())])
    yield ""
    for one in reports:
        yield f"- [{one.question}](#{one.name})" + ("" if one.valid else " (not valid)")
    for one in reports:
        yield ""
        yield from section(one)


def questions(reports: Sequence[Report]) -> str:
    return f"{len(reports)} of the {len(NAMES)} questions" if left_out(reports) else "every question"


def left_out(reports: Sequence[Report]) -> list[str]:
    """The questions that no report answers."""
    return [name for name in NAMES if all(one.name != name for one in reports)]


def fact(reports: Sequence[Report], name: str) -> str:
    """What the reports say of it: each of them, should they differ."""
    known = [one.environment.get(name) for one in reports]
    return " or ".join(dict.fromkeys(str(one) for one in known if one is not None)) or "-"


def section(report: Report) -> Iterator[str]:
    yield f"## {report.name}"
    yield ""
    yield f"**{report.question}** {escaped(report.verdict)}"
    yield ""
    for finding in report.findings:
        if finding.severity == "invalid":
            yield f"Not valid: {escaped(finding.message)}."
            yield ""
    if others := not_of_full(report):
        yield f"Measured with {escaped(others)}, not with what the full size has now."
        yield ""
    if report.experiment.source:
        yield f"Published: {escaped(report.experiment.source)}."
        yield ""
    if picture(report):
        yield f"![{report.question}](results/{report.name}.png)"
        yield ""
    yield f"<details><summary>{len(report.rows)} rows, measured in {report.seconds:,.0f} s</summary>"
    yield ""
    yield from table(report.table())
    yield ""
    remarks = [one for one in report.findings if one.severity != "invalid"]
    for finding in remarks:
        yield f"- {finding.code}: {escaped(finding.message)}"
    if remarks:
        yield ""
    yield "</details>"


def not_of_full(report: Report) -> str:
    """Its parameters that are not those of the full size."""
    full = plain(report.experiment.chosen("full", {}))
    names = dict.fromkeys([*full, *report.parameters])
    others = [name for name in names if report.parameters.get(name) != full.get(name)]
    return ", ".join(f"{name} {report.parameters.get(name)}" for name in others)


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *body = [[escaped(cell) for cell in row] for row in rows]
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---' for _ in head)}|"
    for row in body:
        yield f"| {' | '.join(row)} |"


def escaped(text: str) -> str:
    """As Markdown shows it: a bar would end a cell, a star begin emphasis."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_")


def picture(report: Report) -> bool:
    """All its figures in one file, in few colours. False: it has none."""
    from matplotlib import pyplot
    from PIL import Image

    made = report.plot_all()
    if made is None:
        return False
    path = PICTURES / f"{report.name}.png"
    made.savefig(path, dpi=DPI, facecolor="white")
    pyplot.close(made)
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    return True


def read(path: str) -> list[Report]:
    """Of each question the last report, in order. Raises InvalidRequest when one is no full run."""
    found = Report.load_all(path)
    reports = [found[name] for name in NAMES if name in found]
    if not reports:
        raise InvalidRequest(f"{path} has no report")
    for one in reports:
        if one.size != "full" or one.is_cut_short:
            short = "cut short" if one.is_cut_short else f"in {one.size} size"
            raise InvalidRequest(f"{path}: the last report of {one.name} is {short}; measure it in full")
    return reports


def main(path: str) -> None:
    try:
        reports = read(path)
    except Error as error:
        sys.exit(str(error))
    PICTURES.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(page(reports)) + "\n", encoding="utf-8")
    kept = PICTURES / "reports.jsonl"
    kept.unlink(missing_ok=True)
    for one in reports:
        one.save(kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
