"""The experiments about calls in flight and idle devices, each in a very small size: what holds on any
machine is the shape of their tables, by counts and by ratios with room."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure

import grpcperf as gp
from grpcperf import leaks
from grpcperf.experiments import Report, find, readings
from grpcperf.memory import memory_at_rest

BOTH = ["native", "grpc-go"]


def run(name: str, **parameters: Any) -> Report:
    """Run it; whatever it measures, its report is whole: columns, a sentence, JSON, figures that draw."""
    report = find(name)(progress=False, **parameters)
    assert report.rows
    assert all(set(report.experiment.columns) <= set(row) for row in report.rows)
    assert report.verdict.endswith(".")
    json.dumps(report.as_dict(), allow_nan=False)
    for number in range(len(report.experiment.figures(report))):
        assert report.plot(number, ax=Figure().subplots()).has_data()
    return report


def own_server() -> gp.Server:
    """What a user may give: it takes no arguments of an experiment."""
    return gp.Server()


def one(report: Report, **values: Any) -> Any:
    (row,) = report.select(**values)
    return row


def test_a_call_in_flight_is_a_task_and_go_tells_which() -> None:
    report = run("in-flight-cost", servers=BOTH, kinds=["unary", "bidi"], calls=[60, 150])
    for row in report.rows:
        assert row["tasks_held"] - row["tasks_before"] == row["calls"]
        assert abs(row["tasks_after"] - row["tasks_before"]) <= 4
        assert (row["server"], row["calls"]) != ("grpc-go", 150) or 7 < row["stack_kib_per_call"] < 10
    goroutines = report.data["goroutines"]
    assert set(goroutines) == {"grpc-go, unary, 150 calls", "grpc-go, bidi, 150 calls"}
    for rows in goroutines.values():
        assert rows[0]["count"] == 150
        assert "serveStreams" in rows[0]["function"]
        assert 0 < sum(row["count"] for row in rows[1:]) < 40
    assert "150 goroutines began with google.golang.org/grpc.(*Server).serveStreams" in report.verdict


def test_tasks_that_nobody_tells_are_unknown() -> None:
    """Of a process that is known by its expvar alone."""
    row = {"server": "mine", "kind": "unary", "calls": 9, "total_kib_per_call": None}
    rows = (row | dict.fromkeys(("tasks_before", "tasks_held", "tasks_after")),)
    assert Report(name="in-flight-cost", rows=rows).verdict == (
        "With 9 calls mine holds an unknown amount and an unknown number of tasks for each call in flight."
    )


def test_what_a_handler_holds_is_added() -> None:
    report = run("handler-alloc", servers=BOTH, sizes=[0, "16KiB"], calls=200)
    for server in BOTH:
        bare, holding = (one(report, server=server, held_kib=size) for size in (0, 16))
        assert 15 < holding["kib_per_call"] - bare["kib_per_call"] < 19
        assert 3 < bare["kib_per_call"] < 30


def test_a_handler_whose_memory_does_not_show_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than was asked for is no rounding of an allocator."""

    def held(kit: Any, server: Any, *, metadata: Any, **_: Any) -> Any:
        return SimpleNamespace(memory=lambda each: {"total_kib_per_call": 10 + shares.pop() * 4})

    shares = [0.5, 0.0]
    monkeypatch.setattr(import_module("grpcperf.experiments.handler_alloc"), "held_calls", held)
    report = run("handler-alloc", servers=["native"], sizes=[0, "4KiB"])
    assert "-50.0% beyond" in report.verdict
    assert [found.code for found in report.findings] == ["less_than_held"]


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("in-flight-cost", {"servers": ["native"], "kinds": ["unary"], "calls": [10]}),
        ("idle-streams", {"servers": ["native"], "connections": [5], "duration": 0.1}),
        ("slow-reader", {"servers": ["native"], "streams": [3], "sizes": ["1KiB"]}),
        ("client-side", {"clients": ["wire"], "calls": [5], "duration": 0.1}),
    ],
)
def test_memory_that_did_not_come_to_rest_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, small: Any
) -> None:
    monkeypatch.setattr(
        readings, "memory_at_rest", lambda target: replace(target.memstats(settle=True), settled=False)
    )
    assert "not_settled" in [found.code for found in run(name, **small).findings]


def test_clients_of_grpcs_own_pay_many_times_more() -> None:
    report = run("client-side", calls=[300], duration=0.2)
    wire, core, go = (one(report, client=name) for name in ("wire", "core", "grpc-go"))
    assert wire["kib_per_call"] * 5 < min(core["kib_per_call"], go["kib_per_call"])
    assert wire["heap_kib_per_call"] * 10 < core["heap_kib_per_call"] < 40
    assert wire["cpu_us_per_call"] * 2 < min(core["cpu_us_per_call"], go["cpu_us_per_call"])


