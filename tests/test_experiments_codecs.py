"""The experiment on codecs in a very small size: allocations by count, times by ratio."""

import json
import subprocess
import sys

import pytest

from grpcperf import _engine, codecs, experiments
from grpcperf.errors import EngineError, InvalidRequest
from grpcperf.experiments import Report
from grpcperf.experiments.codecs import as_request
from grpcperf.targets.child import executable

SMALL = {"ops": 2000, "repeats": 3, "calls": 1, "duration": 0.1}


@pytest.fixture(scope="module")
def report() -> Report:
    return experiments.find("codecs")(progress=False, **SMALL)


def test_all_are_built_here() -> None:
    assert list(codecs.built()) == list(codecs.PACKAGES)
    assert all(codec.version[0].isdigit() for codec in codecs.built().values())


def test_a_buffer_has_nothing_to_be_written() -> None:
    program = str(executable(codecs.PROGRAM))
    done = subprocess.run([program, "write", "buffer"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_rate_is_of_encoded_bytes() -> None:
    assert codecs.Timing(ns_per_op=540.0, encoded_bytes=1080).mb_per_s == pytest.approx(2000)


def test_every_way_is_a_row(report: Report) -> None:
    ways = [(row["codec"], row["operation"], row["memory"], row["checked"]) for row in report.rows]
    assert ways == [
        *(("protobuf-c", "encode", memory, None) for memory in ("malloc", "arena", "reuse")),
        *(("protobuf-c", "decode", memory, True) for memory in ("malloc", "arena")),
        *(("msgpack-c", "encode", memory, None) for memory in ("malloc", "reuse")),
        *(("msgpack-c", "decode", memory, True) for memory in ("malloc", "arena")),
        *(("flatbuffers", "encode", memory, None) for memory in ("malloc", "arena", "reuse")),
        *(("flatbuffers", "decode", "reuse", checked) for checked in (True, False)),
    ]
    for row in report.rows:
        assert set(report.experiment.columns) <= set(row)
        assert row["ns_per_op_low"] <= row["ns_per_op"] <= row["ns_per_op_high"]
        assert 700 < row["encoded_bytes"] < 1400
        assert row["mb_per_s"] > 0


def test_allocations_are_exact(report: Report) -> None:
    for row in report.rows:
        if row["memory"] == "malloc":
            assert row["allocs_per_op"] >= 1
            assert row["bytes_per_op"] > row["encoded_bytes"]
        else:
            assert (row["allocs_per_op"], row["bytes_per_op"]) == (0, 0)
    fresh = report.select(memory="malloc")
    counts = {(row["codec"], row["operation"]): row["allocs_per_op"] for row in fresh}
    assert counts["protobuf-c", "encode"] == 2  # the messages and the buffer
    assert (
        40 <= counts["protobuf-c", "decode"] <= 45
    )  # messages 10, arrays 3, texts 26, the signature; its own
    assert counts["msgpack-c", "encode"] == counts["msgpack-c", "decode"] == 1
    assert counts["flatbuffers", "encode"] == 2  # a buffer of 1 KiB, and one that it fits into


def test_shapes(report: Report) -> None:
    def ns(codec: str, operation: str, memory: str, checked: bool | None = None) -> float:
        (row,) = report.select(codec=codec, operation=operation, memory=memory, checked=checked)
        return float(row["ns_per_op"])

    in_place = ns("flatbuffers", "decode", "reuse", False)
    assert ns("flatbuffers", "decode", "reuse", True) > 1.2 * in_place
    assert ns("protobuf-c", "decode", "malloc", True) > 3 * in_place
    assert ns("msgpack-c", "decode", "malloc", True) > 3 * in_place
    assert report.data["buffer"]["fresh_ns"] > report.data["buffer"]["pooled_ns"] > 0


def test_published_unit_is_off_by_a_thousand(report: Report) -> None:
    assert [round(one["off_by"], -1) for one in report.data["published"]] == [990, 1000]
    assert report.verdict.count("off by 1,000") == 2


def test_record_goes_through_calls(report: Report) -> None:
    calls = {call["codec"]: call for call in report.data["calls"]}
    assert list(calls) == ["none", *codecs.PACKAGES]
    for codec, call in calls.items():
        assert call["errors"] == 0
        assert call["throughput_rps"] > 0
        if codec != "none":
            assert call["encoded_bytes"] == len(codecs.encoded(codec))
    assert "Of the CPU of a unary call" in report.verdict


def test_a_report_of_it_is_whole(report: Report) -> None:
    assert report.skipped == {}
    json.dumps(report.as_dict(), allow_nan=False)
    for number in range(2):
        assert report.plot(number).get_xlabel()


def test_request_is_the_benchmarks() -> None:
    for size in (0, 1, 120, 127, 128, 300, 20_000):
        request = _engine.benchmark_request(size, 0, 7)
        assert size == 0 or as_request(request[-size:]) == request


def test_absent_codec_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {name: codec for name, codec in codecs.built().items() if name == "msgpack-c"}
    experiment = experiments.find("codecs")
    monkeypatch.setattr(sys.modules["grpcperf.experiments.codecs"], "built", lambda: left)
    report = experiment(progress=False, ops=100, repeats=1, calls=0)
    assert {row["codec"] for row in report.rows} == {"msgpack-c"}
    assert list(report.skipped) == ["protobuf-c", "flatbuffers"]
    assert "libflatbuffers-dev" in report.verdict
    assert "calls" not in report.data
    assert report.plot().get_xlabel()


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="codec"):
        experiments.find("codecs")(progress=False, codecs=["flatbufers"])
    with pytest.raises(EngineError, match="protobuf-c does not decode"):
        codecs.timed("protobuf-c", "decode", "reuse", 1)
    with pytest.raises(EngineError, match="usage"):
        codecs.timed("protobuf-c", "decode", "malloc", -1)
    with pytest.raises(EngineError, match="usage"):
        codecs.encoded("json")
