"""What requests are made of, as servers see it: pools drawn by a seed, payloads, binary metadata."""

import os
import socket
import threading
from collections import Counter

import pytest
import real_servers
from adversary_run import TRANSPORTS

import grpcperf as gp
from grpcperf import _engine

BOTH = pytest.mark.parametrize("transport", TRANSPORTS)


@pytest.fixture(scope="module")
def grpcio():
    try:
        started = real_servers.grpcio()
    except real_servers.Missing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with started:
        yield started


def came(server, transport, **spec):
    """How often each request came in a load of which every call was OK, and the result."""
    server.requests()
    result = gp.load(server.address, transport=transport, warmup=0, **spec)
    assert dict(result.status) == {"OK": result.calls}
    return Counter(server.requests()["requests"]), result


# Of the method's own form, all of field 3, which the server leaves alone: sizes 3, 4 and 302.
POOL = [b"\x1a\x01a", b"\x1a\x02bb", b"\x1a\xab\x02" + b"c" * 299]


@BOTH
@pytest.mark.parametrize("kind", ["unary", "server_stream", "client_stream", "bidi"])
def test_each_message_is_drawn_from_the_pool(grpcio, transport, kind):
    streams = {} if kind == "unary" else {"messages_per_stream": 10}
    seen, result = came(
        grpcio, transport, kind=kind, calls=60, concurrency=4, connections=2, request=POOL, **streams
    )
    assert set(seen) == {message.hex() for message in POOL}
    assert seen.total() == result.messages_sent == 60 * (1 if kind in ("unary", "server_stream") else 10)
    assert result.payload_sent == sum(len(bytes.fromhex(text)) * n for text, n in seen.items())
    assert result.row()["requests"] == 3
    rate = result.messages_sent_per_s if streams else result.throughput_rps
    mean = result.payload_sent / result.messages_sent
    assert result.mib_per_s == pytest.approx(rate * mean / 2**20)


def test_the_seed_says_which_and_the_transports_agree(grpcio):
    def drawn(transport, seed):
        spec = {"calls": 100, "concurrency": 4, "connections": 2, "request": POOL, "seed": seed}
        return came(grpcio, transport, **spec)[0]

    assert drawn("wire", 1) == drawn("wire", 1) == drawn("core", 1) != drawn("wire", 2)


def test_threads_draw_for_themselves(grpcio):
    """As many on each of two connections, one to a thread: the same twice over would be even."""
    spec = {"calls": 90, "concurrency": 2, "connections": 2, "threads": 2}
    assert any(n % 2 for n in came(grpcio, "wire", **spec, request_size=[8] * 32)[0].values())


@BOTH
def test_payloads_made_here_are_random_bytes_of_the_seed(grpcio, transport):
    spec = {"calls": 200, "concurrency": 4, "request_size": [64] * 8}
    seen = came(grpcio, transport, **spec)[0]
    assert len(seen) == 8
    assert len({text[-128:] for text in seen}) == 8
    assert seen == came(grpcio, transport, **spec)[0]
    assert not seen.keys() & came(grpcio, transport, **spec, seed=100)[0].keys()
    assert len(came(grpcio, transport, calls=5, concurrency=1)[0]) == 1


def test_the_payload_of_a_request_follows_from_its_seed():
    same, other = (_engine.benchmark_request(1000, 16, seed) for seed in (5, 6))
    assert same == _engine.benchmark_request(1000, 16, 5) != other
    assert len(same) == len(other) > 1000
    assert len(set(same)) > 200


@BOTH
def test_a_pool_of_sizes_goes_out_in_any_frames(server, transport):
    """Among them are those that windows and frames cut."""
    sizes = [0, 1, 900, 1100, 16_384, 300_000]
    spec = gp.Load(request_size=sizes, calls=150, concurrency=10, warmup=0, transport=transport)
    for changes in ({}, {"compression": "gzip"}, {"kind": "bidi", "messages_per_stream": 5}):
        result = gp.load(server, spec, **changes)
        assert result.status == {"OK": 150}
        mean = result.payload_sent / result.messages_sent
        assert 30_000 < mean < 80_000  # 53,064; of 150 draws with a deviation of 9,000
    assert result.row()["request_size"] == pytest.approx(sum(sizes) / 6)


