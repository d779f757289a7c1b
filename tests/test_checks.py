"""checks: bounds are read as meant, and judged by the whole interval."""

import warnings

import pytest

from grpcperf import checks
from grpcperf.errors import CheckFailed, InconclusiveWarning, InvalidRequest
from grpcperf.histogram import Histogram
from grpcperf.result import Finding, Result, Status, Window
from grpcperf.spec import Load


def result_of(windows, *, failed=0, findings=(), length_s=0.1):
    """A result whose windows hold these latencies in ms."""
    parts = [Histogram.from_values(ms / 1e3 for ms in window) for window in windows]
    total = sum(parts, start=Histogram())
    return Result(
        spec=Load(),
        status=Status({"OK": total.count, "UNAVAILABLE": failed}),
        latency=total,
        service_time=total,
        error_latency=Histogram(),
        window_s=length_s * len(parts),
        ok_in_window=total.count,
        all_in_window=total.count + failed,
        connections=1,
        client_cpu_s=0.001,
        windows=tuple(
            Window(
                start_s=i * length_s,
                length_s=length_s,
                sent=part.count,
                ok=part.count,
                failed=0,
                entries=part.entries,
            )
            for i, part in enumerate(parts)
        ),
        findings=tuple(findings),
    )


STEADY = result_of([[4, 5, 6] * 40] * 20, failed=3)  # p50 5 ms, 1,200 calls/s
MIXED = result_of([[2] * 100, [2] * 100, [8] * 100, [8] * 100] * 5)  # the p50 is anything from 2 to 8 ms


def judged(result, text):
    return checks.judge(checks.parse(text), result).verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("p50<6ms", "passed"),
        ("p50<5ms", "failed"),
        ("p50<4ms", "failed"),
        ("p50>4ms", "passed"),
        ("p50>=8ms", "failed"),
        ("p50<=6000us", "passed"),
        ("p50 < 6 ms", "passed"),
        ("p50<0.006", "passed"),
        ("errors==3", "passed"),
        ("errors==0", "failed"),
        ("errors<=3", "passed"),
        ("calls>=2403", "passed"),
        ("calls>2,403", "failed"),
        ("status_UNAVAILABLE==3", "passed"),
        ("status_OK==2400", "passed"),
        ("status_INTERNAL==0", "passed"),
        ("max<=6ms", "passed"),
        ("min>=4ms", "passed"),
        ("mean<5.5ms", "passed"),
        ("latency_p50_us<6000", "passed"),
        ("latency_p50_us<6ms", "passed"),
        ("latency_max_us<5000", "failed"),
        ("throughput_rps>1000", "passed"),
        ("throughput_rps>2_000", "failed"),
        ("client_cpu_us_per_call<1", "passed"),
        ("client_cpu_us_per_call<1us", "passed"),
        ("client_cpu_us_per_call<0.1", "failed"),
        ("window_s==2", "passed"),
        ("connected==1", "passed"),
    ],
)
def test_verdicts_of_a_steady_run(text, verdict):
    assert judged(STEADY, text) == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("p50<5ms", "inconclusive"),
        ("p50>5ms", "inconclusive"),
        ("p50==5ms", "inconclusive"),
        ("p50<9ms", "passed"),
        ("p50<1ms", "failed"),
        ("p50>1ms", "passed"),
        ("p50>9ms", "failed"),
        ("p50==8ms", "inconclusive"),  # the interval's own end
        ("p50==9ms", "failed"),
    ],
)
def test_the_whole_interval_decides(text, verdict):
    assert judged(MIXED, text) == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("p99<5ms", "inconclusive"),
        ("p99<3ms", "failed"),  # below the smallest
        ("p99<7ms", "passed"),  # above the largest
        ("p99>3ms", "passed"),
        ("p999>7ms", "failed"),
        ("latency_p999_us<7000", "passed"),
        ("server_cpu_us_per_call<1", "inconclusive"),
        ("offered_rate>1", "inconclusive"),
        ("error_latency_p50_us<1", "inconclusive"),
    ],
)
def test_a_number_that_is_not_told_is_judged_by_what_it_must_lie_between(text, verdict):
    few = result_of([[4, 5, 6]] * 20)
    assert few.latency.p99 is None
    assert judged(few, text) == verdict


