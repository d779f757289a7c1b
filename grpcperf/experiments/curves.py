"""What the throughput curves have in common: the conditions under which a curve is taken, and one point of
it as the columns of a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from grpcperf.errors import InvalidRequest
from grpcperf.experiments.kit import Kit, Row, ServerKind
from grpcperf.experiments.places import can_pin, places
from grpcperf.load import load
from grpcperf.result import Result
from grpcperf.targets import Link, Measurable
from grpcperf.tls import TLS
from grpcperf.units import MIB, size_bytes

METRICS = (
    *("throughput_rps", "mib_per_s", "latency_p50_us", "latency_p99_us", "errors"),
    *("client_cpu_us_per_call", "server_cpu_us_per_call"),
)

# Parameters of every curve, with what they are unless they are given: TLS, compression of requests ("gzip"),
# threads of the server (GOMAXPROCS), CPU and waiting of each handler, the distance of the server, one way,
# and whether server and client have CPUs of their own.
CONDITIONS: dict[str, Any] = {
    "tls": False,
    "compression": None,
    "threads": None,
    "busy_us": 0,
    "delay_us": 0,
    "distance_ms": 0.0,
    "pinned": False,
}


FRAMING = 64  # bytes of a message round its payload, at most


@contextmanager
def under(
    kit: Kit, conditions: Mapping[str, Any], server: ServerKind, *, largest: int
) -> Iterator[tuple[Measurable, dict[str, Any]]]:
    """A server under these conditions, which takes requests of so many bytes, and the arguments of loads on
    it. Of a server of the user's only the client can be pinned."""
    where = places(kit, pinned=conditions["pinned"])
    behaviour = {"busy-us": conditions["busy_us"], "delay-us": conditions["delay_us"]}
    both = {
        "behaviour": {name: value for name, value in behaviour.items() if value},
        "tls": TLS.self_signed() if conditions["tls"] else None,
        "cpus": where.server,
    }
    threads = conditions["threads"]
    of_server = told(conditions).keys() - {"compression", "distance_ms", "pinned"}
    if of_server and not (server.is_go or server.is_native):
        raise InvalidRequest(f"{server.name}: conditions of a server hold for those started by name")
    if threads and server.name not in ("native", *((server.name,) if server.is_go else ())):
        raise InvalidRequest(f"{server.name}: its threads cannot be set; give native or grpc-go")
    native: dict[str, Any] = {"model": f"async:{threads}"} if threads and server.name == "native" else {}
    with ExitStack() as stack:
        go = {"gomaxprocs": threads} if threads else {}
        if largest + FRAMING > MIB * 4:  # what servers take unless they are told otherwise
            native["channel_args"] = {"grpc.max_receive_message_length": largest + FRAMING}
            go["max_message"] = largest + FRAMING
        target: Measurable = stack.enter_context(server.start(go=go, native=native, **both))
        if conditions["distance_ms"]:
            target = stack.enter_context(Link(target, delay=conditions["distance_ms"] / 1e3))
        yield target, {"compression": conditions["compression"], "cpus": where.client}


def told(conditions: Mapping[str, Any]) -> Row:
    """The conditions that are not the usual ones, as columns; not what one CPU alone makes impossible."""
    conditions = {**conditions, "pinned": conditions["pinned"] and can_pin()}
    return {name: value for name, value in conditions.items() if value != CONDITIONS[name]}


def request_bytes(size: int | str) -> int:
    """Bytes of a request that may be given as "64KiB". Raises InvalidRequest."""
    return size_bytes(size, "request_size")


def point(kit: Kit, target: Measurable, where: str, **arguments: Any) -> Row:
    """Measure one point and note what was found."""
    return row_of(kit, load(target, progress=False, **arguments), where)


def row_of(kit: Kit, result: Result, where: str) -> Row:
    kit.note(result, where)
    row = result.row()
    return {name: row[name] for name in METRICS}


def times(value: float) -> str:
    """A factor, for a verdict."""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
