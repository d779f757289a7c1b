"""The pytest plugin: the fixture `grpcperf`, with the package's names, whose targets are closed at teardown.

It is loaded in every pytest run of the environment, so the package's modules are imported only when the
fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import pytest


class _Owner(Protocol):
    """What can be told to close something when it is torn down: a fixture (by its request), or a test."""

    def addfinalizer(self, finalizer: Callable[[], object]) -> None: ...


# Those that are being set up or run, innermost last: what is made now belongs to the last one.
_OWNERS: pytest.StashKey[list[_Owner]] = pytest.StashKey()


class Namespace:
    """The package's names. A target made through it is closed when the test or the fixture that made it is
    torn down, so it can be used from fixtures of any scope."""

    def __init__(self, owners: list[_Owner]) -> None:
        import grpcperf
        from grpcperf.targets import Measurable

        self._package = grpcperf
        self._measurable = Measurable
        self._owners = owners

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._package, name)
        is_target = isinstance(value, type) and issubclass(value, self._measurable)
        return _Closing(value, self._owners) if is_target else value

    def __dir__(self) -> list[str]:
        return sorted(self._package.__all__)


class _Closing:
    """A kind of target, whose targets made by calling it here are closed when their owner is torn down; in
    all else the kind itself."""

    def __init__(self, kind: type[Any], owners: list[_Owner]) -> None:
        self._kind = kind
        self._owners = owners

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        target = self._kind(*args, **kwargs)
        self._owners[-1].addfinalizer(target.close)
        return target

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._kind)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OWNERS] = []


@pytest.fixture(scope="session")
def grpcperf(request: pytest.FixtureRequest) -> Namespace:
    """grpcperf's names (Server, load, hold, ...); targets made through it are closed at teardown."""
    owners = request.config.stash[_OWNERS]
    owners.insert(0, request)  # for what is made outside of all set-ups and tests
    return Namespace(owners)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, Any, None]:
    owners = request.config.stash[_OWNERS]
    owners.append(request)
    yield
    owners.pop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    owners = item.config.stash[_OWNERS]
    owners.append(item)
    yield
    owners.pop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """A failed check, a dead server: told by its message and the line of the test. The frames inside the
    package say nothing to a test's reader; pytest hides those whose module says so (--full-trace shows
    them)."""
    if call.excinfo is None or not _is_told(call.excinfo):
        return
    for entry in call.excinfo.traceback:
        names = entry.frame.f_globals
        if str(names.get("__name__", "")).partition(".")[0] == "grpcperf":
            names["__tracebackhide__"] = _is_told


def _is_told(excinfo: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Whether it is one of the package's own exceptions, and not a mistake inside it."""
    return excinfo is not None and type(excinfo.value).__module__ == "grpcperf.errors"
