"""gp.Process: any command as a target, and commands that misbehave."""

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import grpcperf as gp
from grpcperf.targets.child import executable
from grpcperf.targets.health import check_health
from grpcperf.targets.ports import Ports, can_connect, free_port

HERE = "127.0.0.1:{port}"
SERVER = [str(executable("grpcperf-server")), "--listen", HERE]

# A daemon by the book: it leaves the process group, the session and its parent, and says who it is.
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(1000)
    os._exit(0)
"""

HEALTH = """
import sys, time
from concurrent import futures
import grpc

class Health(grpc.GenericRpcHandler):
    asked = 0
    def service(self, call):
        if call.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(self.check)
    def check(self, request, context):
        self.asked += 1
        print("asked", self.asked, flush=True)
        return b"\\x08\\x01" if self.asked >= int(sys.argv[2]) else b"\\x08\\x02"

server = grpc.server(futures.ThreadPoolExecutor(2))
server.add_generic_rpc_handlers((Health(),))
address = "127.0.0.1:" + sys.argv[1]
if len(sys.argv) > 3:
    key, cert = (open(path, "rb").read() for path in sys.argv[3:5])
    server.add_secure_port(address, grpc.ssl_server_credentials([(key, cert)]))
else:
    server.add_insecure_port(address)
server.start()
time.sleep(1000)
"""


def shell(script, **arguments):
    return gp.Process(["sh", "-c", script], **arguments)


def pid_said(process, within):
    assert within(10, lambda: process.stdout.endswith("\n")), (process.stdout, process.stderr)
    return int(process.stdout)


# --- as a target


def test_a_foreign_server_is_measured_as_one_of_ours_is(within):
    with gp.Process(SERVER, ready=HERE) as process:
        assert within(5, lambda: process.address in process.stdout)
        result = gp.load(process, concurrency=8, duration=0.3, warmup=0.1)
        assert result.errors == 0
        assert result.calls > 100
        assert result.server_cpu_us_per_call > 0
        memory = process.memstats()
        assert memory.rss > memory.rss_anon > 1 << 20
        assert memory.sys > memory.rss_anon
        assert memory.context_switches > 10
        assert memory.threads == memory.tasks > 1
        assert memory.fds > 3
        assert memory.socket_bytes is not None
        assert memory.heap_alloc is memory.mallocs is None
        assert Path(f"/proc/{process.pid}/comm").read_text().startswith("grpcperf-server")
        for request in (process.counters, process.release):
            with pytest.raises(gp.InvalidRequest, match="only servers of grpcperf"):
                request()
        assert repr(process) == f"<Process at {process.address} pid {process.pid}>"
        assert process.address in process._repr_html_()


def test_its_death_ends_a_load_and_is_told(within):
    with gp.Process(SERVER, ready=HERE) as process:
        run = gp.start(process, concurrency=4, duration=30, warmup=0)
        assert within(5, lambda: run.snapshot().calls > 100)
        os.kill(process.pid, signal.SIGKILL)
        begin = time.monotonic()
        result = run.result()
        assert time.monotonic() - begin < 3
        assert "server_died" in [finding.code for finding in result.findings]
        assert process.death() == "killed by SIGKILL"
        with pytest.raises(gp.ServerDied, match=r"the command .*grpcperf-server.*died: killed by SIGKILL"):
            process.memstats()


def test_a_command_on_a_unix_socket(tmp_path):
    address = f"unix:{tmp_path}/socket"
    with gp.Process([*SERVER[:1], "--listen", address], ready=address) as process:
        assert process.address == address
        assert gp.load(process, calls=10, warmup=0).errors == 0
        with pytest.raises(gp.EngineError, match=r"something listens at unix:.* already"):
            gp.Process(["sleep", "100"], ready=address)


def test_one_without_an_address_is_measured_but_not_called(within):
    with gp.Process(["sleep", "100"]) as process:
        assert within(5, lambda: process.memstats().rss > 1 << 16)  # it has hardly begun when it is there
        with pytest.raises(gp.InvalidRequest, match="no ready="):
            gp.load(process)


# --- ports


def test_free_ports_are_put_in_everywhere_and_below_those_of_the_kernel():
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    script = "echo $0 $1 $PORT; exec sleep 100"
    with gp.Process(
        ["sh", "-c", script, "{port}", "a{port2}-{port}", "{other}"], env={"PORT": "{port2}"}
    ) as process:
        while not process.stdout.endswith("\n"):
            time.sleep(0.01)
        first, words, of_env = process.stdout.split()
    assert words == f"a{of_env}-{first}"
    assert first != of_env
    assert all(1024 < int(port) < low for port in (first, of_env))


def test_ports_in_use_are_not_chosen(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        busy, other, free = taken.getsockname()[1], free_port(), free_port()
        turns = iter([busy, other, free])
        monkeypatch.setattr("random.choice", lambda _: next(turns))
        assert free_port(taken=[other]) == free
    monkeypatch.undo()
    ports = Ports()
    assert ports.fill("{port}") == ports.fill("{port}") != ports.fill("{port2}")
    assert ports.fill("{porter} {port0} {PORT}") == "{porter} {port0} {PORT}"


def test_a_socket_that_meets_itself_is_no_server():
    """TCP connects a socket to itself when the kernel chooses the very port that is tried."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.connect(own.getsockname())
        assert own.getpeername() == own.getsockname()
    assert not can_connect(f"127.0.0.1:{free_port()}")


