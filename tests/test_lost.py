"""Servers whose process is not known, and that go away or come back; and dead ones that are to be called."""

import json
import os
import signal
import threading
import time

import pytest

import grpcperf as gp


def finding(result, code):
    (one,) = (one for one in result.findings if one.code == code)
    return one


def after(seconds, deed, *arguments):
    timer = threading.Timer(seconds, deed, arguments)
    timer.start()
    return timer


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"concurrency": 1},
        {"connections": 4, "threads": 2},
        {"rate": 1000},
        {"kind": "bidi", "messages_per_stream": 5},
        {"transport": "core"},
        {"transport": "core", "rate": 500},
    ],
    ids=str,
)
def test_one_that_dies_leaves_an_incomplete_result(changes):
    with gp.Server() as server:
        killer = after(0.5, os.kill, server.pid, signal.SIGKILL)
        result = gp.load(server.address, duration=1, warmup=0, **changes)
        killer.join()
    lost = finding(result, "connection_lost")
    assert not result.valid
    assert 0.2 < lost.measured < 0.65
    assert "no call was OK after" in lost.message
    assert 0 < result.errors < result.calls
    assert "not_steady" not in [one.code for one in result.findings]


@pytest.mark.parametrize("transport", ["wire", "core"])
def test_one_that_comes_back_is_told_with_counts(transport):
    with gp.Server() as first:
        second = []
        port = int(first.address.rpartition(":")[2])

        def again():
            os.kill(first.pid, signal.SIGKILL)
            second.append(gp.Server(port=port))

        starter = after(0.4, again)
        result = gp.load(first.address, duration=1.5, warmup=0, connections=2, transport=transport)
        starter.join()
        second[0].close()
    cut = finding(result, "connections_cut")
    assert cut.severity == "warning"
    assert cut.measured == result.reconnects >= 1
    assert f"made again {result.reconnects} times" in cut.message
    assert "connection_lost" not in [one.code for one in result.findings]


def test_calls_that_fail_on_a_living_connection_are_no_loss(server):
    metadata = {"grpcperf-status": "14"}
    for transport in ("wire", "core"):
        result = gp.load(server.address, calls=50, warmup=0, transport=transport, metadata=metadata)
        assert [one.code for one in result.findings if one.severity == "invalid"] == ["all_failed"]


def test_the_shell_fails_when_its_server_dies(cli):
    with gp.Server() as server:
        arguments = ("load", server.address, "-d", "2s", "--warmup", 0, "--check", "p99<10s", "--strict")
        process = cli.start(*arguments, "--json")
        time.sleep(1.2)
        os.kill(server.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "connection_lost" in json.loads(out)["findings"]
    assert "connection_lost" in err.splitlines()[-1]


# --- dead before it is called


@pytest.fixture(params=["native", "go", "foreign"])
def dead(request):
    """As often as it is called, a target whose process was killed this moment."""
    made = []

    def make():
        made.append(gp.GoServer() if request.param == "go" else gp.Server())
        target = gp.Target(made[-1].address, pid=made[-1].pid) if request.param == "foreign" else made[-1]
        os.kill(made[-1].pid, signal.SIGKILL)
        return target

    yield make
    for server in made:
        server.close()


def test_a_server_that_has_just_died_is_said_to_be_dead(dead):
    for _ in range(2):
        with pytest.raises(gp.ServerDied, match=r"died: (killed by SIGKILL|ended)"):
            gp.load(dead(), calls=10)
        with pytest.raises(gp.ServerDied, match=r"died: (killed by SIGKILL|ended)"), gp.hold(dead(), calls=2):
            pass


def test_one_that_lives_and_cannot_be_reached_is_not(server):
    address = "127.0.0.1:1"
    with pytest.raises(gp.ConnectError, match="refused"):
        gp.load(gp.Target(address, pid=server.pid), calls=10)


# --- calls that were held


@pytest.mark.parametrize(("transport", "status"), [("wire", "transport"), ("core", "UNAVAILABLE")])
def test_the_shell_tells_of_held_calls_that_were_lost(cli, within, transport, status):
    with gp.Server() as server:
        arguments = (
            "hold",
            server.address,
            "--calls",
            20,
            "--for",
            "30s",
            "--transport",
            transport,
            "--json",
        )
        process = cli.start(*arguments)
        assert within(5, lambda: server.counters().running == 20)
        time.sleep(0.7)
        os.kill(server.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=10)
    report = json.loads(out)
    assert process.returncode == 1
    assert (report["running"], report["refused"], report["lost"]) == (20, 0, 20)
    assert report["status"] == {status: 20}
    assert 0.3 < report["lost_s"] <= report["hold_s"] < 10
    assert "20 of 20 calls were lost after " in err
    assert f"ended as {status} 20" in err
