"""diagnose: each finding appears when it should, and not otherwise."""

import random

import pytest

from grpcperf.diagnose import diagnose
from grpcperf.findings import RULES, finding
from grpcperf.histogram import Histogram, slot_of
from grpcperf.spec import Load

SPEC = Load(connections=2, concurrency=64)


def windows(rates, length_s=0.1):
    return [
        {
            "start_s": i * length_s,
            "length_s": length_s,
            "sent": round(rate * length_s),
            "ok": round(rate * length_s),
            "failed": 0,
            "entries": b"",
        }
        for i, rate in enumerate(rates)
    ]


def times(*lots):
    """A histogram as the engine hands it over: lots of (seconds, how many)."""
    ns = [(round(1e9 * value), count) for value, count in lots]
    return {
        "count": sum(count for _, count in ns),
        "overflow": 0,
        "sum_ns": sum(value * count for value, count in ns),
        "min_ns": min((value for value, _ in ns), default=0),
        "max_ns": max((value for value, _ in ns), default=0),
        "entries": Histogram((slot_of(value), count) for value, count in ns).entries,
    }


NOTHING = times()
DEAD_AT_THE_END = windows([10_000] * 15) + [
    one | {"start_s": 1.5 + i / 10, "ok": 0, "failed": one["ok"]}
    for i, one in enumerate(windows([10_000] * 5))
]


def raw(**changes):
    """A closed loop with nothing to find fault with: 10,000 calls/s of 6.4 ms, 64 in flight."""
    noisy = random.Random(4)
    return {
        "latency": times((0.0064, 20_000)),
        "ok_in_window": 20_000,
        "all_in_window": 20_000,
        **dict.fromkeys(("service", "send_lag", "queued"), NOTHING),
        **dict.fromkeys(("not_sent", "bursts", "burst_calls", "largest_burst", "polls", "idle_polls"), 0),
        "steal": 0.0,
        "pressure": 0.1,
        "stopped": False,
        "status": {"OK": 20_000},
        "connected": 2,
        "alive": 2,
        "reconnects": 0,
        "window_s": 2.0,
        "client_cpu_s": 1.0,
        "server_died": False,
        "windows": windows([10_000 * noisy.uniform(0.9, 1.1) for _ in range(20)]),
    } | changes


def codes(spec=SPEC, *, raw_=None, **circumstances):
    return [one.code for one in diagnose(spec, raw_ or raw(), **circumstances)]


def test_a_good_run_has_no_findings():
    assert (
        codes(settings={"max_concurrent_streams": 32}, client_cpus={0}, server_cpus={1}, settled=True) == []
    )
    assert codes(descriptors=(20, 1024)) == []


@pytest.mark.parametrize(
    ("changes", "circumstances", "expected"),
    [
        ({"server_died": True}, {"death": "killed by SIGKILL"}, "server_died"),
        ({"server_died": True}, {}, "server_died"),
        ({}, {"interrupted": True}, "interrupted"),
        ({"status": {}}, {}, "no_calls"),
        ({"status": {"UNAVAILABLE": 5, "INTERNAL": 3}}, {}, "all_failed"),
        ({"connected": 1, "alive": 1}, {}, "fewer_connections_than_asked"),
        ({"status": {"OK": 20_000, "transport": 9}, "alive": 0}, {}, "connection_lost"),
        (
            {
                "status": {"OK": 20_000, "transport": 9},
                "alive": 0,
                "reconnects": 1,
                "windows": DEAD_AT_THE_END,
            },
            {},
            "connection_lost",
        ),
        ({"status": {"OK": 20_000, "transport": 9}, "alive": 0, "reconnects": 1}, {}, "connections_cut"),
        ({"status": {"OK": 20_000, "transport": 9}, "alive": 1}, {}, "connections_cut"),
        ({"status": {"OK": 20_000, "transport": 9}, "reconnects": 2}, {}, "connections_cut"),
        ({"status": {"OK": 999}}, {}, "few_samples"),
        ({"ahead": 3}, {}, "messages_ahead"),
        ({"client_cpu_s": 1.9}, {}, "client_cpu_saturated"),
        ({}, {"settings": {"max_concurrent_streams": 31}}, "server_stream_limit"),
        ({}, {"client_cpus": {0, 1}, "server_cpus": {1, 2}}, "shared_cpus"),
        ({}, {"settled": False}, "not_settled"),
        ({}, {"descriptors": (2000, 1024)}, "fd_limit"),
        ({"windows": windows([5000 + 500 * i for i in range(20)])}, {}, "not_steady"),
        ({"windows": windows([10_000] * 10 + [5_000] * 10)}, {}, "not_steady"),
        ({"steal": 0.011}, {}, "cpu_steal"),
        ({"pressure": 0.26}, {}, "cpu_pressure"),
        ({"pressure": 0.26}, {"client_cpus": {0}, "server_cpus": {1}}, "cpu_pressure"),
        ({"pressure": 0.9}, {"client_cpus": {0}, "server_cpus": {0, 1}}, "shared_cpus"),
        ({"ok_in_window": 14_900}, {}, "little_law_gap"),
        ({}, {"ceiling_rps": 11_000}, "client_cpu_saturated"),
    ],
)
def test_each_finding_alone(changes, circumstances, expected):
    assert codes(raw_=raw(**changes), **circumstances) == [expected]


