"""The file of a sweep: a header line, then one line of JSON for each finished point and repeat, appended as
it is measured. Its schema is grpcperf/schemas/store-1.json."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from grpcperf.errors import EngineError, InvalidRequest

SCHEMA = 1
FORMAT = "grpcperf sweep"


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a store is of. `function` identifies what measured its rows (grpcperf.identity), `fingerprint` the
    machine and the versions."""

    axes: tuple[str, ...]
    function: str
    fingerprint: str
    environment: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "axes": list(self.axes),
            "function": self.function,
            "fingerprint": self.fingerprint,
            "environment": dict(self.environment),
            "created": self.created,
        }

    @classmethod
    def from_json(cls, form: Any, path: Path) -> Header:
        if not isinstance(form, dict) or form.get("format") != FORMAT:
            raise InvalidRequest(f"{path} is no store of a sweep: its first line is no header of one")
        if form.get("schema") != SCHEMA:
            raise InvalidRequest(
                f"{path} has schema {form.get('schema')!r}, this version reads {SCHEMA}: "
                "use the version of grpcperf that wrote it"
            )
        try:
            return cls(
                axes=tuple(form["axes"]),
                function=form["function"],
                fingerprint=form["fingerprint"],
                environment=form["environment"],
                created=form["created"],
            )
        except (KeyError, TypeError):
            raise InvalidRequest(f"{path}: its header is damaged") from None


_BEGINNING = b'{"format":"' + FORMAT.encode()  # of every store, also of one whose header was torn


def read(path: Path) -> tuple[Header, list[dict[str, Any]]]:
    """Header and lines of a store; a torn last line is left out. Raises InvalidRequest when it is none or is
    broken in the middle, EngineError when it cannot be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise EngineError(f"{path} cannot be read: {error.strerror}") from None
    return _parse(raw[: raw.rfind(b"\n") + 1], path)


def _parse(raw: bytes, path: Path) -> tuple[Header, list[dict[str, Any]]]:
    forms = []
    for number, line in enumerate(raw.splitlines(), 1):
        try:
            forms.append(json.loads(line))
        except ValueError:
            raise InvalidRequest(f"{path}, line {number}, is no JSON: it was changed by hand?") from None
    if not forms:
        raise InvalidRequest(f"{path} is no store of a sweep: it has no header")
    return Header.from_json(forms[0], path), forms[1:]


def require_file(path: Path) -> None:
    """Raise EngineError for what is there and no file: a device cannot be gone on with."""
    if path.exists() and not path.is_file():
        raise EngineError(f"{path} is no file")


def write(path: Path, header: Header, lines: Iterable[Mapping[str, Any]]) -> None:
    """A whole store at once, or nothing; through a link, to what it leads to. Raises EngineError when it
    cannot be written."""
    require_file(path)
    path = path.resolve()
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            for line in (header.as_json(), *lines):
                file.write(_line(line))
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


class Store:
    """A store that is being written: locked against a second sweep, with what it held before.

    Raises EngineError when the file cannot be written or is in use, InvalidRequest when it is another sweep's
    or, unless `force`, another machine's or version's.
    """

    def __init__(self, path: Path, header: Header, *, force: bool = False) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        try:
            require_file(path)
            self._file: TextIO = path.open("a+", encoding="utf-8", newline="\n")
        except OSError as error:
            raise EngineError(f"store {path} cannot be written: {error.strerror}") from None
        try:
            self._lock()
            self._resume(header, force)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EngineError(f"store {self.path} is in use by another sweep") from None
        except OSError:  # a file system without locks
            pass

    def _resume(self, header: Header, force: bool) -> None:
        self._file.seek(0)
        raw = self._file.buffer.read()
        whole = raw[: raw.rfind(b"\n") + 1]
        if not whole:
            if raw and not _line(header.as_json()).encode().startswith(raw[: len(_BEGINNING)]):
                raise InvalidRequest(f"{self.path} is no store of a sweep")
            os.truncate(self._file.fileno(), 0)
            self._append(header.as_json())
            return
        there, lines = _parse(whole, self.path)
        _require_same(self.path, there, header, force)
        os.truncate(self._file.fileno(), len(whole))
        self.lines = lines

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line whole. What cannot be written is printed to stderr, so that it is not lost, and
        EngineError is raised."""
        try:
            self._append(line)
        except OSError as error:
            if sys.stderr is not None:
                sys.stderr.write(_line(line))
            raise EngineError(
                f"store {self.path} cannot be written: {error.strerror}; the row that is not in it was "
                "printed to stderr"
            ) from None

    def _append(self, line: Mapping[str, Any]) -> None:
        append_text(self._file.fileno(), _line(line))

    def close(self) -> None:
        self._file.close()


def append_text(descriptor: int, text: str) -> None:
    """Add a text whole, or nothing of it, to a file that is open for appending: past Python's buffer, which
    would keep what could not be written and try again at the close. Raises OSError."""
    before = os.fstat(descriptor).st_size
    left = text.encode()
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.truncate(descriptor, before)
        raise


def _line(form: Mapping[str, Any]) -> str:
    return json.dumps(form, allow_nan=False, separators=(",", ":")) + "\n"


def _require_same(path: Path, there: Header, header: Header, force: bool) -> None:
    if set(there.axes) != set(header.axes):
        raise InvalidRequest(
            f"store {path} belongs to another sweep, over {', '.join(there.axes)} and not "
            f"{', '.join(header.axes)}: choose another file"
        )
    if there.function != header.function:
        raise InvalidRequest(
            f"store {path} holds rows of another function, or of the same before it was changed: choose "
            "another file, or give key= (a text of your own) to both if they measure the same"
        )
    if there.fingerprint != header.fingerprint and not force:
        changed = [
            f"{name} {there.environment.get(name)!r} → {value!r}"
            for name, value in header.environment.items()
            if there.environment.get(name) != value
        ]
        raise InvalidRequest(
            f"store {path} was measured elsewhere or by another version ({', '.join(changed) or 'unknown'}): "
            "its rows cannot be compared with new ones; choose another file, or give force=True (--force)"
        )
