"""The experiments over a network: their rows, and shapes by ratio or count, in very small sizes."""

import time
from dataclasses import replace
from typing import Any

import pytest
from experiment_reports import report_of

from grpcperf import TLS, InvalidRequest, Keepalive, Server, experiments
from grpcperf.experiments import Report


@pytest.mark.parametrize("server", ["native", "grpc-go"])
def test_a_resumed_handshake_is_smaller(server: str) -> None:
    report = report_of("handshake", servers=[server], keys=["p256"], count=8)
    assert len(report.rows) == 9
    assert report.valid
    assert not report.findings
    for version in ("tls12", "tls13"):
        for alpn in (True, False):
            (full,), (resumed,) = (
                report.select(transport_security=version, alpn=alpn, resumed=way) for way in (False, True)
            )
            assert resumed["bytes_on_wire"] < 0.85 * full["bytes_on_wire"]
            assert resumed["resumed_share"] == 1
            assert full["usable"] is alpn
            assert full["server_cpu_us"] > 0
    (plain,) = report.select(transport_security="plaintext")
    assert plain["bytes_on_wire"] == 0
    assert plain["usable"]
    assert plain["handshake_p50_us"] < min(row["handshake_p50_us"] for row in report.rows[1:])
    assert "without ALPN" in report.verdict


@pytest.mark.parametrize("server", ["native", "grpc-go"])
def test_resuming_spares_the_signature(server: str) -> None:
    """An RSA signature is the dearest part of a handshake for a server; only a handshake in full has one."""
    report = report_of("handshake", servers=[server], keys=["rsa2048"], count=20)
    for version in ("tls12", "tls13"):
        (full,), (resumed,) = (
            report.select(transport_security=version, alpn=True, resumed=way, key="rsa2048")
            for way in (False, True)
        )
        assert resumed["server_cpu_us"] < 0.9 * full["server_cpu_us"]
        assert resumed["bytes_on_wire"] < 0.7 * full["bytes_on_wire"]
    assert "rsa2048" in report.verdict


def test_a_handshake_over_distance_is_round_trips() -> None:
    """TCP's one, TLS 1.2's two, of which a ticket saves one, TLS 1.3's one; a busy machine adds to them."""
    report = report_of("handshake", servers=["native"], keys=["p256"], delays=["15ms"], count=3)
    least = {("tls12", False): 3, ("tls12", True): 2, ("tls13", False): 2, ("tls13", True): 2}
    for row in report.rows:
        if row["alpn"]:
            trips = row["handshake_p50_us"] / 30e3
            wanted = least[row["transport_security"], row["resumed"]]
            assert wanted <= trips < wanted + 1.5


def test_a_window_carries_itself_once_a_round_trip() -> None:
    report = report_of(
        "flow-control",
        servers=["native", "grpc-go"],
        windows=["64KiB", "256KiB"],
        rtts=["20ms"],
        duration=0.25,
    )
    static = [row for row in report.rows if row["window_limit_mib_per_s"] is not None]
    assert {(row["server"], row["direction"]) for row in static} == {
        *(("native", "download"), ("grpc-go", "download"), ("grpc-go", "upload")),
    }
    for row in static:
        assert row["errors"] == 0
        assert 0.15 < row["mib_per_s"] / row["window_limit_mib_per_s"] < 1.5, row
    for server in ("native", "grpc-go"):
        small, large = (
            report.select(server=server, direction="download", window=size)[0] for size in (65536, 262144)
        )
        assert 1.3 < large["mib_per_s"] / small["mib_per_s"] < 10
    own = report.select(server="native", window=None)
    assert [row["setting"] for row in own] == ["bdp_probe", "no bdp_probe"]
    assert own[0]["mib_per_s"] > max(row["mib_per_s"] for row in static if row["window"] == 65536)


