"""What experiments are made of, on one made up for this, and the command that runs them."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import grpcperf as gp
from grpcperf import experiments
from grpcperf.cli import main
from grpcperf.experiments import Experiment, Report, find
from grpcperf.experiments.kit import Kit, server_kind
from grpcperf.progress import SweepProgress
from grpcperf.result import Finding

RECORDED = Path(__file__).parent / "data" / "reports.jsonl"  # of quick runs; the first is in-flight-cost


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


@pytest.mark.timeout(400)  # it may have to build both
def test_a_report_names_the_versions_of_what_was_built_for_it() -> None:
    def measure(kit: Kit, *, n: int, servers: Any) -> Any:
        yield from ({"server": one.name, "y": 1.0} for one in kit.servers(servers))

    told = made(measure)(servers=["native", "grpc-go", "grpc-go@1.46.2"]).environment
    assert told["grpc-go"].startswith("1.85.0, go1.")
    assert told["grpc-go@1.46.2"].startswith("1.46.2, go1.")
    assert "native" not in told


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


@pytest.mark.parametrize("rows", [({"y": 1.0}, {"y": None}), ({"y": None}, {"y": 1.0}), ({}, {"y": 1.0})])
def test_what_one_repeat_does_not_know_is_unknown(rows: Any) -> None:
    measured = iter(rows)
    kit = Kit("quick", SweepProgress(0, False))
    assert kit.repeat(2, lambda: next(measured)) == {"y": None, "repeats": 2}


@pytest.mark.parametrize(
    ("low", "high", "told"), [(8.0, 12.0, "10 ± 2"), (9.0, 16.0, "10 [9, 16]"), (None, None, "10")]
)
def test_an_interval_is_told_as_it_is(low: Any, high: Any, told: str) -> None:
    row = {"server": "a", "calls": 1, "y": 10.0, "y_low": low, "y_high": high}
    assert replace(made(rows_of)(), rows=(row,)).table()[1][2] == told


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


@pytest.mark.parametrize("two", [["native", "native"], [lambda: gp.Server(), lambda: gp.Server("thread")]])
def test_servers_of_one_name_are_refused(two: Any) -> None:
    """Their rows could not be told apart."""
    with pytest.raises(gp.InvalidRequest, match="two servers are named"):
        next(Kit("quick", SweepProgress(0, False)).servers(two))


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
    for damaged in (b"{}\n", b"notes", b"\xff\n"):
        path.write_bytes(damaged)
        with pytest.raises(gp.InvalidRequest, match="line 1"):
            Report.load_all(path)


@pytest.mark.parametrize("cut", [1, 5, 200, -2, -1])
def test_a_line_that_was_cut_off_costs_that_line_alone(tmp_path: Path, cut: int) -> None:
    """The writer was killed; -1: when only the end of the line was missing, which costs nothing."""
    path = tmp_path / "r.jsonl"
    report = made(rows_of)()
    report.save(path)
    line = path.read_bytes()
    path.write_bytes(line + line[:cut])
    if cut == -1:
        assert Report.read_all(path) == [report, report]
    else:
        with pytest.warns(RuntimeWarning, match=r"r\.jsonl: its last line was cut off"):
            assert Report.read_all(path) == [report]
    report.save(path)
    assert path.read_bytes() == line * (3 if cut == -1 else 2)


def test_what_cannot_be_written_whole_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(gp.EngineError, match="No space left"):
        made(rows_of)().save("/dev/full")


def test_files_of_before_are_read(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    report = made(rows_of)()
    assert datetime.fromisoformat(report.measured_at).utcoffset() == timedelta(0)
    assert report.as_dict()["measured_at"] == report.measured_at
    report.save(path)
    form = json.loads(path.read_text())
    del form["measured_at"]
    path.write_text(json.dumps(form) + "\n")
    assert Report.read_all(path) == [replace(report, measured_at="")]


def test_a_page_shows_gaps_and_findings(tmp_path: Path) -> None:
    from grpcperf.experiments.page import page_of
    from grpcperf.report import render

    report = find("in-flight-cost")(servers=["native"], kinds=["unary"], calls=[50])
    gone = replace(report, rows=(), skipped={"grpc-go": "no Go"})
    page = render(page_of([report, gone], {"codecs": "not built"}))
    assert page.count("<svg") == 1
    assert "no Go" in page
    assert "codecs: not built" in page


def test_a_page_tells_when_and_where_each_was_measured() -> None:
    """Not of the machine that it is drawn on."""
    from grpcperf.experiments.page import page_of

    one = replace(
        made(rows_of)(),
        environment={"kernel": "Linux 1", "cpus": 3, "smt": None},
        measured_at="2026-01-02T03:04:05+00:00",
        seconds=90.0,
    )
    alone = page_of([one, one])
    assert alone.facts == {"kernel": "Linux 1", "cpus": "3"}
    told = "in-flight-cost, quick size, measured 2026-01-02 03:04:05 UTC in 90 s."
    assert [section.text for section in alone.sections] == [told, told]
    assert "3 min" in alone.lead
    other = replace(one, environment={"kernel": "Linux 2", "cpus": 3}, measured_at="")
    both = page_of([one, other])
    assert both.facts == {"cpus": "3"}
    assert both.sections[0].text == f"{told} Here with kernel Linux 1."
    assert both.sections[1].text.endswith("size, measured in 90 s. Here with kernel Linux 2.")


# --- the page of results


def test_the_page_of_results_is_of_full_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).parent.parent / "tools" / "results.py"
    tool: Any = module_from_spec(spec := spec_from_file_location("results", path))
    spec.loader.exec_module(tool)
    kept = tmp_path / "r.jsonl"
    kept.touch()
    with pytest.raises(gp.InvalidRequest, match="no report"):
        tool.read(kept)
    full = replace(made(rows_of)(size="full", n=3), answered_by=None)
    full = replace(full, parameters={**find("in-flight-cost").chosen("full", {}), "calls": [3]})
    full.save(kept)
    (one,) = tool.read(kept)
    assert tool.left_out([one]) == [name for name in experiments.NAMES if name != "in-flight-cost"]
    assert tool.questions([one]) == f"1 of the {len(experiments.NAMES)} questions"
    assert tool.not_of_full(one) == "calls [3]"
    monkeypatch.chdir(tmp_path)
    recorded = next(iter(Report.load_all(RECORDED).values()))  # with figures
    replace(recorded, size="full", name="in-flight-cost").save(kept)
    tool.main(str(kept))
    page = (tmp_path / "RESULTS.md").read_text()
    assert page.count("\n## ") == 1
    assert f"<summary>{len(recorded.rows)} rows" in page
    assert "(results/in-flight-cost.png)" in page
    assert (tmp_path / "results" / "in-flight-cost.png").read_bytes().startswith(b"\x89PNG")
    assert Report.load_all(tmp_path / "results" / "reports.jsonl")["in-flight-cost"].rows == recorded.rows
    for wrong, told in (({"size": "quick"}, "quick size"), ({"skipped": {"the rest": "died"}}, "cut short")):
        replace(full, **wrong).save(kept)
        with pytest.raises(gp.InvalidRequest, match=told):
            tool.read(kept)


# --- the command


@pytest.mark.parametrize(
    ("typed", "like", "value"),
    [
        ("no", False, False),
        ("On", True, True),
        ("yes,no", [False, True], [True, False]),
        ("maybe", True, "maybe"),
        ("no", None, "no"),
        ("1", True, "1"),
    ],
)
def test_booleans_as_they_are_typed(typed: str, like: Any, value: Any) -> None:
    from grpcperf.cli_experiment import _value

    assert _value(typed, like) == value


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
        (("run", "in-flight-cost", "--save", "a", "--resume", "b"), "contradicts --save"),
        (("run", "in-flight-costs", "--help"), "did you mean in-flight-cost"),
        (("run", "all", "--repeats", "x"), "repeats must be"),
        (("run", "all", "--repeat", "3"), "did you mean repeats"),
        (("run", "connections-curve", "--tls", "maybe"), "tls must be true or false"),
        (("run", "overload", "--limits", "token bucket"), "limits must be one of"),
        (("run", "overload", "--work-ms", "0"), "work_ms must be more"),
        (("run", "deadline-pruning", "--strategies", "foo"), "strategies must be one of"),
        (("run", "deadline-pruning", "--hops", "0"), "hops must be"),
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
    "wrong",
    [
        *({"n": "x"}, {"n": -1}, {"servers": "native"}, {"servers": []}, {"servers": 3}, {"n": None}),
        *({"tls": "no"}, {"tls": 0}, {"tls": None}, {"pinned": ["yes"]}, {"pinned": [1]}),
    ],
)
def test_parameters_are_checked_before_anything_is_measured(wrong: Any) -> None:
    known = {"n": 2, "servers": ["native"], "tls": False, "pinned": [False, True]}
    with pytest.raises(gp.InvalidRequest):
        replace(made(lambda kit, **_: pytest.fail("measured")), quick=known)(**wrong)


def test_a_recorded_report_answers_only_what_it_was_measured_for(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    small = {"servers": ["native"], "kinds": ["unary"], "calls": [20]}
    first = experiments.runner(path)("in-flight-cost", **small)
    assert experiments.runner(path)("in-flight-cost", **small) == first
    assert experiments.runner(path)("in-flight-cost", **{**small, "calls": [30]}).rows[0]["calls"] == 30


def test_an_earlier_answer_in_the_file_is_found_too(tmp_path: Path) -> None:
    """Of each question there may be many, with other parameters."""
    path = tmp_path / "r.jsonl"
    experiment = made(rows_of)
    answers = experiments.Answers(path)
    kept = [experiment(n=n) for n in (1, 2, 3)]
    for report in kept:
        answers.add(report)
    for there in (answers, experiments.Answers(path), experiments.Answers(path, here=True)):
        assert [there.find(experiment, "quick", {"n": n}) for n in (1, 2, 3, 4)] == [*kept, None]
        assert there.find(experiment, "full", {"n": 1}) is None
    with pytest.raises(gp.InvalidRequest):
        answers.find(experiment, "quick", {"m": 1})


def test_an_answer_from_elsewhere_counts_only_where_that_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    experiment = made(rows_of)
    here = experiment()
    for name in ("grpcperf", "kernel", "cpus"):
        replace(here, environment={**here.environment, name: "another"}).save(path)
    assert experiments.Answers(path).find(experiment, "quick", {}) is not None
    assert experiments.Answers(path, here=True).find(experiment, "quick", {}) is None
    replace(here, environment={**here.environment, "affinity": "7"}).save(path)
    assert experiments.Answers(path, here=True).find(experiment, "quick", {}) is not None


def test_no_answer_is_that_of_another_function(tmp_path: Path) -> None:
    """Both are "<lambda>" in a file."""
    answers = experiments.Answers(tmp_path / "r.jsonl")
    for start in (lambda: gp.Server(), lambda: gp.Server("thread")):
        answers.add(made(rows_of)(servers=[start]))
        assert answers.find(made(rows_of), "quick", {"servers": [start]}) is None


def test_only_a_file_has_answers() -> None:
    with pytest.raises(gp.EngineError, match="/dev/null is no file"):
        experiments.Answers("/dev/null")


def test_what_was_cut_short_is_no_answer() -> None:
    answers = experiments.Answers(None)
    experiment = made(rows_of)
    whole = experiment()
    interrupted = Finding(code="interrupted", severity="invalid", message="")
    for broken in ({"findings": (interrupted,)}, {"skipped": {"the rest": "died"}}, {"rows": ()}):
        answers.add(replace(whole, **broken))
    assert answers.find(experiment, "quick", {}) is None
    answers.add(replace(whole, skipped={"grpc-go": "no Go"}))
    assert answers.find(experiment, "quick", {}) is not None


# --- the command goes on where it was


@pytest.fixture
def resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Runs `all` of two experiments with --resume: its exit code, what was measured, its document, and what
    it told. The experiment named in `stop` is interrupted."""
    measured: list[str] = []
    stop: list[str] = []

    def one(name: str) -> Experiment:
        def measure(kit: Kit, **parameters: Any) -> Any:
            measured.append(name)
            yield from rows_of(kit, **parameters)
            if name in stop:
                raise KeyboardInterrupt

        return replace(made(measure), name=name)

    known = {name: one(name) for name in ("in-flight-cost", "codecs")}
    monkeypatch.setattr(experiments, "NAMES", tuple(known))
    monkeypatch.setattr(experiments, "find", known.__getitem__)

    def run(*words: str, interrupt: str = "") -> Any:
        measured.clear()
        stop[:] = [interrupt]
        words = ("experiment", "run", "all", "--resume", str(tmp_path / "r.jsonl"), "--json", *words)
        code = main(words)
        told = capsys.readouterr()
        return code, list(measured), json.loads(told.out)["reports"], told.err

    return run


