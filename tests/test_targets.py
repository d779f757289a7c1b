"""Targets: the native server's life in a child process, what it says of itself, and foreign servers."""

import gc
import os
import signal
import time
import warnings
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import grpcperf as gp
from grpcperf.targets.models import parse_model
from grpcperf.targets.target import as_target, host_of

pytestmark = pytest.mark.usefixtures("no_leftovers")


# --- models


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (gp.Async(), "async"),
        (gp.Async(threads=2), "async:2"),
        (gp.ThreadPerCall(), "thread"),
        (gp.ThreadPerCall(stack=65536), "thread:65536"),
        (gp.StreamWorkers(8), "stream-workers:8"),
        (gp.StreamWorkers(0), "stream-workers:0"),
        (gp.Pool(100), "pool:100:1000"),
        (gp.Pool(2, queue=0), "pool:2:0"),
    ],
)
def test_models_and_their_text_are_the_same(model, text):
    assert str(model) == text
    assert parse_model(text) == model == parse_model(model)
    assert hash(parse_model(text)) == hash(model)


def test_a_stack_may_be_given_as_a_size():
    assert gp.ThreadPerCall(stack="64KiB") == gp.ThreadPerCall(stack=65536) == parse_model("thread:64KiB")


@pytest.mark.parametrize(
    "text",
    [
        *("", "asink", "async:", "async:0", "async:x", "async:1025", "thread:1", "thread:-5", "thread:9GiB"),
        *("stream-workers", "stream-workers:", "stream-workers:-1", "stream-workers:8:8", "pool", "pool:0"),
        *("pool:10001", "pool:1:-1", "pool:1:x", "pool:1:2:3", "pool:1:"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(text):
    with pytest.raises(gp.InvalidRequest):
        parse_model(text)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "many", True, float("nan")])
def test_async_threads_have_bounds(threads):
    with pytest.raises(gp.InvalidRequest, match="Async threads"):
        gp.Async(threads=threads)


# --- the native server


def test_a_server_tells_its_memory(server):
    memory = server.memstats()
    assert memory.heap_alloc > 10_000
    assert memory.heap_sys >= memory.heap_alloc
    assert memory.rss > 1 << 20
    assert memory.sys > memory.heap_sys
    assert memory.threads >= 2
    assert memory.fds > 3
    assert 2 <= memory.tasks <= memory.threads
    assert memory.num_gc is None
    assert memory.mallocs is None
    assert server.memstats(settle=True).settled


def test_a_reading_of_memory_takes_under_5_ms(server):
    def reading():
        begin = time.perf_counter()
        server.memstats()
        return time.perf_counter() - begin

    assert min(reading() for _ in range(10)) < 0.005


def test_counters_count_calls_and_are_frozen():
    with gp.Server() as server:
        assert server.counters() == gp.Counters(**dict.fromkeys(server.counters().as_dict(), 0))
        gp.load(server, concurrency=2, calls=50, warmup=0)
        counters = server.counters()
        assert counters.started == counters.finished == 50
        assert 1 <= counters.peak_running <= 4
        assert counters.running == counters.parked == counters.queued == counters.cancelled == 0
        with pytest.raises(FrozenInstanceError):
            counters.running = 1
        server.reset_peaks()
        assert server.counters().peak_running == 0


def test_a_server_is_in_a_process_group_of_its_own(server):
    """So that Ctrl-C in a terminal reaches the parent alone."""
    assert os.getpgid(server.pid) == server.pid != os.getpgid(0)


def test_a_server_shows_itself(server):
    assert f"127.0.0.1:{server.address.rpartition(':')[2]}" == server.address
    assert str(server.pid) in repr(server)
    assert server.address in repr(server)
    assert server.address in server._repr_html_()
    assert "<table>" in server._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_concurrent_streams": 0}, "max_concurrent_streams"),
        ({"max_concurrent_streams": 2.5}, "max_concurrent_streams"),
        ({"channel_args": {"grpc.x": 1.5}}, "channel_args"),
        ({"channel_args": ["grpc.x"]}, "channel_args"),
        ({"behaviour": {"delay-ms": 5}}, "delay-us"),
        ({"behaviour": {"delay-us": -5}}, "delay-us"),
        ({"behaviour": {"status": 17}}, "status"),
        ({"behaviour": "slow"}, "behaviour"),
        ({"cpus": "0-"}, "cpus"),
        ({"cpus": []}, "cpus"),
        ({"env": {"A=B": "x"}}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"env": "A=1"}, "env"),
        ({"env": {"A": "\ud800"}}, "encoding"),
        ({"channel_args": {"unchecked:grpc.x": "\ud800"}}, "surrogates"),
        ({"channel_args": 5}, "channel_args"),
        ({"behaviour": 0}, "behaviour"),
        ({"behaviour": {"delay-us": 1, "delay_us": 2}}, "twice"),
        ({"port": 65_536}, "port"),
        ({"port": -1}, "port"),
    ],
)
def test_nonsense_is_refused_by_name_before_anything_starts(arguments, named):
    with pytest.raises(gp.InvalidRequest, match=named):
        gp.Server(**arguments)


