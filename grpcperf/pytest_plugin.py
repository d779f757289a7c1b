"""The pytest plugin: the fixture `grpcperf`, with the package's names, whose targets are closed at teardown,
and what a session measured, as a table at its end and as files.

It is loaded in every pytest run of the environment, so the package's modules are imported only when the
fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from grpcperf.leaks import LeakReport
    from grpcperf.memory_cost import MemoryCost
    from grpcperf.pytest_records import Session
    from grpcperf.result import Result

QUICK_S = 0.1  # of a measured window under --grpcperf-quick
QUICK_REPEATS = 3


class _Owner(Protocol):
    """What can be told to close something when it is torn down: a fixture (by its request), or a test."""

    def addfinalizer(self, finalizer: Callable[[], object]) -> None: ...


# Those that are being set up or run, innermost last: what is made now belongs to the last one.
_OWNERS: pytest.StashKey[list[_Owner]] = pytest.StashKey()
_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_UNWRITTEN: pytest.StashKey[str] = pytest.StashKey()
_FAILED: pytest.StashKey[set[str]] = pytest.StashKey()  # node ids


class Namespace:
    """The package's names. A target made through it is closed when the test or the fixture that made it is
    torn down, so it can be used from fixtures of any scope."""

    def __init__(self, config: pytest.Config) -> None:
        import grpcperf
        from grpcperf.pytest_records import Session
        from grpcperf.targets import Measurable

        self._package = grpcperf
        self._measurable = Measurable
        self._owners = config.stash[_OWNERS]
        self._quick = bool(config.getoption("grpcperf_quick"))
        self._session = config.stash.setdefault(_SESSION, Session())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._package, name)
        is_target = isinstance(value, type) and issubclass(value, self._measurable)
        return _Closing(value, self._owners) if is_target else value

    def __dir__(self) -> list[str]:
        return sorted([*self._package.__all__, "assert_memory_per_call", "assert_no_leak"])

    def load(self, target: Any, spec: Any = None, **changes: Any) -> Result:
        """gp.load, whose result is in the session's table and files."""
        spec = self._package.Load(**changes) if spec is None else spec.replace(**changes)
        result = self._package.load(target, _shortened(spec) if self._quick else spec, progress=False)
        self._session.add(self._test(), result)
        return result

    def compare(self, a: Callable[[], Any], b: Callable[[], Any], **how: Any) -> Any:
        """gp.compare, whose verdict is in the session's table and files."""
        if self._quick:
            how["rounds"] = min(how.get("rounds", QUICK_REPEATS), QUICK_REPEATS)
        found = self._package.compare(a, b, progress=False, **how)
        self._session.add(self._test(), found)
        return found

    def assert_no_leak(
        self, target: Any, action: Callable[[], Any], cycles: int = 20, **how: Any
    ) -> LeakReport:
        """Fail when doing `action` again and again leaves something behind: see grpcperf.leaks.find_leaks."""
        from grpcperf.leaks import find_leaks

        return find_leaks(target, action, cycles=min(cycles, 8) if self._quick else cycles, **how).check()

    def assert_memory_per_call(self, factory_or_target: Any, below: int | str, **how: Any) -> MemoryCost:
        """Fail when a call in flight costs `below` or more: heap and stacks (gp.memory_per_call), or
        anonymous memory where the process does not tell them. Warns (InconclusiveWarning) when the interval
        lies on both sides. Further arguments are those of gp.memory_per_call."""
        if self._quick:
            how = {"levels": [0, 50, 100], "repeats": 1, **how}
        cost = self._package.memory_per_call(factory_or_target, **how)
        _require_below(cost, below)
        return cost

    def _test(self) -> str:
        """The test or fixture that is being run."""
        owner = self._owners[-1]
        return str(getattr(owner, "nodeid", None) or getattr(owner, "fixturename", None) or "session")


def _shortened(spec: Any) -> Any:
    """A load to see that a test works: its figures are too few to judge by."""
    if spec.duration is None:
        return spec.replace(calls=min(spec.calls, 200), warmup=0)
    short = min(float(spec.duration), QUICK_S)
    steps = {} if spec.steps is None else {"steps": None, "rate": spec.steps[0][0] or spec.steps[0][1]}
    return spec.replace(duration=short, warmup=min(float(spec.warmup), short / 2), **steps)