# --- what it is given


def test_environment_folder_and_cpus_reach_the_command(tmp_path, within):
    cpu = min(os.sched_getaffinity(0))
    with shell("echo $WORD; pwd; exec sleep 100", env={"WORD": "a b=c"}, cwd=tmp_path, cpus=[cpu]) as process:
        assert within(5, lambda: process.stdout.count("\n") == 2)
        assert process.stdout == f"a b=c\n{tmp_path}\n"
        assert os.sched_getaffinity(process.pid) == {cpu}
        assert os.environ.get("WORD") is None


def test_signals_and_descriptors_are_as_for_a_new_process(within):
    script = "ls /proc/self/fd | tr '\\n' ' '; grep -E 'Sig(Blk|Ign)' /proc/self/status; echo; exec sleep 100"
    with shell(script) as process:
        assert within(5, lambda: process.stdout.endswith("\n\n"))
        first, blocked, ignored = process.stdout.replace("SigBlk", "\nSigBlk", 1).split("\n")[:3]
        assert first.split() == ["0", "1", "2", "3"]  # 3 is ls's own
        assert int(blocked.split()[1], 16) == 0
        assert int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGINT - 1) == 0


# --- its output


def test_output_is_kept_while_it_runs_and_afterwards(within):
    script = "trap 'echo bye; exit 0' TERM; echo out; echo err >&2; while :; do sleep 0.05; done"
    with shell(script) as process:
        assert within(5, lambda: process.stdout == "out\n")
        assert within(5, lambda: process.stderr == "err\n")
    assert process.stdout == "out\nbye\n"  # SIGTERM comes first, and what is said then is heard
    assert process.stderr.startswith("err\n")
    process.close()
    assert process.stdout == "out\nbye\n"


def test_output_of_one_that_ended_by_itself(within):
    with shell("echo out; echo err >&2; exit 4") as process:
        assert within(5, process.death)
        assert (process.stdout, process.stderr, process.death()) == ("out\n", "err\n", "exited with code 4")


def test_megabytes_of_output_hold_nothing_up_and_are_not_kept(within):
    script = "head -c 60000000 /dev/zero | tr '\\0' x; head -c 9M /dev/zero >&2; echo; echo end; sleep 99"
    with shell(script) as process:
        assert within(20, lambda: process.stdout.endswith("end\n"))
        assert len(process.stdout) <= 65536
        assert len(process.stderr) <= 65536
        launcher = os.getpgid(process.pid)
        assert launcher != process.pid
        for descriptor in (1, 2):
            kept = os.stat(f"/proc/{launcher}/fd/{descriptor}")
            assert kept.st_blocks * 512 < 2 << 20
        assert gp.Target("127.0.0.1:1", pid=launcher).memstats().rss_anon < 4 << 20


