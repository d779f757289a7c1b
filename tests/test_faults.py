"""Bad input and faults: a clear error, and nothing lost. A test for each row of what can go wrong."""

import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path

import pytest

import grpcperf as gp


@contextmanager
def listener(answer):
    """A port of our own on which `answer(connection)` runs for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    answer(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


# --- a wrong address is told before the load


def refused(address):
    begin = time.monotonic()
    with pytest.raises(gp.ConnectError) as caught:
        gp.load(address, concurrency=4, duration=5)
    assert time.monotonic() - begin < 6
    assert address in str(caught.value)
    with pytest.raises(gp.ConnectError), gp.hold(address, calls=3):
        pass
    return str(caught.value)


def test_an_unknown_host():
    assert "host" in refused("no-such-host.invalid:50051")


def test_a_refused_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    assert "refused" in refused(address)


def test_an_http_1_server():
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        assert "HTTP/1" in refused(f"127.0.0.1:{http.server_port}")
        http.shutdown()
        thread.join()


def test_a_tls_server(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *(
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-keyout",
                key,
                "-out",
                certificate,
            ),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])

    def answer(connection):
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    with listener(answer) as address:
        assert "TLS" in refused(address)


def test_a_server_that_says_nothing(monkeypatch):
    monkeypatch.setattr(import_module("grpcperf.load"), "PROBE_S", 0.5)
    with listener(lambda connection: connection.recv(65536) and time.sleep(2)) as address:
        assert refused(address)


def test_a_server_that_hangs_up():
    with listener(lambda connection: None) as address:
        assert refused(address)


def test_a_server_that_talks_nonsense():
    with listener(lambda connection: connection.sendall(b"\x00\x01\x02 not http at all" * 50)) as address:
        assert refused(address)


def test_the_shell_says_it_in_a_line(cli):
    done = cli("load", "127.0.0.1:1", "-d", "1s", "--json", code=1)
    assert done.stdout.startswith('{"error": "cannot reach 127.0.0.1:1')
    assert "127.0.0.1:1" in done.stderr
    assert "refused" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_in_use(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("serve", "--port", port, code=1)
        assert str(port) in done.stderr
        assert "in use" in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""


# --- nonsense


@pytest.mark.parametrize(
    "arguments",
    [
        {"connections": 0},
        {"connections": -1},
        {"concurrency": 0},
        {"concurrency": 2, "connections": 3},
        {"duration": float("nan")},
        {"duration": float("inf")},
        {"duration": 0},
        {"duration": -1},
        {"request_size": -1},
        {"response_size": "-1KiB"},
        {"calls": 0},
        {"warmup": -0.1},
        {"think_time": float("nan")},
        {"messages_per_stream": 0, "kind": "bidi"},
        {"deadline": "x"},
        {"kind": "call"},
        {"threads": 0},
    ],
)
def test_nonsense_numbers_name_the_argument_and_the_value(server, arguments):
    name, value = next(iter(arguments.items()))
    with pytest.raises(gp.InvalidRequest) as caught:
        gp.load(server, **arguments)
    assert isinstance(caught.value, ValueError)
    assert name in str(caught.value)
    assert str(value) in str(caught.value)


# --- descriptors


def test_too_few_descriptors_are_told_before_the_start():
    script = f"ulimit -n 300; exec {sys.executable} -P -m grpcperf load --connections 400 -d 1s --json"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stdout.startswith('{"error": ')
    assert "400 connections" in done.stderr
    assert "300 are available" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_servers_limit_counts_too():
    with gp.Server() as server:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (100, 100))
        for call in (gp.load, lambda *args, **more: gp.hold(*args, **more).__enter__()):
            with pytest.raises(
                gp.EngineError, match=rf"200 connections.*pid {server.pid}.*100 are available"
            ):
                call(server, calls=200, connections=200)
        assert gp.load(server, calls=100, connections=10, warmup=0).errors == 0


def test_no_descriptor_at_all_is_too_few():
    with gp.Server() as server:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with pytest.raises(gp.EngineError, match=r"a connection needs .* descriptors"):
                gp.load(server, calls=1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_shell_raises_its_own_soft_limit():
    command = f"{sys.executable} -P -m grpcperf load --connections 250 -n 500 --warmup 0 --json"
    script = f"ulimit -S -n 200; exec {command}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


# --- death and interruption


def codes(result):
    return [finding.code for finding in result.findings]


def test_a_server_killed_under_load(within):
    with gp.Server() as server:
        run = gp.start(server, concurrency=8, duration=30, warmup=0.1)
        assert within(5, lambda: run.snapshot().calls > 100)
        os.kill(server.pid, signal.SIGKILL)
        begin = time.monotonic()
        result = run.result()
        assert time.monotonic() - begin < 1
    assert not result.valid
    assert "server_died" in codes(result)
    assert any("SIGKILL" in finding.message for finding in result.findings)
    assert result.calls == sum(result.status.values()) > 100
    assert result.status["OK"] > 100
    assert result.latency.count == result.status["OK"]


def test_a_foreign_server_that_dies_is_noticed_by_its_pid(within):
    with gp.Server() as server:
        run = gp.start(gp.Target(server.address, pid=server.pid), concurrency=2, duration=30, warmup=0)
        assert within(5, lambda: run.snapshot().calls > 10)
        os.kill(server.pid, signal.SIGKILL)
        begin = time.monotonic()
        result = run.result()
        assert time.monotonic() - begin < 1
        assert "server_died" in codes(result)


@pytest.mark.parametrize("rate", [None, 500])
def test_a_server_that_freezes_in_the_middle(within, rate):
    with gp.Server() as server:
        run = gp.start(server, duration=1.5, warmup=0.1, drain=0.2, **({"rate": rate} if rate else {}))
        assert within(5, lambda: run.snapshot().calls > 100)
        os.kill(server.pid, signal.SIGSTOP)
        result = run.result()
        os.kill(server.pid, signal.SIGCONT)
    assert "server_silent" in codes(result)
    assert not result.valid
    with pytest.warns(gp.InconclusiveWarning, match="server_silent"):
        result.check(max="<1m")


def test_a_server_that_pauses(within):
    with gp.Server() as server:
        run = gp.start(server, concurrency=8, duration=1.5, warmup=0.1)
        assert within(5, lambda: run.snapshot().calls > 100)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(0.6)
        os.kill(server.pid, signal.SIGCONT)
        result = run.result()
    (stall,) = (finding for finding in result.findings if finding.code == "server_stalled")
    assert 0.2 < stall.measured < 0.9
    assert result.valid


def test_calls_that_all_end_after_the_window(server):
    result = gp.load(
        server, concurrency=4, duration=0.3, warmup=0, drain=5, metadata={"grpcperf-delay-us": "600000"}
    )
    assert result.status == {"OK": 4}
    assert "few_finished" in codes(result)
    assert not result.valid


def test_a_server_killed_during_warm_up():
    with gp.Server() as server:
        run = gp.start(server, concurrency=2, duration=1, warmup=30)
        time.sleep(0.3)
        os.kill(server.pid, signal.SIGKILL)
        begin = time.monotonic()
        result = run.result()
        assert time.monotonic() - begin < 1
    assert not result.valid
    assert "server_died" in codes(result)
    assert result.calls == sum(result.status.values()) == 0


def test_the_shell_with_a_server_killed_under_load(cli, children, within):
    process = cli.start("load", "-c", 4, "-d", "30s", "--warmup", "100ms", "--json")
    assert within(5, lambda: children(process.pid))
    time.sleep(1.5)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=5)
    assert process.returncode == 1
    assert '"server_died"' in out
    assert "SIGKILL" in err


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_ctrl_c_under_load(cli, children, alive, within, more):
    process = cli.start("load", "-c", 4, "-d", "30s", "--warmup", "100ms", *more)
    assert within(5, lambda: children(process.pid))
    time.sleep(1.5)
    kids = children(process.pid)
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - begin < 3
    assert "interrupted" in out
    assert "server_died" not in out
    assert err.splitlines() == ["grpcperf: interrupted"]
    assert all(within(2, lambda kid=kid: not alive(kid)) for kid in kids)


def test_ctrl_c_before_anything_was_measured(cli, children, alive, within):
    process = cli.start("load", "-c", 4, "-d", "30s", "--warmup", "30s", "--json")
    assert within(5, lambda: children(process.pid))
    time.sleep(1.0)
    kids = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert '"calls": 0' in out
    assert all(within(2, lambda kid=kid: not alive(kid)) for kid in kids)


def test_a_second_ctrl_c_leaves_no_mess(cli, children, alive, within):
    process = cli.start(
        "load", "-c", 4, "-d", "30s", "--warmup", "100ms", "--metadata", "grpcperf-hold=1", "--json"
    )
    assert within(5, lambda: children(process.pid))
    time.sleep(1.0)
    kids = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert all(within(3, lambda kid=kid: not alive(kid)) for kid in kids)


def test_ctrl_c_while_calls_are_held(cli, children, alive, within):
    process = cli.start("hold", "--calls", 500, "--for", "60s", "--json")
    assert within(5, lambda: children(process.pid))
    time.sleep(2.0)
    kids = children(process.pid)
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - begin < 4
    assert '"running": 500' in out
    assert '"interrupted": true' in out
    assert '"heap_alloc"' in out
    assert all(within(2, lambda kid=kid: not alive(kid)) for kid in kids)


def interrupt_after(seconds):
    """As a notebook's interrupt does: a signal to this process alone."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_an_interrupt_in_python_carries_the_result(server):
    timer = interrupt_after(0.6)
    begin = time.monotonic()
    with pytest.raises(gp.Interrupted) as caught:
        gp.load(server, concurrency=4, duration=30, warmup=0.1)
    assert time.monotonic() - begin < 2
    timer.join()
    result = caught.value.result
    assert isinstance(caught.value, KeyboardInterrupt)
    assert result.calls == sum(result.status.values()) > 0
    assert "interrupted" in codes(result)
    assert not result.valid
    assert 0 < result.window_s < 2
    assert gp.load(server, concurrency=2, calls=10, warmup=0).errors == 0


