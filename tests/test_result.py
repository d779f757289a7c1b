"""result: the record made from the engine's own form, and its views."""

import json
import pickle
import re
from dataclasses import FrozenInstanceError
from html.parser import HTMLParser

import pytest

from grpcperf.histogram import Histogram
from grpcperf.result import CLASSES, Finding, Result, Status
from grpcperf.spec import Load
from grpcperf.units import MIB

# What interface.md promises of a row.
ROW = {
    *("transport", "kind", "method", "connections", "concurrency", "request_size", "response_size", "calls"),
    *("errors", "status", "not_sent", "throughput_rps", "mib_per_s", "latency_p50_us", "latency_p90_us"),
    *("latency_p99_us", "latency_p999_us", "latency_max_us", "service_time_p99_us", "offered_rate"),
    *("achieved_rate", "client_cpu_us_per_call", "server_cpu_us_per_call", "valid", "findings"),
}
EMPTY = {"count": 0, "overflow": 0, "sum_ns": 0, "min_ns": 2**64 - 1, "max_ns": 0, "entries": b""}


def engine_form(ns):
    """A histogram as the engine hands it over."""
    if not ns:
        return EMPTY
    entries = Histogram.from_values(value / 1e9 for value in ns).entries
    return {
        "count": len(ns),
        "overflow": 0,
        "sum_ns": sum(ns),
        "min_ns": min(ns),
        "max_ns": max(ns),
        "entries": entries,
    }


