"""Durations and sizes as people write them: text to numbers on the way in, numbers to text on the way out.

Inside the package a duration is a float of seconds and a size an int of bytes. Everything that does not parse
or is out of bounds is an InvalidRequest that names the argument, the value and the bounds.
"""

from __future__ import annotations

import math
import operator
import re
from typing import Any

from grpcperf.errors import InvalidRequest

DAY = 86_400.0
KIB, MIB, GIB = 1024, 1024**2, 1024**3

_LEAST_S = 1e-9
_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter, which looks the same
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_BYTES = {
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
}
_NUMBER = r"[+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
_DURATION = re.compile(rf"({_NUMBER})\s*([a-zµμ]*)", re.IGNORECASE)
_SIZE = re.compile(rf"({_NUMBER})\s*([a-z]*)", re.IGNORECASE)


def seconds(value: Any, name: str, *, low: float = 0.0, high: float = 7 * DAY, above: bool = False) -> float:
    """A duration in seconds from a number of seconds or a text such as "200ms", "2s", "1m", "50us", "1m30s".

    Bounds are inclusive; `above` excludes `low` itself, and what is less than the engine's 1 ns above it: it
    would be rounded to `low`. Raises InvalidRequest.
    """
    bounds = f"{'above' if above else 'from'} {format_seconds(low)} to {format_seconds(high)}"
    wanted = f'a duration {bounds}, in seconds or as "200ms", "2s", "1m"'
    number = _parse_seconds(value) if isinstance(value, str) else real(value)
    if number is None or not low <= number <= high or (above and number < low + _LEAST_S):
        raise InvalidRequest(f"{name} must be {wanted}, not {shown(value)}")
    return number


def size_bytes(value: Any, name: str, *, low: int = 0, high: int = GIB) -> int:
    """A size from an int of bytes or a text such as "64KiB", "1MB" (1,000,000). Raises InvalidRequest."""
    wanted = f'a size from {low} to {format_bytes(high)}, in bytes or as "64KiB", "1MB"'
    number = _parse_size(value) if isinstance(value, str) else _integer(value)
    if number is None or not low <= number <= high:
        raise InvalidRequest(f"{name} must be {wanted}, not {shown(value)}")
    return number


def count(value: Any, name: str, *, low: int = 1, high: int = 2**31 - 1) -> int:
    """A whole number, given as an int or a text of digits. Raises InvalidRequest."""
    number = _integer(value)
    if isinstance(value, str) and len(value) <= 64 and re.fullmatch(r"\s*[+-]?\d+(_\d+)*\s*", value):
        number = int(value)
    if number is None or not low <= number <= high:
        raise InvalidRequest(f"{name} must be a whole number from {low:,} to {high:,}, not {shown(value)}")
    return number


def crossing(value: str, name: str) -> str:
    """A text that C can be given. Raises InvalidRequest."""
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidRequest(f"{name} must be text without NUL and lone surrogates, not {shown(value)}")
    return value


def one_of(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """One of the given words. Raises InvalidRequest."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidRequest(f"{name} must be one of {', '.join(map(repr, choices))}, not {shown(value)}")
    return value


def _parse_seconds(text: str) -> float | None:
    """Sums the parts, so that Go's "1m30s" works; a number alone is in seconds. None: does not parse."""
    from fractions import Fraction  # exact, and only here: it is not cheap to import

    text = text.strip()
    if len(text) > 64:
        return None
    total, position = Fraction(0), 0
    while position < len(text) or not text:
        part = _DURATION.match(text, position)
        if part is None:
            return None
        unit = part[2].lower()
        alone = position == 0 and part.end() == len(text)
        if unit not in _NANOSECONDS and not (alone and unit == ""):
            return None
        if position and part[1][0] in "+-":
            return None
        total += Fraction(part[1]) * Fraction(_NANOSECONDS.get(unit, 10**9), 10**9)
        position = part.end()
        while position < len(text) and text[position].isspace():
            position += 1
    try:
        return float(total)
    except OverflowError:
        return None


def _parse_size(text: str) -> int | None:
    from fractions import Fraction

    part = _SIZE.fullmatch(text.strip()) if len(text) <= 64 else None
    if part is None or part[2].lower() not in (*_BYTES, ""):
        return None
    total = Fraction(part[1]) * _BYTES.get(part[2].lower(), 1)
    return int(total) if total.denominator == 1 else None


def real(value: Any) -> float | None:
    if _is_bool(value) or not hasattr(value, "__float__"):
        return None
    try:
        number = float(value)
    except Exception:  # whatever its __float__ raises: it is no number
        return None
    return number if math.isfinite(number) else None


def _integer(value: Any) -> int | None:
    if _is_bool(value):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # numpy's own


def shown(value: Any) -> str:
    """A value as an error message repeats it: its repr, in short. A repr may fail, also that of an int: with
    more than 4,300 digits it is none in decimal."""
    try:
        text = repr(value)
    except Exception:
        text = hex(value) if isinstance(value, int) else f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


_LOPSIDED = 0.01  # of an interval: how far from its middle the number may be for ± to tell it
NOTHING = "–"  # noqa: RUF001  what is printed for None: an en dash reads as "no value" in a column of numbers


def format_seconds(value: float | None) -> str:
    """Three significant digits with the fitting unit: 1.44 ms, 2 s, 690 µs, 2.5 min; NOTHING for None."""
    if value is None:
        return NOTHING
    magnitude = abs(value)
    if magnitude == 0:
        return "0 s"
    if magnitude >= 86_399.5:
        return f"{_digits(value / DAY)} d"
    if magnitude >= 3_599.5:
        return f"{_digits(value / 3600)} h"
    if magnitude >= 119.95:
        return f"{_digits(value / 60)} min"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if magnitude >= scale * 0.9995:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value / 1e-9)} ns"


def format_bytes(value: float | None) -> str:
    """Three significant digits in B, KiB, MiB or GiB: 64 KiB, 1.5 MiB; NOTHING for None."""
    if value is None:
        return NOTHING
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(value) >= scale * 0.9995:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value)} B"


def format_number(value: float | None) -> str:
    """Counts in full (90,934), other numbers with three significant digits (0.0121); NOTHING for None."""
    if value is None:
        return NOTHING
    if isinstance(value, int):
        return f"{value:,}"
    return _digits(value)


def format_interval(value: float, low: float | None, high: float | None) -> str:
    """A number with its interval: "12.4 ± 0.3", or "12.4 [12.3, 13.1]" where it is not in the middle; the
    number alone without one."""
    if low is None or high is None or low >= high:
        return format_number(value)
    if abs((high - value) - (value - low)) > _LOPSIDED * (high - low):
        return f"{format_number(value)} [{format_number(low)}, {format_number(high)}]"
    return f"{format_number(value)} ± {format_number((high - low) / 2)}"


def _digits(value: float) -> str:
    """Three significant digits, all digits before the point, no trailing zeros, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
