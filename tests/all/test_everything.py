"""Every experiment in its quick size, in one run of the command, its page, and the notebooks on what it
measured. Not part of `make test`, which has each experiment in a smaller size: `make test-all`."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from test_notebooks import ARTICLES, run_on_reports

from grpcperf import experiments
from grpcperf.experiments import Report

MOST_S = 300


@pytest.fixture(scope="module")
def run(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any]:
    folder = tmp_path_factory.mktemp("all")
    reports, page = folder / "reports.jsonl", folder / "report.html"
    started = time.monotonic()
    words = ("experiment", "run", "all", "--quick", "--save", reports, "--html", page)
    document = cli.json(*words, timeout=2 * MOST_S)
    assert time.monotonic() - started < MOST_S
    return reports, page, document


@pytest.mark.timeout(2 * MOST_S)
def test_every_question_is_answered(run: Any) -> None:
    reports, _, document = run
    assert document["failed"] == {}
    assert [one["name"] for one in document["reports"]] == list(experiments.NAMES)
    assert set(Report.load_all(reports)) == set(experiments.NAMES)
    for one in document["reports"]:
        assert len(one["rows"]) >= 2, one["name"]
        assert one["verdict"].strip().endswith(".")
        columns = experiments.find(one["name"]).columns
        assert all(set(columns) <= set(row) for row in one["rows"]), one["name"]


def test_the_page_holds_them_all(run: Any) -> None:
    text = run[1].read_text()
    assert text.count("<section") == len(experiments.NAMES)
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//|@import|fetch\(', text)


@pytest.mark.timeout(MOST_S)
@pytest.mark.parametrize("path", ARTICLES, ids=lambda path: path.stem)
def test_notebooks(run: Any, path: Path) -> None:
    run_on_reports(path, run[0])