def test_resume_takes_what_is_there_and_adds_what_is_measured(resumed: Any, tmp_path: Path) -> None:
    code, measured, first, told = resumed(interrupt="codecs")
    assert (code, measured, len(first)) == (130, ["in-flight-cost", "codecs"], 2)
    assert "taken" not in told
    code, measured, second, told = resumed()
    assert (code, measured) == (0, ["codecs"])
    assert f"in-flight-cost: taken from {tmp_path / 'r.jsonl'}\n" in told
    assert told.count("taken") == 1
    assert second[0] == first[0]
    assert [one["name"] for one in second] == ["in-flight-cost", "codecs"]
    code, measured, third, told = resumed()
    assert (code, measured, third) == (0, [], second)
    assert told.count("taken") == 2


def test_resume_measures_another_question(resumed: Any) -> None:
    assert resumed()[1] == ["in-flight-cost", "codecs"]
    for words in (("--n", "3"), ("--full",), ("--full", "--n", "3")):
        assert len(resumed(*words)[1]) == 2
        assert resumed(*words)[1] == []
    assert resumed()[1] == []


def test_resume_goes_on_after_a_kill(resumed: Any, tmp_path: Path) -> None:
    """While the last report was being written."""
    path = tmp_path / "r.jsonl"
    resumed()
    path.write_bytes(path.read_bytes()[:-40])
    code, measured, _, told = resumed()
    assert (code, measured) == (0, ["codecs"])
    assert "its last line was cut off" in told
    assert [report.name for report in Report.read_all(path)] == ["in-flight-cost", "codecs"]