def test_output_that_is_no_text_is_shown_all_the_same(within):
    with shell("printf 'a\\377\\0b\\n'; exec sleep 100") as process:
        assert within(5, lambda: process.stdout == "a\ufffd\0b\n")


# --- commands that misbehave


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("echo no such option >&2; exit 2", {}, "exited with code 2; its last words: no such option"),
        ("echo said on stdout; exit 1", {}, "exited with code 1; its last words: said on stdout"),
        ("exit 1", {}, "exited with code 1; it said nothing"),
        ("sleep 100 & exit 0", {}, "exited with code 0; a server is to stay in the foreground"),
        ("kill -SEGV $$", {}, "was killed by SIGSEGV"),
        (
            "echo waiting; exec sleep 100",
            {"timeout": "200ms"},
            r"nothing listens at 127.0.0.1:\d+ after 0.2 s; its last words: waiting",
        ),
    ],
)
def test_one_that_does_not_get_ready_says_why(script, arguments, message, children):
    before = children(os.getpid())
    begin = time.monotonic()
    with pytest.raises(gp.EngineError, match=message):
        shell(script, ready=HERE, **arguments)
    assert time.monotonic() - begin < 5
    assert children(os.getpid()) == before


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (["/nowhere/server"], {}, "cannot run /nowhere/server: No such file or directory"),
        (["no-such-command-anywhere"], {}, "cannot run no-such-command-anywhere: No such file"),
        (["/etc/passwd"], {}, "cannot run /etc/passwd: Permission denied"),
        (["/"], {}, "cannot run /: Permission denied"),
        (["true"], {"cwd": "/nowhere"}, "cannot run true in /nowhere: No such file or directory"),
    ],
)
def test_one_that_cannot_be_run_says_why(command, arguments, message, children):
    before = children(os.getpid())
    with pytest.raises(gp.EngineError, match=message):
        gp.Process(command, **arguments)
    assert children(os.getpid()) == before


@pytest.mark.parametrize(
    ("command", "arguments", "named"),
    [
        ("./server --port 1", {}, "command"),
        ([], {}, "command"),
        ([""], {}, "command"),
        ([1], {}, "command"),
        (["a\0b"], {}, "command"),
        (["\udfff"], {}, "encoding"),
        (["true"], {"ready": "nowhere"}, "address"),
        (["true"], {"ready": "grpc:"}, "address"),
        (["true"], {"ready": 80}, "ready"),
        (["true"], {"ready": "127.0.0.1:{prot}"}, r"ready=.*there is no {prot}; {port}, {port2}"),
        (["true"], {"timeout": -1}, "timeout"),
        (["true"], {"memstats": "go"}, "memstats"),
        (["true"], {"memstats": "expvar"}, "expvar"),
        (["true"], {"expvar": "http://127.0.0.1:1/"}, "expvar"),
        (["true"], {"memstats": "expvar", "expvar": "ftp://x"}, "expvar"),
        (["true"], {"memstats": "expvar", "expvar": "http://127.0.0.1:{ports}/"}, "there is no {ports}"),
        (["true"], {"memstats": "expvar", "expvar": "http://localhost:port/"}, "expvar"),
        (["true"], {"env": {"A": 1}}, "env"),
        (["true"], {"cpus": []}, "cpus"),
        (["true"], {"cwd": 5}, "cwd"),
        (["true"], {"cwd": ""}, "cwd"),
        (["true"], {"cwd": b"/"}, "cwd"),
        (["true"], {"tls": "yes"}, "tls"),
        (["true"], {"authority": "a b"}, "authority"),
    ],
)
def test_nonsense_is_refused_by_name(command, arguments, named):
    with pytest.raises(gp.InvalidRequest, match=named):
        gp.Process(command, **arguments)


# --- its end


