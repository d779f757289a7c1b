"""The native gRPC server, in a child process that holds only what is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.errors import InvalidRequest
from grpcperf.spec import check_channel_args, refuse_unknown
from grpcperf.targets.allocations import Counting
from grpcperf.targets.child import executable
from grpcperf.targets.limits import Limit, parse_limits
from grpcperf.targets.models import Model, parse_model
from grpcperf.targets.native import NativeChild
from grpcperf.tls import TLS, require_tls

if TYPE_CHECKING:
    from pathlib import Path

BEHAVIOURS = ("hold", "delay-us", "busy-us", "alloc-bytes", "observe-cancel", "status")


class Server(NativeChild):
    """A native C-core server of grpc.testing.BenchmarkService on the loopback interface, as a child process.

    The constructor starts it and returns when it is ready; `with` closes it. It dies with this process,
    however that ends; one that is dropped is closed with a ResourceWarning.

    `model`: how calls get threads, gp.Async(), gp.ThreadPerCall(), gp.StreamWorkers(8), gp.Pool(100) or their
    text. `limits`: what calls go through before they get to a handler, in this order, as gp.Semaphore(100),
    gp.Rate(1500), gp.PruneBelow("50ms") or their text. `behaviour`: what every call does unless its metadata
    says otherwise, as {"delay-us": 20000} (names as in metadata, `grpcperf-` may be left out).
    `count_allocations`: its MemStats has exact counts, and as heap_alloc what lives, without what glibc keeps
    for itself. `channel_args`: C core's, by name. `cpus`: those it may use, as [0, 1] or "0-1". `env`:
    variables on top of this process's. `port`: 0 lets the system choose. `listen`: an IP address, or
    "unix:/path". `tls`: a gp.TLS with cert and key; loads on this server then know how to call it.

    Raises InvalidRequest for nonsense, EngineError with the server's own words when it does not start.
    Afterwards every method raises ServerDied once the process is gone.
    """

    _executable = "grpcperf-server"
    _title = "native server"

    def __init__(
        self,
        model: Model | str = "async",
        *,
        limits: Iterable[Limit | str] = (),
        max_concurrent_streams: int | None = None,
        channel_args: Mapping[str, int | str] | None = None,
        keepalive: Any = None,
        tls: TLS | None = None,
        forward: Any = None,
        behaviour: Mapping[str, int | str] | None = None,
        count_allocations: bool = False,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__()
        _refuse_unbuilt(
            keepalive=keepalive,
            forward=forward,
        )
        self.model = parse_model(model)
        self.limits = parse_limits(limits)
        if count_allocations:
            self._counting = Counting()
        arguments = ["--model", str(self.model)]
        for limit in self.limits:
            arguments += ["--limit", str(limit)]
        if max_concurrent_streams is not None:
            streams = units.count(max_concurrent_streams, "max_concurrent_streams")
            arguments += ["--max-concurrent-streams", str(streams)]
        for key, value in check_channel_args({} if channel_args is None else channel_args).items():
            arguments += ["--channel-arg", f"{key}={value}"]
        for key, value in check_behaviour({} if behaviour is None else behaviour).items():
            arguments += ["--behaviour", f"{key}={value}"]
        files = tls_files(tls)
        self._start(arguments, listen=listen, port=port, cpus=cpus, env=env, files=files)
        self.tls = None if tls is None else clients_tls(tls, self.address)

    def _about(self) -> dict[str, str]:
        about = {"model": str(self.model)}
        if self.limits:
            about["limits"] = " ".join(map(str, self.limits))
        return about | ({"security": "with TLS"} if self.tls else {})


def tls_files(tls: TLS | None) -> dict[str, bytes]:
    """Options of a server's command line whose value is a file, and what is in it. Raises InvalidRequest."""
    checked = require_tls(tls)
    return {} if checked is None else {f"--tls-{name}": text for name, text in checked.server_files().items()}


def clients_tls(tls: TLS, address: str) -> TLS:
    """What loads on that server need. A Unix socket has no name that a certificate could be for; those made
    here are for localhost too."""
    own = tls.for_clients()
    return own.replace(server_name="localhost") if own.server_name is None and "unix:" in address else own


def server_executable() -> Path:
    """Where the native server is. Raises FileNotFoundError when the package was built without it."""
    return executable("grpcperf-server")


def check_behaviour(behaviour: Mapping[str, int | str]) -> dict[str, str]:
    """What a server's calls do by default, under the names of the metadata. Raises InvalidRequest."""
    if not isinstance(behaviour, Mapping):
        raise InvalidRequest(
            f"behaviour must be a dict such as {{'delay-us': 20000}}, not {units.shown(behaviour)}"
        )
    short = {str(key).lower().replace("_", "-").removeprefix("grpcperf-"): key for key in behaviour}
    refuse_unknown(short, BEHAVIOURS, "behaviour")
    if len(short) < len(behaviour):
        raise InvalidRequest(f"behaviour names something twice: {', '.join(map(str, behaviour))}")
    checked = {}
    for name, key in short.items():
        high = {"hold": 2, "observe-cancel": 1, "status": 16}.get(name, 2**40)
        checked[f"grpcperf-{name}"] = str(units.count(behaviour[key], f"behaviour {name}", low=0, high=high))
    return checked


def _refuse_unbuilt(**arguments: object) -> None:
    for name, value in arguments.items():
        nothing = value is None or (isinstance(value, (bool, list, tuple)) and not value)
        if not nothing:
            raise InvalidRequest(f"{name}={units.shown(value)} is not built yet; leave it out")
