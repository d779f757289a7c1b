"""Loads on servers that are not ours: what the client counts is what the server has seen."""

import os

import pytest
import real_servers
from adversary_run import TRANSPORTS
from real_servers import Missing

import grpcperf as gp
from grpcperf.spec import KINDS

BOTH = pytest.mark.parametrize("transport", TRANSPORTS)
SERVERS = {"grpcio": real_servers.grpcio, "grpc-go": real_servers.grpc_go}
ONE_EACH = {"unary", "client_stream"}


def start(make, *arguments, **more):
    try:
        return make(*arguments, **more)
    except Missing as missing:
        if os.environ.get("CI"):  # `make test` installs them
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=SERVERS)
def server(request):
    with start(SERVERS[request.param]) as started:
        yield started


@pytest.fixture(scope="module")
def backend():
    with gp.Server() as started:
        yield started


def load(target, transport, *, refused=False, **spec):
    """A load whose calls are all OK, each in one class. `refused`: the server sends some of them away with a
    GOAWAY, and C core tries those again only when told so."""
    if refused and transport == "core":
        spec["channel_args"] = {"grpc.enable_retries": 1}
    if isinstance(target, real_servers.Server):
        target = target.address
    result = gp.load(target, transport=transport, warmup=0, **spec)
    assert dict(result.status) == {"OK": result.calls}, f"{result.status}"
    assert result.latency.count == result.calls
    return result


def seen(server, before, within):
    """What the server has counted since, once its handlers have ended."""

    def change():
        now = server.counts()
        return {name: now[name] - before[name] for name in now}

    assert within(5, lambda: change()["finished"] == change()["started"])
    return change()


# --- gRPC servers


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_calls_and_messages_agree_with_the_server(server, transport, kind, within):
    streams = {} if kind == "unary" else {"messages_per_stream": 20}
    before = server.counts()
    result = load(server, transport, kind=kind, calls=200, concurrency=8, connections=2, **streams)
    counts = seen(server, before, within)
    assert result.calls == 200 == counts["started"]
    assert result.connections == 2
    assert result.reconnects == 0
    if kind == "unary":
        assert counts["received"] == counts["sent"] == 200
        return
    assert result.messages_sent == 200 * (1 if kind == "server_stream" else 20)
    if kind != "bidi_free":  # there the server sends as it likes
        assert result.messages_received == 200 * (1 if kind == "client_stream" else 20)
    # What a client cancels it may have sent and the server not yet read, and the other way round.
    assert counts["received"] <= result.messages_sent
    assert counts["sent"] >= result.messages_received
    if kind in ("client_stream", "bidi"):
        assert counts["received"] == result.messages_sent
        assert counts["sent"] == result.messages_received


@BOTH
def test_a_run_by_time_is_counted_by_both(server, transport, within):
    before = server.counts()
    result = load(server, transport, duration=0.5, concurrency=16)
    assert seen(server, before, within)["started"] == result.calls > 20


@BOTH
def test_large_messages_both_ways(server, transport):
    result = load(server, transport, calls=40, concurrency=4, request_size="1MiB", response_size="1MiB")
    assert result.calls == 40


@BOTH
def test_compressed_messages(server, transport, within):
    before = server.counts()
    load(server, transport, calls=100, concurrency=4, request_size="64KiB", compression="gzip")
    load(server, transport, kind="bidi", messages_per_stream=5, calls=20, concurrency=4, compression="gzip")
    assert seen(server, before, within)["received"] == 200


@BOTH
def test_deadlines_and_unknown_methods(server, transport, within):
    before = server.counts()
    slow = gp.load(
        server.address, transport=transport, kind="server_stream", calls=4, concurrency=4, warmup=0,
        deadline=0.2, messages_per_stream=10**9,
    )  # fmt: skip
    assert dict(slow.status) == {"DEADLINE_EXCEEDED": 4}
    assert 0 < seen(server, before, within)["started"] <= 4  # one may be over before its handler begins
    unknown = gp.load(
        server.address, transport=transport, method="/no.Such/Method", request=b"", calls=20, warmup=0
    )
    assert dict(unknown.status) == {"UNIMPLEMENTED": 20}


