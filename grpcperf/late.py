"""Names of a package that are imported when they are first asked for, so that importing the package costs
little."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def importer(package: dict[str, Any], names: Mapping[str, str]) -> Callable[[str], object]:
    """A module's __getattr__ for `names`, each with the module of the package that has it ("" for a module
    by its own name). `package`: the globals of the package, where a name stays once it is there."""

    def find(name: str) -> object:
        from importlib import import_module

        home = str(package["__name__"])
        if name not in names:
            raise AttributeError(f"module {home!r} has no attribute {name!r}")
        if not names[name]:
            return import_module(f"{home}.{name}")
        found: object = getattr(import_module(f"{home}.{names[name]}"), name)
        package[name] = found
        return found

    return find
