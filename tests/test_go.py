"""The Go server: grpc-go at both versions that matter, held against what is known of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import grpcperf as gp
from grpcperf.targets.expvar import fetch

OLD, NEW = "1.46.2", "1.85.0"
KINDS = ("unary", "server_stream", "client_stream", "bidi", "bidi_free")
pytestmark = pytest.mark.timeout(400)  # the first one builds
SOURCE = Path(__file__).parents[1] / "grpcperf" / "goserver"


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """Both versions, once: the first time on a machine it takes a minute."""
    for version in (NEW, OLD):
        gp.GoServer.build(version)


@pytest.fixture(scope="module")
def go() -> Any:
    """One for tests that leave it as it was."""
    with gp.GoServer() as server:
        yield server


def per_call(before: gp.MemStats, held: gp.MemStats, calls: int) -> Any:
    return lambda name: (getattr(held, name) - getattr(before, name)) / calls / 1024


# --- calls


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_answered_and_counted(version: str, kind: str, within: Any) -> None:
    with gp.GoServer(version) as server:
        messages = None if kind == "unary" else 5
        result = gp.load(server, kind=kind, calls=100, concurrency=8, warmup=0, messages_per_stream=messages)
        assert result.status == {"OK": 100}
        assert within(2, lambda: server.counters().finished == 100)
        counters = server.counters()
        assert (counters.started, counters.running) == (100, 0)
        # Streams that the server would go on with are cancelled by the client, and new ones are there before.
        assert 1 <= counters.peak_running <= (16 if kind in ("unary", "client_stream", "bidi") else 100)
        assert server.versions.startswith(f"grpc-go {version}, go 1.")


def test_core_clients_compression_and_large_messages(go: Any) -> None:
    assert gp.load(go, calls=50, transport="core", warmup=0).status == {"OK": 50}
    assert gp.load(go, calls=50, compression="gzip", request_size=5000, warmup=0).status == {"OK": 50}
    big = gp.load(go, calls=4, concurrency=1, response_size="3MiB", warmup=0)
    assert big.status == {"OK": 4}
    refused = gp.load(go, calls=2, concurrency=1, request_size="5MiB", warmup=0)
    assert refused.status == {"RESOURCE_EXHAUSTED": 2}
    with gp.GoServer(max_message="8MiB", read_buffer="8KiB", write_buffer="8KiB", window="1MiB") as server:
        result = gp.load(server, calls=2, concurrency=1, request_size="5MiB", warmup=0)
        assert result.status == {"OK": 2}
        assert result.settings["initial_window_size"] == 2**20


@pytest.mark.parametrize("mutual", [False, True])
def test_tls(mutual: bool) -> None:
    with gp.GoServer(tls=gp.TLS.self_signed(mutual=mutual)) as server:
        assert gp.load(server, calls=50, warmup=0).status == {"OK": 50}
        with pytest.raises(gp.ConnectError):
            gp.load(server.address, calls=1, warmup=0)
        assert b"PRIVATE" not in Path(f"/proc/{server.pid}/cmdline").read_bytes()


# --- what calls ask for


def test_behaviours_of_metadata_and_of_the_server(go: Any) -> None:
    def ask(target: Any, **metadata: Any) -> gp.Result:
        names = {f"grpcperf-{name.replace('_', '-')}": value for name, value in metadata.items()}
        return gp.load(target, calls=20, concurrency=1, warmup=0, metadata=names)

    assert ask(go, status=5).status == {"NOT_FOUND": 20}
    assert ask(go, delay_us=5000).latency.min >= 0.005
    before = go.memstats()
    assert ask(go, busy_us=5000).latency.min >= 0.005
    after = go.memstats()
    busy = after.cpu_user_s + after.cpu_system_s - before.cpu_user_s - before.cpu_system_s
    assert 0.08 <= busy <= 0.3  # 20 times 5 ms, and the calls
    assert ask(go, hold=3).status == {"INVALID_ARGUMENT": 20}
    assert ask(go, unheard_of=1).status == {"INVALID_ARGUMENT": 20}
    assert ask(go, alloc_bytes=2**40).status == {"RESOURCE_EXHAUSTED": 20}
    with gp.GoServer(behaviour={"status": 7, "delay-us": 1000}) as server:
        assert ask(server).status == {"PERMISSION_DENIED": 20}
        assert ask(server, status=0).latency.min >= 0.001


def test_memory_that_a_handler_allocates_is_found(go: Any) -> None:
    sizes = {}
    for allocated in (0, 65536):
        before = go.memstats(settle=True)
        with gp.hold(go, calls=300, metadata={"grpcperf-hold": 1, "grpcperf-alloc-bytes": allocated}):
            sizes[allocated] = per_call(before, go.memstats(settle=True), 300)("heap_alloc")
    assert sizes[65536] - sizes[0] == pytest.approx(64, rel=0.02)


@pytest.mark.parametrize("cause", ["cancel", "deadline", "client_death"])
def test_handlers_learn_that_nobody_waits_unless_they_do_not_look(cause: str, within: Any) -> None:
    for observe, left in ((1, 0), (0, 50)):
        metadata = {"grpcperf-delay-us": 1_500_000, "grpcperf-observe-cancel": observe}
        with gp.GoServer() as server:
            if cause == "client_death":
                die_with_calls(server.address, metadata, lambda: server.counters().running == 50)
            else:
                deadline = 0.3 if cause == "deadline" else None
                with gp.hold(server, calls=50, metadata=metadata, deadline=deadline) as held:
                    assert server.counters().running == 50
                    if cause == "cancel":
                        held.cancel()
                    assert held.wait(2)
            assert within(1, lambda wanted=left: server.counters().running == wanted)
            assert within(3, lambda: server.counters().running == 0)
            counters = server.counters()
            over = counters.deadline_exceeded if cause == "deadline" else counters.cancelled
            assert over == 50
            worked = counters.work_after_cancel_us / 50
            assert worked < 300_000 if observe else 500_000 < worked < 2_500_000


def die_with_calls(address: str, metadata: dict[str, int], arrived: Any) -> None:
    """A client that is killed while its calls are in flight."""
    code = (
        f"import grpcperf as gp, time\n"
        f"with gp.hold({address!r}, calls=50, metadata={metadata!r}): time.sleep(60)"
    )
    client = subprocess.Popen([sys.executable, "-P", "-c", code])
    try:
        end = time.monotonic() + 10
        while not arrived() and time.monotonic() < end:
            time.sleep(0.01)
        assert arrived()
    finally:
        client.kill()
        client.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_parked_calls_are_released_with_ok(kind: str, go: Any) -> None:
    for send_first in (False, True):
        with gp.hold(go, calls=50, kind=kind, send_first=send_first) as held:
            assert (held.running, held.refused) == (50, 0)
            assert held.release() < 2
            assert held.status == {"OK": 50}
        assert go.counters().parked == 0


# --- what a call in flight costs (experiments.md, A.1)


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize("kind", ["unary", "server_stream", "bidi"])
def test_a_call_in_flight_costs_what_is_known(version: str, kind: str, within: Any) -> None:
    calls = 1000
    with gp.GoServer(version) as server:
        before = server.memstats(settle=True)
        with gp.hold(server, calls=calls, kind=kind, send_first=kind == "bidi") as held:
            assert within(2, lambda: server.counters().parked == calls)
            during = server.memstats(settle=True)
            entry, *others = server.goroutine_profile()
            held.release()
        cost = per_call(before, during, calls)
        assert 2.6 < cost("heap_alloc") < 3.7
        assert 7.6 < cost("stack_inuse") < 8.4
        assert calls <= during.goroutines - before.goroutines <= calls + 10
        assert entry["count"] == calls
        assert entry["function"].startswith("google.golang.org/grpc.(*Server).serveStreams")
        assert entry["waits_in"].startswith("main.wait")
        assert sum(row["count"] for row in others) < 15
        assert within(3, lambda: server.memstats().goroutines <= before.goroutines + 1)
        assert server.memstats(settle=True).stack_inuse < during.stack_inuse / 4


def test_smaller_buffers_spare_memory_in_the_old_version_alone(within: Any) -> None:
    heap: dict[tuple[str, int], float] = {}
    for version in (OLD, NEW):
        for kib in (32, 8):
            with gp.GoServer(version, read_buffer=kib * 1024, write_buffer=kib * 1024) as server:
                before = server.memstats(settle=True)
                with gp.hold(server, calls=200, connections=200, kind="bidi", send_first=True):
                    assert within(5, lambda asked=server: asked.counters().parked == 200)
                    during = server.memstats(settle=True)
                    cost = per_call(before, during, 200)
                    heap[version, kib] = cost("heap_alloc")
                    assert 3.9 <= (during.goroutines - before.goroutines) / 200 <= 4.1
                    if (version, kib) == (OLD, 32):
                        top = [row["function"].rpartition(".")[2] for row in server.heap_profile(top=2)]
                        assert set(top) == {"newBufWriter", "NewReaderSize"}
    assert heap[OLD, 32] - heap[OLD, 8] == pytest.approx(72, abs=8)  # twice 24 KiB, and 24 for one more
    assert heap[NEW, 32] - heap[NEW, 8] == pytest.approx(0, abs=4)
    assert 9 < heap[NEW, 32] < 15


# --- what limits, and what does not


def test_limits_of_concurrency() -> None:
    slow = {"grpcperf-delay-us": 20_000}
    with gp.GoServer(limits=[gp.Semaphore(20)]) as server:
        began = time.monotonic()
        assert gp.load(server, calls=400, concurrency=400, warmup=0, metadata=slow).status == {"OK": 400}
        assert time.monotonic() - began > 0.4
        assert server.counters().peak_running == 20
        with gp.hold(server, calls=50) as held:
            assert (held.running, held.queued) == (20, 30)
            held.cancel()
            assert held.wait(2)
        assert server.counters().queued == 0
    with gp.GoServer(max_concurrent_streams=20) as server:
        result = gp.load(server, calls=100, concurrency=100, warmup=0, metadata=slow)
        assert result.status == {"OK": 100}
        assert result.settings["max_concurrent_streams"] == 20
        assert server.counters().peak_running == 20
    with gp.GoServer(stream_workers=8) as server, gp.hold(server, calls=200):
        assert server.counters().running == 200  # workers are reused, not waited for
        assert any("serverWorker" in row["function"] for row in server.goroutine_profile())


def test_limits_that_turn_calls_away() -> None:
    with gp.GoServer(limits=["rate:0.001:burst=5"]) as server:
        result = gp.load(server, calls=20, concurrency=1, warmup=0)
        assert result.status == {"OK": 5, "RESOURCE_EXHAUSTED": 15}
        counters = server.counters()
        assert (counters.started, counters.rejected) == (5, 15)
    with gp.GoServer(limits=[gp.Rate(0.001, burst=5, on_excess="degrade")]) as server:
        for kind in KINDS:
            messages = None if kind == "unary" else 3
            gp.load(server, kind=kind, calls=10, concurrency=1, warmup=0, messages_per_stream=messages)
        counters = server.counters()
        assert (counters.started, counters.degraded, counters.rejected) == (5, 45, 0)
    with gp.GoServer(limits=[gp.Semaphore(1), gp.PruneBelow("10s")]) as server:
        assert gp.load(server, calls=5, warmup=0, concurrency=1).status == {"OK": 5}
        result = gp.load(server, calls=5, warmup=0, concurrency=1, deadline=5)
        assert result.status == {"DEADLINE_EXCEEDED": 5}
        counters = server.counters()
        assert (counters.started, counters.rejected, counters.pruned) == (5, 5, 5)
        # The slot was given back.
        assert gp.load(server, calls=5, warmup=0, concurrency=1).status == {"OK": 5}


@pytest.mark.parametrize(
    ("options", "load"),
    [
        ({"limits": ["semaphore:1"]}, {"deadline": 5, "metadata": {"grpcperf-delay-us": 2000}}),
        ({"limits": ["rate:0.001:burst=3"]}, {}),
        ({"limits": ["rate:0.001:burst=3:degrade"]}, {"kind": "client_stream"}),
        ({"limits": ["rate:0.001:burst=3:degrade"]}, {"kind": "server_stream"}),
        ({"limits": ["prune:10s"]}, {"deadline": 5}),
        ({"behaviour": {"status": 9}}, {"metadata": {"grpcperf-delay-us": 100}}),
        ({}, {"metadata": {"grpcperf-status": "17"}}),
        ({}, {"metadata": {"grpcperf-what": "1"}}),
        ({}, {"method": "/grpc.testing.BenchmarkService/Unheard", "request": b""}),
    ],
)
def test_it_answers_and_counts_as_the_native_server_does(options: Any, load: Any, within: Any) -> None:
    said = []
    for make in (lambda: gp.Server("thread", **options), lambda: gp.GoServer(**options)):
        with make() as server:
            messages = 2 if "kind" in load else None
            arguments = {"calls": 6, "concurrency": 2, "warmup": 0, "messages_per_stream": messages, **load}
            result = gp.load(server, **arguments)
            assert within(2, lambda asked=server: asked.counters().running == 0)
            counts = server.counters().as_dict()
            loose = ("peak_running", "work_after_cancel_us", "cancelled")  # of streams that both cut short
            said.append((dict(result.status), {k: v for k, v in counts.items() if k not in loose}))
    assert said[0] == said[1]


def test_keepalive_closes_idle_connections(within: Any) -> None:
    keepalive = gp.Keepalive(time=1, timeout=1, max_idle=0.5, permit_without_calls=True, tcp_idle=60)
    with gp.GoServer(keepalive=keepalive) as server:

        def connections() -> int:
            ends = ".(*http2Server).keepalive"
            return sum(row["count"] for row in server.goroutine_profile() if row["function"].endswith(ends))

        run = gp.start(server, calls=2, concurrency=1, warmup=0, think_time=5.0)
        assert within(3, lambda: connections() == 1)
        assert within(3, lambda: connections() == 0)  # while its client thinks
        run.stop()
        run.result()


# --- what it says of itself


def test_memory_agrees_with_the_profiler_and_the_kernel() -> None:
    with gp.GoServer(env={"GODEBUG": "memprofilerate=1"}) as server, gp.hold(server, calls=500) as held:
        memory = server.memstats(settle=True)
        rows = server.heap_profile(top=10_000)
        assert sum(row["bytes"] for row in rows) == pytest.approx(memory.heap_alloc, rel=0.05)
        assert sum(row["objects"] for row in rows) == pytest.approx(memory.heap_objects, rel=0.05)
        assert rows == sorted(rows, key=lambda row: -row["bytes"])
        assert server.heap_profile(top=3) != []
        assert len(server.heap_profile(top=3)) == 3
        http2 = next(row for row in rows if row["function"].endswith(".(*http2Server).operateHeaders"))
        assert http2["package"] == "google.golang.org/grpc/internal/transport"
        assert http2["objects"] > 500
        profiled = sum(row["count"] for row in server.goroutine_profile())
        assert abs(profiled - memory.goroutines) <= 2
        assert held.running == memory.running == memory.streams == 500
        assert memory.sys > memory.heap_sys > memory.heap_alloc
        assert memory.mallocs - memory.frees == memory.heap_objects
        assert memory.num_gc >= 2
        assert 0 < memory.gc_cpu_fraction < 1
        status = Path(f"/proc/{server.pid}/status").read_text()
        rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024
        assert memory.rss == pytest.approx(rss, rel=0.2)
        assert memory.as_go()["HeapAlloc"] == memory.heap_alloc


def test_where_cpu_goes(go: Any) -> None:
    run = gp.start(go, concurrency=4, duration=5, warmup=0, metadata={"grpcperf-busy-us": 2000})
    try:
        rows = go.cpu_profile("400ms")
        with pytest.raises(gp.InvalidRequest, match="seconds"):
            go.cpu_profile(0)
    finally:
        run.stop()
        run.result()
    total = sum(row["flat_s"] for row in rows)
    burn = next(row for row in rows if row["function"] == "main.(*call).burn")
    assert 0.05 < total < 2
    assert total / 2 < burn["cum_s"] <= total + 1e-6


def test_runtime_settings_reach_the_runtime() -> None:
    with gp.GoServer(gomaxprocs=1, gogc="off", cpus=[0]) as server:
        variables = fetch(f"{server.reports}/debug/vars", 5)
        assert variables["runtime"]["/sched/gomaxprocs:threads"] == 1
        gp.load(server, calls=5000, warmup=0)
        assert server.memstats().num_gc == 0
        assert os.sched_getaffinity(server.pid) == {0}
        assert variables["grpcperf"]["running"] == 0


def test_a_sampler_sees_it_from_inside(go: Any, within: Any) -> None:
    with gp.Sampler(go, interval=0.02) as sampler, gp.hold(go, calls=30):
        assert within(10, lambda: any(row["running"] == 30 for row in sampler.rows()))
    inside = [row for row in sampler.rows() if row["running"] is not None]
    assert all(row["heap_alloc"] and row["goroutines"] >= 4 for row in inside)


def test_reading_it_leaves_nothing_behind(go: Any, within: Any) -> None:
    before = go.memstats(settle=True).goroutines
    for _ in range(20):
        go.counters()
        go.memstats()
    assert within(2, lambda: go.memstats().goroutines <= before)
    assert within(5, lambda: go.counters().running == 0)
    go.reset_peaks()
    assert go.counters().peak_running == 0


def test_calls_that_come_and_go_leave_nothing_behind(go: Any, within: Any) -> None:
    def cycles(count: int) -> gp.MemStats:
        for number in range(count):
            with gp.hold(go, calls=10, kind=KINDS[number % 5]) as held:
                held.cancel()
                assert held.wait(2)
        assert within(2, lambda: go.counters().running == go.counters().parked == 0)
        assert within(2, lambda: go.memstats().goroutines < 10)
        return go.memstats(settle=True)

    before, after = cycles(5), cycles(25)
    assert after.heap_alloc - before.heap_alloc < 64 * 1024
    assert after.stack_inuse - before.stack_inuse < 128 * 1024


# --- its life


def test_it_ends_with_its_parent(python: Any, alive: Any, within: Any) -> None:
    done = python("import grpcperf as gp, os; s = gp.GoServer(); print(s.pid, flush=True); os._exit(1)")
    assert within(2, lambda: not alive(int(done.stdout)))


def test_death_is_told_with_its_reason(no_leftovers: None) -> None:
    with gp.GoServer() as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(gp.ServerDied, match=r"Go server at 127\.0\.0\.1:\d+ .*SIGKILL"):
            server.counters()
        with pytest.raises(gp.ServerDied):
            server.heap_profile()


def test_a_stopped_server_is_told_and_closes(within: Any, no_leftovers: None) -> None:
    with gp.GoServer() as server:
        os.kill(server.pid, signal.SIGSTOP)
        tasks = Path(f"/proc/{server.pid}/task")
        assert within(2, lambda: all(") T " in (each / "stat").read_text() for each in tasks.iterdir()))
        with pytest.raises(gp.EngineError, match="timed out"):
            server._ask("/counters", 0.2)
        began = time.monotonic()
    assert time.monotonic() - began < 2.5


# --- building it


@pytest.mark.parametrize(
    "version", ["abc", "9.9.9", "", "1.85", "1.85.0; rm", 1.85, None, "../1.85.0", "latest"]
)
def test_what_is_no_version_is_refused(version: Any) -> None:
    with pytest.raises(gp.InvalidRequest, match=r"version must be one of grpc-go, .*go list -m -versions"):
        gp.GoServer(version)
    with pytest.raises(gp.InvalidRequest, match="version"):
        gp.GoServer.build(version)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"gomaxprocs": 0}, "gomaxprocs"),
        ({"gogc": "many"}, "gogc"),
        ({"stream_workers": -1}, "stream_workers"),
        ({"max_concurrent_streams": 0}, "max_concurrent_streams"),
        ({"window": 1000}, "window"),
        ({"read_buffer": "a lot"}, "read_buffer"),
        ({"max_message": 0}, "max_message"),
        ({"limits": ["semaphore:0"]}, "Semaphore"),
        ({"keepalive": gp.Keepalive(time=0.5)}, "1 s or more"),
        ({"behaviour": {"sleep": 1}}, "sleep"),
        ({"tls": gp.TLS(verify=False)}, "cert"),
        ({"env": {"A": 1}}, "env"),
        ({"cpus": []}, "cpus"),
    ],
)
def test_nonsense_is_refused_by_name(arguments: Any, told: str, no_leftovers: None) -> None:
    with pytest.raises(gp.InvalidRequest, match=told):
        gp.GoServer(**arguments)


def test_without_go_it_is_said_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setattr("grpcperf.targets.go_build.shutil.which", lambda *_, **__: None)
    with pytest.raises(gp.EngineError, match=r"no `go` on the PATH: install Go") as caught:
        gp.GoServer()
    assert "\n" not in str(caught.value)


@pytest.fixture
def fresh(monkeypatch: Any, tmp_path: Path) -> Path:
    """Nothing of ours is built yet; Go's own cache stays."""
    monkeypatch.setenv("GOCACHE", os.environ.get("GOCACHE") or go_env("GOCACHE"))
    monkeypatch.setenv("GOMODCACHE", go_env("GOMODCACHE"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "grpcperf" / "go"


def go_env(name: str) -> str:
    from grpcperf.targets.go_build import _find_go

    return subprocess.check_output([_find_go(NEW), "env", name], text=True).strip()


def test_a_failing_build_is_shown_with_its_reason(fresh: Path, monkeypatch: Any) -> None:
    from grpcperf.targets import go_build

    whole = dict(go_build._source())
    broken = {**whole, "main.go": whole["main.go"] + b"\nfunc broken() int { return nowhere }\n"}
    monkeypatch.setattr(go_build, "_source", lambda program: iter(broken.items()))
    told = r"does not build with grpc-go .*main\.go:\d+:\d+: undefined: nowhere"
    with pytest.raises(gp.EngineError, match=told):
        gp.GoServer.build(NEW)
    assert os.listdir(fresh) == ["lock"]


def test_without_network_and_cache_that_is_said(fresh: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOFLAGS", "-modcacherw")  # so that the folder can be removed
    with pytest.raises(gp.EngineError, match=r"1\.77\.0 .*cannot be downloaded: .*GOPROXY=off"):
        gp.GoServer.build("1.77.0")


def test_two_that_build_at_once_get_one_executable(fresh: Path) -> None:
    command = [sys.executable, "-P", "-c", "import grpcperf as gp; print(gp.GoServer.build())"]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    said = {builder.communicate(timeout=100)[0].strip() for builder in builders}
    assert len(said) == 1
    assert sorted(os.listdir(fresh)) == sorted(["lock", Path(said.pop()).name])


@pytest.mark.parametrize("program", ["goserver", "goclient"])
def test_the_source_is_formatted_and_installed_whole(program: str) -> None:
    from grpcperf.targets import go_build

    source = SOURCE.with_name(program)
    installed = dict(go_build._source(program))
    assert installed == {path.name: path.read_bytes() for path in source.glob("*.go")}
    gofmt = Path(go_build._find_go(NEW)).resolve().with_name("gofmt")
    done = subprocess.run([gofmt, "-l", source], capture_output=True, text=True, check=True)
    assert done.stdout == ""