# --- its help


def test_help_tells_the_options_and_the_questions(cli: Any) -> None:
    for words in (("--help",), ("-h",), ("run", "--help"), ("run", "all", "-h"), ("list", "--help")):
        done = cli("experiment", *words)
        assert done.stdout.startswith("usage: grpcperf experiment")
        assert done.stderr == ""
        for option in ("--quick", "--full", "--json", "--strict", "--html", "--save", "--resume"):
            assert f"\n  {option}" in done.stdout
    told = " ".join(cli("experiment", "run", "--help").stdout.split())
    assert all(f" {name} {find(name).question}" in told for name in experiments.NAMES)


@pytest.mark.parametrize("name", experiments.NAMES)
def test_help_of_an_experiment(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question, what was published, and each parameter with its values, on a line where there is room;
    as they can be typed again."""
    from grpcperf.cli_experiment import _value

    monkeypatch.setenv("COLUMNS", "1000")
    one = find(name)
    assert main(["experiment", "run", name, "--help"]) == 0
    told = capsys.readouterr().out
    assert one.question in told
    assert one.source in told
    lines = dict(line.split(maxsplit=1) for line in told.splitlines() if line.startswith("  --"))
    for parameter, quick in one.quick.items():
        _, _, text = lines[f"--{parameter.replace('_', '-')}"].partition(" ")
        values, _, rest = text.strip().partition(" (full: ")
        if isinstance(quick, dict):
            assert all(key in values for key in quick)
            continue
        assert _value(values, quick) == quick
        assert _value(rest.removesuffix(")") if rest else values, quick) == one.full[parameter]
