"""Our Go programs, server and client: built from the source in this package, once for each version of
grpc-go."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from grpcperf import cache, units
from grpcperf.errors import EngineError, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER, CLIENT = "goserver", "goclient"  # folders of this package
_PREFIXES = {SERVER: "grpc-go", CLIENT: "grpc-go-client"}
_NOUNS = {SERVER: "gp.GoServer", CLIENT: "the grpc-go client"}
_MODULE = "google.golang.org/grpc"
_FACTS = ("GOVERSION", "GOFLAGS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFIPS140")
# Until then a call's metadata was not shown to what looks at it first (goserver/header.go).
_HEADER_SINCE = (1, 59)
_NO_SUCH = ("unknown revision", "invalid version", "no matching versions", "404 not found", "410 gone")
_NO_MODULES = ("reading ", "dial tcp", "lookup disabled", "no such host", "i/o timeout", "not in std")
_TELLING_LINES = 8


def build(version: str, program: str = SERVER) -> Path:
    """The executable of a program with that version of grpc-go, built now when it is not there yet.

    It is kept in $XDG_CACHE_HOME (or ~/.cache)/grpcperf/go by the versions of grpc-go and Go and by our
    source. The first build of a version downloads modules as the user's Go is set up to, and takes up to a
    minute. Raises InvalidRequest for what cannot be a version, EngineError without Go, for a version that
    does not exist, and when the build fails, with the reason.
    """
    number = check_version(version)
    go = _find_go(number, program)
    facts = _facts(go)
    source = dict(_source(program))
    name = f"{_PREFIXES[program]}-{number}-{facts['GOVERSION']}-{_digest(facts, source)}"
    path = _folder() / name
    if not path.is_file():
        _build_once(go, number, facts["GOVERSION"], source, path)
    return path


def versions(version: str, program: str = SERVER) -> str:
    """Of grpc-go and Go in what build() makes, as "1.85.0, go1.26.8". Raises as build()."""
    number = check_version(version)
    return f"{number}, {_facts(_find_go(number, program))['GOVERSION']}"


def check_version(version: object) -> str:
    """The version without a leading v. Raises InvalidRequest."""
    text = version.strip().removeprefix("v") if isinstance(version, str) else ""
    if not re.fullmatch(r"1\.\d{1,4}\.\d{1,4}(-[0-9A-Za-z.-]{1,60})?", text):
        raise InvalidRequest(
            f'version must be one of grpc-go, as "1.85.0" (`go list -m -versions {_MODULE}` tells which '
            f"there are), not {units.shown(version)}"
        )
    return text


def _find_go(version: str, program: str = SERVER) -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if found is None:
        raise EngineError(
            f"{_NOUNS[program]} is built from source (grpc-go {version}), and there is no `go` on the PATH: "
            "install Go from go.dev/dl, or golang-go (Debian, Ubuntu) where that is new enough"
        )
    return found


def _facts(go: str) -> dict[str, str]:
    """What of the user's Go changes the outcome."""
    import json

    done = _run([go, "env", "-json", *_FACTS], cwd=None)
    if done.returncode:
        raise EngineError(f"{go} does not work: {_telling(done.stderr)}")
    return {name: str(value) for name, value in json.loads(done.stdout).items()}


def _source(program: str = SERVER) -> Iterator[tuple[str, bytes]]:
    from importlib.resources import files

    found = [each for each in files("grpcperf").joinpath(program).iterdir() if each.name.endswith(".go")]
    for each in sorted(found, key=lambda each: each.name):
        yield each.name, each.read_bytes()


def _digest(facts: dict[str, str], source: dict[str, bytes]) -> str:
    import hashlib

    return hashlib.sha256(repr((sorted(facts.items()), sorted(source.items()))).encode()).hexdigest()[:12]


def _folder() -> Path:
    return cache.folder() / "go"


def _build_once(go: str, version: str, go_version: str, source: dict[str, bytes], path: Path) -> None:
    """Build it unless somebody else just does or did: whole or not at all, also when two want it at once."""
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.parent / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.is_file():
                return
            for left in path.parent.glob("build-*"):  # of one that was killed: the lock is ours
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as folder:
                made = _build_in(folder, go, version, go_version, source)
                os.replace(made, path)
    except OSError as error:
        raise EngineError(f"{path.name} cannot be built in {path.parent}: {error}") from None


def _build_in(folder: str, go: str, version: str, go_version: str, source: dict[str, bytes]) -> str:
    for name, text in source.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(text)
    # The language version of the Go in use, for all versions of grpc-go: it also chooses the runtime's
    # settings (GODEBUG), which are not what is compared.
    language = re.match(r"go(\d+\.\d+)", go_version.removeprefix("devel "))
    with open(os.path.join(folder, "go.mod"), "w", encoding="utf-8") as file:
        file.write("module grpcperf/goprogram\n\n")
        file.write(f"go {language[1] if language else '1.21'}\n\nrequire {_MODULE} v{version}\n")
    made = os.path.join(folder, "program")
    old = tuple(map(int, version.split(".")[:2])) < _HEADER_SINCE
    tags = ["-tags", "grpc_tap_without_header"] if old else []
    done = _run([go, "build", "-mod=mod", "-trimpath", *tags, "-o", made, "."], cwd=folder)
    if done.returncode:
        raise _failure(version, done.stderr)
    return made


def _run(command: list[str], cwd: str | None) -> subprocess.CompletedProcess[str]:
    """In a process group of its own, so that what it started ends with it when this is interrupted."""
    # Neither needs C, so whether there is a C compiler must not matter; nor where the folder is.
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    options: dict[str, Any] = {"cwd": cwd, "env": environment, "process_group": 0}
    pipes: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    with subprocess.Popen(command, text=True, errors="replace", **pipes, **options) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _failure(version: str, stderr: str) -> EngineError:
    said = _telling(stderr)
    if any(sign in said.lower() for sign in _NO_SUCH):
        return EngineError(f"there is no grpc-go {version}: {said}")
    if any(sign in said.lower() for sign in _NO_MODULES):
        return EngineError(
            f"grpc-go {version} has not been built here before, and its modules cannot be downloaded: {said}"
        )
    return EngineError(f"our program does not build with grpc-go {version}: {said}")


def _telling(stderr: str) -> str:
    """What a failed command said, without its progress; what a module lacks is said once, and not for each
    file that wants it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("go: downloading", "go: finding", "# "))]
    distinct = list(
        dict.fromkeys(re.sub(rf"^\S+\.go:\d+:\d+: (?={_MODULE}@|module )", "", line) for line in telling)
    )
    more = f" (and {len(distinct) - _TELLING_LINES} lines more)" if len(distinct) > _TELLING_LINES else ""
    return "; ".join(distinct[:_TELLING_LINES] or ["it said nothing"]) + more