def _require_below(cost: MemoryCost, below: int | str) -> None:
    import warnings

    from grpcperf import units
    from grpcperf.errors import CheckFailed, InconclusiveWarning

    limit = units.size_bytes(below, "below")
    names = [name for name in ("heap_alloc", "stack_inuse") if name in cost.slopes] or ["rss_anon"]
    line = cost.together(names)
    show = units.format_bytes
    bounds = "no interval" if line.low is None else f"95 % interval {show(line.low)} to {show(line.high)}"
    told = f"a call in flight costs {show(line.slope)} of {' and '.join(names)} ({bounds})"
    told += f"; wanted below {show(limit)}"
    remarks = [f"  {one.severity}: {one}" for one in cost.findings]
    if line.low is not None and line.low >= limit:
        raise CheckFailed("\n".join([told, *remarks]))
    if line.high is None or line.high >= limit or not cost.valid:
        warnings.warn("\n".join([f"inconclusive: {told}", *remarks]), InconclusiveWarning, stacklevel=3)


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


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("grpcperf", "performance of gRPC servers")
    add = group.addoption
    add("--grpcperf-json", metavar="FILE", help="write what was measured to a file of JSON")
    add(
        "--grpcperf-benchmark-json",
        metavar="FILE",
        help="the same as pytest-benchmark has it, for its `compare`",
    )
    add("--grpcperf-quick", action="store_true", help="measure for a moment only: to see that the tests work")
    add("--grpcperf-skip", action="store_true", help="skip the tests that measure")
    add("--grpcperf-strict", action="store_true", help="a check that cannot be decided fails")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OWNERS] = []
    config.stash[_FAILED] = set()
    config.addinivalue_line(
        "markers", "grpcperf: the test measures a gRPC server (set on all that use the fixture)"
    )
    for option in ("grpcperf_json", "grpcperf_benchmark_json"):
        if (path := config.getoption(option)) and not Path(path).absolute().parent.is_dir():
            raise pytest.UsageError(f"--{option.replace('_', '-')} {path}: there is no such folder")
    if config.getoption("grpcperf_strict"):
        config.addinivalue_line("filterwarnings", "error::grpcperf.errors.InconclusiveWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    reason = "--grpcperf-skip" if config.getoption("grpcperf_skip") else _in_parallel(config)
    for item in items:
        if "grpcperf" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker("grpcperf")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _in_parallel(config: pytest.Config) -> str:
    """Tests that measure at the same time measure each other: why they are not run, if they would."""
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if workers < 2:
        return ""
    return f"grpcperf does not measure in {workers} processes at once: run these with -n 0 (-m grpcperf)"


@pytest.fixture(scope="session")
def grpcperf(request: pytest.FixtureRequest) -> Namespace:
    """grpcperf's names (Server, load, hold, ...); targets made through it are closed at teardown."""
    request.config.stash[_OWNERS].insert(0, request)  # for what is made outside of all set-ups and tests
    return Namespace(request.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    found = session.config.stash.get(_SESSION, None)
    if found is None:
        return
    for test in session.config.stash[_FAILED]:
        found.outcome(test, "failed")
    for option, write in (("grpcperf_json", found.write), ("grpcperf_benchmark_json", found.write_benchmark)):
        if path := session.config.getoption(option):
            try:
                write(Path(path))
            except found.unwritable as error:
                session.config.stash[_UNWRITTEN] = f"{path} was not written: {error}"
                session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    found = config.stash.get(_SESSION, None)
    if found is not None and found.records:
        quick = " (quick: too short to judge by)" if config.getoption("grpcperf_quick") else ""
        terminalreporter.section(f"grpcperf{quick}")
        for line in found.summary():
            terminalreporter.write_line(line)
        if told := config.stash.get(_UNWRITTEN, ""):
            terminalreporter.write_line(told, red=True)


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
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """A failed check, a dead server: told by its message and the line of the test. The frames inside the
    package say nothing to a test's reader; pytest hides those whose module says so (--full-trace shows
    them)."""
    if call.excinfo is not None and not isinstance(call.excinfo.value, pytest.skip.Exception):
        item.config.stash[_FAILED].add(item.nodeid)
    if call.excinfo is None or not _is_told(call.excinfo):
        return
    if (result := getattr(call.excinfo.value, "result", None)) is not None and hasattr(result, "spec"):
        from grpcperf.pytest_records import command_of, needs_of

        item.add_report_section(
            call.when, "grpcperf", f"again in a shell: {command_of(result)}{needs_of(result)}"
        )
    for entry in call.excinfo.traceback:
        names = entry.frame.f_globals
        if str(names.get("__name__", "")).partition(".")[0] == "grpcperf":
            names["__tracebackhide__"] = _is_told


def _is_told(excinfo: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Whether it is one of the package's own exceptions, and not a mistake inside it."""
    return excinfo is not None and type(excinfo.value).__module__ == "grpcperf.errors"
