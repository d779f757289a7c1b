"""The questions that grpcperf answers out of the box: `gp.experiments.in_flight_cost(servers=[...])`, each
in a module of its own; in the shell `grpcperf experiment run in-flight-cost`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from grpcperf.errors import InvalidRequest
from grpcperf.experiments.answers import Answers
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row
from grpcperf.experiments.report import Report

NAMES = (
    "in-flight-cost",
    "handler-alloc",
    "client-side",
    "parked-tail",
    "parked-cores",
    "concurrency-limits",
    "cancellation",
    "stream-leak",
    "connections-curve",
    "concurrency-curve",
    "unary-vs-stream",
    "codecs",
    "handshake",
    "connection-churn",
    "flow-control",
    "transport-tuning",
    "server-threads",
    "deadline-pruning",
    "overload",
    "keepalive",
    "allocations",
    "idle-streams",
    "slow-reader",
    "dispatch",
    "client-pool",
)
"""All there are, in the order of their articles."""

__all__ = ["NAMES", "Answers", "Experiment", "Figure", "Kit", "Report", "Row", "find", "runner"]


def find(name: str) -> Experiment:
    """An experiment by its name, with dashes or underscores. Raises InvalidRequest with the names nearest to
    it."""
    from grpcperf.values import refuse_unknown

    plain = name.replace("_", "-")
    refuse_unknown([plain], NAMES, "experiment")
    attribute = plain.replace("-", "_")
    found = import_module(f"{__name__}.{attribute}").EXPERIMENT
    assert isinstance(found, Experiment)
    globals()[attribute] = found  # importing has put the module there
    return found


def runner(recorded: str | Path | None = None, *, size: str = "quick") -> Callable[..., Report]:
    """A callable that answers `run(name, **parameters)` from a file of reports when one with this size and
    these parameters is in there, wherever that was measured, and else measures, and keeps the report in that
    file: for notebooks, whose figures can then be drawn again without measuring for an hour."""
    answers = Answers(recorded)

    def run(name: str, **parameters: Any) -> Report:
        experiment = find(name)
        there = answers.find(experiment, size, parameters)
        if there is None:
            there = experiment(size=size, **parameters)
            answers.add(there)
        return there

    return run


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return find(name)
    except InvalidRequest as error:
        raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    return sorted([*__all__, *(name.replace("-", "_") for name in NAMES)])
