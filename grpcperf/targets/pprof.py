"""Profiles as Go's runtime gives them (github.com/google/pprof, proto/profile.proto), read into rows."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grpcperf.errors import EngineError

# What allocates on behalf of its caller, which is who is meant.
_ALLOCATORS = ("runtime.mallocgc", "runtime.newobject", "runtime.makeslice", "runtime.growslice")


@dataclass(frozen=True)
class Profile:
    """What was sampled: for each sample a stack of function names, innermost first, and a value for each of
    `kinds` ("inuse_space", "samples", ...)."""

    kinds: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], tuple[int, ...]]]

    def column(self, kind: str) -> int:
        """Where the values of a kind are. Raises EngineError."""
        if kind not in self.kinds:
            raise EngineError(f"the profile has no {kind}, only {', '.join(self.kinds)}")
        return self.kinds.index(kind)


def decode(data: bytes) -> Profile:
    """A profile from its bytes, compressed or not. Raises EngineError for anything else."""
    try:
        return _decode(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, zlib.error, ValueError, IndexError, KeyError) as error:
        raise EngineError(f"this is not a profile: {error}") from None


def heap_rows(profile: Profile) -> list[dict[str, Any]]:
    """By the function that allocated: function, bytes and objects that are in use, package; most first."""
    sizes, objects = profile.column("inuse_space"), profile.column("inuse_objects")
    in_use: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for stack, values in profile.samples:
        callers = [name for name in stack if not name.startswith(_ALLOCATORS)] or list(stack)
        if callers:
            in_use[callers[0]] += values[sizes]
            count[callers[0]] += values[objects]
    return [
        {"function": name, "bytes": size, "objects": count[name], "package": package_of(name)}
        for name, size in in_use.most_common()
        if size
    ]


def goroutine_rows(profile: Profile) -> list[dict[str, Any]]:
    """By the function that a goroutine began with and the first one outside of the runtime where it is now:
    function, count, waits_in; most first."""
    column = profile.column("goroutine")
    found: Counter[tuple[str, str]] = Counter()
    for stack, values in profile.samples:
        outside = [name for name in stack if package_of(name) != "runtime"] or list(stack)
        if outside:
            found[outside[-1], outside[0]] += values[column]
    return [
        {"function": function, "count": count, "waits_in": place}
        for (function, place), count in found.most_common()
    ]


def cpu_rows(profile: Profile) -> list[dict[str, Any]]:
    """By function: flat_s (itself) and cum_s (with what it called), in CPU seconds; most flat first."""
    column = profile.column("cpu")
    flat: Counter[str] = Counter()
    cumulated: Counter[str] = Counter()
    for stack, values in profile.samples:
        flat.update(dict.fromkeys(stack[:1], values[column]))
        cumulated.update(dict.fromkeys(stack, values[column]))
    rows = [
        {"function": name, "flat_s": flat[name] / 1e9, "cum_s": cumulated[name] / 1e9} for name in cumulated
    ]
    return sorted(rows, key=lambda row: (row["flat_s"], row["cum_s"]), reverse=True)


def package_of(function: str) -> str:
    """ "a.b/c.(*T).m" is in "a.b/c"; what stands in brackets are type arguments."""
    name = function.partition("[")[0]
    folder, slash, rest = name.rpartition("/")
    return folder + slash + rest.partition(".")[0]


# --- the format: fields of a message are (number, value), an int or the bytes of what is inside


def _decode(data: bytes) -> Profile:
    kinds: list[int] = []
    samples: list[tuple[list[int], list[int]]] = []
    locations: dict[int, list[int]] = {}
    functions: dict[int, int] = {}
    texts: list[str] = []
    for number, value in _fields(data):
        if number == 1:  # sample_type: a ValueType
            kinds.append(_only(value, 1))
        elif number == 2:  # sample
            samples.append((_numbers(value, 1), _numbers(value, 2)))
        elif number == 4:  # location: its lines are what was inlined there, innermost first
            lines = [inside for field, inside in _fields(_message(value)) if field == 4]
            locations[_only(value, 1)] = [_only(line, 1) for line in lines]
        elif number == 5:  # function
            functions[_only(value, 1)] = _only(value, 2)
        elif number == 6:  # string_table
            texts.append(_message(value).decode("utf-8", "replace"))
    names = {place: tuple(texts[functions[each]] for each in lines) for place, lines in locations.items()}
    return Profile(
        tuple(texts[kind] for kind in kinds),
        [(tuple(n for place in stack for n in names[place]), tuple(values)) for stack, values in samples],
    )


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of unknown type {kind}")
        if at + length > len(data):
            raise ValueError("it is cut off")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message belongs")
    return value


def _numbers(message: int | bytes, wanted: int) -> list[int]:
    """A repeated int64 or uint64, packed or not."""
    found: list[int] = []
    for number, value in _fields(_message(message)):
        if number != wanted:
            continue
        if isinstance(value, int):
            found.append(_signed(value))
            continue
        at = 0
        while at < len(value):
            each, at = _varint(value, at)
            found.append(_signed(each))
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _only(message: int | bytes, wanted: int) -> int:
    """The number in a field of a message; 0 when it is not there, as in proto3."""
    return next(iter(_numbers(message, wanted)), 0)
