"""Sweeps: which points, in what order, what is kept of them, and what a store takes up again."""

import json
import os
import signal
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import grpcperf as gp
from grpcperf import identity
from grpcperf.result import Finding
from grpcperf.results import Record
from grpcperf.tables import remarks

jsonschema = pytest.importorskip("jsonschema")


def numbers(point: Any) -> dict[str, float]:
    return {"double": point.x * 2, "repeat_seen": point.repeat}


# --- which points


def test_points_are_all_combinations() -> None:
    sweep = gp.Sweep(x=[1, 2], y=["a", "b", "c"], repeats=2)
    assert len(sweep.points) == 6
    assert len(sweep) == 12
    rows = sweep.run(lambda p: {"s": f"{p.x}{p['y']}"}).rows()
    assert sorted(row["s"] for row in rows) == sorted(2 * ["1a", "1b", "1c", "2a", "2b", "2c"])


def test_axes_that_go_together() -> None:
    sweep = gp.Sweep({"x": [1, 2], "y": [10, 20]}, z=[0, 1])
    assert sweep.axes == ("x", "y", "z")
    assert {(p.x, p.y) for p in sweep.points} == {(1, 10), (2, 20)}
    assert len(sweep.points) == 4


def test_where_leaves_points_out() -> None:
    sweep = gp.Sweep(x=[1, 2, 4], y=[1, 2, 4], where=lambda p: p.x <= p.y)
    assert all(p.x <= p.y for p in sweep.points)
    assert len(sweep.points) == 6


def order_of(**how: Any) -> list[tuple[int, int]]:
    results = gp.Sweep(x=range(8), repeats=3, **how).run(numbers)
    return [(record.repeat, record.point["x"]) for record in results]


def test_order_is_random_by_seed_and_each_repeat_a_round() -> None:
    assert order_of(order="given") == [(r, x) for r in range(3) for x in range(8)]
    assert order_of(seed=1) == order_of(seed=1) != order_of(seed=2)
    rounds = order_of(seed=1)
    assert [repeat for repeat, _ in rounds] == sorted(repeat for repeat, _ in rounds)
    assert {x for _, x in rounds[:8]} == set(range(8))
    assert [x for _, x in rounds[:8]] != [x for _, x in rounds[8:16]]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: gp.Sweep(), "needs an axis"),
        (lambda: gp.Sweep(x=[]), "axis x is empty"),
        (lambda: gp.Sweep(x=3), "axis x must be a list"),
        (lambda: gp.Sweep(x="abc"), "axis x must be a list"),
        (lambda: gp.Sweep({"x": [1, 2], "y": [1]}), "equally long"),
        (lambda: gp.Sweep({"x": [1]}, x=[2]), "twice"),
        (lambda: gp.Sweep(x=[1, 1]), "comes twice"),
        (lambda: gp.Sweep(x=[1], repeats=0), "repeats"),
        (lambda: gp.Sweep(x=[1], order="sorted"), "order"),
        (lambda: gp.Sweep(x=[1], where=lambda p: False), "leaves no point"),
        (lambda: gp.Sweep(x=[1], where=3), "where"),
        (lambda: gp.Sweep(error=[1]), "cannot be named"),
        (lambda: gp.Sweep([1, 2]), "dict of lists"),
        (lambda: gp.Sweep(x=[1]).run(None), "callable"),
        (lambda: gp.Sweep(x=[1]).run(lambda p: None), "return"),
    ],
)
def test_nonsense_is_refused(make: Any, told: str) -> None:
    with pytest.raises(gp.InvalidRequest, match=told):
        make()


# --- what is kept


def test_a_point_that_fails_is_recorded_and_the_sweep_goes_on() -> None:
    results = gp.Sweep(x=[0, 1, 2], order="given").run(lambda p: {"y": 6 / p.x})
    assert [record.error is None for record in results] == [False, True, True]
    assert "ZeroDivisionError" in results.rows()[0]["error"]
    assert not results[0].valid
    assert len(results.failed) == 1
    assert "1 failed" in repr(results)
    assert results.frame()["y"].isna().tolist() == [True, False, False]


def test_all_points_failing_is_said() -> None:
    with pytest.warns(RuntimeWarning, match="every point failed"):
        gp.Sweep(x=[0]).run(lambda p: {"y": 6 / p.x})