@BOTH
def test_responses_above_what_a_client_takes(server, transport, within):
    before = server.counts()
    result = gp.load(
        server.address, transport=transport, calls=40, concurrency=8, warmup=0, response_size="5MiB"
    )
    assert dict(result.status) == {"RESOURCE_EXHAUSTED": 40}
    assert seen(server, before, within)["started"] == 40


# --- nginx


@BOTH
def test_nginx_says_goaway_every_hundred_calls(backend, transport, within):
    """keepalive_requests: another tool reported 172,254 of 200,000 calls as errors."""
    before = backend.counters()
    with start(real_servers.Nginx, backend.address, keepalive_requests=100) as nginx:
        result = load(nginx, transport, calls=5000, concurrency=16, refused=True)
    assert result.calls == 5000
    assert 49 <= result.reconnects <= 51 + 5000 // 100
    assert within(2, lambda: backend.counters().finished - before.finished == 5000)
    assert backend.counters().started - before.started == 5000


@BOTH
def test_nginx_and_several_connections(backend, transport):
    with start(real_servers.Nginx, backend.address, keepalive_requests=50) as nginx:
        result = load(nginx, transport, calls=3000, concurrency=32, connections=4, refused=True)
    assert result.calls == 3000
    assert result.connections == 4
    assert result.reconnects >= 3000 // 50 - 4


@BOTH
def test_nginx_allows_128_streams(backend, transport, within):
    """http2_max_concurrent_streams: the 129th call waits in the client, and is served."""
    with start(real_servers.Nginx, backend.address, keepalive_requests=1_000_000) as nginx:
        result = load(
            nginx, transport, calls=1000, concurrency=300, metadata={"grpcperf-delay-us": 20_000}, drain=5
        )
    assert result.settings["max_concurrent_streams"] == 128
    assert result.calls == 1000
    assert result.latency.max > 0.035  # two turns of the handler at least, for some


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_through_nginx(backend, transport, kind):
    streams = {} if kind == "unary" else {"messages_per_stream": 5}
    with start(real_servers.Nginx, backend.address) as nginx:
        result = load(nginx, transport, kind=kind, calls=100, concurrency=4, **streams)
    assert result.calls == 100


@BOTH
def test_nginx_without_its_backend(transport):
    """502, which gRPC maps to UNAVAILABLE."""
    with start(real_servers.Nginx, f"127.0.0.1:{real_servers.free_port()}") as nginx:
        result = gp.load(nginx.address, transport=transport, calls=50, concurrency=5, warmup=0)
    assert dict(result.status) == {"UNAVAILABLE": 50}


# --- nginx with TLS


def behind(nginx, **tls):
    return gp.Target(nginx.address, tls=gp.TLS(**({"ca": str(nginx.certificate)} | tls)))


@BOTH
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_grpc_behind_nginx_with_tls(backend, transport, version, within):
    before = backend.counters()
    with start(real_servers.Nginx, backend.address, tls=True) as nginx:
        exact = {"min_version": version, "max_version": version} if transport == "wire" else {}
        target = behind(nginx, **exact)  # C core chooses for itself
        result = load(target, transport, calls=1000, concurrency=16, connections=2)
        sizes = {"request_size": "300KiB", "response_size": "300KiB"}
        large = load(target, transport, calls=20, concurrency=4, **sizes)
        talk = load(target, transport, kind="bidi", messages_per_stream=20, calls=50, concurrency=5)
    assert (result.calls, large.calls, talk.calls) == (1000, 20, 50)
    assert result.connections == 2
    assert within(2, lambda: backend.counters().finished - before.finished == 1070)
    assert talk.messages_received == 1000


