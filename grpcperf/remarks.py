"""What is amiss, as people see it beside numbers: its colour, its mark, and a line of HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpcperf.result import Finding

COLOURS = {"warning": "204,136,0", "invalid": "221,51,51"}  # translucent, they read on light and on dark
MARKS = {"warning": "!", "invalid": "✗"}


@dataclass(frozen=True)
class Remark:
    severity: str  # "warning" or "invalid"
    title: str
    text: str


def told(finding: Finding) -> str:
    """What it says, without its code."""
    return str(finding).removeprefix(f"{finding.code}: ")


def html_remark(one: Remark) -> str:
    """A line with a coloured edge."""
    colour = COLOURS[one.severity]
    style = f"border-left:4px solid rgb({colour});background:rgba({colour},.12);padding:2px 8px"
    return f'<div style="{style}"><b>{html.escape(one.title)}</b> {html.escape(one.text)}</div>'


def html_findings(findings: Iterable[Finding]) -> str:
    """A line for each, one below the other."""
    return "".join(html_remark(Remark(one.severity, one.code, told(one))) for one in findings)
