"""A file of reports as the answers that are there already: what it has is not measured again, what is
measured is added to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpcperf import environment
from grpcperf.experiments.report import Report
from grpcperf.store import require_file

if TYPE_CHECKING:
    from grpcperf.experiments.kit import Experiment


class Answers:
    """The reports of a file, which need not be there yet; without one they are kept in memory alone. `here`:
    only those of this machine and these versions count, by the rule of a sweep's store (the fingerprint).
    Raises EngineError, InvalidRequest."""

    def __init__(self, path: str | Path | None, *, here: bool = False) -> None:
        if path is not None:
            require_file(Path(path))
        self._path = path
        self._fingerprint = environment.fingerprint() if here else None
        self._reports = Report.read_all(path) if path is not None and Path(path).exists() else []

    def find(self, experiment: Experiment, size: str, parameters: Mapping[str, Any]) -> Report | None:
        """The latest that answers the experiment in this size and with these parameters."""
        for report in reversed(self._reports):
            if experiment.is_answered_by(report, size, parameters) and self._counts(report):
                return replace(report, answered_by=experiment)
        return None

    def _counts(self, report: Report) -> bool:
        wanted = self._fingerprint
        return wanted is None or wanted == environment.fingerprint(report.environment)

    def add(self, report: Report) -> None:
        """Keep it, in the file at once. Raises EngineError."""
        self._reports.append(report)
        if self._path is not None:
            report.save(self._path)
