"""What the Python tests share. They run against the installed package (`make test`, or .venv/bin/pytest after
`make install`), and skip nothing: what cannot run here is a failure."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """The source folder has no engine; `python -m pytest` at the root imports it all the same."""
    found = importlib.util.find_spec("grpcperf")
    if found is None or found.origin is None:
        pytest.exit("grpcperf is not installed: run `make install`, then .venv/bin/pytest", returncode=2)
    folder = Path(found.origin).parent
    if folder == Path(__file__).parents[1] / "grpcperf" and not list(folder.glob("_engine*.so")):
        pytest.exit(
            f"grpcperf was imported from its source folder ({folder}), which has no engine: run "
            ".venv/bin/pytest, or python -P -m pytest, after `make install`",
            returncode=2,
        )


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_within(seconds: float, condition: Callable[[], Any]) -> bool:
    """Whether the condition comes true in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return bool(condition())
        time.sleep(0.01)
    return True


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    return is_alive


@pytest.fixture(scope="session")
def within() -> Callable[[float, Callable[[], Any]], bool]:
    return wait_within


@pytest.fixture(scope="session")
def children() -> Callable[[int], list[int]]:
    def list_them(pid: int) -> list[int]:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    return list_them


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """One native server for a whole module; tests that break theirs make their own."""
    import grpcperf as gp

    with gp.Server() as made:
        yield made


@pytest.fixture(autouse=True)
def no_figures_left() -> Iterator[None]:
    """What a test has drawn through pyplot is closed; those that draw nothing do not pay for matplotlib."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


class Cli:
    """Runs the installed command."""

    command = (str(Path(sys.executable).with_name("grpcperf")),)

    def __call__(self, *args: object, code: int = 0, timeout: float = 60, **kwargs: Any) -> Any:
        done = subprocess.run(
            [*self.command, *map(str, args)], capture_output=True, text=True, timeout=timeout, **kwargs
        )
        assert "Traceback" not in done.stderr, done.stderr
        told = f"exit {done.returncode}, wanted {code}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == code, told
        return done

    def json(self, *args: object, **kwargs: Any) -> Any:
        return strict_json(self(*args, "--json", **kwargs).stdout)

    def start(self, *args: object, **kwargs: Any) -> subprocess.Popen[str]:
        """In the background, in a process group of its own, with the signals of a terminal's job."""
        import signal

        return subprocess.Popen(
            [*self.command, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **kwargs,
        )


def strict_json(text: str) -> Any:
    """Exactly one document, and no NaN, which JSON does not have."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="session")
def cli() -> Cli:
    return Cli()


@pytest.fixture
def python() -> Callable[..., Any]:
    """Runs a piece of Python in a process of its own; -P, or the source folder would shadow the package."""

    def run(code: str, timeout: float = 60, **kwargs: Any) -> Any:
        return subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=timeout, **kwargs
        )

    return run


@pytest.fixture
def no_leftovers(children: Callable[[int], list[int]]) -> Iterator[None]:
    """No child process of this one may be left that was not there before."""
    before = set(children(os.getpid()))
    yield
    assert wait_within(3, lambda: set(children(os.getpid())) <= before)