@pytest.mark.parametrize(
    ("changes", "circumstances"),
    [
        ({"client_cpu_s": 1.89}, {}),
        ({"client_cpu_s": None}, {}),
        ({"window_s": 0.0, "client_cpu_s": 1.0}, {}),
        ({"reconnects": 5, "alive": 0}, {}),  # connections whose time was over, without a call lost
        ({"status": {"OK": 20_000, "UNAVAILABLE": 9}, "reconnects": 2}, {}),  # answered, on wire
        ({"status": {"OK": 1000}}, {}),
        ({}, {"settings": {"max_concurrent_streams": None}}),
        ({}, {"settings": {}}),
        ({}, {"server_cpus": None, "client_cpus": {0}}),
        ({}, {"settled": None}),
        # A trend of 9 %, noise without a trend, one stalled window, and too few windows to tell.
        ({"windows": windows([10_000] * 10 + [9_100] * 10)}, {}),
        ({"windows": windows([5_000, 15_000] * 10)}, {}),
        ({"windows": windows([10_000] * 15 + [0] + [10_000] * 4)}, {}),
        ({"windows": windows([10_000] * 4 + [5_000] * 5)}, {}),
        # A last window of a millisecond that happened to be empty.
        ({"windows": [*windows([10_000] * 20), *windows([0], 0.001)]}, {}),
        ({"windows": []}, {}),
        ({"steal": 0.009, "pressure": 0.24}, {}),
        ({"steal": None, "pressure": None}, {}),
        ({}, {"ceiling_rps": 11_200}),
        # Calls that wait for the peer's limit on streams are in flight as well.
        ({"ok_in_window": 10_000, "queued": times((0.0064, 20_000))}, {}),
        # Failures may rest; in a run of a few latencies its edges decide.
        ({"ok_in_window": 10_000, "status": {"OK": 20_000, "INTERNAL": 1}}, {}),
        ({"ok_in_window": 100, "latency": times((0.1, 100))}, {}),
    ],
)
def test_nothing_is_said_without_a_reason(changes, circumstances):
    assert codes(raw_=raw(**changes), **circumstances) == []


def test_the_reason_of_a_death_is_told():
    (one,) = diagnose(SPEC, raw(server_died=True), death="killed by SIGKILL; last words: assertion failed")
    assert "killed by SIGKILL; last words: assertion failed" in one.message
    assert one.measured == "SIGKILL"
    assert one.severity == "invalid"


def test_a_death_explains_what_it_does_to_the_rate():
    died = raw(server_died=True, windows=windows([10_000] * 10 + [0] * 10))
    assert codes(raw_=died) == ["server_died"]


@pytest.mark.parametrize(
    ("halves", "measured"), [((10_000, 0), -1), ((0, 10_000), 1), ((5_000, 10_000), 0.5), ((0, 0), None)]
)
def test_a_trend_is_a_share_of_the_larger_half(halves, measured):
    """Calls that take long, so that a gap among them is none."""
    first, second = halves
    changed = raw(windows=windows([first] * 10 + [second] * 10), latency=times((1, 20_000)))
    found = diagnose(SPEC.replace(think_time=0.5), changed)
    assert [one.measured for one in found if one.code == "not_steady"] == [measured] * (measured is not None)


# --- what came back late, or never


