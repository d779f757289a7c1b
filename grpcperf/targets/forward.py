"""The next server of a chain: what a server that forwards to it is told."""

from __future__ import annotations

from collections.abc import Collection

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import InvalidRequest
from grpcperf.targets.target import Measurable, as_target, engine_tls

NEXT_S = 5.0  # for it to answer


def next_server(forward: object, own: Collection[object] = ()) -> Measurable:
    """The next server, which must be one that answers. `own`: addresses of the one that is to forward.

    Raises InvalidRequest, ServerDied, ConnectError."""
    if not isinstance(forward, (str, Measurable)):
        raise InvalidRequest(
            f'forward must be a server or an address such as "127.0.0.1:50051", not {units.shown(forward)}'
        )
    target = as_target(forward)
    if target.address in own:
        raise InvalidRequest(f"forward={target.address}: a server cannot forward to itself")
    if target.tls is not None and (target.tls.min_version or target.tls.max_version):
        raise InvalidRequest(
            "forward: no server chooses TLS versions for the next; leave min_version and max_version out"
        )
    target.require_usable()
    with translated():
        _engine.probe(target.address, NEXT_S, engine_tls(target))
    return target


def forward_options(target: Measurable) -> tuple[list[str], dict[str, bytes]]:
    """How the next server is called: options, and those whose value is a file."""
    told = ["--forward", target.address]
    if target.authority is not None:
        told += ["--forward-authority", target.authority]
    tls = engine_tls(target)
    if tls is None:
        return told, {}
    told += ["--forward-tls", "verify" if tls["verify"] else "any"]
    if tls["server_name"] is not None:
        told += ["--forward-tls-name", tls["server_name"]]
    return told, {
        f"--forward-tls-{name}": tls[name].encode() for name in ("ca", "cert", "key") if tls[name] is not None
    }
