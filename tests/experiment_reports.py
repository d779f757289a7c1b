"""What every report of an experiment must hold, whatever it measured."""

import json
from dataclasses import replace
from typing import Any

from grpcperf import experiments
from grpcperf.experiments import Report


def report_of(name: str, **parameters: Any) -> Report:
    """Measured now."""
    report = experiments.find(name)(progress=False, **parameters)
    check_report(report)
    return report


def check_report(report: Report) -> None:
    """All columns in each row, JSON without NaN, a verdict and figures, also of a report that was cut short
    anywhere."""
    assert report.rows
    assert all(set(report.experiment.columns) <= set(row) for row in report.rows)
    json.dumps(report.as_dict(), allow_nan=False)
    assert report._repr_html_()
    for number in range(len(report.experiment.figures(report))):
        assert report.plot(number).get_xlabel()
    for count in range(1, len(report.rows) + 1):
        cut = replace(report, rows=report.rows[:count], data=report.experiment.data(report.rows[:count]))
        assert cut.verdict.strip().endswith(".")
        assert repr(cut)
