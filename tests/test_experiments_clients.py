"""The experiments about clients, in very small sizes: their rows, and shapes by ratio or count."""

from typing import Any

import pytest
from experiment_reports import report_of

import grpcperf as gp
from grpcperf import experiments


@pytest.mark.parametrize("server", ["native", "grpc-go"])
def test_connections_that_stay_are_cheaper(server: str) -> None:
    report = report_of(
        "connection-churn",
        servers=[server],
        security=["plaintext", "tls", "tls resumed"],
        calls_per_connection=[1, 20, "all"],
        connections=4,
        duration=0.2,
        repeats=1,
    )
    assert [row["calls_per_connection"] for row in report.rows] == [1, 20, "all"] * 3
    for how in ("plaintext", "tls"):
        churned, some, kept = report.select(security=how)
        assert kept["throughput_rps"] > 1.5 * churned["throughput_rps"]
        assert churned["server_cpu_us_per_call"] > 1.5 * kept["server_cpu_us_per_call"]
        assert churned["reused_share"] < 0.2
        assert some["reused_share"] == pytest.approx(0.95, abs=0.04)
        assert kept["reused_share"] == 1
    plain, full, resumed = (report.select(security=how)[0] for how in ("plaintext", "tls", "tls resumed"))
    assert full["server_cpu_us_per_call"] > plain["server_cpu_us_per_call"]
    assert (plain["resumed_share"], full["resumed_share"]) == (None, 0)
    assert resumed["resumed_share"] > 0.5
    assert all(row["errors"] == 0 for row in report.rows)


def test_a_server_of_ones_own_has_the_security_it_has() -> None:
    def secured() -> gp.Server:
        return gp.Server(tls=gp.TLS.self_signed())

    report = report_of(
        "connection-churn",
        servers=[secured],
        security=["plaintext", "tls"],
        calls_per_connection=["all"],
        connections=1,
        duration=0.05,
    )
    assert [row["security"] for row in report.rows] == ["tls"]
    assert report.skipped == {"secured, plaintext": "it serves TLS"}


def test_want_of_ports_makes_it_invalid() -> None:
    """The engine finds other ports on loopback, so this is what it tells of other machines."""
    from dataclasses import replace

    from grpcperf.experiments.connection_churn import _row
    from grpcperf.experiments.kit import Kit
    from grpcperf.load import unmeasured
    from grpcperf.progress import SweepProgress
    from grpcperf.result import Cause

    text = "no connection takes calls: no local port is left to connect from (net.ipv4.ip_local_port_range)"
    kit = Kit("quick", SweepProgress(0, False))
    result = replace(
        unmeasured(gp.Load()), findings=(), causes=(Cause(status="transport", calls=7, text=text),)
    )
    _row(kit, result, "here")
    assert kit.findings["ports_exhausted"].severity == "invalid"
    assert "here: 7 calls" in kit.findings["ports_exhausted"].message


def test_clients_side_by_side() -> None:
    report = report_of(
        "client-pool",
        servers=["native"],
        clients=["core", "wire", "grpc-go"],
        points=["1x1", "1x32", "4x32"],
        picks=["round_robin", "locked", "least_loaded"],
        retries=[False, True],
        calls=[2000],
        repeats=1,
    )
    arms = [(row["connections"], row["pick"], row["retries"]) for row in report.select(client="core")]
    assert arms == [
        *((1, "round_robin", False), (1, "round_robin", True)) * 2,
        *((4, pick, False) for pick in ("round_robin", "locked", "least_loaded")),
    ]
    assert len(report.select(client="grpc-go")) == len(arms)
    assert [row["retries"] for row in report.select(client="wire")] == [None] * 5
    assert all(row["errors"] == 0 and row["context_switches"] > 0 for row in report.rows)
    assert all(row["client_cpu_percent"] > 0 for row in report.rows)
    cost = {
        client: min(row["client_cpu_us_per_call"] for row in report.select(client=client, workers=32))
        for client in ("core", "wire", "grpc-go")
    }
    assert cost["core"] > 2 * cost["wire"]
    assert cost["grpc-go"] > 2 * cost["wire"]
    alone, many = (report.select(client="wire", connections=1, workers=n)[0] for n in (1, 32))
    assert alone["client_cpu_us_per_call"] > 1.5 * many["client_cpu_us_per_call"]  # a wake-up for each call
    for client in cost:
        assert f"{client}: one connection does" in report.verdict


def test_without_go_its_client_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(version: str = "", program: str = "") -> None:
        raise gp.EngineError("no Go here: install it")

    monkeypatch.setattr("grpcperf.targets.go_build.build", missing)
    report = experiments.find("client-pool")(
        progress=False, clients=["wire", "grpc-go@1.46.2"], points=["1x4"], calls=[50]
    )
    assert {row["client"] for row in report.rows} == {"wire"}
    assert "client grpc-go@1.46.2" in report.skipped


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("client-pool", {"points": ["50"]}, "50x250"),
        ("client-pool", {"points": ["0x5"]}, "connections must be"),
        ("client-pool", {"clients": ["curl"]}, "client must be"),
        ("client-pool", {"picks": ["random"]}, "pick must be"),
        ("connection-churn", {"security": ["ssl"]}, "security must be"),
        ("connection-churn", {"calls_per_connection": [0]}, "calls_per_connection must be"),
    ],
)
def test_nonsense_is_refused(name: str, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(gp.InvalidRequest, match=says):
        experiments.find(name)(progress=False, **wrong)
