"""errors: the public hierarchy, and what becomes of the engine's failures."""

import copy
import os
import pickle
import signal
import traceback

import pytest

import grpcperf as gp
from grpcperf import errors


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (errors.EngineError, Exception),
        (errors.ConnectError, Exception),
        (errors.ServerDied, Exception),
        (errors.InvalidRequest, ValueError),
        (errors.CheckFailed, AssertionError),
        (errors.Interrupted, KeyboardInterrupt),
    ],
)
def test_every_error_is_an_error_and_what_it_is_besides(kind, also):
    assert issubclass(kind, errors.Error)
    assert issubclass(kind, also)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("engine", errors.EngineError),
        ("connect", errors.ConnectError),
        ("died", errors.ServerDied),
        ("invalid", errors.InvalidRequest),
        ("stopped", errors.EngineError),
        ("a code of a later engine", errors.EngineError),
    ],
)
def test_codes_of_the_engine_become_classes(code, kind):
    found = errors.from_engine(Exception(code, "127.0.0.1:1: connection refused"))
    assert type(found) is kind
    assert str(found) == "127.0.0.1:1: connection refused"


def test_a_failure_without_a_code_keeps_its_text():
    assert str(errors.from_engine(RuntimeError("no code"))) == "no code"


def test_partial_results_travel_with_the_exception():
    assert errors.Interrupted("stopped", "a result").result == "a result"
    assert errors.Interrupted().result is None
    assert errors.CheckFailed("p99", "a result").result == "a result"


@pytest.mark.parametrize("kind", [errors.Interrupted, errors.CheckFailed])
def test_exceptions_with_a_result_survive_a_process_boundary(kind):
    for made in (pickle.loads(pickle.dumps(kind("why", "a result"))), copy.copy(kind("why", "a result"))):
        assert (str(made), made.result) == ("why", "a result")


def test_tracebacks_say_nothing_beside_the_point():
    """No machinery between the caller and the cause, and no second exception of the same meaning."""
    with gp.Server() as server:
        os.kill(server.pid, signal.SIGKILL)
        for ask in (lambda: gp.load("127.0.0.1:1"), server.counters):
            with pytest.raises((errors.ConnectError, errors.ServerDied)) as caught:
                ask()
            told = "".join(traceback.format_exception(caught.value))
            assert "contextlib" not in told
            assert told.count("Traceback") == 1
