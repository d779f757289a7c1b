"""The command: what it prints, and how it exits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROW = {
    "transport",
    "kind",
    "method",
    "connections",
    "concurrency",
    "request_size",
    "response_size",
    "calls",
    "errors",
    "status",
    "not_sent",
    "throughput_rps",
    "mib_per_s",
    "latency_p50_us",
    "latency_p90_us",
    "latency_p99_us",
    "latency_p999_us",
    "latency_max_us",
    "service_time_p99_us",
    "offered_rate",
    "achieved_rate",
    "client_cpu_us_per_call",
    "server_cpu_us_per_call",
    "valid",
    "findings",
}


@pytest.fixture
def serve(cli):
    """A `grpcperf serve`, as (address, pid of the server, process of the command)."""
    started = []

    def start(*args):
        process = cli.start("serve", *args)
        started.append(process)
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"], process.stderr.read()
        assert words[3] == "pid"
        return words[2], int(words[4]), process

    yield start
    for process in started:
        process.kill()
        process.communicate()


# --- load


def test_load_without_a_target_starts_one(cli):
    row = cli.json("load", "-c", 4, "-d", "300ms", "--warmup", "50ms")
    assert set(row) >= ROW
    assert row["calls"] == sum(row["status"].values()) > 20
    assert row["errors"] == 0
    assert row["concurrency"] == 4
    assert row["server_cpu_us_per_call"] > 0


def test_load_for_people(cli):
    done = cli("load", "-c", 4, "-n", 200, "--warmup", 0)
    assert "calls/s" in done.stdout
    assert "p50" in done.stdout
    assert done.stderr == ""


def test_every_option_of_load_reaches_the_spec(cli, serve, tmp_path):
    request = tmp_path / "request.bin"
    request.write_bytes(b"\x10\x64")
    address, pid, _ = serve()
    row = cli.json(
        *(
            "load",
            address,
            "--pid",
            pid,
            "-c",
            6,
            "--connections",
            3,
            "--threads",
            2,
            "-n",
            120,
            "--warmup",
            "10ms",
        ),
        *("--drain", "500ms", "--kind", "bidi", "--method", "/grpc.testing.BenchmarkService/StreamingCall"),
        *("--request", request, "--messages-per-stream", 7, "--think-time", "1ms", "--deadline", "20s"),
        *("--transport", "core", "--metadata", "a=b", "--metadata", "c=d=e", "--seed", 7),
        *("--channel-arg", "grpc.max_receive_message_length=-1", "--cpus", min(os.sched_getaffinity(0))),
    )
    expected = {
        "kind": "bidi",
        "connections": 3,
        "connected": 3,
        "concurrency": 6,
        "threads": 2,
        "calls": 120,
        "errors": 0,
        "messages_per_stream": 7,
        "request_size": 2,
        "response_size": None,
    }
    assert {name: row[name] for name in expected} == expected
    row = cli.json("load", address, "-n", 10, "--warmup", 0, "--request-size", "1KiB", "--response-size", 5)
    assert (row["request_size"], row["response_size"]) == (1024, 5)


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--rate", "1000"], "rate", 1000.0),
        (["--rate", "1000", "--arrival", "uniform"], "arrival", "uniform"),
        (["--rate", "1000", "--max-in-flight", "7"], "max_in_flight", 7),
        (["--rate", "1000", "--catch-up", "full"], "catch_up", "full"),
        (["--think-time", "2ms"], "think_time", 0.002),
        (["--drain", "3s"], "drain", 3.0),
        (["--warmup", "0"], "warmup", 0.0),
        (["-d", "1m"], "duration", 60.0),
        (["-n", "5"], "calls", 5),
        (["-c", "9"], "concurrency", 9),
        (["--connections", "3"], "connections", 3),
        (["--connections", "3", "--threads", "2"], "threads", 2),
        (["--cpus", "0-1"], "cpus", (0, 1)),
        (["--seed", "9"], "seed", 9),
        (["--deadline", "1s"], "deadline", 1.0),
        (["--kind", "bidi", "--messages-per-stream", "4"], "messages_per_stream", 4),
        (["--request-size", "1KiB"], "request_size", 1024),
        (["--response-size", "5"], "response_size", 5),
        (["--compression", "gzip"], "compression", "gzip"),
        (["--window", "64KiB"], "window", 65536),
        (["--busy-poll"], "busy_poll", True),
        ([], "busy_poll", False),
        (["--pick", "least_loaded"], "pick", "least_loaded"),
        (["--calls-per-connection", "10"], "calls_per_connection", 10),
        ([], "transport", "wire"),
        (["--transport", "core"], "transport", "core"),
        (["--transport", "core", "--channel-arg", "unchecked:a=1"], "channel_args", {"unchecked:a": 1}),
        (["--metadata", "a=b"], "metadata", {"a": "b"}),
    ],
)
def test_options_of_load_are_arguments_of_the_spec(arguments, name, value):
    from grpcperf.arguments import parser
    from grpcperf.cli import _COMMANDS
    from grpcperf.cli_options import spec_of

    assert getattr(spec_of(parser(_COMMANDS).parse_args(["load", *arguments])), name) == value


def test_an_open_loop_with_all_there_is(cli):
    row = cli.json(
        *("load", "--rate", 2000, "-d", "500ms", "--arrival", "constant", "--max-in-flight", 50),
        *("--catch-up", "none", "--connections", 2, "--threads", 2, "--busy-poll", "--compression", "gzip"),
        *("--window", "1MiB", "--drain", "2s", "--deadline", "5s"),
    )
    assert row["calls"] + row["not_sent"] == pytest.approx(1000, abs=2)
    assert (row["arrival"], row["catch_up"], row["max_in_flight"]) == ("constant", "none", 50)
    assert row["transport"] == "wire"


@pytest.mark.parametrize(("severity", "strict", "code"), [("invalid", 3, 0), ("warning", 0, 0)])
def test_strict_turns_an_invalid_result_into_an_exit_code(monkeypatch, capsys, severity, strict, code):
    from dataclasses import replace

    import grpcperf as gp
    from grpcperf.cli import main

    def found(*args, **kwargs):
        finding = gp.Finding(code="send_lag", severity=severity, message="late", advice="sleep")
        return replace(really(*args, **kwargs), findings=(finding,))

    really = gp.load
    monkeypatch.setattr(sys.modules["grpcperf.load"], "load", found)
    arguments = ["load", "-n", "50", "--warmup", "0"]
    assert main([*arguments, "--strict"]) == strict
    assert main(arguments) == code
    assert main([*arguments, "--strict", "--check", "p50<1us"]) == 4  # which says more
    told = capsys.readouterr()
    assert "late" in told.out
    assert "not valid" not in told.err  # that it failed is beyond doubt
    assert main([*arguments, "--check", "errors==0"]) == 0
    assert ("not valid" in capsys.readouterr().err) is (severity == "invalid")


# --- TLS


@pytest.mark.parametrize("transport", ["wire", "core"])
def test_tls_from_end_to_end(cli, serve, transport):
    address, _, process = serve("--tls-self-signed")
    words = process.stdout.readline().split()
    ca = words[words.index("--cacert") + 1]
    base = ("load", address, "-n", 50, "--warmup", 0, "--transport", transport)
    assert "CERTIFICATE" in Path(ca).read_text()
    assert "PRIVATE" not in Path(ca).read_text()
    assert cli.json(*base, "--tls", "--cacert", ca)["errors"] == 0
    assert cli.json(*base, "--cacert", ca, "--server-name", "localhost")["errors"] == 0
    assert cli.json(*base, "--insecure")["errors"] == 0
    assert "not trusted" in cli(*base, "--tls", code=1).stderr
    assert "TLS" in cli(*base, code=1).stderr
    assert "not for" in cli(*base, "--cacert", ca, "--server-name", "other.test", code=1).stderr
    held = cli.json("hold", address, "--calls", 5, "--for", 0, "--cacert", ca, "--transport", transport)
    assert held["running"] == 5
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=10)
    assert not os.path.exists(ca)


def test_client_certificates(cli, serve, tmp_path):
    import grpcperf as gp

    made = gp.TLS.self_signed()
    names = {"ca": made.ca, "cert": made.cert, "key": made.key}
    paths = {name: tmp_path / name for name in names}
    for name, text in names.items():
        paths[name].write_text(text)
    address, _, _ = serve("--cert", paths["cert"], "--key", paths["key"], "--client-ca", paths["ca"])
    base = ("load", address, "-n", 50, "--warmup", 0, "--cacert", paths["ca"])
    assert cli.json(*base, "--cert", paths["cert"], "--key", paths["key"])["errors"] == 0
    cli(*base, code=1)
    assert "key" in cli(*base, "--cert", paths["cert"], code=2).stderr


def test_the_server_of_a_run_speaks_tls_too(cli):
    assert cli.json("load", "--tls", "-n", 50, "--warmup", 0)["errors"] == 0
    assert cli.json("hold", "--tls", "--calls", 5, "--for", 0)["running"] == 5


@pytest.mark.parametrize("model", ["async", "mirror"])
@pytest.mark.parametrize("listen", ["::1", "unix"])
def test_serve_elsewhere(cli, serve, tmp_path, model, listen):
    wanted = f"unix:{tmp_path}/s.sock" if listen == "unix" else listen
    address, _, _ = serve("--model", model, "--listen", wanted)
    assert address == wanted if listen == "unix" else address.startswith("[::1]:")
    assert cli.json("load", address, "-n", 50, "--warmup", 0)["errors"] == 0


def test_checks_decide_the_exit_code(cli):
    base = ("load", "-c", 2, "-d", "300ms", "--warmup", "50ms")
    cli(*base, "--check", "p99<10s", "--check", "errors==0")
    done = cli(*base, "--check", "p50<1us", "--json", code=4)
    assert json.loads(done.stdout)["calls"] > 0
    assert "p50" in done.stderr
    assert "1 µs" in done.stderr


def test_an_inconclusive_check_is_a_warning_and_under_strict_an_error(cli, serve):
    """The CPU of a server whose process is not told is not known."""
    address, _, _ = serve()
    base = ("load", address, "-n", 200, "--warmup", 0, "--check", "server_cpu_us_per_call<1000")
    assert "inconclusive" in cli(*base).stderr
    assert "inconclusive" in cli(*base, "--json").stderr
    cli(*base, "--strict", code=3)


def test_when_every_call_failed_it_failed(cli):
    base = ("load", "-c", 2, "-d", "200ms", "--warmup", 0, "--metadata", "grpcperf-status=14")
    done = cli(*base, "--json", code=1)
    assert json.loads(done.stdout)["status"] == {"UNAVAILABLE": json.loads(done.stdout)["calls"]}
    assert "UNAVAILABLE" in done.stderr
    cli(*base, "--check", "errors==0", code=4)  # a check that failed says more


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--connections", "0"], ["connections", "'0'", "1"]),
        (["-c", "-1"], ["concurrency", "-1"]),
        (["-c", "2", "--connections", "4"], ["concurrency", "connections (4)", "2"]),
        (["-d", "nan"], ["duration", "nan"]),
        (["-d", "-1s"], ["duration"]),
        (["-d", "soon"], ["duration", "soon"]),
        (["--request-size", "-5"], ["request_size", "-5"]),
        (["-n", "1.5"], ["calls", "1.5"]),
        (["--kind", "duplex"], ["kind", "duplex", "bidi"]),
        (["--deadline", "0"], ["deadline"]),
        (["--threads", "5"], ["threads", "5"]),
        (["--metadata", "novalue"], ["--metadata", "novalue"]),
        (["--metadata", "Bad Key=x"], ["metadata", "Bad Key"]),
        (["--channel-arg", "x"], ["--channel-arg", "x"]),
        (["--request", "/nowhere/at.all"], ["--request", "/nowhere/at.all"]),
        (["--check", "nonsense<1"], ["nonsense"]),
        (["--check", "p99<5apples"], ["p99", "5apples"]),
        (["--rate", "0"], ["rate", "calls per second"]),
        (["--rate", "100", "-c", "4"], ["concurrency contradicts rate"]),
        (["--arrival", "uniform"], ["arrival is of an open loop"]),
        (["--rate", "100", "--catch-up", "half"], ["catch_up", "'half'"]),
        (["--max-in-flight", "5"], ["max_in_flight is of an open loop"]),
        (["--rate", "100", "--think-time", "1ms"], ["think_time"]),
        (["--max-in-flight", "5"], ["max_in_flight"]),
        (["--catch-up", "full"], ["catch_up"]),
        (["--catch-up", "soon", "--rate", "100"], ["catch_up", "soon", "bounded"]),
        (["--compression", "zip"], ["compression", "zip", "gzip"]),
        (["--window", "0"], ["window"]),
        (["--busy-poll", "--transport", "core"], ["busy_poll", "wire"]),
        (["--window", "1MiB", "--transport", "core"], ["window", "wire"]),
        (["--channel-arg", "grpc.enable_retries=1"], ["channel_args", "core"]),
        (["--channel-arg", "grpc.x=1"], ["channel_args", "grpc.x", "unchecked:"]),
        (["--drain", "long"], ["drain", "long"]),
        # TLS
        (["localhost:1", "--insecure", "--cacert", "x"], ["--insecure", "--cacert"]),
        (["localhost:1", "--cacert", "/nowhere/ca.pem"], ["ca", "/nowhere/ca.pem", "No such file"]),
        (["localhost:1", "--cert", "/nowhere/c.pem"], ["cert", "/nowhere/c.pem"]),
        (["localhost:1", "--server-name", "a:1"], ["server_name", "a:1"]),
        (["--server-name", "x"], ["--server-name", "TARGET"]),
        (["--cacert", "x"], ["--cacert", "TARGET"]),
        (["--insecure"], ["--insecure", "TARGET"]),
        (["--authority", "x"], ["--authority", "TARGET"]),
        (["--pid", "1"], ["--pid"]),
        (["--nonsense"], ["--nonsense"]),
        (["-c"], ["-c"]),
        (["localhost"], ["localhost"]),
        (["localhost:0"], ["port", "0"]),
    ],
)
def test_usage_errors_are_one_line_that_names_what_is_wrong(cli, arguments, named):
    for json_option in ([], ["--json"]):
        done = cli("load", *arguments, *json_option, code=2)
        assert bool(done.stdout) is bool(json_option)
        assert done.stderr.count("\n") == 1
        assert all(word in done.stderr for word in named), done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["hold"], ["hold", "--calls", "0"], ["serve", "extra"]]
)
def test_commands_that_make_no_sense(cli, arguments):
    assert cli(*arguments, code=2).stderr.count("\n") == 1


def test_help_and_version(cli):
    import grpcperf

    assert "load" in cli("--help").stdout
    for command in ("serve", "load", "hold", "demo", "doctor"):
        assert "--" in cli(command, "--help").stdout
    assert cli("--version").stdout.split() == ["grpcperf", grpcperf.__version__]


def test_it_is_also_a_module(python):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "grpcperf", "--version"], capture_output=True, text=True
    )
    assert done.stdout.startswith("grpcperf ")
    assert done.returncode == 0


def test_a_reader_that_leaves_is_not_an_error_message(cli):
    command = f"{cli.command[0]} load -n 10 --warmup 0 --json | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30)
    assert done.stderr == ""


# --- serve


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("load -n 10 --warmup 0 --json >&-", 0, "", ""),
        ("load -n 10 --warmup 0 >/dev/full", 1, "", "No space left on device"),
        ("load -n 10 --warmup 0 --json >/dev/full", 1, "", "No space left on device"),
        ("load 127.0.0.1:1 --json >&-", 1, "", "127.0.0.1:1"),
        ("load 127.0.0.1:1 --json >/dev/full", 1, "", "127.0.0.1:1"),
        ("load 127.0.0.1:1 2>&-", 1, "", ""),
        ("load 127.0.0.1:1 2>/dev/full", 1, "", ""),
        ("load --nonsense 2>&-", 2, "", ""),
        ("load --nonsense 2>/dev/full", 2, "", ""),
        ("load --nonsense --json >/dev/full", 2, "", "--nonsense"),
        ("serve >/dev/full", 1, "", "No space left on device"),
        ("load --channel-arg unchecked:a=--5", 2, "", "channel_args"),
        ("load --transport core --warmup 0 -n 10 --channel-arg unchecked:a=--5 >/dev/null", 0, "", ""),
    ],
)
def test_output_that_cannot_be_written_is_no_traceback(cli, command, code, out, err):
    done = subprocess.run(
        ["bash", "-c", f"exec {cli.command[0]} {command}"], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (code, out)
    assert err in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_serve_says_where_it_listens_and_is_used(cli, serve):
    address, pid, _ = serve(
        "--model", "thread:64KiB", "--max-concurrent-streams", 9, "--behaviour", "delay-us=1000"
    )
    assert os.path.exists(f"/proc/{pid}")
    row = cli.json("load", address, "--pid", pid, "-c", 2, "-n", 20, "--warmup", 0)
    assert row["errors"] == 0
    assert row["latency_min_us"] >= 1000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_well_when_told_to(serve, alive, number):
    _, pid, process = serve()
    begin = time.monotonic()
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=10)
    assert time.monotonic() - begin < 2.5
    assert (process.returncode, out, err) == (0, "", "")
    assert not alive(pid)


def test_serve_notices_the_death_of_its_server(serve):
    _, pid, process = serve()
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "SIGKILL" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--port", "70000"], "port"),
        (["--model", "pool:0"], "Pool n"),
        (["--limit", "semaphore:0"], "Semaphore n"),
        (["--tls-self-signed", "--cert", "x"], "--cert"),
        (["--cert", "/nowhere/c.pem"], "/nowhere/c.pem"),
        (["--client-ca", "/nowhere/c.pem"], "/nowhere/c.pem"),
        (["--model", "mirror", "--tls-self-signed"], "--tls-self-signed"),
        (["--listen", "unix:/tmp/x", "--port", "5"], "port"),
        (["--listen", "one:two"], "listen"),
        (["--max-concurrent-streams", "many"], "max_concurrent_streams"),
    ],
)
def test_serve_refuses_nonsense(cli, arguments, named):
    assert named in cli("serve", *arguments, code=2).stderr


# --- hold


def test_hold_against_a_server_of_somebody_else(cli, serve):
    address, pid, _ = serve()
    report = cli.json("hold", address, "--calls", 200, "--pid", pid, "--for", "200ms")
    assert (report["calls"], report["running"], report["queued"], report["refused"]) == (200, 200, 0, 0)
    assert report["hold_s"] >= 0.2
    assert 0 <= report["release_s"] < 3
    memory = report["memory"]
    assert 1024 < memory["per_call"]["rss"] < 65_536
    assert memory["held"]["rss"] > memory["before"]["rss"]
    assert memory["before"]["heap_alloc"] is None
    assert report["status"] == {"CANCELLED": 200}


def test_hold_with_a_server_of_its_own_knows_more(cli):
    report = cli.json(
        "hold", "--calls", 200, "--for", "50ms", "--kind", "bidi", "--send-first", "--connections", 2
    )
    assert report["running"] == 200
    assert report["status"] == {"OK": 200}
    assert 1024 < report["memory"]["per_call"]["heap_alloc"] < 65_536
    assert report["memory"]["held"]["tasks"] >= report["memory"]["before"]["tasks"] + 200


def test_hold_without_a_pid_has_no_memory(cli, serve):
    address, _, _ = serve()
    assert cli.json("hold", address, "--calls", 5, "--for", "0")["memory"] is None
    assert "--pid" in cli("hold", address, "--calls", 5, "--for", "0").stdout


def test_hold_for_people(cli):
    text = cli("hold", "--calls", 50, "--for", "0").stdout
    assert "50 of 50 calls ran" in text
    assert "heap_alloc" in text
    assert "per call" in text


def test_when_no_call_could_be_held_it_failed(cli):
    done = cli(
        *(
            "hold",
            "--calls",
            5,
            "--for",
            "0",
            "--metadata",
            "grpcperf-status=8",
            "--metadata",
            "grpcperf-delay-us=1",
        ),
        *("--json",),
        code=1,
    )
    report = json.loads(done.stdout)
    assert report["refused"] == 5
    assert report["memory"]["per_call"]["rss"] is None
    assert "RESOURCE_EXHAUSTED" in done.stderr