def test_an_interrupt_while_calls_are_opened():
    with gp.Server(max_concurrent_streams=None) as server:
        os.kill(server.pid, signal.SIGSTOP)
        timer = interrupt_after(0.5)
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt), gp.hold(server, calls=10):
            pass
        assert time.monotonic() - begin < 5
        timer.join()
        os.kill(server.pid, signal.SIGCONT)
        assert server.counters().running == 0


def test_an_interrupt_inside_the_block_is_the_users(server, within):
    held = None

    def block():
        nonlocal held
        with gp.hold(server, calls=20) as held:
            time.sleep(30)

    timer = interrupt_after(0.5)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        block()
    assert time.monotonic() - begin < 4
    timer.join()
    assert held.status == {"CANCELLED": 20}
    assert within(2, lambda: server.counters().running == 0)


# --- parents, threads, forks


def test_the_server_is_gone_when_its_parent_is_killed(alive, within):
    code = "import grpcperf as gp, time; s = gp.Server(); print(s.pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.communicate()
    assert within(1, lambda: not alive(pid))


def test_a_forked_child_does_not_keep_the_server_alive(alive, within):
    """It has copies of the parent's descriptors, among them the one whose end tells the server to leave."""
    code = """
        import os, time, grpcperf as gp
        server = gp.Server()
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        print(server.pid, pid, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    server, forked = map(int, parent.stdout.readline().split())
    try:
        parent.kill()
        parent.wait()
        assert within(1, lambda: not alive(server))
        assert alive(forked)
    finally:
        os.kill(forked, signal.SIGKILL)
        parent.stdout.close()


def test_a_server_outlives_the_thread_that_made_it(alive):
    made = []
    thread = threading.Thread(target=lambda: made.append(gp.Server()))
    thread.start()
    thread.join()
    time.sleep(0.3)
    with made[0] as server:
        assert alive(server.pid)
        assert gp.load(server, concurrency=2, calls=50, warmup=0).errors == 0


def test_two_servers_and_two_loads_at_once():
    with gp.Server() as a, gp.Server("thread") as b:
        runs = [gp.start(server, concurrency=4, duration=0.5, warmup=0.1) for server in (a, b, a)]
        results = [run.result() for run in runs]
    assert all(result.errors == 0 and result.calls > 50 for result in results)


def test_loads_from_several_threads(server):
    results = []

    def work():
        results.append(gp.load(server, concurrency=2, calls=100, warmup=0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.calls for result in results] == [100] * 4


def test_a_forked_child_gets_an_error_and_does_no_harm(python):
    code = """
        import os, threading, time, grpcperf as gp

        def attempts(server):
            yield run.result
            yield run.snapshot
            yield lambda: gp.load(server, concurrency=1, calls=5)
            yield lambda: gp.load(server.address, concurrency=1, calls=5)
            yield lambda: gp.hold(server, calls=1).__enter__()
            yield lambda: gp.Server()
            yield server.counters
            yield server.memstats

        with gp.Server() as server:
            gp.load(server, concurrency=2, calls=10, warmup=0)
            run = gp.start(server, concurrency=2, duration=1.5, warmup=0)
            held = gp.hold(server, calls=3).__enter__()
            threading.Thread(target=run.result).start()
            time.sleep(0.3)  # it now waits in result()
            pid = os.fork()
            if pid == 0:
                wrong = 0
                for attempt in attempts(server):
                    try:
                        attempt()
                        wrong += 1
                    except gp.EngineError:
                        pass
                repr(server)
                repr(run)
                wrong += "of the parent process" not in repr(held)
                server.close()
                del run
                os._exit(wrong)
            print(os.waitpid(pid, 0)[1], run.result().errors, gp.load(server, calls=10, warmup=0).calls)
    """
    done = python(textwrap.dedent(code), timeout=30)
    assert done.stderr == ""
    assert done.stdout.split() == ["0", "0", "10"]


def test_a_forked_child_that_exits_the_normal_way_leaves_the_server(python):
    code = """
        import os, sys, grpcperf as gp
        server = gp.Server()
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        print(os.waitpid(pid, 0)[1], server.counters().running)
    """
    done = python(textwrap.dedent(code), timeout=30)
    assert (done.stdout.split(), done.stderr) == (["0", "0"], "")


def test_a_process_forked_before_the_engine_was_used_may_use_it(python):
    code = """
        import os, grpcperf as gp
        pid = os.fork()
        if pid == 0:
            with gp.Server() as server:
                os._exit(gp.load(server, concurrency=1, calls=5, warmup=0).errors)
        print(os.waitpid(pid, 0)[1])
    """
    done = python(textwrap.dedent(code), timeout=30)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


# --- closing


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_closed_server_keeps_no_descriptor(within):
    with gp.Server() as first:
        gp.load(first, calls=10, warmup=0)  # what a library opens once and keeps
    before = open_descriptors()
    server = gp.Server()
    assert open_descriptors() > before
    os.kill(server.pid, signal.SIGKILL)
    assert within(5, server.death)
    server.close()
    assert open_descriptors() == before
    assert server.death() == "killed by SIGKILL"
    server.close()


def test_a_server_closed_under_a_load_and_an_answer_waited_for(within):
    before = open_descriptors()
    server, told = gp.Server(), []
    run = gp.start(server, concurrency=2, duration=30, warmup=0)
    assert within(5, lambda: run.snapshot().calls > 10)
    os.kill(server.pid, signal.SIGSTOP)
    stopped = "\nState:\tT"
    assert within(5, lambda: stopped in Path(f"/proc/{server.pid}/status").read_text())

    def ask():
        try:
            server.memstats()
        except gp.Error as error:
            told.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.2)
    server.close()
    thread.join(5)
    assert len(told) == 1
    assert "server_died" in codes(run.result())
    run = None
    assert within(5, lambda: open_descriptors() == before)


# --- large messages


def test_a_reply_above_4_mib_works_or_is_an_honest_status(server):
    result = gp.load(server, concurrency=1, calls=3, warmup=0, response_size="5MiB")
    assert result.calls == 3
    if result.errors:
        assert result.status == {"RESOURCE_EXHAUSTED": 3}
    else:
        assert result.latency.min > 0


def test_a_request_above_4_mib_works_or_is_an_honest_status(server):
    result = gp.load(server, concurrency=1, calls=3, warmup=0, request_size="5MiB")
    assert result.calls == 3
    assert result.status in ({"OK": 3}, {"RESOURCE_EXHAUSTED": 3})
    assert Path(f"/proc/{server.pid}").exists()
