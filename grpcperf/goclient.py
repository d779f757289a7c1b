"""A load by grpc-go's own client: a small program of ours in a process of its own, which stands for the load
tools that are written in Go. It answers what a client costs, not what a server can do: for that our own
client is leaner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from grpcperf.descriptors import require_descriptors
from grpcperf.errors import ConnectError, EngineError, Interrupted, InvalidRequest
from grpcperf.load import CONNECT_S, NOTHING, Peer, probe, result_of
from grpcperf.result import Result
from grpcperf.spec import Load
from grpcperf.targets.go import DEFAULT_VERSION
from grpcperf.targets.target import Measurable, as_target, engine_tls

if TYPE_CHECKING:
    from pathlib import Path

NAME = "grpc-go"


def build(version: str = DEFAULT_VERSION) -> Path:
    """Build the client with that version of grpc-go, unless that has been done before; the executable.

    Raises InvalidRequest for what cannot be a version, EngineError with the reason when it fails.
    """
    from grpcperf.targets import go_build

    return go_build.build(version, go_build.CLIENT)


def versions(version: str = DEFAULT_VERSION) -> str:
    """Of grpc-go and Go in what build() makes, as "1.85.0, go1.26.8". Raises as build()."""
    from grpcperf.targets import go_build

    return go_build.versions(version, go_build.CLIENT)


def load(target: Measurable | str, **arguments: Any) -> dict[str, Any]:
    """The row of measured(), with the same arguments."""
    return measured(target, **arguments)[0]


def measured(
    target: Measurable | str,
    *,
    workers: int = 64,
    connections: int = 1,
    duration: float | str | None = None,
    calls: int | None = None,
    warmup: float | str = 0.5,
    drain: float | str = 1.0,
    request_size: int | str = 16,
    response_size: int | str = 16,
    metadata: Mapping[str, str | int] | None = None,
    pick: str = "round_robin",
    retries: bool = True,
    version: str = DEFAULT_VERSION,
) -> tuple[dict[str, Any], Result]:
    """Put a closed loop of unary calls on a target by grpc-go's client, and return what was measured as a row
    with the keys of Result.row(), `transport` being "grpc-go", with `client_cpu_s`, `context_switches` (both
    of its process, in the measured window), `retries` and `versions` beside them; and as a Result, whose
    findings tell whether it counts.

    `workers` callers share `connections`; `pick` says how one of these is found for a call: "round_robin" by
    a counter without a lock, "locked" under a mutex, "least_loaded" by looking at how many calls each has.
    `retries` is grpc-go's own default. What the engine measures alone (windows and their intervals, the
    server's CPU) is None here. The other arguments are gp.Load's.

    Raises InvalidRequest, ConnectError, EngineError when there is no Go or the client fails, and Interrupted
    for Ctrl-C, with nothing measured.
    """
    ends: dict[str, Any] = {"duration": duration, "calls": calls}
    spec = Load(
        transport="core",  # whose row is most alike; it is renamed there
        concurrency=workers,
        connections=connections,
        **{name: value for name, value in ends.items() if value is not None},
        warmup=warmup,
        drain=drain,
        request_size=request_size,
        response_size=response_size,
        metadata={} if metadata is None else metadata,
        pick=pick,
    )
    if len(spec.payload_sizes) > 1:
        raise InvalidRequest("request_size: grpc-go's client here sends one size")
    for key, value in spec.metadata.items():
        if isinstance(value, bytes):
            raise InvalidRequest(f"metadata {key!r}: grpc-go's client here takes texts alone")
    executable = build(version)
    target = as_target(target)
    target.require_usable()
    require_descriptors(target, spec.connections)
    peer = probe(target)
    told = _run(str(executable), request(target, spec, peer, retries=retries))
    settings = {**peer.settings, "tls": target.tls is not None}
    result = _result(spec, told, settings)
    return _row(told, result, retries), result


def request(target: Measurable, spec: Load, peer: Peer, *, retries: bool = True) -> str:
    """What the program is told, in one line of JSON."""
    address = peer.resolved
    if not address.startswith("unix:"):
        address = "passthrough:///" + address.partition(":")[2]
    tls = engine_tls(target)
    kept = ("ca", "cert", "key", "server_name", "verify")
    return json.dumps(
        {
            "target": address,
            "authority": target.authority or peer.authority,
            "method": spec.path,
            "workers": spec.concurrency,
            "connections": spec.connections,
            "pick": spec.pick,
            "retries": retries,
            "warmup": spec.warmup,
            "duration": spec.duration or 0,
            "calls": spec.calls or 0,
            "drain": spec.drain,
            "connect": CONNECT_S,
            "request_size": spec.message_bytes,
            "response_size": spec.response_bytes,
            "metadata": dict(spec.metadata),
            "tls": None
            if tls is None
            else {name: tls[name] or "" for name in kept} | {"verify": tls["verify"]},
        }
    )


def _run(executable: str, line: str) -> dict[str, Any]:
    """Its stdin stays open while it runs, and it ends with that: also when this process is killed."""
    with subprocess.Popen(
        [executable],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,  # so that Ctrl-C reaches this process alone
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with suppress(BrokenPipeError):  # it is dead already: its words say why
                process.stdin.write(line + "\n")
                process.stdin.flush()
            out = process.stdout.read()  # one line; what it has to say otherwise is less than a pipe holds
            words = process.stderr.read().strip()
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted("interrupted: grpc-go's client tells what it measured at its end") from None
            raise
    if process.returncode == 0:
        told: dict[str, Any] = json.loads(out)
        return told
    if "no connection to" in words:
        raise ConnectError(words)
    raise EngineError(f"grpc-go's client failed ({process.returncode}): {words[-500:] or 'it said nothing'}")


def _histogram(told: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's form, see Run.result in _engine.pyi."""
    slots = told["slots"]
    return {
        **{name: told[name] for name in ("overflow", "sum_ns", "min_ns", "max_ns")},
        "count": told["overflow"] + sum(count for _, count in slots),
        "entries": array("Q", chain.from_iterable(slots)).tobytes(),
    }


def _result(spec: Load, told: Mapping[str, Any], settings: Mapping[str, int | None]) -> Result:
    latency = _histogram(told["latency"])
    raw = {
        **NOTHING,
        **{name: told[name] for name in ("ok_in_window", "all_in_window", "window_s", "connect_s")},
        "status": {name: count for name, count in told["status"].items() if count},
        "latency": latency,
        "service": latency,
        "errors": _histogram(told["error_latency"]),
        "connected": spec.connections,
        "stopped": False,
    }
    # How busy it was is no finding: it has as many threads as it likes, and is what is measured.
    return replace(result_of(spec, raw, settings), client_cpu_s=told["client_cpu_s"])


def _row(told: Mapping[str, Any], result: Result, retries: bool) -> dict[str, Any]:
    return {
        **result.row(),
        "transport": NAME,
        "threads": None,
        "causes": told["causes"],
        "retries": retries,
        "client_cpu_s": told["client_cpu_s"],
        "context_switches": told["context_switches"],
        "versions": told["versions"],
    }
