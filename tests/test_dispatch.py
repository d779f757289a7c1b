"""dispatch: what becomes of every message, by the numbers that another program received; through a crash, a
full disk and an interrupt. And its experiment."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from real_servers import HERE, Server

import grpcperf as gp
from grpcperf import _engine, experiments
from grpcperf.dispatch import STAMP_BYTES, Dispatched, _clients, dispatch


class Recorder(Server):
    """What was received: each number, and how it was marked each time."""

    def __init__(self, file: Path) -> None:
        self.file = file
        super().__init__([sys.executable, "-P", str(HERE / "recorder.py"), str(file)])

    def received(self) -> dict[int, list[bool]]:
        raw = self.file.read_bytes()
        seen: dict[int, list[bool]] = {}
        for at in range(0, len(raw), STAMP_BYTES):
            stamp = raw[at : at + STAMP_BYTES]
            seen.setdefault(int.from_bytes(stamp[:8], "big"), []).append(bool(stamp[8]))
        return seen


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    pytest.importorskip("grpc")
    with Recorder(tmp_path / "received") as made:
        yield made


def add_up(done: Dispatched) -> None:
    assert done.sent == done.delivered + done.spilled
    assert done.lost == done.doubled == 0
    assert done.on_disk == done.recovered + done.spilled - done.replayed
    assert done.held_up.count == done.sent
    assert done.delivery.count == done.delivered


@pytest.mark.parametrize("policy", ["round_robin", "shared", "shared_buffered"])
def test_nothing_is_left_of_a_run_in_which_all_is_well(server: Any, policy: str) -> None:
    done = dispatch(server, policy=policy, writers=30, rate=300, duration=0.2, timeout=2)
    add_up(done)
    assert done.delivered == done.sent >= 30
    assert done.unsent == done.on_disk == done.repeated == done.streams_ended == 0
    assert done.directory is None  # it was for this run, and is gone
    assert done.locks > 2 * done.sent


def test_every_number_arrives_once(recorder: Recorder, tmp_path: Path) -> None:
    """Several threads of writers, a disk queue that syncs, idle streams that deliver from it."""
    done = dispatch(
        recorder.address,
        policy="round_robin",
        writers=300,
        rate=600,
        duration="800ms",
        stream_delays=["150ms"],
        writer_threads=3,
        sync_every=4,
        replay="idle",
        directory=tmp_path,
    )
    add_up(done)
    assert done.spilled > 20
    assert done.syncs > 0
    assert done.on_disk == 0
    received = recorder.received()
    assert sorted(received) == list(range(done.first_sequence, done.first_sequence + done.sent))
    assert all(marks == [False] for marks in received.values())


CRASHING = """
import sys
from grpcperf.dispatch import dispatch
print("on", flush=True)
dispatch(sys.argv[1], policy="round_robin", writers=100, rate=700, duration=60, stream_delays=["200ms"],
         directory=sys.argv[2], replay=sys.argv[3])
"""


@pytest.mark.parametrize("replay", ["never", "idle"])
def test_a_crash_loses_nothing_that_was_spilled(recorder: Recorder, tmp_path: Path, replay: str) -> None:
    """Every number is received, or was still with its writer, of which there are 100, or in the hand of one
    of four streams. One that came twice said so."""
    crashing = subprocess.Popen(
        [sys.executable, "-P", "-c", CRASHING, recorder.address, str(tmp_path), replay],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert crashing.stdout is not None
    crashing.stdout.readline()
    until = time.monotonic() + 20
    while len(recorder.received()) < 500:
        assert time.monotonic() < until
        time.sleep(0.01)
    crashing.send_signal(signal.SIGKILL)
    crashing.communicate()
    time.sleep(0.3)  # what is on its way arrives
    before = recorder.received()
    again = dispatch(recorder.address, writers=0, directory=tmp_path)
    add_up(again)
    assert again.sent == again.on_disk == 0
    assert again.replayed == again.recovered
    after = recorder.received()
    if replay == "never":  # else idle streams may have delivered all there was
        assert len(set(after) - set(before)) > 20  # what only the disk had
    first = min(after)
    missing = set(range(first, max(after) + 1)) - set(after)
    assert len(missing) <= 100 + 4
    assert first % 2**40 == 0
    assert all(sum(not mark for mark in marks) <= 1 for marks in after.values())
    assert sum(len(marks) - 1 for marks in after.values()) <= again.repeated


LIMITED = """
import resource, sys
from grpcperf.dispatch import dispatch
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
done = dispatch(sys.argv[1], writers=200, rate=1000, duration=0.6, drain=0.5, stream_delays=["200ms"] * 4,
                directory=sys.argv[2], replay="never")
print(done.sent, done.delivered, done.spilled, done.unsent, done.lost, done.doubled, done.refused,
      done.on_disk, done.disk_error, sep=";")
"""


def test_a_full_disk_makes_writers_wait(recorder: Recorder, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LIMITED, recorder.address, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    *counts, error = done.stdout.strip().split(";")
    sent, delivered, spilled, unsent, lost, doubled, refused, on_disk = map(int, counts)
    assert "File too large" in error
    assert sent == delivered + spilled
    assert lost == doubled == 0
    assert refused > 0
    assert 0 < spilled == on_disk < 60  # 4,000 bytes
    assert 100 < unsent <= 200  # each writer holds on to its message
    dispatch(recorder.address, writers=0, directory=tmp_path)
    assert len(recorder.received()) == sent
    assert all(marks == [False] for marks in recorder.received().values())


INTERRUPTED = """
import json, sys
import grpcperf as gp
from grpcperf.dispatch import dispatch
print("on", flush=True)
try:
    dispatch(sys.argv[1], policy="round_robin", writers=100, rate=500, duration=60,
             stream_delays=["200ms"], directory=sys.argv[2])
