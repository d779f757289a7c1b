"""What experiments are made of, on one made up for this, and the command that runs them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import grpcperf as gp
from grpcperf import experiments
from grpcperf.experiments import Experiment, Report, find
from grpcperf.experiments.kit import Kit, server_kind
from grpcperf.progress import SweepProgress
from grpcperf.result import Finding


def made(measure: Any, **more: Any) -> Experiment:
    return Experiment(
        name="in-flight-cost",
        question="?",
        columns=("server", "calls", "y"),
        measure=measure,
        verdict=lambda report: f"y is {report.rows[0]['y']}.",
        quick={"n": 2, "servers": ["native"]},
        full={"n": 200, "servers": ["native"]},
        **more,
    )


def rows_of(kit: Kit, *, n: int, servers: Any) -> Any:
    for at in range(n):
        yield {"calls": at, "y": float(at)}


def test_a_report_has_every_column_and_is_json() -> None:
    report = made(rows_of, data=lambda rows: {"sum": sum(row["y"] for row in rows)})()
    assert [row["calls"] for row in report.rows] == [0, 1]
    assert report.rows[0] == {"server": None, "calls": 0, "y": 0.0, "repeats": 1}
    document = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert {"name", "rows", "verdict", "data", "valid", "findings"} <= set(document)
    assert document["data"] == {"sum": 1.0}
    assert report.valid


def test_sizes_and_parameters() -> None:
    assert len(made(rows_of)(n=3).rows) == 3
    assert len(made(rows_of)(size="full", n=5).rows) == 5
    for wrong in ({"m": 3}, {"size": "huge"}):
        with pytest.raises(gp.InvalidRequest):
            made(rows_of)(**wrong)


def test_numbers_that_are_none_stay_out_of_json() -> None:
    def measure(kit: Kit, **_: Any) -> Any:
        yield {"y": float("nan")}

    assert made(measure)().rows[0]["y"] is None


def test_repeats_have_a_mean_and_its_interval() -> None:
    kit = Kit("quick", SweepProgress(0, False))
    values = iter([1.0, 2.0, 3.0])
    row = kit.repeat(3, lambda: {"y": next(values), "name": "a", "gone": None, "same": 100})
    assert (row["y"], row["repeats"], row["name"], row["gone"]) == (2.0, 3, "a", None)
    assert row["y_high"] - 2 == pytest.approx(4.302653 / 3**0.5, rel=1e-5)
    assert row["same"] == 100
    assert isinstance(row["same"], int)
    assert kit.repeat(1, lambda: {"y": 5}) == {"y": 5, "repeats": 1}


def test_what_is_missing_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(version: str = "") -> None:
        raise gp.EngineError("no Go here: install it")

    monkeypatch.setattr("grpcperf.targets.go_build.build", missing)

    def measure(kit: Kit, *, servers: Any, n: int) -> Any:
        for server in kit.servers(servers):
            yield {"server": server.name, "y": 1}

    report = made(measure)(servers=["grpc-go", "native"])
    assert [row["server"] for row in report.rows] == ["native"]
    assert "grpc-go: no Go here" in report.verdict


@pytest.mark.parametrize("wrong", ["nativ", "grpc-go@", "native:", "native:nothing", 3, None])
def test_what_is_no_server_is_refused(wrong: Any) -> None:
    with pytest.raises(gp.InvalidRequest):
        server_kind(wrong)


def test_servers_by_name_and_by_callable() -> None:
    for given, name in (
        ("native:thread", "native:thread"),
        (gp.Server, "Server"),
        (lambda: gp.Server(), "callable"),
    ):
        kind = server_kind(given)
        assert kind.name == name
        with kind.start() as target:
            assert target.counters().running == 0


def test_an_interrupt_gives_what_there_is() -> None:
    def measure(kit: Kit, **_: Any) -> Any:
        yield {"y": 1}
        raise KeyboardInterrupt

    report = made(measure)()
    assert len(report.rows) == 1
    assert [one.code for one in report.findings] == ["interrupted"]
    assert not report.valid


def test_a_fault_in_the_middle_keeps_the_rows() -> None:
    def measure(kit: Kit, *, n: int, servers: Any) -> Any:
        if n:
            yield {"y": 1}
        raise gp.ServerDied("killed by SIGKILL")

    report = made(measure)()
    assert len(report.rows) == 1
    assert "killed by SIGKILL" in report.verdict
    with pytest.raises(gp.ServerDied):
        made(measure)(n=0)


def test_reports_are_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    finding = Finding(code="x", severity="warning", message="m")
    report = replace(made(rows_of)(), findings=(finding,))
    report.save(path)
    replace(report, seconds=9.0).save(path)
    assert Report.load_all(path) == {"in-flight-cost": replace(report, seconds=9.0)}
    path.write_text("{}\n")
    with pytest.raises(gp.InvalidRequest, match="line 1"):
        Report.load_all(path)


def test_a_page_shows_gaps_and_findings(tmp_path: Path) -> None:
    from grpcperf.experiments.page import page_of
    from grpcperf.report import render

    report = find("in-flight-cost")(servers=["native"], kinds=["unary"], calls=[50])
    gone = replace(report, rows=(), skipped={"grpc-go": "no Go"})
    page = render(page_of([report, gone], {"codecs": "not built"}))
    assert page.count("<svg") == 1
    assert "no Go" in page
    assert "codecs: not built" in page


# --- the command


def test_list_names_all(cli: Any) -> None:
    told = cli("experiment", "list").stdout
    assert all(name in told for name in experiments.NAMES)
    assert {one["name"] for one in cli.json("experiment", "list")} == set(experiments.NAMES)


def test_run_prints_one_document(cli: Any, tmp_path: Path) -> None:
    page, kept = tmp_path / "r.html", tmp_path / "r.jsonl"
    small = ("--servers", "native", "--kinds=unary", "--calls", "20,40")
    document = cli.json("experiment", "run", "in-flight-cost", *small, "--html", page, "--save", kept)
    assert document["name"] == "in-flight-cost"
    assert [row["calls"] for row in document["rows"]] == [20, 40]
    assert "<svg" in page.read_text()
    assert set(Report.load_all(kept)) == {"in-flight-cost"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run",), "experiment run NAME"),
        (("list", "more"), "experiment list"),
        (("run", "in-flight-costs"), "did you mean in-flight-cost"),
        (("run", "in-flight-cost", "--call", "3"), "did you mean calls"),
        (("run", "in-flight-cost", "--calls"), "needs a value"),
        (("run", "in-flight-cost", "--quick", "--full"), "contradicts"),
        (("run", "in-flight-cost", "--servers", "nativ"), "native:MODEL"),
    ],
)
def test_nonsense_is_refused(cli: Any, words: Any, told: str) -> None:
    assert told in cli("experiment", *words, code=2).stderr


def test_experiments_are_attributes() -> None:
    assert experiments.in_flight_cost is find("in-flight-cost")
    assert "in_flight_cost" in dir(experiments)
    with pytest.raises(AttributeError, match="did you mean"):
        _ = experiments.in_flight_costs


@pytest.mark.parametrize(
    "wrong", [{"n": "x"}, {"n": -1}, {"servers": "native"}, {"servers": []}, {"servers": 3}, {"n": None}]
)
def test_parameters_are_checked_before_anything_is_measured(wrong: Any) -> None:
    with pytest.raises(gp.InvalidRequest):
        made(lambda kit, **_: pytest.fail("measured"))(**wrong)


def test_a_recorded_report_answers_only_what_it_was_measured_for(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    small = {"servers": ["native"], "kinds": ["unary"], "calls": [20]}
    first = experiments.runner(path)("in-flight-cost", **small)
    assert experiments.runner(path)("in-flight-cost", **small) == first
    assert experiments.runner(path)("in-flight-cost", **{**small, "calls": [30]}).rows[0]["calls"] == 30
