"""One HTML page that needs nothing else: no script, no font, no picture from elsewhere. A click on a heading
sorts its table; the page follows the reader's light or dark scheme."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grpcperf.errors import EngineError


@dataclass(kw_only=True)
class Table:
    """Rows of texts. The columns in `words` are aligned as text, all others as numbers. A row index in
    `totals` is set apart, one in `amiss` marked as not valid."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: frozenset[int] = frozenset()
    totals: frozenset[int] = frozenset()
    amiss: frozenset[int] = frozenset()


@dataclass(kw_only=True)
class Picture:
    title: str
    svg: str
    caption: str = ""


@dataclass(kw_only=True)
class Section:
    title: str
    verdict: str = ""  # the answer, in a sentence
    warning: str = ""  # why it does not count
    text: str = ""  # how it was measured
    pictures: list[Picture] = field(default_factory=list)
    table: Table | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Page:
    title: str
    lead: str
    sections: list[Section]
    facts: dict[str, str] = field(default_factory=dict)  # of the machine
    warning: str = ""  # as "interrupted: ..."


def require_extras(names: Sequence[str] = ("matplotlib", "jinja2")) -> None:
    """Raise EngineError with the command to type when what figures and pages are made with is missing."""
    from importlib.util import find_spec

    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise EngineError(f"{' and '.join(missing)} missing, for figures: pip install {' '.join(missing)}")


def render(page: Page) -> str:
    """The page as HTML. Raises EngineError naming the command when jinja2 is missing."""
    from importlib.resources import files

    require_extras()
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    source = files("grpcperf").joinpath("templates").joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(page=page)


def require_writable(path: Path) -> None:
    """Raise EngineError when no page can be written there, for who asks before measuring for a minute."""
    try:
        place = path.resolve()
        device = place.exists() and not place.is_file()
        usable = not place.is_dir() and (
            os.access(place, os.W_OK) if device else os.access(place.parent, os.W_OK | os.X_OK)
        )
    except OSError:  # the working directory is gone, a name is too long
        usable = False
    if not usable:
        raise EngineError(f"{path} cannot be written: choose another place")


def write(page: Page, path: Path) -> Path:
    """Write the page, whole or not at all; returns its absolute path. What is no file, as /dev/null, is
    written to; a link leads to what is written. Raises EngineError when it cannot be written."""
    text = render(page)
    temporary: Path | None = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return path
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            temporary = Path(file.name)
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return path