FAILED = result_of([[]] * 20, failed=7)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("p99<5ms", "failed"),
        ("max>0", "failed"),
        ("latency_mean_us<1", "failed"),
        ("first_message_p50_us<1s", "failed"),
        ("throughput_rps>10", "failed"),
        ("throughput_rps>=0", "failed"),
        ("mib_per_s>=0", "failed"),
        ("errors==7", "passed"),
        ("errors<7", "failed"),
        ("status_UNAVAILABLE==7", "passed"),
        ("offered_rate>1", "inconclusive"),  # of an open loop
        ("error_latency_p50_us<1", "inconclusive"),
    ],
)
def test_where_every_call_failed_no_latency_and_no_throughput_will_do(text, verdict):
    assert judged(FAILED, text) == verdict


def test_that_every_call_failed_is_said():
    every = Finding(code="all_failed", severity="invalid", message="all 7 calls failed")
    with pytest.raises(
        CheckFailed, match=r"all 7 calls failed \(UNAVAILABLE 7\); wanted < 5 ms\n.*all_failed"
    ):
        result_of([[]] * 20, failed=7, findings=[every]).check(p99="<5ms")
    with pytest.warns(InconclusiveWarning, match="p99 has no value"):  # nothing was measured that failed
        result_of([[]] * 20).check(p99="<5ms")


def test_an_interval_does_not_leave_what_was_measured():
    interval = STEADY.interval("p99")
    assert interval.high == STEADY.latency.max
    assert judged(STEADY, "p99<=6ms") == "passed"


def test_check_returns_the_result_or_raises_with_everything():
    assert STEADY.check(p50="<6ms", errors=3, throughput_rps=">1000") is STEADY
    assert STEADY.check("p50<6ms", "errors<=3", status_UNAVAILABLE=3) is STEADY
    saturated = Finding(code="client_cpu_saturated", severity="invalid", message="busy for 99 %")
    bad = result_of([[4, 5, 6] * 40] * 20, failed=3, findings=[saturated])
    with pytest.raises(CheckFailed) as caught:
        bad.check(p50="<1ms", errors=0, max="<7ms")
    text = str(caught.value)
    assert "p50 is 5 ms (95% interval 5 ms to 5 ms, block bootstrap over 20 windows); wanted < 1 ms" in text
    assert "errors is 3; wanted == 0" in text
    assert "max is" not in text  # that one passed
    assert "client_cpu_saturated: busy for 99 %" in text
    assert caught.value.result is bad


def test_a_failure_wins_over_a_doubt():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CheckFailed, match="errors"):
            MIXED.check(p50="<5ms", errors=1)


def test_doubt_warns_at_the_line_of_the_caller():
    with pytest.warns(
        InconclusiveWarning, match=r"inconclusive: p50 is .* ms \(95% interval 2 ms to 8"
    ) as caught:
        assert MIXED.check(p50="<5ms") is MIXED
    assert caught[0].filename == __file__
    with pytest.warns(
        InconclusiveWarning, match=r"p99 has no value \(60 OK calls\), somewhere from 4 ms to 6 ms"
    ):
        result_of([[4, 5, 6]] * 20).check(p99="<5ms")
    with pytest.warns(InconclusiveWarning, match="server_cpu_us_per_call has no value; wanted < 5 µs"):
        STEADY.check(server_cpu_us_per_call="<5us")


def test_what_passes_on_a_result_that_is_not_valid_proves_nothing():
    silent = Finding(code="server_silent", severity="invalid", message="no call came back", advice="look")
    slow = Finding(code="not_steady", severity="warning", message="calls/s fell")
    bad = result_of([[4, 5, 6] * 40] * 20, findings=[silent, slow])
    with pytest.warns(InconclusiveWarning) as caught:
        assert bad.check(p50="<6ms") is bad
    (warning,) = caught
    assert str(warning.message) == (
        "inconclusive: the result is not valid (server_silent: no call came back; look)"
    )
    assert warning.filename == __file__
    with pytest.raises(CheckFailed):
        bad.check(p50="<1ms")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result_of([[4, 5, 6] * 40] * 20, findings=[slow]).check(p50="<6ms")