def test_a_client_that_cannot_be_built_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(version: str = "") -> None:
        raise gp.EngineError("no Go here")

    monkeypatch.setattr("grpcperf.goclient.build", missing)
    report = find("client-side")(progress=False, clients=["grpc-go"])
    assert (report.rows, dict(report.skipped)) == ((), {"client grpc-go": "no Go here"})
    assert report.verdict == "Nothing was measured. Left out: client grpc-go: no Go here."


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("client-side", {"clients": ["curl"]}),
        ("cancellation", {"causes": ["boredom"]}),
        ("allocations", {"clients": ["grpc-go"], "servers": ["native"]}),
        ("allocations", {"calls": 8, "servers": ["native"]}),
        ("allocations", {"messages": 1, "servers": ["native"]}),
        ("handler-alloc", {"sizes": ["4 parsecs"], "servers": ["native"]}),
        ("idle-streams", {"buffers": [-1], "servers": ["grpc-go"]}),
    ],
)
def test_nonsense_is_refused(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(gp.InvalidRequest):
        find(name)(progress=False, **wrong)


def test_a_light_load_beside_parked_calls() -> None:
    report = run("parked-tail", servers=BOTH, calls=[0, 200], rate=3000, duration=0.4)
    assert [(row["server"], row["calls"]) for row in report.rows] == [
        (server, calls) for server in BOTH for calls in (0, 200)
    ]
    for row in report.rows:
        assert row["latency_p50_us"] <= row["latency_p99_us"] <= row["latency_max_us"]
        assert (row["gc_pause_mean_us"] is None) == (row["server"] == "native")

    only_idle = [row for row in report.rows if (row["server"], row["calls"]) != ("native", 200)]
    assert "native" not in replace(report, rows=only_idle).verdict  # no row is held against itself
    cut = [{**report.rows[0], "calls": 100}]  # of calls=[100, 0]
    assert replace(report, rows=cut).verdict == "Too little was measured for a verdict."


def test_calls_that_wake_up_on_any_number_of_threads() -> None:
    few = {"threads": [1, 2], "calls": 200, "wait_s": 0.1, "rate": 3000, "duration": 0.4}
    report = run("parked-cores", servers=["native:thread", own_server, *BOTH], **few)
    assert {"native:thread", "own_server"} <= set(report.skipped)
    assert [row["threads"] for row in report.rows] == [1, 2, 1, 2]
    assert all(row["wakes_per_s"] == 2000 for row in report.rows)
    assert all(0 < row["server_cpu_us_per_call"] < 5000 for row in report.rows)


def test_what_limits_and_what_does_not() -> None:
    small = {"limit": 20, "calls": 400, "handler_ms": 10, "long_handler_ms": 600}
    report = run("concurrency-limits", servers=BOTH, **small)
    for row in report.rows:
        name, handler_ms = row["limit"], row["handler_ms"]
        if name.split()[-1] == "20":  # semaphore, streams and pool: everything else waits
            assert (row["peak_running"], row["errors"]) == (20, 0)
            assert row["elapsed_ms"] > 400 / 20 * 10
            assert 100 < row["queue_p99_ms"] < row["elapsed_ms"]
        elif handler_ms == 600:  # none, and stream workers, which therefore are none
            assert (row["peak_running"], row["errors"]) == (400, 0)
        assert (row["rejected"] > 0) == (name == "pool 20, rejecting")
        assert (row["queue_p99_ms"] is None) == (name.split()[-1] != "20")  # what waits for nobody queues not
    assert list(report.skipped) == ["pool 20 and pool 20, rejecting on grpc-go"]
    assert "stream workers 8 did not" in report.verdict
    assert "a limit on concurrent streams refused none" in report.verdict
    silent = replace(report, rows=[{**row, "peak_running": None} for row in report.rows])
    assert "handlers were to run: how many ran on native is not known" in silent.verdict
    assert "kept it" not in silent.verdict


def test_handlers_that_watch_stop_and_others_go_on() -> None:
    times = {"handler_s": 1.8, "deadline_s": 0.8, "soon_s": 0.4, "late_s": 2.1}
    report = run("cancellation", servers=BOTH, calls=60, **times)
    assert len(report.rows) == 2 * 2 * 3
    for row in report.rows:
        soon = 0 if row["handler"] == "observes" else 60
        assert (row["running_before"], row["running_soon"], row["running_late"]) == (60, soon, 0), row
    worked = {row["handler"]: row["work_after_ms_per_call"] for row in report.select(cause="cancel")}
    assert worked["ignores"] > 500 > 100 > worked["observes"]


def test_handlers_that_ended_by_themselves_are_told_of_a_dead_client_too() -> None:
    times = {"handler_s": 0.4, "deadline_s": 0.2, "soon_s": 0.5, "late_s": 0.5}
    report = run("cancellation", servers=["native"], calls=5, causes=["client_death"], **times)
    assert "handlers_were_over" in [found.code for found in report.findings]


def test_streams_that_are_forgotten_are_found() -> None:
    report = run("stream-leak", servers=BOTH, leaked=[0, 3], streams=10, cycles=6)
    for row in report.rows:
        assert row["leak"] == (row["leaked_per_cycle"] > 0), row
        assert row["streams_per_cycle"] == pytest.approx(row["leaked_per_cycle"], abs=0.01)
        assert row["tasks_per_cycle"] == pytest.approx(row["leaked_per_cycle"], abs=0.5)


def test_leaks_by_readings_that_move_are_told_and_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        leaks, "memory_at_rest", lambda target: replace(memory_at_rest(target), settled=False)
    )
    report = run("stream-leak", servers=["native"], leaked=[0], streams=2, cycles=5)
    assert (report.skipped, report.valid) == ({}, True)
    assert [f"{found.code}: {found.message}" for found in report.findings] == [
        "not_settled: native, 0 forgotten: 5 of 5 readings did not come to rest"
    ]


