"""gRPC C core's channel arguments, by gRPC's own names: what each means and what it needs to have an effect.

C core ignores what it does not know, or cannot use, without a word. So a name that is not in TABLE is refused
here, and so is a combination that would do nothing. UNCHECKED before a name passes it on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grpcperf import units
from grpcperf.errors import InvalidRequest
from grpcperf.values import FrozenDict, refuse_unknown

Side = Literal["server", "client"]
Kind = Literal["flag", "ms", "bytes", "count", "text"]

UNCHECKED = "unchecked:"
_MOST = 2**31 - 1


@dataclass(frozen=True)
class ChannelArg:
    """One argument. `needs`: other arguments without which it has no effect, and the value they must have
    (None: any)."""

    name: str
    kind: Kind
    meaning: str
    side: Side | None = None  # None: of both
    low: int = 0
    high: int = _MOST
    needs: Mapping[str, int | None] = field(default_factory=dict)

    def checked(self, value: Any) -> int | str:
        what = f"channel_args[{self.name!r}]"
        if self.kind == "text":
            if not isinstance(value, str):
                raise InvalidRequest(f"{what} must be a text, not {units.shown(value)}")
            return units.crossing(value, what)
        if self.kind == "flag":
            number = int(value) if isinstance(value, bool) else value
            return units.count(number, what, low=0, high=1)
        if self.kind == "bytes":
            return units.size_bytes(value, what, low=self.low, high=self.high)
        return units.count(value, what, low=self.low, high=self.high)


_BDP_OFF = {"grpc.http2.bdp_probe": 0}
_RETRIES = {"grpc.enable_retries": 1}
_ZERO_COPY = {"grpc.experimental.tcp_tx_zerocopy_enabled": 1}

_ALL = (
    # Flow control and frames.
    ChannelArg(
        "grpc.http2.bdp_probe",
        "flag",
        "measure the bandwidth-delay product and set windows and frame size by it (1). 0: they stay as "
        "they are given, the window of a connection at 64 KiB",
    ),
    ChannelArg(
        "grpc.http2.lookahead_bytes",
        "bytes",
        "window of a stream; ignored while the BDP probe is on",
        needs=_BDP_OFF,
        low=5,
    ),
    ChannelArg(
        "grpc.http2.max_frame_size",
        "bytes",
        "largest frame it takes; ignored while the BDP probe is on",
        needs=_BDP_OFF,
        low=16_384,
        high=16_777_215,
    ),
    ChannelArg(
        "grpc.http2.write_buffer_size", "bytes", "what a stream may gather before it is written", low=0
    ),
    ChannelArg("grpc.http2.hpack_table_size.decoder", "bytes", "header table of the peer's headers (4,096)"),
    ChannelArg("grpc.http2.hpack_table_size.encoder", "bytes", "header table of its own headers (4,096)"),
    ChannelArg("grpc.http2.true_binary", "flag", "take binary metadata without base64 (1)"),
    ChannelArg("grpc.http2.initial_sequence_number", "count", "id of the first stream", "client", low=1),
    ChannelArg("grpc.http2_scheme", "text", "what is sent as :scheme", "client"),
    ChannelArg("grpc.max_metadata_size", "bytes", "metadata of one call that it takes (8,192)", low=0),
    ChannelArg(
        "grpc.max_concurrent_streams", "count", "calls in progress on one connection", "server", low=1
    ),
    # Sockets.
    ChannelArg("grpc.experimental.tcp_read_chunk_size", "bytes", "one read of a socket (8,192)", low=1),
    ChannelArg("grpc.experimental.tcp_min_read_chunk_size", "bytes", "bound of it (256)", low=1),
    ChannelArg("grpc.experimental.tcp_max_read_chunk_size", "bytes", "bound of it (4 MiB)", low=1),
    ChannelArg(
        "grpc.experimental.tcp_tx_zerocopy_enabled", "flag", "send without a copy; slower over loopback (0)"
    ),
    ChannelArg(
        "grpc.experimental.tcp_tx_zerocopy_send_bytes_threshold",
        "bytes",
        "from how many bytes on (16,384)",
        needs=_ZERO_COPY,
    ),
    ChannelArg(
        "grpc.experimental.tcp_tx_zerocopy_max_simultaneous_sends",
        "count",
        "of one connection (4)",
        needs=_ZERO_COPY,
    ),
    ChannelArg("grpc.so_reuseport", "flag", "several servers may share a port (0 here)", "server"),
    ChannelArg("grpc.expand_wildcard_addrs", "flag", "listen on each address of the machine", "server"),
    ChannelArg("grpc.tsi.max_frame_size", "bytes", "what TLS protects at once", low=1),
    ChannelArg(
        "grpc.server_handshake_timeout_ms", "ms", "for a connection's start (120,000)", "server", low=1
    ),
    # Keepalive, and how long connections last; gp.Keepalive sets these.
    ChannelArg(
        "grpc.keepalive_time_ms",
        "ms",
        "quiet time before a PING; without calls only with grpc.keepalive_permit_without_calls",
        low=1,
    ),
    ChannelArg(
        "grpc.keepalive_timeout_ms",
        "ms",
        "how long the PING may go unanswered",
        low=1,
        needs={"grpc.keepalive_time_ms": None},
    ),
    ChannelArg(
        "grpc.keepalive_permit_without_calls",
        "flag",
        "PINGs also while no call is in progress; a server then takes those of its clients too",
    ),
    ChannelArg(
        "grpc.http2.max_pings_without_data",
        "count",
        "PINGs without data or headers between them; 0: any number (2)",
    ),
    ChannelArg(
        "grpc.http2.min_ping_interval_without_data_ms",
        "ms",
        "a client's PINGs that come faster are strikes (300,000); while it has no call 2 h count, "
        "unless grpc.keepalive_permit_without_calls=1",
        "server",
    ),
    ChannelArg(
        "grpc.http2.max_ping_strikes",
        "count",
        "strikes before GOAWAY too_many_pings; 0: any number (2)",
        "server",
    ),
    ChannelArg(
        "grpc.max_connection_idle_ms",
        "ms",
        "a connection without calls is closed after 1 to 2 times this",
        "server",
        low=1,
    ),
    ChannelArg(
        "grpc.max_connection_age_ms",
        "ms",
        "a connection is told to go after this, give or take 10 %; it goes when its calls have ended",
        "server",
        low=1,
    ),
    ChannelArg(
        "grpc.max_connection_age_grace_ms",
        "ms",
        "and is closed after that, whatever calls it has",
        "server",
        needs={"grpc.max_connection_age_ms": None},
    ),
    # Messages and memory.
    ChannelArg("grpc.max_receive_message_length", "count", "bytes of one message; -1: any (4 MiB)", low=-1),
    ChannelArg("grpc.max_send_message_length", "count", "bytes of one message; -1: any", low=-1),
    ChannelArg("grpc.per_message_compression", "flag", "messages can be compressed (1)"),
    ChannelArg("grpc.per_message_decompression", "flag", "compressed messages are made plain (1)"),
    ChannelArg("grpc.default_compression_algorithm", "count", "0 none, 1 deflate, 2 gzip", high=2),
    ChannelArg("grpc.default_compression_level", "count", "0 none to 3 high", high=3),
    ChannelArg(
        "grpc.compression_enabled_algorithms_bitset", "count", "bit 0 none, 1 deflate, 2 gzip", low=1, high=7
    ),
    ChannelArg(
        "grpc.resource_quota",
        "bytes",
        "memory of the server; near it windows shrink and connections are killed, calls are not limited",
        "server",
        low=1,
        high=_MOST,
    ),
    # What else is in the stack.
    ChannelArg(
        "grpc.minimal_stack",
        "flag",
        "leave optional parts out (0); with it deadlines end no call on a server, unless "
        "grpc.enable_deadline_checking=1",
    ),
    ChannelArg(
        "grpc.enable_deadline_checking", "flag", "a deadline ends its call (1; 0 with the minimal stack)"
    ),
    ChannelArg("grpc.enable_channelz", "flag", "statistics for channelz (1)"),
    ChannelArg(
        "grpc.max_channel_trace_event_memory_per_node",
        "bytes",
        "trace of a channel; 0: none (4,096)",
    ),
    ChannelArg("grpc.optimization_target", "text", "latency, blend or throughput (blend)"),
    # Of clients alone.
    ChannelArg("grpc.use_local_subchannel_pool", "flag", "a connection of its own (1 here)", "client"),
    ChannelArg("grpc.enable_retries", "flag", "retries of gRPC's own (0 here)", "client"),
    ChannelArg("grpc.per_rpc_retry_buffer_size", "bytes", "kept for a retry", "client", needs=_RETRIES),
    ChannelArg(
        "grpc.experimental.enable_hedging", "flag", "several attempts at once", "client", needs=_RETRIES
    ),
    ChannelArg("grpc.service_config", "text", "JSON: retry and hedging policies, timeouts", "client"),
    ChannelArg("grpc.service_config_disable_resolution", "flag", "none from DNS (1 here)", "client"),
    ChannelArg("grpc.lb_policy_name", "text", "pick_first or round_robin", "client"),
    ChannelArg("grpc.client_idle_timeout_ms", "ms", "then an unused channel closes", "client", low=1000),
    ChannelArg(
        "grpc.initial_reconnect_backoff_ms", "ms", "before a second attempt (1,000)", "client", low=100
    ),
    ChannelArg("grpc.min_reconnect_backoff_ms", "ms", "what an attempt may take (20,000)", "client", low=100),
    ChannelArg("grpc.max_reconnect_backoff_ms", "ms", "between attempts (120,000)", "client", low=100),
    ChannelArg("grpc.dns_min_time_between_resolutions_ms", "ms", "(30,000)", "client"),
    ChannelArg("grpc.dns_ares_query_timeout", "ms", "of one query; 0: none (120,000)", "client"),
    ChannelArg("grpc.dns_enable_srv_queries", "flag", "look for balancers (0)", "client"),
    ChannelArg("grpc.enable_http_proxy", "flag", "as the environment says (0 here)", "client"),
    ChannelArg("grpc.http_proxy", "text", "address of one", "client"),
    ChannelArg("grpc.inhibit_health_checking", "flag", "no health checks of gRPC's own", "client"),
    ChannelArg("grpc.default_authority", "text", ":authority, in place of the address", "client"),
    ChannelArg("grpc.ssl_target_name_override", "text", "whom the certificate must be for", "client"),
    ChannelArg("grpc.primary_user_agent", "text", "at the start of user-agent", "client"),
    ChannelArg("grpc.secondary_user_agent", "text", "at the end of user-agent", "client"),
    ChannelArg("grpc.disable_client_authority_filter", "flag", "no :authority by default", "client"),
)
TABLE: Mapping[str, ChannelArg] = {arg.name: arg for arg in _ALL}

# Names that gRPC has, or had, and that do nothing.
_INERT = {
    "grpc.http2.min_time_between_pings_ms": "it has no effect any more; PINGs go by grpc.keepalive_time_ms",
    "grpc.http2.min_sent_ping_interval_without_data_ms": "it has no effect any more; PINGs go by "
    "grpc.keepalive_time_ms",
    "grpc.http2.min_recv_ping_interval_without_data_ms": "it has no effect; what counts is called "
    "grpc.http2.min_ping_interval_without_data_ms",
    "grpc.max_message_length": "it has no effect any more; there is grpc.max_receive_message_length",
    "grpc.census": "nothing is linked in that would look at it",
    "grpc.loadreporting": "nothing is linked in that would look at it",
}


def check_channel_args(args: Any, side: Side) -> FrozenDict:
    """Channel arguments of a server or a client: names to numbers or texts, as they will have an effect.
    Sizes may be given as "64KiB". Raises InvalidRequest naming the argument and what is wrong with it."""
    if not isinstance(args, Mapping):
        raise InvalidRequest(f"channel_args must be a dict of numbers and texts, not {units.shown(args)}")
    checked = {name: _checked(name, value, side) for name, value in args.items()}
    for name in checked:
        if name in TABLE:
            _require_needs(TABLE[name], checked)
    return FrozenDict(checked)


def engine_args(args: Mapping[str, int | str]) -> dict[str, int | str]:
    """Checked arguments as C core gets them."""
    return {name.removeprefix(UNCHECKED): value for name, value in args.items()}


def refuse_twice(args: Mapping[str, Any], also: Iterable[str], by: str) -> None:
    """Raise InvalidRequest for an argument that another parameter, `by`, sets too."""
    for name in also:
        if name in args:
            raise InvalidRequest(f"channel_args: {name} is what {by}= says too; leave one out")


def _checked(name: Any, value: Any, side: Side) -> int | str:
    plain = name.removeprefix(UNCHECKED) if isinstance(name, str) else ""
    if not re.fullmatch(r"[!-<>-~]+", plain):
        raise InvalidRequest(f"channel_args: {units.shown(name)} is not the name of an argument")
    if name.startswith(UNCHECKED):
        if isinstance(value, str):
            return units.crossing(value, f"channel_args[{name!r}]")
        return units.count(
            int(value) if isinstance(value, bool) else value, f"channel_args[{name!r}]", low=-_MOST - 1
        )
    if name in _INERT:
        raise InvalidRequest(f"channel_args: {name}: {_INERT[name]}")
    try:
        refuse_unknown([name], TABLE, "channel argument")
    except InvalidRequest as error:
        hint = str(error) if "did you mean" in str(error) else f"unknown channel argument {name!r}"
        raise InvalidRequest(
            f"channel_args: {hint} gRPC would ignore it without a word; "
            f'"{UNCHECKED}{name}" passes it on all the same'
        ) from None
    arg = TABLE[name]
    if arg.side not in (None, side):
        raise InvalidRequest(f"channel_args: {name} is of a {arg.side}; a {side} has no use for it")
    return arg.checked(value)


def _require_needs(arg: ChannelArg, given: Mapping[str, int | str]) -> None:
    for name, value in arg.needs.items():
        if name not in given or (value is not None and given[name] != value):
            wanted = name if value is None else f"{name}={value}"
            raise InvalidRequest(f"channel_args: {arg.name} has no effect without {wanted}: give both")
