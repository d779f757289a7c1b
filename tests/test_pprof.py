"""Profiles of Go's runtime: the format, from bytes made by hand."""

import contextlib
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

import grpcperf as gp
from grpcperf.targets import pprof


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def inside(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


Samples = list[tuple[list[int], list[int]]]


def profile(kinds: list[str], samples: Samples, places: dict[int, list[str]]) -> bytes:
    """`places`: the functions at a location, innermost first. Half of the numbers are packed, as both forms
    occur."""
    names = sorted({name for lines in places.values() for name in lines})
    texts = ["", *kinds, *names]
    out = b"".join(inside(1, number(1, texts.index(kind))) for kind in kinds)
    for stack, values in samples:
        packed = inside(1, b"".join(map(varint, stack)))
        out += inside(2, packed + b"".join(number(2, value) for value in values))
    for place, lines in places.items():
        each = (inside(4, number(1, 1 + names.index(name)) + number(2, 42)) for name in lines)
        out += inside(4, number(1, place) + number(3, 0xFFFF_FFFF_0000) + b"".join(each))
    for index, name in enumerate(names):
        out += inside(5, number(1, index + 1) + number(2, texts.index(name)))
    out += b"".join(inside(6, text.encode()) for text in texts)
    return out + varint(9 << 3 | 1) + bytes(8) + number(12, 524_288)


PLACES = {
    7: ["runtime.mallocgc", "runtime.newobject"],
    1: ["a.b/c.(*T).m"],
    2: ["main.inlined[go.shape.struct { a/b.x }]", "main.outer"],
    3: ["runtime.goexit"],
}


def test_heap_is_charged_to_who_asked_for_it() -> None:
    data = profile(
        ["inuse_objects", "inuse_space"],
        [([7, 1, 2], [2, 200]), ([1, 3], [1, 50]), ([2], [3, 1000]), ([3], [0, 0]), ([7], [4, 10])],
        PLACES,
    )
    for form in (data, gzip.compress(data)):
        assert pprof.heap_rows(pprof.decode(form)) == [
            {"function": PLACES[2][0], "bytes": 1000, "objects": 3, "package": "main"},
            {"function": "a.b/c.(*T).m", "bytes": 250, "objects": 3, "package": "a.b/c"},
            {"function": "runtime.mallocgc", "bytes": 10, "objects": 4, "package": "runtime"},
        ]


def test_goroutines_are_told_by_where_they_began_and_wait() -> None:
    places = {1: ["runtime.gopark"], 2: ["main.wait"], 3: ["main.serve"], 4: ["runtime.goexit"]}
    data = profile(["goroutine"], [([1, 2, 3, 4], [5]), ([1, 3, 4], [2]), ([1, 4], [1])], places)
    assert pprof.goroutine_rows(pprof.decode(data)) == [
        {"function": "main.serve", "count": 5, "waits_in": "main.wait"},
        {"function": "main.serve", "count": 2, "waits_in": "main.serve"},
        {"function": "runtime.goexit", "count": 1, "waits_in": "runtime.gopark"},
    ]


def test_cpu_counts_a_function_once_per_stack() -> None:
    places = {1: ["f"], 2: ["g"]}
    data = profile(["samples", "cpu"], [([1, 2, 1], [1, 10_000_000]), ([2], [3, 30_000_000])], places)
    assert pprof.cpu_rows(pprof.decode(data)) == [
        {"function": "g", "flat_s": 0.03, "cum_s": 0.04},
        {"function": "f", "flat_s": 0.01, "cum_s": 0.01},
    ]


def test_negative_values_are_values() -> None:
    assert pprof.decode(profile(["delta"], [([1], [-5])], {1: ["f"]})).samples == [(("f",), (-5,))]


def test_a_profile_without_what_is_asked_for_is_told() -> None:
    decoded = pprof.decode(profile(["goroutine"], [], {}))
    with pytest.raises(gp.EngineError, match="no inuse_space, only goroutine"):
        pprof.heap_rows(decoded)


whole = profile(["a"], [([2], [1])], PLACES)


@given(st.binary(max_size=200) | st.integers(0, len(whole) - 1).map(lambda cut: whole[:cut]))
def test_what_is_no_profile_is_an_error_and_nothing_else(data: bytes) -> None:
    for form in (data, b"\x1f\x8b" + data):
        with contextlib.suppress(gp.EngineError):
            pprof.decode(form)


def test_a_profile_that_is_cut_off_is_told() -> None:
    for form in (whole[:-3], gzip.compress(whole)[:-3], b"\x1f\x8bnonsense", b"\xff" * 20):
        with pytest.raises(gp.EngineError, match="not a profile"):
            pprof.decode(form)
