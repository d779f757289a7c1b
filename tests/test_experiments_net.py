"""The experiments over a network: their rows, and shapes by ratio or count, in very small sizes."""

from typing import Any

import pytest
from experiment_reports import report_of

from grpcperf import TLS, InvalidRequest, Server, experiments


@pytest.mark.parametrize("server", ["native", "grpc-go"])
def test_a_resumed_handshake_is_smaller(server: str) -> None:
    report = report_of("handshake", servers=[server], count=8)
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


def test_a_handshake_over_distance_is_round_trips() -> None:
    """TCP's one, TLS 1.2's two, of which a ticket saves one, TLS 1.3's one; a busy machine adds to them."""
    report = report_of("handshake", servers=["native"], delays=["15ms"], count=3)
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
        idle_timeout="1700ms",
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
        assert quiet["noticed_s"] is None  # its PINGs keep the connection from being idle
        assert 0 < hasty["noticed_s"] < 2
        assert all(row["noticed_s"] is None for row in report.select(server=server, setting="off"))
    assert "not noticed" in report.verdict


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("keepalive", {"settings": "off"}),
        ("keepalive", {"settings": {"asks": 5}}),
        ("keepalive", {"connections": 0}),
        ("keepalive", {"idle_timeout": 0}),
        ("handshake", {"count": 0}),
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