except gp.Interrupted as interrupted:
    done = interrupted.result
    print(json.dumps([done.sent, done.delivered, done.spilled, done.lost, done.on_disk]))
"""


def test_an_interrupt_puts_away_what_is_in_hand(server: Any, tmp_path: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-P", "-c", INTERRUPTED, server.address, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    running.stdout.readline()
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    sent, delivered, spilled, lost, on_disk = json.loads(running.communicate(timeout=20)[0])
    assert sent == delivered + spilled > 50
    assert lost == 0
    assert 0 < on_disk <= spilled


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"policy": "random"}, "policy"),
        ({"replay": "now"}, "replay"),
        ({"streams": 0}, "streams"),
        ({"rate": 0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"writers": -1}, "writers"),
        ({"timeout": 0}, "timeout"),
        ({"message_size": 3}, "message_size"),
        ({"buffer": 5}, "buffer"),
        ({"policy": "shared_buffered", "buffer": 0}, "buffer"),
        ({"streams": 1, "stream_delays": [1, 2]}, "stream_delays"),
        ({"rate": 1e9, "duration": 3600}, "too many"),
    ],
)
def test_what_makes_no_sense_is_refused(server: Any, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(gp.InvalidRequest, match=named):
        dispatch(server, **wrong)
    with pytest.raises(gp.InvalidRequest):
        dispatch([], writers=1)


def test_a_directory_that_cannot_be_used(server: Any, tmp_path: Path) -> None:
    with pytest.raises(gp.EngineError, match="nowhere"):
        dispatch(server, directory=tmp_path / "nowhere")
    (tmp_path / "spill.log").write_text("somebody else's file, and longer than a line")
    with pytest.raises(gp.InvalidRequest, match="no spill queue"):
        dispatch(server, directory=tmp_path)
    assert (tmp_path / "spill.log").read_text().startswith("somebody")


def test_nobody_there() -> None:
    with pytest.raises(gp.ConnectError):
        dispatch("127.0.0.1:1")


def test_a_server_that_knows_no_such_stream(tmp_path: Path) -> None:
    """Calls end as UNIMPLEMENTED: everything goes to the disk, and stays."""
    with (
        gp.Server() as server,
        gp.Server(forward=server.address) as hop,
    ):  # one that forwards unary calls alone
        done = dispatch(hop, writers=50, rate=200, duration=0.4, drain=0.3, directory=tmp_path)
    add_up(done)
    assert done.delivered == 0
    assert done.spilled == done.on_disk == done.sent > 0
    assert done.streams_ended >= 4


@pytest.mark.parametrize("kind", ["native", "grpc-go"])
def test_the_experiment(kind: str) -> None:
    report = experiments.find("dispatch")(
        progress=False, servers=[kind], writers=[400], rate=500, duration=0.8, timeout="120ms"
    )
    assert report.valid
    assert len(report.rows) == 3
    assert all(set(report.experiment.columns) <= set(row) for row in report.rows)
    assert all(row["sent"] == row["delivered"] + row["spilled"] > 100 for row in report.rows)
    assert all(row["replayed"] == row["spilled"] for row in report.rows)
    shared = [row["spilled_share"] for row in report.rows if row["policy"] != "round_robin"]
    assert min(row["spilled_share"] for row in report.select(policy="round_robin")) > sum(shared)
    assert "400 writers" in report.verdict
    twice = replace(report, rows=(*report.rows, *({**row, "server": "another"} for row in report.rows)))
    assert f"to {kind}, round_robin spilled" in twice.verdict
    assert "; to another, round_robin spilled" in twice.verdict
    assert len({bar.get_x() for bar in twice.plot(0).patches}) == 6  # none hides another
    assert report.verdict.endswith(".")
    for number in range(2):
        assert report.plot(number).get_ylabel()
    json.dumps(report.as_dict(), allow_nan=False)


def test_the_engine_refuses_nonsense(server: Any, tmp_path: Path) -> None:
    about: dict[str, Any] = {
        "policy": "shared",
        "buffer": 0,
        "writers": 1,
        "writer_threads": 1,
        "seed": 0,
        "sync_every": 0,
        **dict.fromkeys(("period", "duration", "timeout", "drain"), 0.1),
        "connect_timeout": 10.0,
        "replay_idle": False,
        "replay_at_end": True,
        "directory": str(tmp_path),
    }
    for streams in (("ab",), ((1, 2),), ((1,),), [1], (({}, {}),)):
        with pytest.raises((TypeError, KeyError)):
            _engine.Dispatch(streams=streams, **about)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="policy"):
        _engine.Dispatch(streams=(), **(about | {"policy": "none"}))
    with pytest.raises(_engine.EngineFailure, match="no streams"):
        _engine.Dispatch(streams=(), **about)
    engine = _engine.Dispatch(streams=_clients([server], 1, 64, []), **about)
    with pytest.raises(ValueError, match="not finished"):
        engine.result()
    engine.start()
    with pytest.raises(ValueError, match="once"):
        engine.start()
    assert engine.wait(10)
    assert engine.result()["connected"] == 1
    engine.close()
    engine.close()
    for method in (engine.start, engine.stop, engine.result):
        with pytest.raises(ValueError, match="closed"):
            method()
