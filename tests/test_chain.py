"""Chains: servers that forward to the next one, with the rest of the deadline, and cancellation behind it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
import real_servers

import grpcperf as gp
from grpcperf.targets.server import server_executable

MODELS = ("async", "thread")


@contextmanager
def chain(model, *behaviours, **last):
    """Servers from the first, which a client calls, to the last."""
    made = []
    try:
        for behaviour in reversed(behaviours):
            more = {"forward": made[0]} if made else last
            made.insert(0, gp.Server(model, behaviour=behaviour, **more))
        yield made
    finally:
        for server in made:
            server.close()


@pytest.mark.parametrize("model", MODELS)
def test_calls_go_to_the_end_of_the_chain_and_counts_add_up(model, within):
    with chain(model, {}, {}, {"delay-us": 2000}) as hops:
        result = gp.load(hops[0], calls=300, concurrency=16, warmup=0, response_size=100_000)
        assert result.status == {"OK": 300}
        assert all(within(1, lambda hop=hop: hop.counters().running == 0) for hop in hops)
        counts = [hop.counters() for hop in hops]
        assert [(c.started, c.finished, c.cancelled) for c in counts] == [(300, 300, 0)] * 3
        assert [c.peak_running > 1 for c in counts] == [True] * 3  # several at a time on one connection


@pytest.mark.parametrize("model", MODELS)
def test_the_deadline_that_is_left_goes_on(model, within):
    """A handler at the end that takes no notice works on behind the client's deadline, not behind one that
    began anew."""
    delays = [{"delay-us": 150_000}, {"delay-us": 150_000}, {"delay-us": 1_000_000, "observe-cancel": 0}]
    with chain(model, *delays) as hops:
        result = gp.load(hops[0], calls=1, concurrency=1, warmup=0, deadline=0.6)
        assert result.status == {"DEADLINE_EXCEEDED": 1}
        assert within(1, lambda: hops[0].counters().running + hops[1].counters().running == 0)
        assert hops[2].counters().running == 1
        assert within(2, lambda: hops[2].counters().running == 0)
        assert [hop.counters().deadline_exceeded for hop in hops] == [1, 1, 1]
        over = [hop.counters().work_after_cancel_us / 1e6 for hop in hops]
        assert over[0] < 0.3
        assert over[1] < 0.3
        assert (
            0.4 < over[2] < 0.95
        )  # 150 + 150 + 1000 - 600 ms; all of its second, had the deadline been anew


def test_a_hop_whose_deadline_has_passed_calls_no_further(within):
    delays = [{"delay-us": 300_000}, {"delay-us": 300_000}, {}]
    with chain("async", *delays) as hops:
        result = gp.load(hops[0], calls=20, concurrency=20, warmup=0, deadline=0.45)
        assert result.status == {"DEADLINE_EXCEEDED": 20}
        assert all(within(1, lambda hop=hop: hop.counters().running == 0) for hop in hops)
        assert [hop.counters().started for hop in hops] == [20, 20, 0]
        assert [hop.counters().deadline_exceeded for hop in hops] == [20, 20, 0]


@pytest.mark.parametrize("model", MODELS)
def test_a_cancelled_call_ends_at_every_hop_within_a_second(model, within):
    with chain(model, {}, {}, {"hold": 1}) as hops:
        with gp.hold(hops[0], calls=50, metadata={"grpcperf-hold": 0}) as held:
            assert held.running == 50
            assert within(2, lambda: hops[2].counters().parked == 50)
            held.cancel()
            cancelled_at = time.monotonic()
            assert within(1, lambda: all(hop.counters().running == 0 for hop in hops))
            assert time.monotonic() - cancelled_at < 1
        assert [hop.counters().cancelled for hop in hops] == [50] * 3
        assert gp.load(hops[0], calls=20, warmup=0, metadata={"grpcperf-status": 5}).status == {
            "NOT_FOUND": 20
        }
        assert hops[2].counters().started == 50  # what metadata asks for is for the server that is called


def test_what_is_parked_at_the_end_is_answered_when_it_is_released(within):
    with (
        chain("async", {}, {"hold": 1}) as hops,
        gp.hold(hops[0], calls=10, metadata={"grpcperf-hold": 0}) as held,
    ):
        assert within(2, lambda: hops[1].counters().parked == 10)
        hops[1].release()
        assert within(2, lambda: held.running == 0)
        assert [hop.counters().finished for hop in hops] == [10, 10]
        assert [hop.counters().cancelled for hop in hops] == [0, 0]


def test_what_is_parked_at_the_start_is_forwarded_when_it_is_released(within):
    with chain("thread", {}, {}) as hops, gp.hold(hops[0], calls=10) as held:
        assert held.running == 10
        assert hops[1].counters().started == 0
        held.release()
        assert within(2, lambda: hops[1].counters().finished == 10)


def test_the_own_part_comes_before_the_next_servers():
    with chain("async", {"delay-us": 60_000, "status": 9}, {"delay-us": 500_000}) as hops:
        result = gp.load(hops[0], calls=4, concurrency=4, warmup=0)
        assert result.status == {"FAILED_PRECONDITION": 4}
        assert hops[1].counters().started == 0
        result = gp.load(hops[0], calls=4, concurrency=4, warmup=0, metadata={"grpcperf-status": 0})
        assert result.status == {"OK": 4}
        assert result.latency.min > 0.56


ECHO = """
import grpc
from concurrent.futures import ThreadPoolExecutor
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        names = [f"{key}={value}" if key[:2] == "x-" else key for key, value in details.invocation_metadata]
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: context.abort(grpc.StatusCode.ABORTED, " ".join(sorted(names))))
server = grpc.server(ThreadPoolExecutor(2), handlers=[Echo()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""


def test_the_users_own_metadata_goes_on_and_the_status_comes_back():
    with (
        real_servers.Server([sys.executable, "-P", "-c", ECHO]) as last,
        gp.Server(forward=last.address) as middle,
        gp.Server(forward=middle) as first,
    ):
        asked = {"x-tenant": "a", "x-bin": b"\0\xff", "authorization": "b", "grpcperf-delay-us": 10}
        result = gp.load(first, calls=5, concurrency=1, warmup=0, metadata=asked)
        assert result.status == {"ABORTED": 5}
        told = next(cause.text for cause in result.causes)
        assert middle.address in told
        assert last.address in told
        assert told.endswith("authorization user-agent x-bin=b'\\x00\\xff' x-tenant=a")


def test_the_limits_on_messages_are_those_of_the_ends():
    unlimited = {"grpc.max_receive_message_length": -1}
    with (
        gp.Server(channel_args=unlimited) as last,
        gp.Server(forward=last, channel_args=unlimited) as first,
    ):
        sizes = {"request_size": "5MiB", "response_size": "5MiB"}
        result = gp.load(first, calls=3, warmup=0, transport="core", channel_args=unlimited, **sizes)
        assert result.status == {"OK": 3}


@pytest.mark.parametrize("model", MODELS)
def test_a_hop_keeps_nothing_of_its_calls(model):
    """Of answered ones, of cancelled ones, and of failed ones."""
    with (
        gp.Server(behaviour={"delay-us": 1000}) as last,
        gp.Server(model, forward=last, count_allocations=True) as hop,
    ):
        objects = []
        for _ in range(4):
            gp.load(hop, calls=500, concurrency=64, warmup=0, metadata={"x-tenant": "a"})
            gp.load(hop, calls=500, concurrency=64, warmup=0, deadline=0.001)
            gp.load(hop, calls=500, concurrency=64, warmup=0, request=b"no request", method=gp.Load().path)
            objects.append(hop.memstats(settle=True).heap_objects)
        assert objects[-1] - objects[1] < 400  # of 3,000 calls


@pytest.mark.parametrize("kind", ["server_stream", "client_stream", "bidi", "bidi_free"])
def test_streams_are_refused(kind):
    with chain("async", {}, {}) as hops:
        result = gp.load(hops[0], kind=kind, messages_per_stream=2, calls=5, concurrency=1, warmup=0)
        assert result.status == {"UNIMPLEMENTED": 5}
        assert hops[1].counters().started == 0


@pytest.mark.parametrize("model", MODELS)
def test_the_next_server_dies_in_mid_run_and_comes_back(model, within):
    with chain(model, {}, {}, {"delay-us": 2000}) as hops:
        port = int(hops[2].address.rpartition(":")[2])
        with gp.start(hops[0], concurrency=16, duration=0.6, warmup=0) as run:
            assert within(3, lambda: run.snapshot().ok > 50)
            hops[2].close()
            result = run.result()
        assert set(result.status) == {"OK", "UNAVAILABLE"}
        assert sum(result.status.values()) == result.calls
        assert hops[0].death() is None
        assert hops[1].death() is None
        assert within(1, lambda: hops[0].counters().running + hops[1].counters().running == 0)
        with gp.Server(port=port):
            assert within(4, lambda: gp.load(hops[0], calls=5, concurrency=1, warmup=0).status == {"OK": 5})


def test_a_next_server_that_stands_still_holds_calls_up_to_their_deadline():
    with chain("async", {}, {}) as hops:
        os.kill(hops[1].pid, signal.SIGSTOP)
        try:
            result = gp.load(hops[0], calls=10, concurrency=10, warmup=0, deadline=0.3)
        finally:
            os.kill(hops[1].pid, signal.SIGCONT)
        assert result.status == {"DEADLINE_EXCEEDED": 10}


@pytest.mark.parametrize("mutual", [False, True])
def test_the_next_server_may_want_tls(mutual):
    with (
        gp.Server(tls=gp.TLS.self_signed(mutual=mutual)) as last,
        gp.Server(forward=last) as first,
    ):
        assert gp.load(first, calls=20, concurrency=4, warmup=0).status == {"OK": 20}
        anyone = gp.TLS(verify=False, cert=last.tls.cert, key=last.tls.key)
        with gp.Server(forward=gp.Target(last.address, tls=anyone)) as trusting:
            assert gp.load(trusting, calls=5, concurrency=1, warmup=0).status == {"OK": 5}


@pytest.mark.parametrize(
    ("trusted", "name", "connects"),
    [("own", "localhost", True), ("other", "localhost", False), ("own", "elsewhere", False)],
)
def test_the_server_itself_looks_at_the_next_ones_certificate(tmp_path, trusted, name, connects):
    """Without Python, which looks first, in front of it."""
    own, other = gp.TLS.self_signed(), gp.TLS.self_signed()
    authority = tmp_path / "ca.pem"
    authority.write_text(str({"own": own, "other": other}[trusted].ca))
    with gp.Server(tls=own) as last:
        command = [server_executable(), "--forward", last.address, "--forward-tls", "verify"]
        command += ["--forward-tls-ca", authority, "--forward-tls-name", name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as made:
            line = made.stdout.readline()
            made.terminate()
            assert line.startswith("listening on") is connects
            assert (
                connects
                or f"no connection to the next server, {last.address}, with TLS" in made.stderr.read()
            )


def test_over_a_unix_socket_with_tls(tmp_path):
    with (
        gp.Server(listen=f"unix:{tmp_path}/next", tls=gp.TLS.self_signed()) as last,
        gp.Server(forward=last, tls=gp.TLS.self_signed()) as first,
    ):
        assert gp.load(first, calls=20, concurrency=4, warmup=0).status == {"OK": 20}


def test_a_mirror_at_the_end():
    with gp.Mirror() as last, gp.Server(forward=last) as first:
        assert gp.load(first, calls=200, concurrency=16, warmup=0).status == {"OK": 200}


# --- what makes no chain


@pytest.mark.parametrize("forward", [5, b"127.0.0.1:1", ["127.0.0.1:1"], True])
def test_what_is_no_server(forward):
    with pytest.raises(gp.InvalidRequest, match="forward must be a server or an address"):
        gp.Server(forward=forward)


def test_a_chain_must_be_whole_at_its_start(no_leftovers):
    nobody = f"127.0.0.1:{real_servers.free_port()}"
    with pytest.raises(gp.ConnectError, match=nobody):
        gp.Server(forward=nobody)
    with pytest.raises(gp.InvalidRequest, match="address"):
        gp.Server(forward="nowhere")
    with gp.Server() as plain, pytest.raises(gp.ConnectError, match="TLS"):
        gp.Server(forward=gp.Target(plain.address, tls=gp.TLS(verify=False)))
    with pytest.raises(gp.InvalidRequest, match="closed"):
        gp.Server(forward=plain)


def test_a_next_server_that_is_dead(within):
    with gp.Server() as last:
        os.kill(last.pid, signal.SIGKILL)
        assert within(2, last.death)
        with pytest.raises(gp.ServerDied, match="SIGKILL"):
            gp.Server(forward=last)


def test_a_server_does_not_forward_to_itself():
    port = real_servers.free_port()
    with pytest.raises(gp.InvalidRequest, match="itself"):
        gp.Server(port=port, forward=f"127.0.0.1:{port}")
    with pytest.raises(gp.InvalidRequest, match="itself"):
        gp.Server(listen="unix:/tmp/next", forward="unix:/tmp/next")


def test_tls_versions_cannot_be_chosen():
    with (
        gp.Server(tls=gp.TLS.self_signed().replace(min_version="1.3")) as last,
        pytest.raises(gp.InvalidRequest, match="TLS versions"),
    ):
        gp.Server(forward=last)


def test_a_chain_shows_itself():
    with chain("async", {}, {}) as hops:
        assert f"forwarding to {hops[1].address}" in repr(hops[0])
        assert hops[1].address in hops[0]._repr_html_()