@pytest.mark.parametrize("name", checks.NAMES)
def test_every_name_has_a_value_a_text_and_an_interval_or_none(name):
    which = checks.metric(name)
    value = which.value(STEADY)
    assert value is None or isinstance(value, (int, float))
    assert which.format(value)
    interval = which.interval(STEADY)
    assert interval is None or interval.low <= value <= interval.high


def test_the_names_are_those_of_the_row():
    row = STEADY.row()
    spec = {"connections", "concurrency", "threads", "request_size", "response_size", "messages_per_stream"}
    spec |= {"rate", "arrival", "catch_up", "max_in_flight", "think_time_s", "deadline_s", "window"}
    spec |= {"busy_poll", "pick", "calls_per_connection", "compression", "seed", "tls", "requests"}
    words = {"transport", "kind", "method", "status", "causes", "valid", "findings"}
    assert set(checks.NAMES) >= set(row) - spec - words
    for name in set(row) & set(checks.NAMES):
        assert checks.metric(name).value(STEADY) == pytest.approx(row[name]), name


@pytest.mark.parametrize(
    ("name", "q"),
    [("p5", 0.05), ("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("p99.95", 0.9995), ("p9999", 0.9999)],
)
def test_percentiles_of_any_digits(name, q):
    many = result_of([[ms / 100 for ms in range(100, 1600)]] * 20)
    assert checks.metric(name).value(many) == many.latency.quantile(q)


@pytest.mark.parametrize("confidence", [0, 1, -1, 95, float("nan"), None, "0.95"])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(InvalidRequest, match="confidence must lie between 0 and 1"):
        STEADY.interval("p99", confidence=confidence)


@pytest.mark.parametrize("name", [None, 5, b"p99", ["p99"]])
def test_a_metric_that_is_no_text_is_refused(name):
    with pytest.raises(InvalidRequest, match="a metric must be a text"):
        STEADY.interval(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("latency_p99", "did you mean latency_p99_us"),
        ("throughput", "did you mean throughput_rps"),
        ("nonsense", "unknown metric 'nonsense'"),
        ("status_NOPE", "unknown metric 'status_NOPE'"),
        ("kind", "unknown metric 'kind'"),
        ("", "unknown metric ''"),
        ("p", "unknown metric 'p'"),
        ("p1000000000x", "unknown metric"),
        ("p100", "the largest value is 'max'$"),
        ("p105", "the percentile 10.5 has a point, as in p10.5"),
        ("latency_p100_us", "unknown metric"),
    ],
)
def test_an_unknown_metric_is_refused_with_the_nearest(name, says):
    with pytest.raises(InvalidRequest, match=says):
        checks.check(name, "<1")


def test_an_unknown_metric_is_refused_before_anything_fails():
    with pytest.raises(InvalidRequest, match="unknown metric"):
        STEADY.check(errors=0, nonsense=1)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("p99", "<"),
        ("p99", "<fast"),
        ("p99", "5 apples"),
        ("p99", None),
        ("p99", True),
        ("p99", "<-5ms"),
        ("p99", "!=5ms"),
        ("p99", "<nan"),
        ("errors", "<5ms"),
        ("errors", float("nan")),
        ("errors", True),
        ("errors", [0]),
        pytest.param("errors", 10**5000, id="large"),
        ("latency_p99_us", "<5 apples"),
        ("throughput_rps", ">fast"),
    ],
)
def test_a_bound_that_is_none_is_refused(name, bound):
    with pytest.raises(InvalidRequest, match=f"the bound of {name} must be"):
        checks.check(name, bound)


@pytest.mark.parametrize("text", ["", "p99", "<5ms", "p99 5ms", "nonsense<1", None, 5])
def test_a_text_that_is_no_check_is_refused(text):
    with pytest.raises(InvalidRequest):
        checks.parse(text)


def test_a_check_reads_like_what_it_is():
    assert str(checks.parse(" p99 <= 5000us ")) == "p99<=5 ms"
    assert str(checks.check("errors", 0)) == "errors==0"
    assert str(checks.check("throughput_rps", ">10000")) == "throughput_rps>10,000"