@BOTH
def test_goaway_through_tls_loses_no_call(backend, transport):
    with start(real_servers.Nginx, backend.address, tls=True, keepalive_requests=100) as nginx:
        result = load(behind(nginx), transport, calls=2000, concurrency=16, refused=True)
    assert result.calls == 2000
    assert result.reconnects >= 19


@BOTH
def test_what_is_wrong_with_a_certificate_is_told_before_the_load(backend, transport):
    other = gp.TLS.self_signed()
    with start(real_servers.Nginx, backend.address, tls=True) as nginx:
        for target, cause in (
            (gp.Target(nginx.address, tls=gp.TLS(ca=other.ca)), "certificate"),
            (behind(nginx, server_name="elsewhere.example"), "elsewhere.example"),
            (gp.Target(nginx.address), "HTTP/1"),  # nginx does not say that it wants TLS
        ):
            with pytest.raises(gp.ConnectError, match=cause):
                gp.load(target, transport=transport, calls=10)
        trusting = gp.Target(nginx.address, tls=gp.TLS(verify=False))
        if transport == "wire":
            assert load(trusting, transport, calls=10, concurrency=2).calls == 10


# --- nghttpd


@pytest.fixture
def pages(tmp_path):
    service = tmp_path / "grpc.testing.BenchmarkService"
    service.mkdir()
    (service / "UnaryCall").write_bytes(b"\0\0\0\0\2hi")
    return tmp_path


@BOTH
def test_a_web_server_answers_without_grpc_status(pages, transport):
    """200 and even a sound message, but no status: UNKNOWN, not a success."""
    with start(real_servers.Nghttpd, pages) as web:
        result = gp.load(web.address, transport=transport, calls=200, concurrency=10, warmup=0)
    assert dict(result.status) == {"UNKNOWN": 200}
    assert not result.valid
    assert "all_failed" in [finding.code for finding in result.findings]


@BOTH
def test_a_web_server_that_does_not_know_the_path(tmp_path, transport):
    with start(real_servers.Nghttpd, tmp_path) as web:
        result = gp.load(web.address, transport=transport, calls=200, concurrency=10, warmup=0)
    assert dict(result.status) == {"UNIMPLEMENTED": 200}  # 404


@BOTH
def test_a_web_server_with_trailers_that_make_it_grpc(pages, transport):
    with start(real_servers.Nghttpd, pages, "--trailer", "grpc-status: 0") as web:
        result = gp.load(web.address, transport=transport, calls=200, concurrency=10, warmup=0)
    assert dict(result.status) in ({"OK": 200}, {"UNKNOWN": 200})  # by the content-type it takes it for
    assert result.calls == 200


@BOTH
def test_calls_of_a_service_of_ones_own_are_held_and_cost_what_they_take(transport, within):
    """Its calls last by themselves; nothing of ours is in their metadata."""
    its = {"method": "/grpc.testing.BenchmarkService/Last", "request": b"1000000", "transport": transport}
    with start(real_servers.grpcio) as own:
        target = gp.Target(own.address, pid=own.pid)
        with gp.hold(target, calls=8, **its) as held:
            assert (held.running, held.refused) == (8, 0)
            assert within(5, lambda: own.counts()["started"] == 8)
            assert dict(held.spec.metadata) == {}
        assert held.status == {"CANCELLED": 8}
        assert within(5, lambda: own.counts()["finished"] == 8)
        cost = gp.memory_per_call(target, [0, 4, 8, 12], repeats=1, **its)
        connection = gp.memory_per_connection(
            target, [0, 3, 6], repeats=1, kind="unary", send_first=False, **its
        )
    assert "/grpc.testing.BenchmarkService/Last" in cost.title
    assert 0.7e6 < cost.rss.slope < 1.6e6
    assert connection.fds.slope == 1  # its memory is warm by then