def test_allocations_of_both_sides() -> None:
    report = run("allocations", servers=BOTH, calls=400, messages=20)
    native, go = (one(report, server=server, kind="unary") for server in BOTH)
    assert 8000 < native["bytes_per_call"] < 20_000
    assert 20 < go["allocs_per_call"] < 150
    for side in report.select(side="server"):
        if side["kind"] == "bidi message":  # a stream costs more than a message on it
            stream = one(report, server=side["server"], kind="bidi")
            assert 0 < side["bytes_per_call"] * 3 < stream["bytes_per_call"]
    wire, core = (one(report, client=name, side="client", kind="unary") for name in ("wire", "core"))
    assert wire["allocs_per_call"] < 0.1
    assert wire["bytes_per_call"] * 20 < core["bytes_per_call"]


def test_smaller_buffers_help_the_old_grpc_go_alone() -> None:
    small = {"connections": [40], "messages_per_s": 2000, "duration": 0.3}
    report = run("idle-streams", servers=["native", "grpc-go@1.46.2", "grpc-go"], **small)
    heap = {(row["server"], row["buffer_bytes"]): row["heap_kib_per_connection"] for row in report.rows}
    assert heap["grpc-go@1.46.2", 8192] < 0.6 * heap["grpc-go@1.46.2", 32768]
    assert heap["grpc-go", 8192] == pytest.approx(heap["grpc-go", 32768], rel=0.2)
    assert heap["grpc-go", 32768] < 0.5 * heap["grpc-go@1.46.2", 32768]
    assert all(row["tasks_per_connection"] == (1 if row["server"] == "native" else 4) for row in report.rows)
    assert all(row["cpu_us_per_message"] > 0 for row in report.rows)
    functions = {row["function"] for rows in report.data["heap"].values() for row in rows}
    assert any("bufio" in name or "transport" in name for name in functions)


@pytest.mark.parametrize(
    ("large", "small", "told"),
    [
        ((100, 95, 105), (60, 55, 65), "40% less"),
        ((100, 95, 105), (140, 120, 160), "40% more"),
        ((100, 95, 105), (91, 90, 92), "changes nothing"),
        ((100, 20, 180), (60, 50, 70), "changes nothing"),
        ((100, None, None), (60, None, None), "40% less"),
    ],
)
def test_what_smaller_buffers_are_said_to_change(large: Any, small: Any, told: str) -> None:
    name = "total_kib_per_connection"
    rows = tuple(
        {"server": "grpc-go", "connections": 9, "buffer_bytes": size, "tasks_per_connection": None}
        | {"cpu_us_per_message": None, name: memory[0], f"{name}_low": memory[1], f"{name}_high": memory[2]}
        for size, memory in ((32768, large), (8192, small))
    )
    assert told in Report(name="idle-streams", rows=rows).verdict


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_too_few_descriptors_leave_the_rest_out_by_name() -> None:
    with few_descriptors(300):
        report = run("idle-streams", servers=["native"], connections=[10, 2000], duration=0.2)
    assert [row["connections"] for row in report.rows] == [10]
    assert "file descriptors" in report.skipped["native, 2,000 connections"]


def test_streams_that_nobody_reads_fill_a_go_server() -> None:
    report = run("slow-reader", servers=BOTH, streams=[40], sizes=["1KiB"])
    native, go = (one(report, server=server) for server in BOTH)
    assert go["kib_per_stream"] > 64  # what grpc-go lets a handler write ahead
    assert native["kib_per_stream"] * 3 < go["kib_per_stream"]
    for row in report.rows:
        assert row["kib_after_per_stream"] < row["kib_per_stream"] / 3
    assert list(report.data["heap"]) == ["grpc-go, 40 streams of 1,024 B"]
