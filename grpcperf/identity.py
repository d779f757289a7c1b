"""What a function does, as a text that is the same from one process to the next: how a store knows whether
its rows were measured by the function that is given now."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import hashlib
import json
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def key_of(function: Callable[..., Any]) -> str:
    """A key that changes when the function's code, its closure, its defaults, or the plain values and the
    functions of its own that it names as globals change.

    Targets count by the arguments they were made with, objects and classes of the user's by what is in them,
    those of the standard library and of installed packages by their name alone.
    """
    described = _Describer().describe(function)
    return digest(described)


def digest(value: Any) -> str:
    """A short text for a value of plain JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def plain(value: Any) -> Any:
    """A value as JSON can hold it, the same for equal values: numbers, texts, lists and dicts as they are,
    all else as its text (a model as "thread:65536") or, for what is callable, its name."""
    if value is None or isinstance(value, bool | int | str):
        return value if not isinstance(value, enum.Enum) else value.name
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has neither NaN nor infinity
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        return plain(value.item())
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    has_text = getattr(type(value), "__str__", None) is not object.__str__
    return str(value) if has_text else type(value).__qualname__


class _Describer:
    """Walks from a function through all it refers to, each once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no id is used twice

    def describe(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str | bytes | enum.Enum):
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._seen:
            return "seen"
        self._seen.add(id(value))
        self._kept.append(value)
        return self._compound(value)

    def _compound(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return [self.describe(value.__func__), self.describe(value.__self__)]
        if isinstance(value, functools.partial):
            return [self.describe(part) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, Mapping):
            return {str(key): self.describe(item) for key, item in value.items()}
        if isinstance(value, set | frozenset):
            return sorted(str(self.describe(item)) for item in value)
        if isinstance(value, list | tuple):
            return [self.describe(item) for item in value]
        if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
            return f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', value.__name__)}"
        if isinstance(value, type):
            return self._class(value)
        return self._object(value)

    def _class(self, value: type) -> Any:
        """A class of the user's by its methods and constants, any other by its name."""
        made = f"{value.__module__} {value.__qualname__}"
        if _is_installed_module(value.__module__):
            return made
        own = {name: item for name, item in vars(value).items() if not name.startswith("__")}
        return [made, self.describe(own)]

    def _function(self, function: types.FunctionType) -> Any:
        if _is_installed(function):
            return f"{function.__module__} {function.__qualname__}"
        closure = [_content(cell) for cell in function.__closure__ or ()]
        return {
            "code": self._code(function.__code__),
            "closure": [self.describe(item) for item in closure],
            "defaults": [self.describe(function.__defaults__), self.describe(function.__kwdefaults__)],
            "globals": {
                name: self.describe(function.__globals__[name])
                for name in sorted(_names(function.__code__))
                if name in function.__globals__
            },
        }

    def _code(self, code: types.CodeType) -> Any:
        """What it does; not where it stands, so that lines may be added above it."""
        constants = [
            self._code(item) if isinstance(item, types.CodeType) else self._constant(item)
            for item in code.co_consts
        ]
        return [code.co_code.hex(), constants, list(code.co_names), list(code.co_varnames)]

    def _constant(self, value: Any) -> Any:
        """Not by its repr as a whole: a set's order differs from process to process."""
        if isinstance(value, frozenset):
            return ["frozenset", *sorted(repr(item) for item in value)]
        if isinstance(value, tuple):
            return ["tuple", *(self._constant(item) for item in value)]
        return f"{type(value).__name__} {value!r}"

    def _object(self, value: Any) -> Any:
        made = f"{type(value).__module__} {type(value).__qualname__}"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return [made, {field.name: self.describe(getattr(value, field.name)) for field in fields}]
        if isinstance(value, os.PathLike):
            return [made, os.fspath(value)]
        asked = getattr(value, "_asked", None)  # of a target: the arguments it was made with
        if asked is not None:
            return [made, self.describe(asked)]
        if _is_installed_module(type(value).__module__) and not isinstance(value, _PLAIN_HOLDERS):
            return made
        called = [self.describe(type(value).__call__)] if callable(value) else []
        return [made, *called, self.describe(_attributes(value))]


def _names(code: types.CodeType) -> set[str]:
    inner = (item for item in code.co_consts if isinstance(item, types.CodeType))
    return set(code.co_names).union(*(_names(item) for item in inner))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_installed(function: types.FunctionType) -> bool:
    return _is_installed_module(function.__module__)


def _is_installed_module(name: str) -> bool:
    """Of this package, the standard library, or what pip has installed."""
    if name.partition(".")[0] in (__package__, "builtins"):
        return True
    module = sys.modules.get(name)
    return str(getattr(module, "__file__", None) or "").startswith(_installed_folders())


# Classes of the standard library that only hold what they were given.
_PLAIN_HOLDERS = (types.SimpleNamespace, argparse.Namespace)


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return found | getattr(value, "__dict__", {})
