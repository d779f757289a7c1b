"""Ctrl-C and SIGTERM on the command line, at any moment: exit 130 and 143, one document, no traceback, no
process left."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

LOAD = ("load", "-c", 4, "-d", "30s", "--warmup", "100ms")


@pytest.fixture
def started(cli, within, tmp_path):
    """Starts a command and returns when it has begun to import the package, for which it then takes `pause`
    seconds longer than usual: a module of the standard library says so."""

    def start(*args, pause=0.0):
        marker, shim = tmp_path / "importing", tmp_path / "dataclasses.py"
        shim.write_text(
            "import time, pathlib\n"
            f"pathlib.Path({str(marker)!r}).touch()\n"
            f"time.sleep({pause})\n"
            f"exec(pathlib.Path({sys.modules['dataclasses'].__file__!r}).read_text())\n"
        )
        process = cli.start(*args, env=os.environ | {"PYTHONPATH": str(tmp_path)})
        assert within(10, marker.exists)
        return process

    return start


def interrupt(process):
    os.killpg(process.pid, signal.SIGINT)


def terminate(process):
    """As timeout(1) or a supervisor does it: the command alone."""
    os.kill(process.pid, signal.SIGTERM)


def ended(process, code=130):
    """What it printed, when it ended as it should."""
    out, err = process.communicate(timeout=10)
    assert process.returncode == code, err
    assert err == "grpcperf: interrupted\n"
    return out


def descendants_of(process, children):
    kids = children(process.pid)
    return kids + [grandchild for kid in kids for grandchild in children(kid)]


@pytest.mark.parametrize(
    "arguments",
    [LOAD, ("hold", "--calls", 5), ("calibrate",), ("doctor",), ("load", "127.0.0.1:1")],
    ids=lambda arguments: arguments[0],
)
def test_while_the_package_is_imported(started, arguments):
    process = started(*arguments, "--json", pause=0.3)
    interrupt(process)
    document = json.loads(ended(process))
    assert document.get("findings") == ["interrupted"] or document["interrupted"]


def test_sigterm_while_the_package_is_imported(started):
    process = started(*LOAD, "--json", pause=0.3)
    terminate(process)
    assert json.loads(ended(process, 143))["findings"] == ["interrupted"]


@pytest.mark.parametrize("arguments", [LOAD, ("hold", "--calls", 20, "--for", "60s")], ids=["load", "hold"])
def test_sigterm_while_it_measures(cli, children, alive, within, arguments):
    process = cli.start(*arguments, "--json")
    assert within(5, lambda: children(process.pid))
    time.sleep(1.2)
    kids = descendants_of(process, children)
    terminate(process)
    time.sleep(0.02)
    terminate(process)
    document = json.loads(ended(process, 143))
    assert document["calls"] >= 20
    assert "interrupted" in document.get("findings", ()) or document["interrupted"]
    assert all(within(3, lambda kid=kid: not alive(kid)) for kid in kids)


def test_sigterm_where_ctrl_c_is_ignored(cli):
    """As for a command in the background of a script."""
    words = " ".join(map(str, (cli.command[0], "load", "-c", 2, "-d", "30s", "--warmup", 0, "--json")))
    script = f"trap '' INT; {words} & sleep 1.5; kill $!; wait $!; echo $? >&2"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30)
    assert done.stderr.split() == ["grpcperf:", "interrupted", "143"]
    assert "interrupted" in json.loads(done.stdout)["findings"]


def test_while_the_package_is_imported_for_people(started):
    process = started(*LOAD, pause=0.3)
    interrupt(process)
    assert ended(process) == ""


@pytest.mark.parametrize("delay_ms", [0, 30, 60, 90, 120, 160])
def test_while_it_starts_its_own_server(started, children, alive, within, delay_ms):
    process = started(*LOAD, "--json")
    time.sleep(delay_ms / 1e3)
    kids = descendants_of(process, children)
    interrupt(process)
    assert "interrupted" in json.loads(ended(process))["findings"]
    assert all(within(3, lambda kid=kid: not alive(kid)) for kid in kids)


@pytest.mark.parametrize("pauses", [(0.02,), (0.3, 0.3, 0.3, 0.3)], ids=str)
def test_again_while_it_ends(cli, children, alive, within, pauses):
    """A server that is stopped takes the longest to end."""
    process = cli.start(*LOAD, "--metadata", "grpcperf-delay-us=1000", "--json")
    assert within(5, lambda: children(process.pid))
    time.sleep(1.0)
    kids = descendants_of(process, children)
    for kid in kids:
        os.kill(kid, signal.SIGSTOP)
    interrupt(process)
    for pause in pauses:
        time.sleep(pause)
        interrupt(process)
    row = json.loads(ended(process))
    assert row["calls"] > 100
    assert "interrupted" in row["findings"]
    assert all(within(3, lambda kid=kid: not alive(kid)) for kid in kids)


def test_hold_again_while_it_ends(cli, children, alive, within):
    process = cli.start("hold", "--calls", 200, "--for", "60s", "--json")
    assert within(5, lambda: children(process.pid))
    time.sleep(1.5)
    kids = descendants_of(process, children)
    for _ in range(3):
        interrupt(process)
        time.sleep(0.1)
    report = json.loads(ended(process))
    assert (report["running"], report["interrupted"]) == (200, True)
    assert all(within(3, lambda kid=kid: not alive(kid)) for kid in kids)


def test_serve_again_while_it_ends(cli, children, alive, within):
    process = cli.start("serve")
    assert process.stdout.readline().startswith("listening on")
    kids = descendants_of(process, children)
    for kid in kids:
        os.kill(kid, signal.SIGSTOP)
    for _ in range(5):
        interrupt(process)
        time.sleep(0.05)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, "")
    assert all(within(3, lambda kid=kid: not alive(kid)) for kid in kids)


def test_a_signal_that_is_ignored_stays_so(cli):
    """As a shell has it for a command in the background."""
    words = " ".join(map(str, (cli.command[0], "load", "-c", 2, "-d", "700ms", "--warmup", 0, "--json")))
    script = f"trap '' INT; {words} & sleep 0.5; kill -INT $!; wait $!; echo $? >&2"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30)
    assert done.stderr == "0\n"
    assert "interrupted" not in done.stdout
