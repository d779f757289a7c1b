"""The pytest plugin: the fixture `grpcperf`, with the package's names, whose targets are closed at teardown.

It is loaded in every pytest run of the environment, so the package's modules are imported only when the
fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import pytest

_TARGETS = ("Server", "Target")


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

        self._package = grpcperf
        self._owners = owners

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._package, name)
        return self._closing(value) if name in _TARGETS else value

    def __dir__(self) -> list[str]:
        return sorted(self._package.__all__)

    def _closing(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            target = make(*args, **kwargs)
            self._owners[-1].addfinalizer(target.close)
            return target

        return made


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
    """A failure is told by its message and the line of the test: frames inside the package say nothing to a
    reader."""
    if call.excinfo is None or not type(call.excinfo.value).__module__.startswith("grpcperf."):
        return
    kept = call.excinfo.traceback.filter(lambda entry: not _is_ours(entry))
    if kept:
        call.excinfo.traceback = kept


def _is_ours(entry: Any) -> bool:
    name = str(entry.frame.f_globals.get("__name__", ""))
    return name == "grpcperf" or name.startswith("grpcperf.")