FROZEN = windows([10_000] * 10 + [0] * 10)
PAUSED = windows([10_000] * 10 + [0] * 5 + [10_000] * 5)
HANGING = {"OK": 20_000, "in_flight_at_end": 64}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"windows": FROZEN, "status": HANGING}, ["server_silent"]),
        ({"windows": FROZEN}, ["server_stalled"]),  # all came back in the drain
        ({"windows": PAUSED}, ["server_stalled"]),
        ({"windows": PAUSED, "status": HANGING}, ["server_stalled"]),
        ({"windows": [*FROZEN, *windows([0], 0.001)], "status": HANGING}, ["server_silent"]),
        ({"windows": windows([10_000] * 18 + [0] * 2), "status": HANGING}, ["server_silent"]),
        ({"windows": windows([10_000] * 19 + [0]), "status": HANGING}, []),  # a twentieth is nothing yet
        (
            {"windows": windows([10_000] * 10 + [0] * 10, 0.009), "window_s": 0.18, "client_cpu_s": 0.1},
            ["not_steady"],  # 90 ms are nothing either
        ),
        ({"windows": PAUSED, "latency": times((0.051, 20_000))}, []),  # of slow calls nothing was due
        ({"windows": PAUSED, "latency": times((0.049, 20_000))}, ["server_stalled"]),
        ({"windows": FROZEN, "status": HANGING, "stopped": True}, ["not_steady"]),
        ({"windows": FROZEN, "status": {"UNAVAILABLE": 9}, "latency": NOTHING}, ["all_failed", "not_steady"]),
        ({"all_in_window": 1_999}, ["few_finished"]),
        ({"all_in_window": 2_000}, []),
        ({"all_in_window": 0}, ["few_finished"]),
        ({"all_in_window": 0, "stopped": True}, []),
        ({"status": {"OK": 19_800, "in_flight_at_end": 200}}, []),
        ({"status": {"OK": 19_799, "in_flight_at_end": 201}}, ["unfinished"]),
        ({"status": {"OK": 1_999, "in_flight_at_end": 18_001}, "all_in_window": 1_999}, ["few_finished"]),
    ],
)
def test_calls_that_came_back_late_or_never(changes, expected):
    assert [code for code in codes(raw_=raw(**changes)) if code != "little_law_gap"] == expected


def test_the_time_and_length_of_a_stall_are_told():
    (one,) = diagnose(SPEC, raw(windows=FROZEN, status=HANGING))
    assert one.message == ("no call came back for 1 s, from 1 s into the window to its end, and 64 never did")
    assert (one.severity, one.measured) == ("invalid", pytest.approx(0.5))
    (one,) = diagnose(SPEC, raw(windows=PAUSED))
    assert (
        one.message == "no call came back for 500 ms, from 1 s into the window; the median call takes 6.4 ms"
    )
    assert (one.severity, one.measured) == ("warning", pytest.approx(0.25))
    (one,) = diagnose(SPEC, raw(all_in_window=0))
    assert one.message == "0 calls ended inside the measured window of 2 s, 20,000 were sent in it"


def test_callers_that_pause_make_no_stall():
    assert codes(SPEC.replace(think_time=0.3), raw_=raw(windows=PAUSED)) == []
    assert codes(SPEC.replace(think_time=0.2), raw_=raw(windows=PAUSED)) == ["server_stalled"]


def test_streams_without_an_end_make_no_stall():
    assert codes(Load(kind="bidi"), raw_=raw(windows=FROZEN, all_in_window=0)) == ["not_steady"]


def test_an_open_loop_stalls_only_with_calls_in_flight():
    def with_sent(*lots):
        made = windows([1000] * 5 + [0] * 5 + [1000] * 10)
        for window, sent in zip(made[5:], lots, strict=False):
            window["sent"] = sent
        return made

    quiet = raw_open(windows=with_sent(0, 0, 0, 0, 0))
    assert "server_stalled" not in codes(OPEN, raw_=quiet)
    assert "server_stalled" in codes(OPEN, raw_=raw_open(windows=with_sent(1, 0, 0, 0, 0)))
    assert "server_stalled" not in codes(OPEN, raw_=raw_open(windows=with_sent(0, 0, 0, 0, 1)))


