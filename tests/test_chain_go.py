"""Chains with Go servers in them: what a hop does is what it is in a chain of native ones (test_chain.py)."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import real_servers

import grpcperf as gp

OLD, NEW = "1.46.2", "1.85.0"
pytestmark = pytest.mark.timeout(400)  # the first one builds
Hop = gp.Server | gp.GoServer


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    for version in (NEW, OLD):
        gp.GoServer.build(version)


@contextmanager
def chain(
    kinds: Sequence[str], behaviours: Sequence[Mapping[str, int | str]] = (), **last: Any
) -> Iterator[list[Any]]:
    """Servers from the first, which a client calls, to the last; "native" or a version of grpc-go each."""
    made: list[Hop] = []
    with ExitStack() as stack:
        for kind, behaviour in reversed(list(zip(kinds, behaviours or [{}] * len(kinds), strict=True))):
            more: dict[str, Any] = {"behaviour": behaviour} | ({"forward": made[0]} if made else last)
            server = gp.Server(**more) if kind == "native" else gp.GoServer(kind, **more)
            made.insert(0, stack.enter_context(server))
        yield made


@pytest.mark.parametrize("kinds", [("native", NEW, "native"), (OLD, OLD), (NEW, OLD, NEW)])
def test_calls_go_to_the_end_of_the_chain_and_counts_add_up(kinds: Sequence[str], within: Any) -> None:
    with chain(kinds) as hops:
        result = gp.load(hops[0], calls=300, concurrency=16, warmup=0, response_size=100_000)
        assert result.status == {"OK": 300}
        assert all(within(2, lambda hop=hop: hop.counters().finished == 300) for hop in hops)
        counts = [hop.counters() for hop in hops]
        assert [(c.started, c.running, c.cancelled) for c in counts] == [(300, 0, 0)] * len(hops)


@pytest.mark.parametrize("version", [NEW, OLD])
def test_the_status_and_the_users_own_metadata_pass(version: str) -> None:
    asked: dict[str, Any] = {"x-tenant": "a", "x-bin": b"\0\xff", "grpcperf-delay-us": 10}
    with chain([version, version, "native"], [{}, {}, {"status": 5}]) as hops:
        result = gp.load(hops[0], calls=10, warmup=0, metadata=asked)
        assert result.status == {"NOT_FOUND": 10}
        told = next(cause.text for cause in result.causes)
        assert told.index(hops[1].address) < told.index(hops[2].address)
        assert told.endswith("as grpcperf-status asked")
        # What metadata asks for is for the server that is called.
        result = gp.load(hops[0], calls=10, warmup=0, metadata={"grpcperf-status": 9})
        assert result.status == {"FAILED_PRECONDITION": 10}
        assert hops[1].counters().started == 10


@pytest.mark.parametrize("version", [NEW, OLD])
def test_the_deadline_that_is_left_goes_on(version: str, within: Any) -> None:
    """A handler at the end that takes no notice works on behind the client's deadline, not behind one that
    began anew."""
    delays = [{"delay-us": 150_000}, {"delay-us": 150_000}, {"delay-us": 1_000_000, "observe-cancel": 0}]
    with chain([version] * 3, delays) as hops:
        result = gp.load(hops[0], calls=1, concurrency=1, warmup=0, deadline=0.6)
        assert result.status == {"DEADLINE_EXCEEDED": 1}
        assert within(1, lambda: hops[0].counters().running + hops[1].counters().running == 0)
        assert hops[2].counters().running == 1
        assert within(2, lambda: hops[2].counters().running == 0)
        # At the end it may be the cancellation from the hop before that is seen first.
        ended = [hop.counters() for hop in hops]
        assert [one.deadline_exceeded + one.cancelled for one in ended] == [1, 1, 1]
        over = [hop.counters().work_after_cancel_us / 1e6 for hop in hops]
        assert max(over[:2]) < 0.3
        assert 0.4 < over[2] < 0.95  # 150 + 150 + 1000 - 600 ms


@pytest.mark.parametrize("observes", [0, 1])
@pytest.mark.parametrize("kind", ["native", NEW, OLD])
def test_a_hop_whose_deadline_has_passed_calls_no_further(kind: str, observes: int, within: Any) -> None:
    """Whether it goes on after it or not, on every kind of server."""
    delay = {"delay-us": 600_000, "observe-cancel": observes}
    with chain([kind] * 3, [delay, delay, {}]) as hops:
        result = gp.load(hops[0], calls=20, concurrency=20, warmup=0, deadline=0.9)
        assert result.status == {"DEADLINE_EXCEEDED": 20}
        assert all(within(3, lambda hop=hop: hop.counters().running == 0) for hop in hops)
        assert [hop.counters().started for hop in hops] == [20, 20, 0]
        late = hops[1].counters().work_after_cancel_us / 20 / 1e6  # 300 ms for who does not look
        assert late > 0.2 if observes == 0 else late < 0.2


@pytest.mark.parametrize("version", [NEW, OLD])
def test_a_cancelled_call_ends_at_every_hop(version: str, within: Any) -> None:
    with chain([version, version, version], [{}, {"observe-cancel": 0}, {"hold": 1}]) as hops:
        with gp.hold(hops[0], calls=50, metadata={"grpcperf-hold": 0}) as held:
            assert within(2, lambda: hops[2].counters().parked == 50)
            held.cancel()
            cancelled_at = time.monotonic()
            assert within(2, lambda: all(hop.counters().running == 0 for hop in hops))
            assert time.monotonic() - cancelled_at < 2
        assert [hop.counters().cancelled for hop in hops] == [50] * 3


@pytest.mark.parametrize("kind", ["server_stream", "client_stream", "bidi", "bidi_free"])
def test_streams_are_refused(kind: str) -> None:
    with chain([NEW, "native"]) as hops:
        result = gp.load(hops[0], kind=kind, messages_per_stream=2, calls=5, concurrency=1, warmup=0)
        assert result.status == {"UNIMPLEMENTED": 5}
        assert hops[0].counters().started == 5
        assert hops[1].counters().started == 0


@pytest.mark.parametrize("version", [NEW, OLD])
def test_the_next_server_dies_in_mid_run_and_comes_back(version: str, within: Any) -> None:
    with chain([version, "native"], [{}, {"delay-us": 2000}]) as hops:
        port = int(hops[1].address.rpartition(":")[2])
        with gp.start(hops[0], concurrency=16, duration=0.6, warmup=0) as run:
            assert within(3, lambda: run.snapshot().ok > 50)
            hops[1].close()
            result = run.result()
        assert set(result.status) == {"OK", "UNAVAILABLE"}
        assert hops[0].death() is None
        with gp.Server(port=port):
            assert within(4, lambda: gp.load(hops[0], calls=5, concurrency=1, warmup=0).status == {"OK": 5})


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize("mutual", [False, True])
def test_the_next_server_may_want_tls(version: str, mutual: bool) -> None:
    with (
        gp.Server(tls=gp.TLS.self_signed(mutual=mutual)) as last,
        gp.GoServer(version, forward=last, tls=gp.TLS.self_signed()) as first,
    ):
        assert gp.load(first, calls=20, concurrency=4, warmup=0).status == {"OK": 20}
        assert last.tls is not None
        anyone = gp.TLS(verify=False, cert=last.tls.cert, key=last.tls.key)
        named = last.tls.replace(server_name="localhost")
        for tls in (anyone, named):
            target = gp.Target(last.address, tls=tls, authority="next.test")
            with gp.GoServer(version, forward=target) as other:
                assert gp.load(other, calls=5, concurrency=1, warmup=0).status == {"OK": 5}


def test_over_a_unix_socket(tmp_path: Any) -> None:
    with gp.Server(listen=f"unix:{tmp_path}/next") as last, gp.GoServer(forward=last) as first:
        assert gp.load(first, calls=20, concurrency=4, warmup=0).status == {"OK": 20}


def test_what_makes_no_chain(no_leftovers: Any) -> None:
    with pytest.raises(gp.InvalidRequest, match="forward must be a server or an address"):
        gp.GoServer(forward=5)  # type: ignore[arg-type]
    nobody = f"127.0.0.1:{real_servers.free_port()}"
    with pytest.raises(gp.ConnectError, match=nobody):
        gp.GoServer(forward=nobody)
    versioned = gp.TLS.self_signed().replace(min_version="1.3")
    with gp.Server(tls=versioned) as last, pytest.raises(gp.InvalidRequest, match="TLS versions"):
        gp.GoServer(forward=last)


def test_a_chain_shows_itself() -> None:
    with chain([NEW, "native"]) as hops:
        assert f"forwarding to {hops[1].address}" in repr(hops[0])
