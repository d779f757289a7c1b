"""The mirror: a server to the letter, that does no work; and the ceiling measured on it."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

import grpcperf as gp
from grpcperf import calibrate, environment
from grpcperf.targets.models import parse_model

pytestmark = pytest.mark.usefixtures("no_leftovers")

SERVICE = "/grpc.testing.BenchmarkService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(scope="module")
def mirror():
    with gp.Mirror() as made:
        yield made


# --- as a target


@pytest.mark.parametrize("transport", ["core", "wire"])
@pytest.mark.parametrize(
    ("kind", "messages", "least"),
    [
        ("unary", None, 1),
        ("server_stream", 3, 3),
        ("client_stream", 5, 1),
        ("bidi", 5, 5),
        ("bidi_free", 3, 3),
    ],
)
def test_every_kind_of_call_is_answered(mirror, within, transport, kind, messages, least):
    before = mirror.counters()
    for size in (0, 16, 100_000):
        result = gp.load(
            mirror, kind=kind, concurrency=4, calls=40, warmup=0, response_size=size,
            messages_per_stream=messages, transport=transport,
        )  # fmt: skip
        assert result.status == {"OK": 40}
        assert result.messages_received >= 40 * least
    assert within(5, lambda: mirror.counters().running == 0)  # cancellations are still on their way
    after = mirror.counters()
    assert after.started - before.started >= 120
    assert after.started == after.finished


@pytest.mark.parametrize("transport", ["core", "wire"])
def test_large_messages_go_both_ways_through_real_windows(mirror, transport):
    result = gp.load(
        mirror,
        concurrency=8,
        calls=400,
        warmup=0,
        request_size="64KiB",
        response_size="64KiB",
        transport=transport,
    )
    assert result.status == {"OK": 400}
    result = gp.load(
        mirror,
        concurrency=2,
        calls=6,
        warmup=0,
        request_size="9MiB",
        response_size="3MiB",
        transport=transport,
    )
    assert result.status == {"OK": 6}


def test_methods_there_are_not(mirror):
    rejected = mirror.counters().rejected
    result = gp.load(mirror, method="/no.Such/Method", request=b"", concurrency=2, calls=20, warmup=0)
    assert result.status == {"UNIMPLEMENTED": 20}
    assert mirror.counters().rejected == rejected + 20


def test_metadata_asks_in_vain(mirror):
    """To hold or to delay a call would be work."""
    metadata = {"grpcperf-hold": "1", "grpcperf-status": "13", "grpcperf-delay-us": "5000000"}
    result = gp.load(mirror, metadata=metadata, concurrency=2, calls=20, warmup=0)
    assert result.status == {"OK": 20}


def test_streams_can_be_held(mirror, within):
    with gp.hold(mirror, calls=300, kind="bidi") as held:
        assert held.running == 300
        counters = mirror.counters()
        assert counters.running == 300
        assert counters.peak_running >= 300
        stats = mirror.memstats()
        assert stats.running == stats.streams == 300
        assert stats.tasks == 301
    assert within(5, lambda: mirror.counters().running == 0)
    mirror.reset_peaks()
    assert mirror.counters().peak_running == 0
    mirror.release()  # nothing is ever parked


def test_memstats_say_what_is_known(mirror):
    stats = mirror.memstats(settle=True)
    assert stats.settled
    assert 0 < stats.heap_alloc <= stats.heap_sys < 8 << 20
    assert stats.stack_inuse is None
    assert stats.stack_sys is None
    assert stats.threads == 1
    assert stats.rss < 32 << 20


def test_it_is_described(mirror):
    assert repr(mirror) == f"<Mirror at {mirror.address} pid {mirror.pid}>"
    assert "<td>mirror</td>" in mirror._repr_html_()
    assert mirror.versions.startswith("grpcperf-mirror ")
    with pytest.raises(gp.InvalidRequest, match=r"gp\.Mirror\(\)"):
        parse_model("mirror")


# --- its life


def test_it_ends_with_its_block(alive):
    with gp.Mirror() as mirror:
        assert alive(mirror.pid)
    assert not alive(mirror.pid)
    with pytest.raises(gp.InvalidRequest, match="closed"):
        mirror.counters()


def test_its_death_is_told(within):
    with gp.Mirror() as mirror:
        os.kill(mirror.pid, signal.SIGKILL)
        assert within(3, mirror.death)
        with pytest.raises(gp.ServerDied, match="SIGKILL"):
            mirror.counters()


def test_it_dies_with_its_parent(alive, within):
    code = "import grpcperf as gp, os; m = gp.Mirror(); print(m.pid, flush=True); os._exit(0)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=30)
    assert within(3, lambda: not alive(int(done.stdout)))


def test_a_port_in_use_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(gp.EngineError, match=f"{port}: address already in use"):
            gp.Mirror(port=port)


def test_cpus(mirror):
    cpu = max(os.sched_getaffinity(0))
    with gp.Mirror(cpus=[cpu]) as pinned:
        assert os.sched_getaffinity(pinned.pid) == {cpu}
    with pytest.raises(gp.InvalidRequest, match="cpus"):
        gp.Mirror(cpus="x")


# --- peers that behave badly


def connect(mirror):
    host, port = mirror.address.split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload) << 8 | kind) + bytes([flags]) + struct.pack(">I", stream) + payload


def headers(stream, method, flags=4):
    path = (SERVICE + method).encode()
    return frame(1, flags, stream, b"\x83\x86\x04" + bytes([len(path)]) + path)


def frames_until_closed(peer):
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while part := peer.recv(65536):
            heard += part
    found = []
    while heard:
        size = int.from_bytes(heard[:3])
        found.append((heard[3], heard[9 : 9 + size]))
        heard = heard[9 + size :]
    return found


def test_what_is_not_http2_is_told_and_left(mirror):
    with connect(mirror) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        kinds = frames_until_closed(peer)
        assert kinds[-1][0] == 7  # GOAWAY
        assert int.from_bytes(kinds[-1][1][4:8]) == 1  # PROTOCOL_ERROR
    assert mirror.counters().running == 0


def test_calls_of_a_connection_that_breaks_are_cancelled(mirror, within):
    before = mirror.counters().cancelled
    with connect(mirror) as peer:
        peer.sendall(PREFACE + frame(4) + b"".join(headers(id, "StreamingCall") for id in range(1, 21, 2)))
        assert within(3, lambda: mirror.counters().running == 10)
    assert within(3, lambda: mirror.counters().running == 0)
    assert mirror.counters().cancelled == before + 10


@pytest.mark.parametrize("method", ["StreamingFromServer", "UnaryCall"])
def test_who_never_reads_is_not_written_for(mirror, method):
    """Endless streams with windows of 2 GiB, or calls without an end that nobody takes the answers of:
    neither the memory nor the other clients suffer."""
    request = frame(0, 1, 0, b"\0\0\0\0\3\x10\x80\x10")  # 2 KiB wanted
    deadline = time.monotonic() + 2
    before = mirror.memstats(settle=True).heap_alloc
    with connect(mirror) as peer:
        peer.sendall(PREFACE + frame(4, payload=b"\0\4\x7f\xff\xff\xff") + frame(8, payload=b"\x7f\0\0\0"))
        peer.setblocking(False)
        said, stream = b"", 1
        while time.monotonic() < deadline:
            if len(said) < 1 << 20 and (method == "UnaryCall" or stream < 200):
                said += headers(stream, method) + request[:5] + struct.pack(">I", stream) + request[9:]
                stream += 2
            with contextlib.suppress(BlockingIOError):
                said = said[peer.send(said) :] if said else b""
            if not said:
                break
        time.sleep(0.2)
        assert mirror.memstats().heap_alloc - before < 24 << 20
        assert gp.load(mirror, concurrency=8, calls=500, warmup=0).status == {"OK": 500}


def test_it_does_not_spin_when_nobody_calls(mirror):
    """Not even with a client that has sent, does not read, and lives on."""
    with connect(mirror) as peer:
        peer.sendall(PREFACE + frame(4, payload=b"\0\4\x7f\xff\xff\xff") + frame(8, payload=b"\x7f\0\0\0"))
        peer.sendall(headers(1, "StreamingFromServer") + frame(0, 1, 1, b"\0\0\0\0\3\x10\x80\x10"))
        time.sleep(0.3)
        before = mirror.memstats()
        time.sleep(0.5)
        after = mirror.memstats()
    used = after.cpu_user_s + after.cpu_system_s - before.cpu_user_s - before.cpu_system_s
    assert used < 0.1


# --- the shell


def test_serve_model_mirror(cli):
    process = cli.start("serve", "--model", "mirror")
    try:
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"]
        assert words[3] == "pid"
        assert gp.load(words[2], concurrency=4, calls=100, warmup=0).errors == 0
        process.terminate()
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "option", [["--behaviour", "hold=1"], ["--channel-arg", "a=1"], ["--max-concurrent-streams", "5"]]
)
def test_the_mirror_has_nothing_to_set(cli, option):
    assert option[0] in cli("serve", "--model", "mirror", *option, code=2).stderr


# --- the ceiling


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calibrate.cache_file()


@pytest.fixture(scope="module")
def measured():
    return calibrate.calibrate(runs=3, duration=0.2)


def test_what_is_measured(measured):
    assert measured.transport == "wire"
    assert len(measured.runs) == 3
    assert min(measured.runs) <= measured.calls_per_s <= max(measured.runs)
    assert measured.calls_per_s > 50_000
    assert 0 < measured.client_cpu_us_per_call < 5
    assert measured.fingerprint == environment.fingerprint()
    assert f"{measured.calls_per_s:,.0f} calls/s" in str(measured)


def test_it_is_kept_and_found_again(measured, cache):
    assert calibrate.known_ceiling() is None
    assert calibrate.keep(measured) == cache
    assert calibrate.recall() == measured
    assert calibrate.known_ceiling() == max(measured.runs)  # what disturbs a run lowers it
    later = dataclasses.replace(measured, calls_per_s=2.0 * measured.calls_per_s)
    calibrate.keep(later)
    assert calibrate.recall() == later
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


def test_another_machine_or_version_has_its_own(measured, cache, monkeypatch):
    calibrate.keep(measured)
    monkeypatch.setattr(environment, "fingerprint", lambda: "0123")
    assert calibrate.known_ceiling() is None
    other = dataclasses.replace(measured, fingerprint="0123", runs=(4.0, 5.0))
    calibrate.keep(other)
    assert calibrate.known_ceiling() == 5.0
    assert set(json.loads(cache.read_text())) == {"0123", measured.fingerprint}


def test_a_load_that_comes_near_it_says_so(mirror, measured, cache):
    """A ceiling far below what the mirror gives is reached at once."""
    spec = gp.Load(concurrency=64, duration=0.3, warmup=0.1, cpus=[max(os.sched_getaffinity(0))])
    rate = gp.load(mirror, spec).throughput_rps
    calibrate.keep(dataclasses.replace(measured, runs=(rate / 4,)))
    found = [finding for finding in gp.load(mirror, spec).findings if finding.code == "client_cpu_saturated"]
    assert len(found) == 1
    assert not gp.load(mirror, spec).valid
    calibrate.keep(dataclasses.replace(measured, runs=(rate * 100,)))
    told = [finding.message for finding in gp.load(mirror, spec).findings]
    assert not [message for message in told if "what it can do here" in message]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"FP": 5}',
        '{"FP": {}}',
        '{"FP": {"runs": 3}}',
        '{"FP": {"runs": []}}',
        "\0\xff",
    ],
)
def test_a_spoilt_file_is_as_good_as_none(measured, cache, text):
    cache.parent.mkdir(parents=True)
    cache.write_text(text.replace("FP", environment.fingerprint()), encoding="latin-1")
    assert calibrate.known_ceiling() is None
    calibrate.keep(measured)
    assert calibrate.recall() == measured


def test_disturbed_runs_are_told(measured):
    assert not dataclasses.replace(measured, runs=(9.0, 10.0, 11.0)).disturbed
    assert dataclasses.replace(measured, runs=(9.0, 10.0, 6.0)).as_dict()["disturbed"]


def test_a_kept_ceiling_that_is_none(measured, cache):
    calibrate.keep(measured)
    kept = json.loads(cache.read_text())
    kept[measured.fingerprint]["runs"] = []
    cache.write_text(json.dumps(kept))
    assert calibrate.known_ceiling() is None
    calibrate.keep(dataclasses.replace(measured, calls_per_s=0.0))
    assert calibrate.known_ceiling() is None


def test_where_nothing_can_be_kept(measured, cache):
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder should be")
    assert calibrate.keep(measured) is None
    assert calibrate.known_ceiling() is None


def test_calibrate_in_the_shell(cli, cache):
    document = cli.json("calibrate")
    assert document["calls_per_s"] > 50_000
    assert 0 < document["client_cpu_us_per_call"] < 5
    assert document["kept"] == str(cache)
    assert calibrate.known_ceiling() == max(document["runs"])
    cache.unlink()
    cache.parent.rmdir()
    cache.parent.write_text("a file where the folder should be")
    done = cli("calibrate")
    assert "calls/s" in done.stdout
    assert "could not be kept" in done.stderr