def test_cpus_and_env_reach_the_child():
    cpu = min(os.sched_getaffinity(0))
    with gp.Server(cpus=[cpu], env={"GRPCPERF_TEST_MARK": "räum"}) as server:
        assert os.sched_getaffinity(server.pid) == {cpu}
        with open(f"/proc/{server.pid}/environ", "rb") as file:
            assert "GRPCPERF_TEST_MARK=räum".encode() in file.read().split(b"\0")


def test_behaviour_is_of_every_call_unless_its_metadata_says_otherwise():
    with gp.Server(behaviour={"delay_us": 30_000}) as server:
        slow = gp.load(server, concurrency=1, calls=3, warmup=0)
        fast = gp.load(server, concurrency=1, calls=3, warmup=0, metadata={"grpcperf-delay-us": 0})
        assert slow.latency.min >= 0.030
        assert fast.latency.max < 0.030


def test_max_concurrent_streams_is_what_the_peer_announces():
    with gp.Server(max_concurrent_streams=7) as server:
        result = gp.load(server, concurrency=20, calls=100, warmup=0)
        assert result.settings["max_concurrent_streams"] == 7
        assert "server_stream_limit" in [finding.code for finding in result.findings]
        assert result.errors == 0


def test_a_thread_per_call_is_a_thread_per_call():
    with gp.Server(gp.ThreadPerCall(stack="64KiB")) as server:
        before = server.memstats()
        with gp.hold(server, calls=100):
            held = server.memstats()
        assert 100 <= held.threads - before.threads <= 104
        assert held.threadless == 0
        assert 4096 < (held.stack_inuse - before.stack_inuse) / 100 < 32_768
        assert 65_536 <= (held.stack_sys - before.stack_sys) / 100 < 200_000


# --- its end


def test_closing_is_idempotent_and_leaves_no_process(alive, within):
    server = gp.Server()
    begin = time.monotonic()
    server.close()
    assert time.monotonic() - begin < 2
    assert not alive(server.pid)
    server.close()
    assert "closed" in repr(server)
    for use in (server.counters, server.memstats, server.release, server.reset_peaks):
        with pytest.raises(gp.InvalidRequest, match="closed"):
            use()
    with pytest.raises(gp.InvalidRequest, match="closed"):
        gp.load(server, calls=1)


def test_with_only_closes(alive):
    server = gp.Server()
    with server as same:
        assert same is server
        assert alive(server.pid)
    assert not alive(server.pid)


def test_closing_a_stopped_server_takes_at_most_two_seconds(alive):
    server = gp.Server()
    os.kill(server.pid, signal.SIGSTOP)
    begin = time.monotonic()
    server.close()
    assert time.monotonic() - begin < 2.2
    assert not alive(server.pid)


def test_a_stopped_server_that_is_asked_says_so_soon(within):
    with gp.Server() as server:
        os.kill(server.pid, signal.SIGSTOP)
        assert within(2, lambda: "\nState:\tT" in Path(f"/proc/{server.pid}/status").read_text())
        begin = time.monotonic()
        with pytest.raises(gp.EngineError, match=r"does not answer: it is stopped .*gp.Target"):
            server.memstats()
        assert time.monotonic() - begin < 5
        assert gp.Target(server.address, pid=server.pid).memstats().rss > 0
        os.kill(server.pid, signal.SIGCONT)
        assert server.memstats().rss > 0
        assert server.counters().running == 0