def raw_result(ok=2000, failed=(), windows=20, **changes):
    """What Run.result gives of a run of 2 s: latencies of 1 to 2 ms, failures of 3 ms, equal windows."""
    ns = [1_000_000 + 1_000_000 * i // max(1, ok) for i in range(ok)]
    failures = [3_000_000] * sum(n for name, n in failed if name != "in_flight_at_end")
    raw = {
        "status": {"OK": ok} | dict(failed) if ok else dict(failed),
        "latency": engine_form(ns),
        "errors": engine_form(failures),
        "service": engine_form([]),
        **dict.fromkeys(("send_lag", "queued", "send_gap"), EMPTY),
        **dict.fromkeys(("first_message", "message_gap", "round_trip"), EMPTY),
        **dict.fromkeys(("not_sent", "bursts", "burst_calls", "largest_burst", "polls", "idle_polls"), 0),
        "steal": 0.0,
        "pressure": 0.0,
        "ok_in_window": ok,
        "all_in_window": ok + len(failures),
        "messages_sent": ok,
        "payload_sent": ok * 16,
        "messages_received": ok,
        "window_s": 2.0,
        "windows": [
            {
                "start_s": i * 2.0 / windows,
                "length_s": 2.0 / windows,
                "sent": 100,
                "ok": len(ns[i::windows]),
                "failed": 0,
                "entries": engine_form(ns[i::windows])["entries"],
            }
            for i in range(windows)
        ],
        "connect_s": 0.001,
        "connected": 1,
        "reconnects": 0,
        "connections_opened": 0,
        "tls_resumed": 0,
        "drain_s": 0.002,
        "client_cpu_s": 0.02,
        "server_cpu_s": 0.04,
        "server_died": False,
        "stopped": False,
    }
    return raw | changes


def result_of(spec=None, findings=(), **raw):
    return Result.from_engine(spec or Load(), raw_result(**raw), findings=findings)


def test_the_numbers_of_a_run():
    r = result_of(failed=[("UNAVAILABLE", 7), ("in_flight_at_end", 3)])
    assert (r.calls, r.errors, r.not_sent, r.status["OK"]) == (2010, 10, 0, 2000)
    assert r.throughput_rps == 1000
    assert r.achieved_rate == 1005
    assert r.offered_rate is None
    assert r.mib_per_s == 1000 * 16 / MIB
    assert r.client_cpu_us_per_call == pytest.approx(0.02e6 / 2007)
    assert r.server_cpu_us_per_call == pytest.approx(0.04e6 / 2007)
    assert (r.latency.count, r.error_latency.count, r.error_latency.max) == (2000, 7, 0.003)
    assert r.service_time == r.latency
    assert (r.connections, r.connect_s, r.drain_s) == (1, 0.001, 0.002)
    assert len(r.windows) == 20
    assert sum((w.latency for w in r.windows), start=Histogram()).slots == r.latency.slots
    assert r.valid


OPEN = Load(rate=1000, max_in_flight=50)


def open_result(spec=OPEN, **raw):
    """2,000 calls that were sent 1 ms late each, and 500 that never were."""
    ms = 1_000_000
    service = [ms + ms * i // 2000 for i in range(2000)]
    late = {
        "latency": engine_form([ns + ms for ns in service]),
        "service": engine_form(service),
        "send_lag": engine_form([ms] * 1800),
        "queued": engine_form([20 * ms] * 200),
        "not_sent": 500,
        "largest_burst": 7,
    }
    return result_of(spec, **(late | raw))


def test_an_open_loop_counts_from_the_intended_time():
    r = open_result()
    assert (r.calls, r.not_sent, r.offered_rate, r.achieved_rate) == (2000, 500, 1250, 1000)
    assert r.latency.p50 == pytest.approx(r.service_time.p50 + 0.001, rel=1e-3)
    assert (r.send_lag.count, r.queued.count) == (1800, 200)
    assert r.interval("p50") is not None
    assert r.interval("service_time_p50_us") is None  # windows hold response times
    row = r.row()
    assert set(row) >= ROW
    assert (row["rate"], row["arrival"], row["catch_up"], row["max_in_flight"]) == (
        *(1000, "poisson", "bounded", 50),
    )
    assert (row["concurrency"], row["offered_rate"], row["not_sent"]) == (None, 1250, 500)
    assert (row["send_lag_p99_us"], row["queued_max_us"], row["largest_burst"]) == (1000, 20_000, 7)
    assert row["service_time_p99_us"] == pytest.approx(row["latency_p99_us"] - 1000, rel=1e-3)
    closed = result_of().row()
    assert (closed["rate"], closed["arrival"], closed["max_in_flight"], closed["offered_rate"]) == (None,) * 4
    assert (closed["concurrency"], closed["send_lag_p99_us"]) == (64, None)


def test_the_text_of_an_open_loop_names_its_times():
    text = repr(open_result())
    assert "1,000 calls/s, poisson" in text
    assert "in flight" not in text
    assert "not sent 500" in text
    assert "coordinated" not in text
    for name in ("response time", "service time", "held back", "send lag"):
        assert re.search(rf"^  {name} +p50 ", text, re.MULTILINE)
    assert "calls/s in steps" in repr(open_result(Load(steps=[(5, 1), (5, 10, 1)])))
    assert max(map(len, text.splitlines())) <= 110


def test_messages_of_streams_have_their_own_times():
    spec = Load(kind="server_stream", messages_per_stream=3)
    first, gap = engine_form([2_000_000] * 2000), engine_form([50_000] * 4000)
    r = result_of(spec, first_message=first, message_gap=gap)
    assert (r.first_message.p50, r.message_gap.p99, r.round_trip.p50) == (
        *(pytest.approx(0.002, rel=1e-3), pytest.approx(50e-6, rel=1e-3), None),
    )
    assert r.row()["message_gap_p99_us"] == pytest.approx(50, rel=1e-3)
    assert "first message p50 2 ms" in repr(r)
    assert "round trip" not in repr(r)


def test_calls_that_end_in_the_drain_are_calls_but_not_throughput():
    r = result_of(ok_in_window=1940, all_in_window=1940)
    assert (r.calls, r.errors, r.throughput_rps) == (2000, 0, 970)


def test_what_is_not_known_is_none():
    r = result_of(client_cpu_s=None, server_cpu_s=None)
    assert (r.client_cpu_us_per_call, r.server_cpu_us_per_call) == (None, None)
    nothing = result_of(ok=0, window_s=0.0, windows=1)
    assert (nothing.throughput_rps, nothing.achieved_rate, nothing.client_cpu_us_per_call) == (0, 0, None)


def test_payload_is_counted_by_messages_for_streams():
    spec = Load(kind="bidi", messages_per_stream=10, request_size=MIB, response_size=2 * MIB)
    r = result_of(spec, ok=100, messages_sent=1000, messages_received=900)
    assert (r.messages_sent_per_s, r.messages_received_per_s) == (500, 450)
    assert (r.mib_per_s, r.response_mib_per_s) == (500, 900)
    up = result_of(spec.replace(kind="client_stream"), ok=100, messages_sent=1000, messages_received=100)
    assert (up.mib_per_s, up.response_mib_per_s) == (500, 100)
    unary = result_of(Load(request_size=MIB, response_size=2 * MIB), ok=100, messages_sent=120)
    assert (unary.mib_per_s, unary.response_mib_per_s) == (50, 100)
    own = result_of(Load(method="/a/b", request=bytes(MIB)), ok=100)
    assert (own.mib_per_s, own.response_mib_per_s) == (50, None)


def test_the_row_keeps_its_promises():
    findings = [Finding(code="shared_cpus", severity="warning", message="both on CPU 0")]
    r = result_of(failed=[("UNAVAILABLE", 7)], findings=findings)
    row = r.row()
    assert set(row) >= ROW
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["status"] == {"OK": 2000, "UNAVAILABLE": 7}
    assert row["calls"] == sum(row["status"].values())
    assert (row["findings"], row["valid"]) == (["shared_cpus"], True)
    assert row["latency_p50_us"] == pytest.approx(1500, rel=2e-3)
    assert row["latency_max_us"] == 1999.5
    assert row["latency_p999_us"] is None  # two samples beyond
    assert row["service_time_p99_us"] == row["latency_p99_us"]
    assert (row["transport"], row["kind"], row["method"]) == (
        *("wire", "unary", "/grpc.testing.BenchmarkService/UnaryCall"),
    )
    assert result_of(Load(method="/a/b", request=b"abc")).row()["response_size"] is None


def test_a_row_never_has_a_nan():
    row = result_of(connect_s=float("nan"), client_cpu_s=float("inf")).row()
    assert (row["connect_s"], row["client_cpu_us_per_call"]) == (None, None)


def test_status_reads_absent_classes_as_0():
    status = Status({"OK": 5, "INTERNAL": 0})
    assert (status["OK"], status["INTERNAL"], status["in_flight_at_end"], status.get("ABORTED")) == (
        5,
        0,
        0,
        0,
    )
    assert list(status) == ["OK"]
    assert "INTERNAL" not in status
    assert "OK" in status
    assert status == {"OK": 5}
    assert sum(status.values()) == 5
    assert set(Status(dict.fromkeys(CLASSES, 1))) == set(CLASSES)
    assert len(CLASSES) == 19


def test_status_does_not_read_a_misspelt_class_as_0():
    with pytest.raises(KeyError, match="did you mean 'UNAVAILABLE'"):
        Status()["unavailble"]
    with pytest.raises(KeyError, match="no class of calls"):
        Status({"no such": 5})


def test_one_invalid_finding_is_enough():
    warning = Finding(code="a", severity="warning", message="m")
    invalid = Finding(code="b", severity="invalid", message="m")
    assert result_of(findings=[warning]).valid
    assert not result_of(findings=[warning, invalid]).valid


def test_intervals_are_in_the_unit_of_their_metric():
    r = result_of()
    seconds, micros = r.interval("p50"), r.interval("latency_p50_us")
    assert micros.low == pytest.approx(seconds.low * 1e6)
    assert seconds.low <= r.latency.p50 <= seconds.high
    assert "20 windows" in seconds.method
    assert r.throughput_rps in r.interval("throughput_rps")
    assert r.interval("errors") is None
    assert r.interval("max") is None
    assert r.interval("p999") is None
    assert r.interval("service_time_p50_us") == micros
    assert r.interval("error_latency_p50_us") is None


def test_its_text_is_one_block_with_all_that_matters():
    invalid = Finding(code="server_died", severity="invalid", message="killed by SIGKILL", advice="see why")
    text = repr(result_of(Load(connections=1), failed=[("UNAVAILABLE", 7)], findings=[invalid]))
    lines = text.splitlines()
    assert lines[0] == "Result (NOT VALID): unary over wire, 1 connection, 64 in flight, 16 B → 16 B, 2 s"
    assert "1,000 calls/s" in text
    assert "errors 7 (UNAVAILABLE 7)" in text
    assert re.search(r"p50 1\.5 ms +p90 1\.9 ms +p99 1\.99 ms", text)
    assert "coordinated omission possible" in text
    assert re.search(r"client 9\.97 µs +server 19\.9 µs", text)
    assert "server_died: killed by SIGKILL; see why" in lines[-1]
    assert len(lines) <= 9
    assert max(map(len, lines)) <= 110
    assert "NOT VALID" not in repr(result_of())
    assert "coordinated" not in repr(result_of(ok=0))
    streams = repr(result_of(Load(kind="bidi", messages_per_stream=10)))
    assert "10 messages per stream" in streams
    assert "1,000/s out   1,000/s back" in streams
    assert "stream's life" in streams
    endless = repr(result_of(Load(kind="bidi_free")))
    assert "calls/s" not in endless
    assert "coordinated" not in endless
    long = repr(result_of(findings=[Finding(code="a", severity="warning", message="word " * 60)]))
    assert max(map(len, long.splitlines())) <= 110


class Balanced(HTMLParser):
    """Fails on tags that do not close, collects text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_shows_findings_above_the_numbers_and_escapes():
    nasty = Finding(code="server_died", severity="invalid", message="<script>alert(1)</script> & more")
    page = result_of(Load(method="/a/<b>", request=b""), findings=[nasty])._repr_html_()
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    text = " ".join(parser.text)
    assert "<script>" not in page
    assert "/a/<b>" in text
    assert text.index("server_died") < text.index("calls/s")
    assert "<script>alert(1)</script> & more" in text
    assert "not valid" in text


def test_it_is_a_frozen_value_that_travels():
    r = result_of(failed=[("UNAVAILABLE", 7)])
    assert pickle.loads(pickle.dumps(r)) == r
    assert r == result_of(failed=[("UNAVAILABLE", 7)])
    assert r != result_of()
    with pytest.raises(FrozenInstanceError):
        r.not_sent = 5


def test_settings_and_environment_are_kept():
    r = Result.from_engine(Load(), raw_result(), settings={"max_frame_size": 5}, environment={"kernel": "6"})
    assert (r.settings["max_frame_size"], r.environment["kernel"]) == (5, "6")