def test_ctrl_c_keeps_what_there_is(tmp_path: Path) -> None:
    def third_is_interrupted(point: Any) -> dict[str, int]:
        if point.x == 2:
            raise KeyboardInterrupt
        return {"y": point.x}

    sweep = gp.Sweep(x=[0, 1, 2, 3], order="given")
    with pytest.raises(gp.Interrupted, match="2 of 4") as caught:
        sweep.run(third_is_interrupted, store=tmp_path / "s.jsonl")
    assert [row["y"] for row in caught.value.result.rows()] == [0, 1]
    assert len(gp.Results.load(tmp_path / "s.jsonl")) == 2


def test_objects_are_values_too() -> None:
    results = gp.Sweep(model=[gp.Async(), gp.ThreadPerCall(stack="64KiB")]).run(
        lambda p: {"kind": type(p.model).__name__}
    )
    assert {row["model"]: row["kind"] for row in results.rows()} == {
        "async": "Async",
        "thread:65536": "ThreadPerCall",
    }


@pytest.fixture(scope="module")
def loads() -> gp.Results:
    with gp.Server() as server:
        return gp.Sweep(connections=[1, 2], request_size=[16, "64KiB"], repeats=2).run(
            lambda p: gp.load(server, concurrency=8, duration=0.1, warmup=0.02, drain=0.2, **p)
        )


def test_frame_is_tidy(loads: gp.Results) -> None:
    frame = loads.frame()
    assert len(frame) == 8
    assert list(frame.columns[:3]) == ["connections", "request_size", "repeat"]
    assert set(frame["request_size"]) == {16, 65536}
    assert (frame["status_OK"] == frame["calls"]).all()
    assert not [name for name in frame if frame[name].map(lambda cell: isinstance(cell, list | dict)).any()]
    assert frame["valid"].dtype == bool


def test_pivot_brings_repeats_together(loads: gp.Results) -> None:
    table = loads.pivot("connections", "request_size", "throughput_rps", aggregate="max")
    assert table.shape == (2, 2)
    frame = loads.frame()
    of_cell = frame[(frame.connections == 2) & (frame.request_size == 16)]
    assert table.loc[2, 16] == of_cell["throughput_rps"].max()
    with pytest.raises(gp.InvalidRequest, match="did you mean throughput_rps"):
        loads.pivot("connections", values="throughput")


def test_histograms_merge_exactly(loads: gp.Results) -> None:
    total = loads.histogram("latency", connections=1)
    parts = [record.histogram() for record in loads if record.point["connections"] == 1]
    assert total.count == sum(part.count for part in parts) > 0
    assert total.max == max(part.max or 0 for part in parts)
    assert loads.histogram().count == loads.frame()["status_OK"].sum()


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_files_hold_the_same(loads: gp.Results, tmp_path: Path, suffix: str) -> None:
    read = gp.Results.load(loads.save(tmp_path / f"results{suffix}"))
    assert read.axes == loads.axes
    assert read.table() == loads.table()
    assert read.frame().equals(loads.frame())


def test_html_has_findings_above_the_numbers(loads: gp.Results) -> None:
    page = loads._repr_html_()
    assert page.index("shared_cpus") < page.index("<table")
    assert page.count("<tr") == 1 + 4


def test_the_example_of_a_finding_is_of_its_severity(loads: gp.Results) -> None:
    found = (
        Finding(code="send_lag", severity="warning", message="a little late"),
        Finding(code="send_lag", severity="invalid", message="very late"),
    )
    records = [Record(point={}, row={}, findings=(one,)) for one in found]
    assert [(one.severity, one.text) for one in remarks(gp.Results(records, (), loads.header))] == [
        ("invalid", "in 1 of 2, as: very late"),
        ("warning", "in 1 of 2, as: a little late"),
    ]


def test_empty_results_have_their_columns() -> None:
    nothing = gp.Sweep(x=[1]).run(numbers).select(x=2)
    assert len(nothing) == 0
    assert list(nothing.frame().columns) == ["x", "repeat", "valid", "findings", "error"]
    assert nothing._repr_html_()


# --- the store


def test_store_matches_its_schema(loads: gp.Results, tmp_path: Path) -> None:
    schema = json.loads(files("grpcperf").joinpath("schemas/store-1.json").read_text())
    path = loads.save(tmp_path / "s.jsonl")
    gp.Sweep(x=[0, 1]).run(lambda p: {"y": 1 / p.x}, store=tmp_path / "t.jsonl")
    for line in (path.read_text() + (tmp_path / "t.jsonl").read_text()).splitlines():
        jsonschema.validate(json.loads(line), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"point": {}, "repeat": -1}, schema)


