"""How every command exits: 0 ok, 1 an error or every call failed, 2 usage, 3 invalid or inconclusive under
--strict, 4 a check failed; 130 and 143 are tested in test_interrupts. And what it says: a line for each
trouble, and under --json always one document."""

import json

import pytest

from grpcperf.cli import main

QUICK = ("-c", "4", "-n", "40", "--warmup", "0")
# Calls that end after their window, which proves nothing.
LATE = ("-c", "4", "-d", "50ms", "--warmup", "0", "--drain", "3s", "--metadata", "grpcperf-delay-us=250000")
FAILING = ("-c", "4", "-n", "8", "--warmup", "0", "--metadata", "grpcperf-status=14")
NOWHERE = "127.0.0.1:1"
UNDECIDED = ("--check", "offered_rate>1")  # a closed loop offers none
BROKEN = ("--check", "p50<1us")
KEPT = ("--check", "errors==0", "--check", "p50<10s")


@pytest.fixture
def run(capsys, server, monkeypatch):
    """The command in this process: exit code, stdout, lines of stderr. What would start a server has one."""
    from grpcperf import Target

    monkeypatch.setattr("grpcperf.targets.Server", lambda **_: Target(server.address))

    def call(*arguments):
        try:
            code = main(arguments)
        except SystemExit as left:
            code = left.code
        told = capsys.readouterr()
        return code, told.out, told.err.splitlines()

    return call


def assert_failure(out, told):
    """The document of a command that has nothing else to print: it says what stderr says."""
    document = json.loads(out)
    assert document["error"].split(" (see ")[0].removeprefix("grpcperf: ") in told[-1]
    assert (document["valid"], document["findings"]) == (False, [])


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    ("arguments", "code", "lines"),
    [
        (QUICK, 0, 0),
        ((*QUICK, *KEPT), 0, 0),
        ((*QUICK, *UNDECIDED), 0, 1),
        (LATE, 0, 0),
        ((*LATE, *KEPT), 0, 1),
        (FAILING, 1, 1),
        ((NOWHERE, *QUICK), 1, 1),
        ((NOWHERE, *QUICK, "--strict"), 1, 1),
        ((NOWHERE, *QUICK, *BROKEN), 1, 1),  # nothing was measured that could be checked
        ((*QUICK, "--check", "p50<soon"), 2, 1),
        ((*QUICK, "--strict", "--check", "nonsense<1"), 2, 1),
        (("-c", "0"), 2, 1),
        (("-d", "-1s"), 2, 1),
        (("--cpus", "4000"), 2, 1),
        (("--nonsense",), 2, 1),
        ((*LATE, "--strict"), 3, 0),
        ((*LATE, "--strict", *KEPT), 3, 1),
        ((*QUICK, "--strict", *UNDECIDED), 3, 1),
        ((*QUICK, *BROKEN), 4, 1),
        ((*QUICK, "--strict", *BROKEN, *UNDECIDED), 4, 2),
        ((*LATE, "--strict", "--check", "max<1us"), 4, 1),
        ((*FAILING, "--check", "errors==0"), 4, 1),
        ((*FAILING, "--check", "p99<5s"), 4, 1),  # there is none
        ((*FAILING, "--check", "errors==8"), 1, 2),
    ],
    ids=lambda value: " ".join(value[-4:]) if isinstance(value, tuple) else None,
)
def test_load(run, arguments, code, lines, more):
    exited, out, told = run("load", *arguments, *more)
    assert (exited, len(told)) == (code, lines), told
    assert all(line.startswith("grpcperf") for line in told)
    measured = code != 2 and NOWHERE not in arguments
    assert bool(out) is (measured or bool(more))
    if more and not measured:
        assert_failure(out, told)
    elif more:
        unproven = "grpcperf-status=14" in arguments or "grpcperf-delay-us=250000" in arguments
        assert json.loads(out)["valid"] is not unproven


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    ("arguments", "code", "lines"),
    [
        (("hold", "--calls", "5", "--for", "0"), 0, 0),
        (("hold", NOWHERE, "--calls", "5"), 1, 1),
        (("hold", "--calls", "2", "--connections", "3"), 2, 1),
        (("hold", "--calls", "2", "--for", "soon"), 2, 1),
        (("sweep", "--concurrency", "1,2", *QUICK[2:], "--repeats", "1"), 0, 0),
        (("sweep", NOWHERE, "--concurrency", "1,2", "-n", "20", "--repeats", "1"), 1, 1),
        (("sweep", "--concurrency", "1,,2"), 2, 1),
        (("sweep", "--concurrency", "0,1"), 2, 1),
        (("sweep", *LATE, "--repeats", "1"), 0, 0),
        (("sweep", *LATE, "--repeats", "1", "--strict"), 3, 0),
        (("compare", "/nowhere/a.jsonl", "/nowhere/b.jsonl"), 1, 1),
        (("experiment", "run", "nonsense"), 2, 1),
        (("experiment",), 2, 1),
        (("doctor",), 0, 0),
        (("doctor", "extra"), 2, 1),
        (("calibrate", "extra"), 2, 1),
        (("demo", "extra"), 2, 1),
        (("nonsense",), 2, 1),
        ((), 2, 1),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, tuple) else None,
)
def test_the_others(run, arguments, code, lines, more):
    exited, out, told = run(*arguments, *more)
    assert (exited, len(told)) == (code, lines), told
    assert all(line.startswith("grpcperf") for line in told)
    done = code in (0, 3) or (arguments[:1], code) == (("sweep",), 1)
    assert bool(out) is (done or bool(more))
    if more and done:
        json.loads(out)
    elif more:
        assert_failure(out, told)


def test_what_begins_with_a_minus_and_a_digit_is_a_value(run):
    for option, value in (("-d", "-1s"), ("--warmup", "-.5"), ("--request-size", "-64KiB")):
        _, _, (told,) = run("load", option, value)
        assert f"not {value!r}" in told