@BOTH
@pytest.mark.parametrize("value", [b"", b"\0", b"\xff\xfe\0\n", bytes(range(256)), b"," * 5])
def test_binary_metadata_comes_as_it_was_given(grpcio, transport, value):
    metadata = {"Trace-Bin": value, "plain": "text"}
    result = gp.load(grpcio.address, calls=3, concurrency=1, warmup=0, transport=transport, metadata=metadata)
    assert result.status == {"OK": 3}
    assert grpcio.requests()["metadata"]["trace-bin"] == value.hex()


# --- client streams without an end of their own


@BOTH
@pytest.mark.parametrize("model", ["async", "thread"])
def test_client_streams_without_a_bound_end_as_the_clients(transport, model):
    with gp.Server(model=model) as server:
        result = gp.load(
            server,
            kind="client_stream",
            concurrency=8,
            duration=0.3,
            warmup=0,
            drain=0.3,
            transport=transport,
        )
    assert result.status == {"OK": 8}
    assert result.messages_sent > 100
    assert result.valid


@BOTH
def test_a_server_that_does_not_read_is_told(server, transport):
    spec = gp.Load(kind="client_stream", concurrency=4, duration=0.2, warmup=0, drain=0.1)
    result = gp.load(server, spec, transport=transport, metadata={"grpcperf-hold": "1"})
    assert result.status == {"OK": 4}
    (finding,) = (one for one in result.findings if one.code == "messages_ahead")
    assert (finding.severity, finding.measured) == ("warning", 4)


def test_a_stream_that_said_nothing_is_in_flight_at_the_end():
    """A peer that lets no stream be opened."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        run = None
        try:

            def greet():
                while True:
                    try:
                        stream, _ = listener.accept()
                    except OSError:
                        return
                    # SETTINGS with MAX_CONCURRENT_STREAMS 0
                    stream.sendall(b"\0\0\x06\4\0\0\0\0\0\0\x03\0\0\0\0")
                    streams.append(stream)

            streams: list[socket.socket] = []
            threading.Thread(target=greet, daemon=True).start()
            run = gp.start(address, kind="client_stream", concurrency=2, duration=0.2, warmup=0, drain=0.1)
            result = run.result()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
    assert result.status == {"in_flight_at_end": 2}
    assert not result.valid


# --- what is told


def test_settings_are_those_of_the_end_of_the_run():
    with gp.Server(max_concurrent_streams=7) as server:
        wire = gp.load(server, duration=0.1, warmup=0, concurrency=4)
        core = gp.load(server, duration=0.1, warmup=0, concurrency=4, transport="core")
    assert wire.settings["max_concurrent_streams"] == core.settings["max_concurrent_streams"] == 7
    assert wire.settings["initial_window_size"] >= 65_535
    assert wire.settings["tls"] is False


def test_rows_tell_what_was_varied(server):
    varied = {"seed": 3, "compression": "gzip", "window": "1MiB", "busy_poll": True, "deadline": 1.5}
    row = gp.load(server, duration=0.05, warmup=0, concurrency=1, think_time=0.001, **varied).row()
    assert {name: row[name] for name in ("seed", "compression", "window", "busy_poll")} == {
        "seed": 3, "compression": "gzip", "window": 1 << 20, "busy_poll": True,
    }  # fmt: skip
    assert (row["deadline_s"], row["think_time_s"], row["threads"], row["tls"]) == (1.5, 0.001, 1, False)
    assert (row["rate"], row["arrival"], row["pick"], row["requests"]) == (None, None, "round_robin", 1)