@pytest.mark.parametrize("end", ["exit 7", "kill -TERM $$", "kill -40 $$"])
def test_it_is_told_how_it_ended(end, within):
    reason = {
        "exit 7": "exited with code 7",
        "kill -TERM $$": "killed by SIGTERM",
        "kill -40 $$": "killed by signal 40",
    }
    with shell(end) as process:
        assert within(5, process.death)
        assert process.death() == reason[end]
        with pytest.raises(gp.ServerDied, match=reason[end]):
            process.memstats()
    assert process.death() == reason[end]


def test_closing_ends_its_process_group_and_those_that_left_it(alive, within):
    with gp.Process([sys.executable, "-c", DAEMON + "time.sleep(1000)"]) as process:
        daemon = pid_said(process, within)
        assert os.getpgid(daemon) != os.getpgid(process.pid)
        assert alive(daemon)
        begin = time.monotonic()
    assert time.monotonic() - begin < 2
    assert not alive(process.pid)
    assert not alive(daemon)
    process.close()
    with pytest.raises(gp.InvalidRequest, match="cannot be used any more"):
        process.memstats()


def test_what_it_leaves_behind_ends_with_it(alive, within):
    with gp.Process([sys.executable, "-c", DAEMON + "time.sleep(0.3)"]) as process:
        daemon = pid_said(process, within)
        assert within(5, process.death)
        assert process.death() == "exited with code 0"
        assert not alive(daemon)


def test_one_that_will_not_go_is_killed(alive, within):
    with shell("trap '' TERM; echo deaf; while :; do sleep 0.05; done") as process:
        assert within(5, lambda: process.stdout)
        begin = time.monotonic()
    assert 0.5 < time.monotonic() - begin < 2
    assert process.death() == "killed by SIGKILL"
    assert not alive(process.pid)


@pytest.mark.parametrize("whole_group", [False, True])
def test_one_that_is_stopped_can_be_closed(whole_group, alive, within):
    with gp.Process([sys.executable, "-c", DAEMON + "time.sleep(1000)"]) as process:
        daemon = pid_said(process, within)
        if whole_group:
            os.killpg(os.getpgid(process.pid), signal.SIGSTOP)
        else:
            os.kill(process.pid, signal.SIGSTOP)
        os.kill(daemon, signal.SIGSTOP)
        assert process.memstats().rss > 1 << 20
        begin = time.monotonic()
    assert time.monotonic() - begin < 2
    assert not alive(process.pid)
    assert not alive(daemon)


