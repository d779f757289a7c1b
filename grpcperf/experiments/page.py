"""The page of one or many reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpcperf import environment, figures
from grpcperf.experiments.report import Report
from grpcperf.report import Page, Picture, Section, Table


def page_of(reports: Sequence[Report], failed: Mapping[str, str] | None = None) -> Page:
    """A section for each report; what failed or was left out is said. Raises EngineError naming the command
    when an extra is missing."""
    gaps = [f"{name}: {reason}" for name, reason in (failed or {}).items()]
    seconds = sum(report.seconds for report in reports)
    facts = {name: str(value) for name, value in environment.summary().items() if value is not None}
    return Page(
        title=reports[0].question if len(reports) == 1 else "What gRPC costs here",
        lead=f"{len(reports)} of grpcperf's experiments, measured in {seconds:,.0f} s.",
        sections=[_section(report) for report in reports],
        facts=facts,
        warning="; ".join(gaps),
    )


def _section(report: Report) -> Section:
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
        text=f"{report.name}, {report.size} size. " + (f"Published: {source}." if source else ""),
        pictures=_pictures(report),
        table=Table(columns=table[0], rows=table[1:], words=words),
        notes=[str(one) for one in report.findings],
    )


def _pictures(report: Report) -> list[Picture]:
    pictures = []
    for figure in report.experiment.figures(report) if report.rows else ():
        with figures.style():
            made, (ax,) = figures.figure()
            figure.draw(ax)
        svg = figures.to_svg(made, figure.title)
        pictures.append(Picture(title=figure.title, svg=svg, caption=figure.caption))
    return pictures
