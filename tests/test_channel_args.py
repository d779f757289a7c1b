"""Channel arguments by name: what is in the table has an effect, and what would have none is refused."""

import re
from pathlib import Path

import pytest

import grpcperf as gp
from grpcperf import _engine
from grpcperf.targets.channel_args import _INERT, TABLE, check_channel_args, engine_args

PROBE_OFF = {"grpc.http2.bdp_probe": 0}


@pytest.mark.parametrize(
    ("args", "settings"),
    [
        ({}, {"initial_window_size": 4_194_303, "max_frame_size": 4_194_303, "max_header_list_size": 8192}),
        (PROBE_OFF, {"initial_window_size": 65_535}),
        (PROBE_OFF | {"grpc.http2.lookahead_bytes": "1MiB"}, {"initial_window_size": 1 << 20}),
        (PROBE_OFF | {"grpc.http2.max_frame_size": 20_000}, {"max_frame_size": 20_000}),
        ({"grpc.max_metadata_size": "64KiB"}, {"max_header_list_size": 65_536}),
        ({"grpc.http2.hpack_table_size.decoder": 1024}, {"header_table_size": 1024}),
        ({"grpc.max_concurrent_streams": 7}, {"max_concurrent_streams": 7}),
        # What is refused, insisted on: C core takes no notice.
        ({"unchecked:grpc.http2.lookahead_bytes": 1 << 20}, {"initial_window_size": 4_194_303}),
        ({"unchecked:grpc.http2.max_frame_size": 20_000}, {"max_frame_size": 4_194_303}),
    ],
)
def test_the_effective_settings_are_read_from_the_wire(args, settings):
    with gp.Server(channel_args=args) as server:
        assert server.settings.items() >= settings.items()


def test_settings_of_a_server_with_tls_in_its_display(within):
    with gp.Server("thread", tls=gp.TLS.self_signed(), max_concurrent_streams=123) as server:
        assert server.settings["max_concurrent_streams"] == 123
        assert "max concurrent streams 123" in server._repr_html_()
        assert within(1, lambda: server.memstats().streams == 0)
    assert "max concurrent streams" not in server._repr_html_()
    with pytest.raises(gp.InvalidRequest, match="closed"):
        _ = server.settings


def test_a_quota_shrinks_windows():
    with gp.Server(channel_args={"grpc.resource_quota": "1MiB"}) as server:
        assert (server.settings["initial_window_size"] or 0) < 4_194_303
        assert gp.load(server, calls=10, warmup=0).errors == 0


def test_the_receive_limit():
    small = {"grpc.max_receive_message_length": 1000}
    with gp.Server(channel_args=small) as server:
        assert gp.load(server, calls=3, warmup=0, request_size=900).status == {"OK": 3}
        assert gp.load(server, calls=3, warmup=0, request_size=1000).status == {"RESOURCE_EXHAUSTED": 3}
    with gp.Server(channel_args={"grpc.max_receive_message_length": -1}) as server:
        assert gp.load(server, calls=2, warmup=0, request_size="5MiB").status == {"OK": 2}


