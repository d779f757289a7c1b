"""histogram: the layout, exact merging, and quantiles that do not say more than was measured."""

import json
import math
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpcperf.errors import InvalidRequest
from grpcperf.histogram import MAX_NS, SLOTS, Histogram, read_entries, slot_high, slot_low, slot_of
from grpcperf.units import NOTHING

values_ns = st.one_of(
    st.integers(0, 5000),
    st.integers(0, 10**9),
    st.integers(MAX_NS - 10**9, MAX_NS + 10**9),
    st.integers(0, 2 * MAX_NS),
)
samples = st.lists(values_ns, max_size=200)
edges = sorted({max(0, 2**n + d) for n in range(42) for d in (-1, 0, 1)} | {0, MAX_NS - 1, MAX_NS})


def of(ns):
    return Histogram.from_values(value / 1e9 for value in ns)


def nearest_rank(ordered, q):
    return ordered[max(1, math.ceil(q * len(ordered) - 1e-9)) - 1]


def test_slots_tile_the_range_without_a_gap():
    assert slot_low(0) == 0
    last = slot_of(MAX_NS)
    assert last < SLOTS
    for slot in range(last):
        assert slot_high(slot) + 1 == slot_low(slot + 1)


@given(st.integers(0, MAX_NS))
def test_a_value_lies_in_its_slot_and_slots_are_narrow(value):
    slot = slot_of(value)
    assert slot_low(slot) <= value <= slot_high(slot)
    assert slot_high(slot) - slot_low(slot) <= max(0, value / 1024)


def test_the_layout_is_the_engines():
    from grpcperf import _engine

    rng = random.Random(1)
    for value in [
        *edges,
        *(rng.randrange(MAX_NS) for _ in range(2000)),
        *(rng.randrange(5000) for _ in range(500)),
    ]:
        assert slot_of(value) == _engine.histogram_slot(value), value
    for slot in [*range(0, slot_of(MAX_NS), 37), slot_of(MAX_NS)]:
        assert slot_high(slot) == _engine.histogram_slot_high(slot), slot


def test_known_slots():
    # Worked out by hand from HdrHistogram's definition: the first two are linear, then 1,024 per doubling.
    assert [slot_of(v) for v in (0, 2047, 2048, 2049, 2050, 4095, 4096, 4099, 4100)] == [
        *(0, 2047, 2048, 2048, 2049, 3071, 3072, 3072, 3073),
    ]


@pytest.mark.parametrize("value", [-1, MAX_NS + 1])
def test_values_out_of_range_have_no_slot(value):
    with pytest.raises(ValueError, match="is not from 0 to"):
        slot_of(value)


@given(samples, samples)
def test_merging_is_the_histogram_of_all(a, b):
    merged = of(a) + of(b)
    assert merged == of(a + b)
    assert hash(merged) == hash(of(a + b))
    assert merged == of(b) + of(a)
    assert merged.count == len(a) + len(b)
    assert sum([of(a), of(b)]) == merged


@given(samples)
def test_extremes_and_mean_are_exact(ns):
    h = of(ns)
    assert h.overflow == sum(value > MAX_NS for value in ns)
    if not ns:
        assert (h.min, h.max, h.mean, h.p50, h.sum) == (None, None, None, None, 0)
        return
    assert (h.min, h.max) == (min(ns) / 1e9, max(ns) / 1e9)
    assert h.mean == pytest.approx(sum(ns) / len(ns) / 1e9)


@given(st.lists(values_ns, min_size=25, max_size=400), st.floats(0, 1))
def test_a_quantile_is_the_nearest_rank_to_three_digits(ns, q):
    h, exact = of(ns), nearest_rank(sorted(ns), q) / 1e9
    found = h.quantile(q)
    if found is not None:
        assert h.min <= found <= h.max
        if exact <= MAX_NS / 1e9:
            assert exact <= found <= exact * (1 + 1 / 1024) + 1e-12
        else:
            assert found == h.max


@given(st.lists(values_ns, min_size=30, max_size=300), st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_quantiles_rise_with_q(ns, qs):
    h = of(ns)
    told = [value for value in (h.quantile(q) for q in sorted(qs)) if value is not None]
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("count", "q", "told"),
    [
        (1000, 0.99, True),
        (999, 0.99, False),
        (200, 0.99, False),
        (10_000, 0.999, True),
        (9_999, 0.999, False),
        (20, 0.5, True),
        (19, 0.5, False),
        (100, 0.9, True),
        (99, 0.9, False),
        (1000, 1.0, False),
        (1100, 0.01, True),  # ten below its rank, 11
        (1000, 0.01, False),
        (1000, 0.0, False),
    ],
)
def test_a_percentile_needs_ten_samples_beyond_it(count, q, told):
    assert (of(range(1000, 1000 + count)).quantile(q) is not None) is told


def test_a_rank_is_not_off_by_one_through_rounding():
    assert 0.07 * 10_000 > 700  # what floating point makes of it
    assert of(range(1, 10_001)).quantile(0.07) == 700e-9


def test_named_percentiles():
    h = of(range(1, 10_001))
    assert h.p50 == slot_high(slot_of(5000)) / 1e9
    assert h.p90 == slot_high(slot_of(9000)) / 1e9
    assert h.p99 == slot_high(slot_of(9900)) / 1e9
    assert h.p999 == slot_high(slot_of(9990)) / 1e9


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan, "0.5", None, True])
def test_nonsense_quantiles_are_refused(q):
    with pytest.raises(InvalidRequest, match="a quantile must be from 0 to 1"):
        of([1, 2]).quantile(q)


@given(samples)
def test_the_compact_forms_read_back(ns):
    h = of(ns)
    assert Histogram.from_json(json.loads(json.dumps(h.to_json()))) == h
    assert pickle.loads(pickle.dumps(h)) == h
    raw = {
        "count": h.count,
        "overflow": h.overflow,
        "sum_ns": sum(ns),
        "min_ns": min(ns, default=2**64 - 1),
        "max_ns": max(ns, default=0),
        "entries": h.entries,
    }
    assert Histogram.from_engine(raw) == h
    assert tuple(read_entries(h.entries)) == h.slots


def test_another_layout_is_refused():
    with pytest.raises(InvalidRequest, match="layout"):
        Histogram.from_json(of([5]).to_json() | {"layout": "hdr-2-1us"})


def test_from_slots_alone_the_edges_bound_what_is_not_known():
    h = Histogram([(slot_of(10_000), 3), (slot_of(20_000), 1)])
    assert slot_low(slot_of(10_000)) / 1e9 == h.min
    assert slot_high(slot_of(20_000)) / 1e9 == h.max
    assert h.mean == pytest.approx(12_500e-9, rel=1 / 1000)


@pytest.mark.parametrize("slots", [[(-1, 1)], [(SLOTS, 1)], [(3, -1)], [(3, 1), (3, 2)]])
def test_broken_slots_are_refused(slots):
    with pytest.raises(ValueError, match="slots must be"):
        Histogram(slots)


def test_it_cannot_be_changed():
    with pytest.raises(AttributeError):
        of([1]).count = 5


def test_its_text_names_what_is_known():
    assert repr(Histogram()) == "Histogram(empty)"
    assert repr(of([1_440_000] * 1000)) == (
        "Histogram(1,000 samples, min 1.44 ms, p50 1.44 ms, p90 1.44 ms, p99 1.44 ms, "
        f"p99.9 {NOTHING}, max 1.44 ms)"
    )


def test_it_is_not_equal_to_other_things():
    assert of([1]) != 1
    with pytest.raises(TypeError):
        of([1]) + 1