def count_calls(store: Path, sweep: gp.Sweep, **how: Any) -> int:
    made = 0

    def measure(point: Any) -> dict[str, int]:
        nonlocal made
        made += 1
        return {"y": point.x}

    results = sweep.run(measure, store=store, key="same", **how)
    assert len(results) == len(sweep)
    return made


def test_resume_measures_only_what_is_missing(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"
    assert count_calls(store, gp.Sweep(x=[1, 2])) == 2
    assert count_calls(store, gp.Sweep(x=[1, 2])) == 0
    assert count_calls(store, gp.Sweep(x=[1, 2, 3], repeats=2)) == 4
    whole = store.read_text()
    store.write_text(whole + '{"torn')
    assert count_calls(store, gp.Sweep(x=[1, 2, 3], repeats=2)) == 0
    assert store.read_text() == whole


def test_failed_points_are_tried_again(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"
    healthy = False

    def measure(point: Any) -> dict[str, int]:
        if not healthy:
            raise OSError("down")
        return {"y": point.x}

    sweep = gp.Sweep(x=[1, 2])
    with pytest.warns(RuntimeWarning):
        sweep.run(measure, store=store, key="k")
    healthy = True
    assert len(sweep.run(measure, store=store, key="k").failed) == 0
    assert [record.error for record in gp.Results.load(store)] == [None, None]


def test_an_edited_function_does_not_reuse_rows(tmp_path: Path) -> None:
    sweep = gp.Sweep(x=[1])
    sweep.run(lambda p: {"y": 1}, store=tmp_path / "s.jsonl")
    with pytest.raises(gp.InvalidRequest, match="another function"):
        sweep.run(lambda p: {"y": 2}, store=tmp_path / "s.jsonl")


def test_another_machine_is_refused_unless_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "s.jsonl"
    assert count_calls(store, gp.Sweep(x=[1])) == 1
    monkeypatch.setattr("grpcperf.environment.fingerprint", lambda: "elsewhere")
    with pytest.raises(gp.InvalidRequest, match="elsewhere or by another version"):
        count_calls(store, gp.Sweep(x=[1]))
    assert count_calls(store, gp.Sweep(x=[1]), force=True) == 0
    with pytest.raises(gp.InvalidRequest, match="another function"):
        gp.Sweep(x=[1]).run(lambda p: {"y": 1}, store=store, force=True)


def test_a_store_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"
    gp.Sweep(x=[1]).run(numbers, store=store)
    with pytest.raises(gp.InvalidRequest, match="another sweep"):
        gp.Sweep(y=[1]).run(lambda p: {}, store=store)
    for text in ("x,y\n1,2\n", "notes without an end of line", '{"format": "other"}\n'):
        store.write_text(text)
        with pytest.raises(gp.InvalidRequest, match=r"no store|no JSON"):
            gp.Sweep(x=[1]).run(numbers, store=store)
        assert store.read_text() == text
    header = {"format": "grpcperf sweep", "schema": 99}
    store.write_text(json.dumps(header) + "\n")
    with pytest.raises(gp.InvalidRequest, match="schema 99"):
        gp.Results.load(store)


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"

    def again(point: Any) -> dict[str, int]:
        with pytest.raises(gp.EngineError, match="in use"):
            gp.Sweep(x=[1]).run(numbers, store=store)
        return {"y": 1}

    assert len(gp.Sweep(x=[1]).run(again, store=store).failed) == 0


def test_unwritable_is_said_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(gp.EngineError, match="cannot be written"):
        gp.Sweep(x=[1]).run(lambda p: pytest.fail("measured"), store=tmp_path / "none" / "s.jsonl")


def test_a_full_disk_prints_the_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit on the size of files stands for the full disk."""
    import resource

    store = tmp_path / "s.jsonl"
    sweep = gp.Sweep(x=range(50), order="given")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(gp.EngineError, match="printed to stderr"):
            sweep.run(numbers, store=store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    kept = gp.Results.load(store)
    lost = json.loads(capsys.readouterr().err)
    assert lost["point"]["x"] == len(kept) > 0
    assert store.read_bytes().endswith(b"\n")
    assert len(sweep.run(numbers, store=store)) == 50


def test_sigkill_then_resume(tmp_path: Path, python: Any) -> None:
    """Killed in the middle of a measurement, in a process of its own; the next one measures the rest."""
    store = tmp_path / "s.jsonl"
    code = f"""
import grpcperf as gp, time, os, signal
def measure(p):
    if p.x == 3 and os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {{"y": p.x, "pid": os.getpid()}}
r = gp.Sweep(x=[0, 1, 2, 3, 4], order="given").run(measure, store={str(store)!r})
print(len(r), len({{row["pid"] for row in r.rows()}}))
"""
    assert python(code, env={**os.environ, "DIE": "1"}).returncode == -signal.SIGKILL
    before = store.read_text()
    assert before.count("\n") == 4
    assert python(code).stdout.split() == ["5", "2"]
    assert store.read_text().startswith(before)


# --- identity


def test_identity_follows_what_a_function_does() -> None:
    def made(constant: int) -> Any:
        return lambda p: gp.load("localhost:1", duration=constant, **p)

    assert identity.key_of(made(1)) == identity.key_of(made(1)) != identity.key_of(made(2))
    assert identity.key_of(lambda p: {"y": 1}) != identity.key_of(lambda p: {"y": 2})
    assert identity.key_of(lambda p, d=1: d) != identity.key_of(lambda p, d=2: d)
    one, two = gp.Load(duration=1), gp.Load(duration=2)
    by_spec = [identity.key_of(lambda p, spec=spec: spec) for spec in (one, one.replace(), two)]
    assert by_spec[0] == by_spec[1] != by_spec[2]


def test_identity_follows_globals_and_helpers() -> None:
    def key(text: str) -> str:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(text, names)
        return identity.key_of(names["f"])

    base = "D = 1\ndef g(p): return p\ndef f(p): return {'y': g(p), 'd': D}"
    assert key(base) == key("\n\n# moved down\n" + base)
    assert key(base) != key(base.replace("D = 1", "D = 2"))
    assert key(base) != key(base.replace("return p\n", "return -p\n"))


def test_identity_of_a_target_is_how_it_was_made() -> None:
    def key(target: Any) -> str:
        return identity.key_of(lambda p: target)

    with gp.Server(behaviour={"delay-us": 5}) as one, gp.Server(behaviour={"delay-us": 5}) as same:
        assert one.address != same.address
        assert key(one) == key(same)
        with gp.Server(behaviour={"delay-us": 6}) as other:
            assert key(one) != key(other)


def test_overhead_of_a_point_is_small(tmp_path: Path) -> None:
    """200 points that take nothing, stored: a wide margin over the 50 ms allowed for each."""
    started = time.monotonic()
    gp.Sweep(x=range(200)).run(numbers, store=tmp_path / "s.jsonl")
    assert time.monotonic() - started < 200 * 0.025


def test_identity_is_the_same_in_every_process(python: Any) -> None:
    """Also of a set's literal, whose order is not."""
    code = """
from grpcperf import identity
def f(p):
    return {"y": p.x in {"a", "b", "c", "d"}, "z": ("e", 1.5, None)}
print(identity.key_of(f))
"""
    keys = {python(code, env={**os.environ, "PYTHONHASHSEED": str(seed)}).stdout for seed in (1, 2, 3)}
    assert len(keys) == 1
    assert len(keys.pop()) > 10


def test_axes_of_dicts_and_lists_have_their_points() -> None:
    sweep = gp.Sweep(args=[{"a": 1}, {"a": 2}], pool=[[1, 2], [3]])
    results = sweep.run(lambda p: {"y": p.args["a"] * len(p.pool)})
    assert results._repr_html_().count("<tr") == 1 + 4
    assert len(results.select(args={"a": 2}, pool=[3])) == 1


def test_a_text_that_is_an_axis_is_not_replaced_by_a_column() -> None:
    results = gp.Sweep(tls=["1.2", "1.3"]).run(lambda p: {"tls": True, "y": 1})
    assert {row["tls"] for row in results.rows()} == {"1.2", "1.3"}


def test_select_takes_either_form(loads: gp.Results) -> None:
    assert len(loads.select(request_size="64KiB")) == len(loads.select(request_size=65536)) == 4


def test_damaged_files_are_told(loads: gp.Results, tmp_path: Path) -> None:
    for text in ('{"format": "grpcperf sweep", "schema": 1}\n', "[1]\n", "\n"):
        (tmp_path / "s.jsonl").write_text(text)
        with pytest.raises(gp.InvalidRequest):
            gp.Results.load(tmp_path / "s.jsonl")
    path = loads.save(tmp_path / "r.csv")
    path.write_text(path.read_text() + "1,2\n")
    with pytest.raises(gp.InvalidRequest, match="another length"):
        gp.Results.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(gp.InvalidRequest):
        gp.Results.load(path)


def test_files_of_others_are_left_alone(loads: gp.Results, tmp_path: Path) -> None:
    """A store that was torn in its header is begun anew; what only looks like JSON is not."""
    store = tmp_path / "s.jsonl"
    for text in ('{"my": "config"}', '{"form', "[1, 2]"):
        store.write_text(text)
        if text == '{"form':
            assert len(gp.Sweep(x=[1]).run(numbers, store=store)) == 1
            continue
        with pytest.raises(gp.InvalidRequest, match="no store"):
            gp.Sweep(x=[1]).run(numbers, store=store)
        assert store.read_text() == text
    for path in (Path("/dev/null"), tmp_path):
        for name in (path, path / "r.csv" if path.is_dir() else path):
            if not name.suffix:
                with pytest.raises(gp.EngineError):
                    loads.save(name)
                with pytest.raises(gp.EngineError):
                    gp.Sweep(x=[1]).run(numbers, store=name)
    assert Path("/dev/null").is_char_device()
    with pytest.raises(gp.InvalidRequest, match="csv"):
        loads.save(tmp_path / "r.xlsx")


def test_saving_through_a_link_keeps_it(loads: gp.Results, tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("")
    real.chmod(0o640)
    link.symlink_to(real)
    loads.save(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert len(gp.Results.load(real)) == len(loads)


def test_what_is_measured_under_the_name_of_an_axis_is_kept() -> None:
    results = gp.Sweep(calls=[100]).run(lambda p: {"calls": 7, "y": float("nan"), "valid": False})
    row = results.rows()[0]
    assert (row["calls"], row["calls_measured"], row["y"], row["valid"]) == (100, 7, None, False)


def test_service_time_of_a_closed_loop_is_its_latency(loads: gp.Results) -> None:
    assert loads.histogram("service_time") == loads.histogram("latency")
    assert loads.histogram("latency").count > 0


def test_a_line_that_is_no_record_is_named(loads: gp.Results, tmp_path: Path) -> None:
    path = loads.save(tmp_path / "s.jsonl")
    for line in ("{}", "[1]", "null"):
        (tmp_path / "d.jsonl").write_text(path.read_text().splitlines()[0] + "\n" + line + "\n")
        with pytest.raises(gp.InvalidRequest, match="line 2"):
            gp.Results.load(tmp_path / "d.jsonl")


def test_too_many_points_are_refused_before_they_are_made() -> None:
    with pytest.raises(gp.InvalidRequest, match="more than 1,000,000"):
        gp.Sweep(x=range(10**9))
    with pytest.raises(gp.InvalidRequest, match="points are more than"):
        gp.Sweep(x=range(10_000), y=range(10_000))


class Holder:
    constant = 1

    def __init__(self, c: int) -> None:
        self.c = c

    def method(self, point: Any) -> int:
        return self.c

    def __call__(self, point: Any) -> int:
        return self.c


class Slotted:
    __slots__ = ("c",)

    def __init__(self, c: int) -> None:
        self.c = c


def test_identity_follows_what_is_in_objects() -> None:
    from argparse import Namespace
    from types import SimpleNamespace

    for made in (SimpleNamespace, Namespace, lambda c: Holder(c), lambda c: Slotted(c)):
        keys = [identity.key_of(lambda p, held=made(c=c): held.c) for c in (4, 4, 5)]  # noqa: B008
        assert keys[0] == keys[1] != keys[2], made
    for made in (lambda c: Holder(c).method, lambda c: Holder(c)):
        keys = [identity.key_of(made(c)) for c in (4, 4, 5)]
        assert keys[0] == keys[1] != keys[2]

    def of_class(constant: int) -> str:
        kind = type("Kind", (), {"constant": constant, "__module__": "__main__"})
        return identity.key_of(lambda p: kind.constant)

    assert of_class(1) == of_class(1) != of_class(2)