def test_who_notices_vanished_peers() -> None:
    report = report_of(
        "keepalive",
        servers=["native", "grpc-go"],
        settings={"off": {}, "asks": {"time": "1s", "timeout": "300ms"}},
        connections=10,
        observe="2s",
        idle_timeout="2500ms",
    )
    assert len(report.rows) == 10
    for server in ("native", "grpc-go"):
        (vanished,), (quiet,), (hasty,) = (
            report.select(server=server, cause=cause, setting=setting)
            for cause, setting in (
                *(("vanished", "asks"), ("idle_cut", "asks")),
                *(("too_many_pings", "client asks every 20 ms"),),
            )
        )
        assert 0.2 < vanished["noticed_s"] < 2
        assert vanished["memory_back_s"] is None or vanished["memory_back_s"] >= vanished["noticed_s"]
        assert vanished["expected_s"] == 1.3
        # Its PINGs keep the connection from being idle, so there is nothing to notice.
        assert (quiet["was_cut"], quiet["noticed_s"]) == (False, None)
        (silent,) = report.select(server=server, cause="idle_cut", setting="off")
        assert (silent["was_cut"], silent["noticed_s"]) == (True, None)
        assert 0 < hasty["noticed_s"] < 2
        assert all(row["noticed_s"] is None for row in report.select(server=server, setting="off"))
    assert "off: not noticed" in report.verdict
    assert "forget for idleness are not noticed with off, kept from it with asks" in report.verdict
    older = replace(report, rows=tuple({**row, "was_cut": None} for row in report.rows))
    assert "are not noticed, if forgotten at all, with off and asks" in older.verdict


def test_a_cut_is_noticed_although_other_servers_start_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started outlasts the idle time and all patience: it is looked at all the same, for as long."""
    from grpcperf.experiments.keepalive import _Arm

    start = _Arm.start

    def slowly(*arguments: Any) -> Any:
        arm = start(*arguments)
        if arm.cause == "idle_cut":
            time.sleep(3)
        return arm

    monkeypatch.setattr(_Arm, "start", slowly)
    asks = {"tcp_idle": 1, "tcp_interval": 1, "tcp_probes": 1, "time": 3600, "timeout": 1}
    report = report_of(
        "keepalive",
        servers=["native"],
        settings={"TCP": asks},
        connections=4,
        observe="2500ms",
        idle_timeout="300ms",
    )
    (cut,) = report.select(cause="idle_cut")
    assert cut["was_cut"]
    assert cut["noticed_s"] > 0
    assert cut["expected_s"] == 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"time": "10s"}, 30),  # gRPC's own timeout
        ({"time": 10, "timeout": 1.5}, 11.5),
        ({"tcp_idle": "1m", "tcp_interval": 10, "tcp_probes": 3, "time": "1h"}, 90),
        ({"tcp_idle": "1m"}, None),  # the rest is the kernel's
        ({"max_age": "2s", "max_age_grace": "1s"}, 3),
        ({"max_idle": 4}, 4),
    ],
)
def test_what_settings_say_in_any_form(settings: dict[str, Any], expected: float | None) -> None:
    from grpcperf.experiments.keepalive import _expected_s

    assert _expected_s(Keepalive(**settings)) == expected


def test_a_window_rules_by_what_its_own_server_carries_that_way() -> None:
    """One server's fast way down does not make windows of another's slow way up rule."""
    from grpcperf.experiments.flow_control import _ruled

    def row(server: str, direction: str, carried: float, limit: float | None) -> dict[str, Any]:
        about = {"server": server, "direction": direction}
        return {**about, "mib_per_s": carried, "window_limit_mib_per_s": limit}

    rows = [
        row("a", "download", 2000.0, None),
        row("a", "download", 90.0, 100.0),
        row("b", "upload", 95.0, 100.0),
        row("b", "upload", 110.0, None),
    ]
    report = Report(name="flow-control", rows=tuple(rows), answered_by=experiments.find("flow-control"))
    assert [one["mib_per_s"] for one in _ruled(report)] == [90.0]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("keepalive", {"settings": "off"}),
        ("keepalive", {"settings": {"asks": 5}}),
        ("keepalive", {"settings": {"asks": {"tiem": "1s"}}}),
        ("keepalive", {"connections": 0}),
        ("keepalive", {"idle_timeout": 0}),
        ("handshake", {"count": 0}),
        ("handshake", {"keys": ["dsa"]}),
        ("handshake", {"delays": ["far"]}),
        ("flow-control", {"windows": ["1KiB"]}),
        ("flow-control", {"rtts": [-1]}),
    ],
)
def test_nonsense_is_refused(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong)).removesuffix("s")):
        experiments.find(name)(progress=False, servers=["native"], **wrong)


def test_a_server_of_ones_own_has_the_security_it_has() -> None:
    def secured() -> Server:
        return Server(tls=TLS.self_signed())

    report = report_of("handshake", servers=[secured], count=2)
    assert {(row["server"], row["transport_security"]) for row in report.rows} == {
        *(("secured", "tls12"), ("secured", "tls13")),
    }


def test_a_plaintext_server_of_ones_own_has_nothing_to_resume() -> None:
    def plain() -> Server:
        return Server()

    report = report_of("handshake", servers=[plain], count=2)
    assert [(row["transport_security"], row["key"]) for row in report.rows] == [("plaintext", None)]
