"""units: durations and sizes as people write them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpcperf import units
from grpcperf.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2),
        ("2s", 2.0),
        ("1m", 60.0),
        ("50us", 50e-6),
        ("50µs", 50e-6),
        ("50μs", 50e-6),
        ("1h", 3600.0),
        ("3min", 180.0),
        ("7ns", 7e-9),
        ("1.5 s", 1.5),
        (" 2 ", 2.0),
        ("1m30s", 90.0),
        ("1e-3s", 0.001),
        (".5s", 0.5),
        (3, 3.0),
        (0.25, 0.25),
        (Fraction(1, 4), 0.25),
        (np.float64(0.5), 0.5),
        (np.int64(2), 2.0),
    ],
)
def test_durations(text, seconds):
    assert units.seconds(text, "duration") == seconds


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "s", "ms2", "2 parsecs", "1s2", "1s-2s", "2s-1s",
        "--1s", "nan", "inf", "1e999s", "1e99999999s",
        "9" * 100,
        math.nan, math.inf, -math.inf, True, np.True_, None, [1], np.array([1.0, 2.0]), 10**400, 1j, "-1s",
        -1, 8 * 86400,
    ],
)  # fmt: skip
def test_what_is_no_duration_is_named_with_its_bounds(value):
    with pytest.raises(
        InvalidRequest, match=r"^warmup must be a duration from 0 s to 7 d, .* not "
    ) as caught:
        units.seconds(value, "warmup")
    assert repr(value)[:50] in str(caught.value)


def test_a_duration_may_have_to_be_above_its_bound():
    assert units.seconds(0, "drain") == 0
    for value in (0, "0s", 1e-12, "0.9ns"):  # less than the engine's unit would be rounded to no time at all
        with pytest.raises(InvalidRequest, match="above 0 s to 7 d"):
            units.seconds(value, "duration", above=True)
    assert units.seconds("1ns", "duration", above=True) == 1e-9


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *[("64KiB", 65536), ("4MiB", 4 << 20), ("1GiB", 1 << 30), ("1MB", 10**6), ("2kB", 2000)],
        *[
            ("2KB", 2000),
            ("1.5KiB", 1536),
            (" 16 B ", 16),
            ("16", 16),
            (16, 16),
            (0, 0),
            (np.int32(7), 7),
            ("1_000", 1000),
        ],
    ],
)
def test_sizes(text, size):
    assert units.size_bytes(text, "request_size") == size


@pytest.mark.parametrize(
    "value",
    ["64K", "1.5B", "1.0001KiB", "KiB", "", "1MiB1", "nan", 1.5, 2.0, True, None, -1, "-1", "2GiB", "9" * 99],
)
def test_what_is_no_size_is_named_with_its_bounds(value):
    with pytest.raises(
        InvalidRequest, match=r"^request_size must be a size from 0 to 1 GiB, .* not "
    ) as caught:
        units.size_bytes(value, "request_size")
    assert repr(value)[:50] in str(caught.value)


@pytest.mark.parametrize(("value", "count"), [(5, 5), ("5", 5), ("10_000", 10_000), (np.int64(5), 5)])
def test_counts(value, count):
    assert units.count(value, "calls") == count


@pytest.mark.parametrize("value", [0, -1, 1.0, "1.0", "", "x", True, np.True_, None, 2**31, math.nan])
def test_what_is_no_count_is_named_with_its_bounds(value):
    with pytest.raises(
        InvalidRequest, match="connections must be a whole number from 1 to 2,147,483,647, not "
    ):
        units.count(value, "connections")


def test_a_long_value_is_not_repeated_in_full():
    with pytest.raises(InvalidRequest) as caught:
        units.count("x" * 10_000, "calls")
    assert len(str(caught.value)) < 200


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no repr")

    __float__ = __repr__


@pytest.mark.parametrize(
    "value", [10**5000, -(10**5000), "9" * 5000, Unshowable()], ids=["large", "negative", "text", "object"]
)
@pytest.mark.parametrize("check", [units.count, units.size_bytes, units.seconds])
def test_a_value_that_cannot_even_be_shown_is_refused_all_the_same(check, value):
    with pytest.raises(InvalidRequest, match=r"^calls must be .* not ") as caught:
        check(value, "calls")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00144, "1.44 ms"), (0.00069, "690 µs"), (2.0, "2 s"), (90.0, "90 s"), (150.0, "2.5 min"),
        (3600.0, "1 h"),
        (0.0, "0 s"), (5e-9, "5 ns"), (999.7e-6, "1 ms"), (0.99996, "1 s"), (604800.0, "7 d"),
        (None, units.NOTHING), (-0.002, "-2 ms"),
    ],
)  # fmt: skip
def test_durations_for_people(seconds, text):
    assert units.format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (65536, "64 KiB"),
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (4 << 20, "4 MiB"),
        (1 << 30, "1 GiB"),
        (None, units.NOTHING),
        (13_312.5, "13 KiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_sizes_for_people(size, text):
    assert units.format_bytes(size) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (90934, "90,934"),
        (90934.4, "90,934"),
        (10.84, "10.8"),
        (0.01234, "0.0123"),
        (0, "0"),
        (0.0, "0"),
        (None, units.NOTHING),
    ],
)
def test_numbers_for_people(number, text):
    assert units.format_number(number) == text


@given(st.floats(min_value=1e-9, max_value=6e5))
def test_a_printed_duration_reads_back_to_three_digits(seconds):
    text = units.format_seconds(seconds)
    if text.endswith(" d"):
        return  # days are printed and not read
    assert units.seconds(text.replace(",", ""), "x") == pytest.approx(seconds, rel=0.00501)


@given(st.integers(min_value=0, max_value=2**30))
def test_a_printed_size_reads_back_to_three_digits(size):
    number, unit = units.format_bytes(size).replace(",", "").split()
    assert float(number) * {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}[unit] == pytest.approx(
        size, rel=0.00501
    )


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(["ns", "us", "ms"]))
def test_whole_numbers_of_a_unit_are_exact(number, unit):
    scale = {"ns": 10**9, "us": 10**6, "ms": 1000}[unit]
    if number / scale <= 7 * units.DAY:
        assert units.seconds(f"{number}{unit}", "x") == number / scale