def test_every_name_of_the_table_is_one_of_the_library():
    """Those that do nothing are not, or not for us."""
    _engine.versions()
    maps = Path("/proc/self/maps").read_text()
    library = re.search(r"\S*/libgrpc\.so\S*", maps)
    assert library is not None
    names = set(re.findall(rb"grpc\.[a-zA-Z0-9_.]+", Path(library[0]).read_bytes()))
    assert {name for name in TABLE if name.encode() not in names} <= {"grpc.optimization_target"}
    assert not TABLE.keys() & _INERT.keys()
    assert all(need in TABLE for arg in TABLE.values() for need in arg.needs)
    assert all(arg.meaning for arg in TABLE.values())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"grpc.http2.bpd_probe": 0}, "did you mean grpc.http2.bdp_probe"),
        ({"http2.bdp_probe": 0}, "did you mean grpc.http2.bdp_probe"),
        ({"grpc.http2.window": 0}, 'ignore it.*"unchecked:grpc.http2.window" passes it on'),
        ({"x": 1}, "unknown channel argument 'x'"),
        ({"grpc.http2.min_recv_ping_interval_without_data_ms": 1}, "min_ping_interval_without_data_ms"),
        ({"grpc.http2.min_time_between_pings_ms": 1}, "no effect any more"),
        ({"grpc.http2.lookahead_bytes": 1 << 20}, "no effect without grpc.http2.bdp_probe=0"),
        ({"grpc.http2.lookahead_bytes": 1 << 20, "grpc.http2.bdp_probe": 1}, "no effect without"),
        ({"grpc.http2.max_frame_size": 1 << 20}, "no effect without grpc.http2.bdp_probe=0"),
        (PROBE_OFF | {"grpc.http2.max_frame_size": 16_383}, "from 16384 to"),
        (PROBE_OFF | {"grpc.http2.max_frame_size": 1 << 24}, "from 16384 to"),
        ({"grpc.max_connection_age_grace_ms": 1}, "no effect without grpc.max_connection_age_ms"),
        ({"grpc.keepalive_timeout_ms": 1}, "no effect without grpc.keepalive_time_ms"),
        ({"grpc.experimental.tcp_tx_zerocopy_send_bytes_threshold": 1}, "zerocopy_enabled=1"),
        ({"grpc.enable_retries": 1}, "is of a client; a server has no use for it"),
        ({"grpc.keepalive_time_ms": "soon"}, "whole number"),
        ({"grpc.http2.bdp_probe": 2}, "from 0 to 1"),
        ({"grpc.optimization_target": 5}, "must be a text"),
        ({"grpc.max_concurrent_streams": 0}, "from 1 to"),
        ({"": 1}, "not the name"),
        ({"unchecked:": 1}, "not the name"),
        ({"unchecked:a=b": 1}, "not the name"),
        ({"unchecked:a": 1.5}, "whole number"),
        ({"unchecked:a": 2**31}, "whole number"),
        ({"unchecked:a": "x\0"}, "text without NUL"),
        ([1], "must be a dict"),
    ],
)
def test_what_would_have_no_effect_is_refused(args, says):
    with pytest.raises(gp.InvalidRequest, match=says) as refused:
        gp.Server(channel_args=args)
    assert "channel_args" in str(refused.value)


def test_clients_have_the_same_table():
    core = {"transport": "core"}
    assert gp.Load(channel_args={"grpc.enable_retries": True}, **core).channel_args == {
        "grpc.enable_retries": 1
    }
    assert gp.Load(channel_args={"unchecked:a": "x"}, **core).replace(seed=1).channel_args == {
        "unchecked:a": "x"
    }
    with pytest.raises(gp.InvalidRequest, match="is of a server; a client"):
        gp.Load(channel_args={"grpc.max_connection_idle_ms": 5}, **core)
    with pytest.raises(gp.InvalidRequest, match=r"no effect without grpc\.enable_retries=1"):
        gp.Load(channel_args={"grpc.per_rpc_retry_buffer_size": 5}, **core)
    with pytest.raises(gp.InvalidRequest, match="did you mean"):
        gp.Load(channel_args={"grpc.enable_retry": 5}, **core)


def test_a_clients_arguments_reach_gRPC(server):
    told = {"grpc.max_receive_message_length": 100}
    result = gp.load(server, calls=3, warmup=0, response_size=200, transport="core", channel_args=told)
    assert result.status == {"RESOURCE_EXHAUSTED": 3}
    insisted = {f"unchecked:{name}": value for name, value in told.items()}
    result = gp.load(server, calls=3, warmup=0, response_size=200, transport="core", channel_args=insisted)
    assert result.status == {"RESOURCE_EXHAUSTED": 3}


def test_what_the_engine_gets():
    checked = check_channel_args({"unchecked:b": 1, "grpc.http2.true_binary": False}, "server")
    assert engine_args(checked) == {"b": 1, "grpc.http2.true_binary": 0}


def test_what_is_said_twice_is_refused():
    with pytest.raises(gp.InvalidRequest, match="max_concurrent_streams= says too"):
        gp.Server(max_concurrent_streams=5, channel_args={"grpc.max_concurrent_streams": 6})
    with pytest.raises(gp.InvalidRequest, match="keepalive= says too"):
        gp.Server(keepalive=gp.Keepalive(time=5), channel_args={"grpc.keepalive_time_ms": 6})