def test_a_short_last_window_does_not_hide_a_trend():
    one_call_at_once = {"start_s": 2.0, "length_s": 1e-6, "sent": 1, "ok": 1, "failed": 0, "entries": b""}
    assert codes(raw_=raw(windows=[*windows([10_000] * 10 + [5_000] * 10), one_call_at_once])) == [
        "not_steady"
    ]


def test_a_run_interrupted_before_it_measured_says_only_that():
    nothing = raw(status={}, connected=0, window_s=0.0, windows=[], client_cpu_s=None)
    assert codes(raw_=nothing, interrupted=True) == ["interrupted"]


def test_calls_cut_by_the_drain_want_a_longer_one():
    """As streams without an end have it whose server is far behind."""
    (found,) = diagnose(Load(), raw(status={"in_flight_at_end": 8}))
    assert found.code == "all_failed"
    assert "drain" in found.advice


def test_all_failed_names_the_commonest_status():
    (one,) = diagnose(SPEC, raw(status={"INTERNAL": 3, "UNAVAILABLE": 1005}))
    assert one.message == "all 1,008 calls failed, most as UNAVAILABLE (1,005)"


def test_endless_streams_are_few_by_nature():
    assert codes(Load(kind="bidi"), raw_=raw(status={"OK": 64})) == []
    assert codes(Load(kind="bidi", messages_per_stream=5), raw_=raw(status={"OK": 64})) == ["few_samples"]


def test_client_threads_share_the_load():
    two = Load(connections=2, threads=2)
    assert codes(two, raw_=raw(client_cpu_s=3.0)) == []
    (one,) = diagnose(two, raw(client_cpu_s=3.9))
    assert one.message == "2 client threads were busy for 98% of the time"
    assert one.measured == pytest.approx(0.975)
    assert one.threshold == 0.95


def test_pinned_clients_are_judged_by_their_pins():
    pinned = Load(connections=2, cpus=[0])
    assert codes(pinned, client_cpus={0, 1}, server_cpus={1}) == []
    assert codes(pinned, client_cpus={0, 1}, server_cpus={0, 1}) == ["shared_cpus"]


def test_invalid_findings_come_first():
    found = diagnose(SPEC, raw(client_cpu_s=2.0), settled=False, interrupted=True)
    severities = [one.severity for one in found]
    assert severities == ["invalid", "invalid", "warning"]


def test_numbers_are_in_the_text():
    (one,) = diagnose(SPEC, raw(connected=1))
    assert one.message == "1 of 2 connections were established"
    assert (one.measured, one.threshold) == (1, 2)
    (one,) = diagnose(SPEC, raw(), settings={"max_concurrent_streams": 10})
    assert one.message == "the peer allows 10 calls at a time on a connection, 32 were asked for"
    (one,) = diagnose(SPEC, raw(windows=windows([10_000] * 10 + [5_000] * 10)))
    assert one.message == "calls/s fell from 10,000 in the first half of the run to 5,000 in the second"
    assert one.measured == -0.5


def test_a_server_without_threads_is_told():
    (one,) = diagnose(SPEC, raw(), threads_exhausted=179)
    assert (one.code, one.severity, one.measured) == ("server_threads_exhausted", "warning", 179)
    assert "179" in one.message


@pytest.mark.parametrize("code", RULES)
def test_every_rule_tells_what_to_do(code):
    made = finding(code, "so it is")
    assert made.advice
    assert made.severity == RULES[code].severity
    assert str(made).startswith(f"{code}: so it is; ")
    assert finding(code, "m", advice="other").advice == "other"


def test_only_the_client_and_missing_parts_make_a_result_invalid():
    assert {code for code, rule in RULES.items() if rule.severity == "invalid"} == {
        *("server_died", "interrupted", "no_calls", "all_failed", "fewer_connections_than_asked"),
        *("few_finished", "server_silent", "connection_lost"),
        *("client_cpu_saturated", "send_lag", "little_law_gap"),
    }


# --- open loops


OPEN = Load(connections=2, rate=10_000, max_in_flight=100)


def raw_open(**changes):
    """An open loop with nothing to find fault with: 10,000 calls/s, 1 ms each, 50 µs late."""
    good = raw(
        latency=times((0.00105, 20_000)),
        service=times((0.001, 20_000)),
        send_lag=times((50e-6, 20_000)),
        bursts=15_000,
        burst_calls=20_000,
        largest_burst=6,
    )
    return good | changes