def test_cpus_that_are_not_there_are_refused():
    for make in (gp.Server, lambda **how: gp.Process(["true"], **how)):
        with pytest.raises(gp.InvalidRequest, match=r"cpus: this machine has .*, not 4000"):
            make(cpus=[0, 4000])


def test_a_dead_server_says_how_it_died_and_closes_quietly(within):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gp.Server() as server:
            assert server.death() is None
            os.kill(server.pid, signal.SIGKILL)
            assert within(2, server.death)
            assert "SIGKILL" in server.death()
            assert "SIGKILL" in repr(server)
            for use in (server.counters, server.memstats, server.release, server.reset_peaks):
                with pytest.raises(gp.ServerDied, match="SIGKILL"):
                    use()
            with pytest.raises(gp.ServerDied, match="SIGKILL"):
                gp.load(server, calls=1)
            with pytest.raises(gp.ServerDied, match="SIGKILL"):
                gp.hold(server, calls=1).__enter__()


def test_a_dropped_server_closes_with_a_warning(alive, within):
    server = gp.Server()
    pid = server.pid
    with pytest.warns(ResourceWarning, match=str(pid)):  # noqa: PT031
        del server
        gc.collect()
    assert within(2, lambda: not alive(pid))


def test_an_open_server_at_the_interpreters_end_is_closed_without_a_word(python, alive, within):
    done = python("import grpcperf as gp; s = gp.Server(); print(s.pid)")
    assert done.returncode == 0
    assert done.stderr == ""
    assert within(2, lambda: not alive(int(done.stdout)))


def test_a_server_that_cannot_start_says_why(children):
    with gp.Server() as first:
        port = int(first.address.rpartition(":")[2])
        before = children(os.getpid())
        with pytest.raises(gp.EngineError, match=rf"did not start.*{port}"):
            gp.Server(port=port)
        assert children(os.getpid()) == before


def test_a_server_that_does_not_understand_its_arguments_says_which():
    """Its usage, which comes after that, is no reason."""
    with pytest.raises(
        gp.EngineError, match=r"did not start: grpcperf-server: --channel-arg: .*95 characters"
    ):
        gp.Server(channel_args={"unchecked:" + "x" * 96: 1})


def test_a_port_can_be_chosen():
    with gp.Server() as probe:
        port = int(probe.address.rpartition(":")[2])
    with gp.Server(port=port) as server:
        assert server.address == f"127.0.0.1:{port}"


# --- foreign targets


@pytest.mark.parametrize(
    "address", ["127.0.0.1:50051", "[::1]:1", "host.example:65535", "unix:/tmp/x", " a:1 "]
)
def test_addresses(address):
    assert gp.Target(address).address == address.strip()
    assert as_target(address).pid is None


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":1",
        "host:0",
        "host:65536",
        "host:port",
        "::1:80",
        "http://localhost:80",
        "unix:",
        "a\0b:80",
        "a\nb:80",
        "unix:/tmp/a\0b",
        "\udcff:80",
        None,
        5,
        b"a:1",
    ],
)
def test_addresses_that_are_none(address):
    with pytest.raises(gp.InvalidRequest):
        as_target(address)


def test_a_foreign_process_is_seen_from_outside(server):
    with gp.Target(server.address, pid=server.pid) as target:
        memory = target.memstats()
        assert memory.rss > 1 << 20
        assert memory.sys > 1 << 20
        assert memory.threads == server.memstats().threads
        assert memory.heap_alloc is None
        with pytest.raises(gp.InvalidRequest, match="started by grpcperf"):
            target.counters()
        with pytest.raises(gp.InvalidRequest, match="cancel"):
            target.release()
        result = gp.load(target, concurrency=2, duration=0.3, warmup=0.1)
        assert result.errors == 0
        assert result.server_cpu_us_per_call > 0


def test_without_a_pid_there_is_no_memory(server):
    with pytest.raises(gp.InvalidRequest, match="pid="):
        gp.Target(server.address).memstats()
    assert gp.load(server.address, concurrency=2, calls=20, warmup=0).server_cpu_us_per_call is None


