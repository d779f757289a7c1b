"""The page of one or many reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grpcperf import environment, figures
from grpcperf.experiments.report import Report
from grpcperf.report import Page, Picture, Section, Table
from grpcperf.units import format_seconds


def page_of(reports: Sequence[Report], failed: Mapping[str, str] | None = None) -> Page:
    """A section for each report; what failed or was left out is said. Raises EngineError naming the command
    when an extra is missing."""
    gaps = [f"{name}: {reason}" for name, reason in (failed or {}).items()]
    seconds = sum(report.seconds for report in reports)
    places = [_facts(report.environment) for report in reports] or [_facts(environment.summary())]
    common = {
        name: value for name, value in places[0].items() if all(one.get(name) == value for one in places)
    }
    return Page(
        title=reports[0].question if len(reports) == 1 else "What gRPC costs here",
        lead=f"{len(reports)} of grpcperf's experiments, measured in {format_seconds(seconds)}.",
        sections=[_section(report, common) for report in reports],
        facts=common,
        warning="; ".join(gaps),
    )


def _facts(known: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in known.items() if value is not None}


def _section(report: Report, common: Mapping[str, str]) -> Section:
    table = report.table() if report.rows else [[]]
    words = frozenset(
        at for at, name in enumerate(table[0]) if any(isinstance(row.get(name), str) for row in report.rows)
    )
    source = report.experiment.source
    spoilt = [one for one in report.findings if one.severity == "invalid"]
    return Section(
        title=report.question,
        verdict=report.verdict,
        warning=f"Not valid: {'; '.join(one.message for one in spoilt)}" if spoilt else "",
        text=" ".join([*_how(report, common), *([f"Published: {source}."] if source else [])]),
        pictures=_pictures(report),
        table=Table(columns=table[0], rows=table[1:], words=words),
        notes=[str(one) for one in report.findings],
    )


def _how(report: Report, common: Mapping[str, str]) -> Iterator[str]:
    """Size, when and how long, and what it was measured on where that is not so of all reports."""
    when = f"measured {_readable(report.measured_at)} " if report.measured_at else "measured "
    yield f"{report.name}, {report.size} size, {when}in {format_seconds(report.seconds)}."
    own = [f"{name} {value}" for name, value in _facts(report.environment).items() if name not in common]
    if own:
        yield f"Here with {', '.join(own)}."


def _readable(moment: str) -> str:
    return moment.replace("T", " ").replace("+00:00", " UTC")


def _pictures(report: Report) -> list[Picture]:
    pictures = []
    for figure in report.experiment.figures(report) if report.rows else ():
        with figures.style():
            made, (ax,) = figures.figure()
            figure.draw(ax)
        svg = figures.to_svg(made, figure.title)
        pictures.append(Picture(title=figure.title, svg=svg, caption=figure.caption))
    return pictures