def test_a_good_open_loop_has_no_findings():
    assert codes(OPEN, raw_=raw_open()) == []
    assert codes(OPEN, raw_=raw_open(), settings={"max_concurrent_streams": 5}) == []


def lag(late_s, share=0.02):
    late = round(20_000 * share)
    return times((late_s, late), (50e-6, 20_000 - late))


@pytest.mark.parametrize(
    ("spec", "changes", "expected"),
    [
        (OPEN, {"send_lag": lag(0.00101)}, ["send_lag"]),
        (OPEN, {"send_lag": lag(0.00099)}, []),
        (OPEN.replace(transport="core"), {"send_lag": lag(0.0031)}, ["send_lag"]),
        (OPEN.replace(transport="core"), {"send_lag": lag(0.0029)}, []),  # it waits in whole milliseconds
        (OPEN, {"send_lag": lag(0.5, share=0.009)}, []),  # less than a hundredth
        (OPEN, {"send_lag": lag(0.0031), "latency": times((0.04, 2000))}, []),  # not a tenth
        (OPEN, {"send_lag": lag(0.0031), "latency": times((0.03, 2000))}, ["send_lag"]),
        (OPEN, {"not_sent": 10}, ["not_sent"]),
        (OPEN, {"not_sent": 300}, ["not_sent", "rate_not_reached"]),
        (OPEN, {"bursts": 6_666}, ["bursty_sends"]),
        (OPEN, {"bursts": 6_667}, []),
        (OPEN, {"bursts": 0, "burst_calls": 0}, []),
        (OPEN, {"windows": windows([9_500] * 20)}, ["rate_not_reached"]),
        (OPEN, {"windows": windows([9_850] * 20)}, []),  # may be chance
        (OPEN, {"windows": windows([10_000] * 10 + [9_500] * 10)}, ["rate_not_reached"]),
        # Calls as long as the run cannot be back.
        (OPEN, {"windows": windows([9_500] * 20), "service": times((0.6, 2000))}, []),
        # A cut run does not keep its plan.
        (OPEN, {"not_sent": 300, "stopped": True}, []),
        (OPEN, {"not_sent": 300, "server_died": True}, ["server_died"]),
        # Steps are meant to change.
        (Load(connections=2, steps=[(5_000, 1), (15_000, 1)]), {"windows": windows([5000, 15000] * 10)}, []),
        (
            Load(connections=2, steps=[(5_000, 1), (15_000, 1)]),
            {"windows": windows([5_000] * 10 + [15_000] * 10)},
            [],
        ),
    ],
)
def test_findings_of_an_open_loop(spec, changes, expected):
    assert codes(spec, raw_=raw_open(**changes)) == expected


def test_an_overloaded_server_is_a_warning_that_says_what_the_rate_needs():
    slow = {"service": times((0.05, 2000)), "not_sent": 20_000}
    not_sent, rate = diagnose(OPEN, raw_open(**slow))
    assert (not_sent.severity, rate.severity) == ("warning", "warning")
    assert not_sent.message == (
        "20,000 of 40,000 calls were not sent: 100 were in flight (max_in_flight, catch_up='bounded')"
    )
    assert rate.message == (
        "20,000 calls/s were asked for, 10,000 were sent; at a mean service time of 50 ms that takes "
        "1,000 calls in flight (Little's law), max_in_flight is 100"
    )
    assert rate.measured == 0.5


def test_who_is_late_is_told_what_to_do():
    for transport, wire in (("core", True), ("wire", False)):
        (one,) = diagnose(OPEN.replace(transport=transport), raw_open(send_lag=lag(0.005)))
        assert one.message == "calls were sent late: p50 50 µs, p99 5 ms"
        assert ("transport='wire'" in one.advice) is wire


def test_streams_that_a_rate_needs():
    (one,) = diagnose(OPEN, raw_open(), settings={"max_concurrent_streams": 4})
    assert one.message == (
        "the peer allows 4 calls at a time on a connection, 5 would be needed for this rate"
    )


def test_a_client_that_never_sleeps_is_judged_by_its_idle_looks():
    busy = Load(connections=2, busy_poll=True)
    assert codes(busy, raw_=raw(client_cpu_s=2.0, polls=1000, idle_polls=60)) == []
    (one,) = diagnose(busy, raw(client_cpu_s=2.0, polls=1000, idle_polls=40))
    assert one.message == "the client's thread was busy for 96% of the looks for something to do"
