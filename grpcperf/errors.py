"""What can go wrong, as exceptions: nothing else is raised on purpose. A failed call is data in a Result, not
an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpcperf.result import Result


class Error(Exception):
    """The base of everything grpcperf raises."""


class EngineError(Error):
    """The operating system or a library refused what the engine asked of it."""


class ConnectError(Error):
    """The target cannot be reached, or does not speak what was expected of it."""


class ServerDied(Error):
    """A server process is gone; the message has its signal or exit code and its last words."""


class InvalidRequest(Error, ValueError):
    """What was asked makes no sense, or is not built yet; the message names the argument, value and
    bounds."""


class CheckFailed(Error, AssertionError):
    """A measured value is on the wrong side of its bound; `result` is the Result that was checked."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class Interrupted(Error, KeyboardInterrupt):
    """Ctrl-C ended a measurement; `result` is what was measured until then (of a sweep its Results), or None
    when nothing was.

    pytest, IPython and the interpreter treat it as the KeyboardInterrupt that it is. As it is a gp.Error too,
    `except gp.Error` (and `except Exception`) catches it: a loop that goes on after a failed measurement must
    let Interrupted pass first.
    """

    def __init__(self, message: str = "interrupted", result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class InconclusiveWarning(UserWarning):
    """A check could not be decided: the interval lies on both sides of the bound, there is no value, or the
    result is not valid."""


_BY_CODE: dict[str, type[Error]] = {
    "engine": EngineError,
    "connect": ConnectError,
    "died": ServerDied,
    "invalid": InvalidRequest,
    "stopped": EngineError,  # a run was stopped before it had measured anything
}


def from_engine(failure: BaseException) -> Error:
    """The public exception for an _engine.EngineFailure, whose args are (code, message).

    Use as `raise from_engine(failure) from None`: the engine's own exception adds nothing for a reader.
    """
    code, message = failure.args if len(failure.args) == 2 else ("engine", str(failure))
    return _BY_CODE.get(code, EngineError)(message)