@pytest.mark.parametrize(
    "authority", ["", " ", "a b", "a\r\nx: y", "a\0b", "h\u00fclle", "\udcff", "x" * 600, 5]
)
def test_an_authority_that_is_none(authority):
    with pytest.raises(gp.InvalidRequest, match="authority must be"):
        gp.Target("127.0.0.1:1", authority=authority)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, "x"])
def test_a_pid_that_is_none(pid):
    with pytest.raises(gp.InvalidRequest, match="pid"):
        gp.Target("127.0.0.1:1", pid=pid)


def test_a_pid_of_no_process():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(gp.InvalidRequest, match="no such process"):
        gp.Target("127.0.0.1:1", pid=child)


# --- where servers listen


@pytest.mark.parametrize("listen", ["::1", "[::1]", "localhost", "0.0.0.0", "::"])
def test_a_server_listens_where_it_is_told(listen):
    with gp.Server(listen=listen) as server:
        host = {"0.0.0.0": "127.0.0.1", "localhost": "localhost"}.get(listen, "[::1]")
        assert server.address.startswith(host + ":")
        assert gp.load(server, concurrency=2, calls=50, warmup=0).errors == 0
        with gp.hold(server, calls=5) as held:
            assert held.running == 5


def test_a_server_on_a_unix_socket_takes_its_path_along(tmp_path):
    path = tmp_path / "s.sock"
    with gp.Server(listen=f"unix:{path}") as server:
        assert server.address == f"unix:{path}"
        assert path.is_socket()
        assert str(path) in repr(server)
        assert gp.load(server, concurrency=2, calls=50, warmup=0).errors == 0
        assert gp.load(f"unix:{path}", concurrency=2, calls=50, warmup=0).errors == 0
        with gp.hold(server, calls=5) as held:
            assert held.running == 5
    assert not path.exists()


def test_closing_late_leaves_a_later_servers_socket_alone(tmp_path):
    listen = f"unix:{tmp_path}/s.sock"
    with gp.Server(listen=listen) as first:
        os.kill(first.pid, signal.SIGKILL)
        while first.death() is None:
            time.sleep(0.01)
        with gp.Server(listen=listen) as second:
            first.close()
            first.close()
            assert gp.load(second, concurrency=2, calls=10, warmup=0).errors == 0


def test_a_server_whose_socket_vanished_is_closed(tmp_path, monkeypatch, children):
    running = children(os.getpid())
    path = tmp_path / "s.sock"
    spawn = gp.Server._spawn

    def spawn_and_remove(*arguments):
        ready = spawn(*arguments)
        path.unlink()
        return ready

    monkeypatch.setattr(gp.Server, "_spawn", spawn_and_remove)
    with pytest.raises(gp.EngineError, match="its socket is gone: No such file"):
        gp.Server(listen=f"unix:{path}")
    assert children(os.getpid()) == running


def test_a_path_that_is_taken_is_refused(tmp_path):
    path = tmp_path / "s.sock"
    with gp.Server(listen=f"unix:{path}") as server:
        with pytest.raises(gp.EngineError, match="in use"):
            gp.Server(listen=f"unix:{path}")
        assert gp.load(server, concurrency=2, calls=50, warmup=0).errors == 0


@pytest.mark.parametrize("listen", ["", "host:80", "unix:", "unix:relative", "1.2.3.4/8", 5, None, "::1]:5"])
def test_where_none_can_listen(listen):
    with pytest.raises(gp.InvalidRequest, match="listen"):
        gp.Server(listen=listen)


def test_a_unix_socket_has_no_port(tmp_path):
    with pytest.raises(gp.InvalidRequest, match="port"):
        gp.Server(listen=f"unix:{tmp_path}/s", port=5000)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        *(("a.b:80", "a.b"), ("a.b", "a.b"), ("1.2.3.4:5", "1.2.3.4")),
        *(("[::1]:80", "::1"), ("[::1]", "::1"), ("::1", "::1")),
    ],
)
def test_the_host_of_an_authority(address, host):
    assert host_of(address) == host


def test_closing_a_foreign_target_leaves_the_server_alone(server, alive):
    gp.Target(server.address, pid=server.pid).close()
    assert alive(server.pid)