def test_it_is_gone_with_its_parent_however_that_ends(python, alive, within):
    script = f"""
import os, signal, sys, time, grpcperf as gp
process = gp.Process([sys.executable, "-c", {DAEMON + "time.sleep(1000)"!r}])
while not process.stdout.endswith("\\n"):
    time.sleep(0.01)
print(process.pid, process.stdout, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = python(script)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2
    assert within(5, lambda: not any(alive(pid) for pid in pids))


def test_it_is_gone_with_its_launcher(alive, within):
    with gp.Process(["sleep", "1000"]) as process:
        os.kill(os.getpgid(process.pid), signal.SIGKILL)
        assert within(5, process.death)
        assert within(5, lambda: not alive(process.pid))
        assert process.death() == "killed by SIGKILL"


def test_a_dropped_one_is_closed_with_a_warning(alive):
    process = gp.Process(["sleep", "1000"])
    pid = process.pid
    with pytest.warns(ResourceWarning, match="dropped without close"):
        del process
    assert not alive(pid)


def test_a_forked_child_leaves_it_alone(alive):
    with gp.Process(["sleep", "1000"]) as process:
        child = os.fork()
        if child == 0:
            with warnings.catch_warnings(action="error"):
                try:
                    process.memstats()
                except gp.EngineError:
                    process.close()
                    os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert alive(process.pid)
        assert process.memstats().rss > 0


def test_many_come_and_go_without_a_trace(children):
    gp.Process(["true"]).close()
    before, running = len(os.listdir("/proc/self/fd")), children(os.getpid())
    for _ in range(10):
        gp.Process(["true"]).close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert children(os.getpid()) == running


# --- readiness by health


def health(times, **arguments):
    more = arguments.pop("more", [])
    command = [sys.executable, "-c", HEALTH, "{port}", str(times), *map(str, more)]
    return gp.Process(command, ready=f"grpc:{HERE}", **arguments)


def test_one_is_ready_when_it_says_so(within):
    with health(3) as process:
        assert within(5, lambda: process.stdout == "asked 1\nasked 2\nasked 3\n")
        assert process.address.startswith("127.0.0.1:")
        assert check_health(process.address, None, None, 5) == "SERVING"


def test_one_that_never_says_so_is_not_ready():
    with pytest.raises(gp.EngineError, match=r"with SERVING .* \(the last answer: NOT_SERVING\)"):
        health(1_000_000, timeout=3)


def test_one_without_the_service_is_not_ready():
    with pytest.raises(gp.EngineError, match=r"has it the service|does it have the service"):
        gp.Process(SERVER, ready=f"grpc:{HERE}", timeout=1)


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x09" + bytes(5)])
def test_a_frame_of_less_than_its_padding_is_no_http2(payload):
    padded = len(payload).to_bytes(3, "big") + b"\0\x08" + (1).to_bytes(4, "big") + payload  # DATA, stream 1
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection = listener.accept()[0]
            with connection:
                connection.sendall(padded)
                connection.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectionError, match="does not speak HTTP/2"):
            check_health(f"127.0.0.1:{listener.getsockname()[1]}", None, None, 5)
        thread.join()


def test_health_through_tls(tmp_path):
    made = gp.TLS.self_signed()
    (tmp_path / "key").write_text(made.key)
    (tmp_path / "cert").write_text(made.cert)
    files = [tmp_path / "key", tmp_path / "cert"]
    with health(2, more=files, tls=gp.TLS(ca=made.ca)) as process:
        assert check_health(process.address, None, gp.TLS(verify=False), 5) == "SERVING"
        with pytest.raises(OSError, match="certificate"):
            check_health(process.address, None, gp.TLS(), 5)


# --- memory from inside


class Variables(http.server.BaseHTTPRequestHandler):
    """What a Go program publishes; `answer` is (status, body)."""

    answer = (200, "{}")
    asked: list[str | None] = []  # noqa: RUF012

    def do_GET(self):
        self.asked.append(self.headers["Connection"])
        status, body = self.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def variables():
    with http.server.HTTPServer(("127.0.0.1", 0), Variables) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


GO = {
    "HeapAlloc": 11, "HeapSys": 12, "HeapIdle": 13, "StackInuse": 14, "StackSys": 15, "Sys": 16,
    "TotalAlloc": 17, "Mallocs": 18, "Frees": 19, "HeapObjects": 20, "NumGC": 21, "PauseTotalNs": 22,
    "GCCPUFraction": 0.5,
}  # fmt: skip


def test_what_a_go_program_publishes_is_in_its_memstats(variables):
    Variables.answer = (200, json.dumps({"cmdline": ["x"], "memstats": GO | {"BySize": []}, "goroutines": 5}))
    with gp.Process(["sleep", "100"], memstats="expvar", expvar=f"127.0.0.1:{variables}") as process:
        memory = process.memstats()
        assert memory.as_go() == GO
        assert (memory.goroutines, memory.tasks) == (5, 5)
        assert memory.rss > 0  # the rest is from outside
        assert Variables.asked[-1] == "close"  # or the reader would be memory of the program
        target = gp.Target("127.0.0.1:1", pid=process.pid, expvar=f"http://127.0.0.1:{variables}/debug/vars")
        assert target.memstats().as_go() == GO
        assert target.memstats().fds == process.memstats().fds
        with gp.Sampler(target, interval=0.02) as sampler:
            time.sleep(0.2)
        assert sampler.rows()[0]["heap_alloc"] == 11
        assert sampler.rows()[0]["tasks"] == 5
    afar = gp.Target("127.0.0.1:1", expvar=f"http://127.0.0.1:{variables}")
    assert afar.memstats().as_go() == GO
    assert afar.memstats().rss is None


def test_the_variables_of_a_real_go_program():
    with gp.GoServer() as go:
        target = gp.Target(go.address, pid=go.pid, expvar=f"{go.reports}/debug/vars")
        before = target.memstats()
        assert before.goroutines == before.tasks >= go.memstats().goroutines  # that which reads is one
        with gp.hold(go, calls=100):
            held = target.memstats()
        assert held.tasks >= before.tasks + 100
        assert held.stack_inuse > before.stack_inuse
        assert held.total_alloc > before.total_alloc > 0
        assert 0 <= held.gc_cpu_fraction < 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, "<html>"), "no JSON object"),
        ((200, "[]"), "no JSON object"),
        ((200, "{}"), "has no memstats"),
        ((200, '{"memstats": 1}'), "has no memstats"),
        ((404, "{}"), "answers 404"),
    ],
)
def test_variables_that_are_none(variables, answer, message):
    Variables.answer = answer
    with pytest.raises(gp.EngineError, match=message):
        gp.Target("127.0.0.1:1", expvar=f"http://127.0.0.1:{variables}").memstats()


def test_variables_that_cannot_be_reached():
    with pytest.raises(gp.EngineError, match=r"cannot read http://127\.0\.0\.1:1/debug/vars: .*refused"):
        gp.Target("127.0.0.1:1", expvar="127.0.0.1:1").memstats()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 20])
def test_variables_that_take_for_ever(said):
    """Nothing is said, or no end of it, or a byte now and then."""

    def answer(listener):
        with listener.accept()[0] as connection, contextlib.suppress(OSError):
            connection.sendall(said[:20])
            for byte in said[20:] + bytes(100) if said else b"":
                connection.sendall(bytes([byte]))
                time.sleep(0.02)
            while connection.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=[listener])
        thread.start()
        begin = time.monotonic()
        target = gp.Target("127.0.0.1:1", expvar=f"127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(gp.EngineError, match="timed out"):
            target.peek(0.3)
        assert time.monotonic() - begin < 2
        thread.join()


def test_what_is_odd_among_variables_is_left_out(variables):
    odd = GO | {"HeapAlloc": "much", "Sys": True, "NumGC": None}
    Variables.answer = (200, json.dumps({"memstats": odd, "goroutines": "five"}))
    memory = gp.Target("127.0.0.1:1", expvar=f"http://127.0.0.1:{variables}").memstats()
    assert memory.heap_alloc is memory.sys is memory.num_gc is memory.goroutines is None
    assert memory.frees == 19


def test_allocations_of_any_command_are_counted(within):
    held = "blocks = [bytes(100_000) for _ in range(50)]; print('held', flush=True); time.sleep(1000)"
    with gp.Process([sys.executable, "-c", f"import time; {held}"], memstats="preload") as process:
        assert within(10, lambda: process.stdout == "held\n")
        memory = process.memstats()
        assert 5_000_000 < memory.heap_alloc < 50_000_000
        assert memory.mallocs > memory.frees > 0
        assert memory.heap_objects == memory.mallocs - memory.frees
        assert memory.total_alloc > memory.heap_alloc
        assert memory.sys > memory.heap_alloc
        with gp.Sampler(process, interval=0.02) as sampler:
            time.sleep(0.1)
        assert sampler.rows()[0]["heap_alloc"] > 5_000_000


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_one_that_cannot_be_counted_is_refused(tmp_path):
    source = tmp_path / "bare.c"  # statically linked, without a C library
    source.write_text('void _start(void){for(;;)__asm__ volatile("pause");}\n')
    program = tmp_path / "bare"
    assert os.system(f"cc -nostdlib -static -o {program} {source}") == 0
    with pytest.raises(gp.EngineError, match=r'memstats="preload" of .*not counted'):
        gp.Process([program], memstats="preload")
