"""The experiments about clients, in very small sizes: their rows, and shapes by ratio or count."""

from dataclasses import replace
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


def test_costs_are_compared_in_pairs_and_with_their_interval() -> None:
    """Rows come in any order, one without its counterpart; 1.2 times is not told as nothing, nor noise as a
    difference."""
    report = experiments.find("client-pool")(
        progress=False, clients=["wire"], points=["1x1"], calls=[50], retries=[False]
    )
    usual = {**report.rows[0], "client": "core", "connections": 1, "pick": "round_robin"}

    def rows(*costs: tuple[int, bool, float]) -> tuple[dict[str, Any], ...]:
        return tuple(
            {**usual, "workers": workers, "retries": on, "client_cpu_us_per_call": cost}
            for workers, on, cost in costs
        )

    dearer = rows((9, True, 5), (1, True, 12.1), (2, False, 20), (2, True, 24), (1, False, 10), (3, False, 7))
    assert "retries take 1.20 times the CPU per call (1." in replace(report, rows=dearer).verdict
    alike = rows((1, True, 12), (1, False, 10), (2, True, 8), (2, False, 10))
    assert "(no difference that 2 pairs can tell)" in replace(report, rows=alike).verdict
    once = rows((1, True, 12), (1, False, 10))
    assert "retries take 1.20 times the CPU per call (measured once)" in replace(report, rows=once).verdict


def test_a_go_client_whose_calls_all_fail_makes_it_invalid() -> None:
    def refusing() -> gp.Server:
        return gp.Server(behaviour={"status": 8})

    report = experiments.find("client-pool")(
        progress=False, servers=[refusing], clients=["grpc-go"], points=["1x2"], retries=[False], calls=[40]
    )
    assert not report.valid
    assert [one.code for one in report.findings if one.severity == "invalid"] == ["all_failed"]


def test_a_call_cannot_be_held_against_itself() -> None:
    with pytest.raises(gp.InvalidRequest, match="calls"):
        experiments.find("client-side")(progress=False, clients=["wire"], calls=[1], duration=0.1)


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
