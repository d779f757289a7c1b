"""The native gRPC server, in a child process that holds only what is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import Error, InvalidRequest
from grpcperf.targets.allocations import Counting
from grpcperf.targets.channel_args import check_channel_args, engine_args, refuse_twice
from grpcperf.targets.child import executable
from grpcperf.targets.forward import forward_options, next_server
from grpcperf.targets.keepalive import Keepalive, require_keepalive
from grpcperf.targets.limits import Limit, limit_options, parse_limits
from grpcperf.targets.models import Model, parse_model
from grpcperf.targets.native import NativeChild
from grpcperf.targets.target import Measurable, engine_tls
from grpcperf.threads import require_server_threads
from grpcperf.tls import TLS, require_tls
from grpcperf.values import refuse_unknown

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS_S = 5.0
SHOWN_S = 0.5
BEHAVIOURS = ("hold", "delay-us", "busy-us", "alloc-bytes", "observe-cancel", "message-delay-us", "status")


class Server(NativeChild):
    """A native C-core server of grpc.testing.BenchmarkService on the loopback interface, as a child process.

    The constructor starts it and returns when it is ready; `with` closes it. It dies with this process,
    however that ends; one that is dropped is closed with a ResourceWarning.

    `model`: how calls get threads, gp.Async(), gp.ThreadPerCall(), gp.StreamWorkers(8), gp.Pool(100) or their
    text. `limits`: what calls go through before they get to a handler, in this order, as gp.Semaphore(100),
    gp.Rate(1500), gp.PruneBelow("50ms") or their text. `behaviour`: what every call does unless its metadata
    says otherwise, as {"delay-us": 20000} (names as in metadata, `grpcperf-` may be left out).
    `count_allocations`: its MemStats has exact counts, and as heap_alloc what lives, without what glibc keeps
    for itself. `channel_args`: C core's, by name (grpcperf.targets.channel_args.TABLE). `keepalive`: a
    gp.Keepalive. `cpus`: those it may use, as [0, 1] or "0-1". `env`: variables on top of this process's.
    `port`: 0 lets the system choose. `listen`: an IP address, or "unix:/path". `tls`: a gp.TLS with cert and
    key; loads on this server then know how to call it.

    `forward`: the next server, a target or an address. Each unary call is, after what its behaviour asks for
    here, made there too, and answered as it was there; streams are refused. The rest of the deadline and a
    cancellation go on with it, and so does metadata, but for the grpcperf- names: those are for the server
    that is called, the ones behind it have a `behaviour` each. There is one connection to the next server. It
    must be there at the start; when it is gone later, calls are UNAVAILABLE until it is back.

    Raises InvalidRequest for nonsense, EngineError with the server's own words when it does not start.
    Afterwards every method raises ServerDied once the process is gone.
    """

    _executable = "grpcperf-server"
    _title = "native server"
    _settings: dict[str, int | None] | None = None  # once they were read

    def __init__(
        self,
        model: Model | str = "async",
        *,
        limits: Iterable[Limit | str] = (),
        max_concurrent_streams: int | None = None,
        channel_args: Mapping[str, int | str] | None = None,
        keepalive: Keepalive | None = None,
        tls: TLS | None = None,
        forward: Measurable | str | None = None,
        behaviour: Mapping[str, int | str] | None = None,
        count_allocations: bool = False,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__()
        self.model = parse_model(model)
        self.limits = parse_limits(limits)
        if count_allocations:
            self._counting = Counting()
        arguments = ["--model", str(self.model), *limit_options(self.limits)]
        if max_concurrent_streams is not None:
            streams = units.count(max_concurrent_streams, "max_concurrent_streams")
            arguments += ["--max-concurrent-streams", str(streams)]
        args = server_args({} if channel_args is None else channel_args, keepalive, max_concurrent_streams)
        for key, value in args.items():
            arguments += ["--channel-arg", f"{key}={value}"]
        self.keepalive = require_keepalive(keepalive)
        if self.keepalive is not None and (option := self.keepalive.tcp_option()) is not None:
            _require_tcp(listen)
            arguments += ["--tcp-keepalive", option]
        arguments += behaviour_options(behaviour)
        files = tls_files(tls)
        self.forward = None if forward is None else next_server(forward, own=(f"{listen}:{port}", listen))
        if self.forward is not None:
            told, handed = forward_options(self.forward)
            arguments += told
            files |= handed
        require_server_threads()
        self._start(arguments, listen=listen, port=port, cpus=cpus, env=env, files=files)
        self.tls = None if tls is None else clients_tls(tls, self.address)

    @property
    def settings(self) -> dict[str, int | None]:
        """The SETTINGS that it sends its clients (RFC 9113, 6.5.2), read from a connection made for it, once:
        max_concurrent_streams, initial_window_size, max_frame_size, max_header_list_size, header_table_size;
        None where it sends none, which leaves that to HTTP/2's default."""
        return self._read_settings(SETTINGS_S)

    def _read_settings(self, timeout: float) -> dict[str, int | None]:
        self.require_usable()
        if self._settings is None:
            with translated():
                self._settings = _engine.probe(self.address, timeout, engine_tls(self))["settings"]
        return dict(self._settings)

    def _about(self) -> dict[str, str]:
        about = {"model": str(self.model)}
        if self.limits:
            about["limits"] = " ".join(map(str, self.limits))
        if self.forward:
            about["forward"] = f"forwarding to {self.forward.address}"
        return about | ({"security": "with TLS"} if self.tls else {})

    def _details(self) -> dict[str, str]:
        """A display is no place for an exception, or for waiting: one that does not answer shows none."""
        try:
            settings = self._read_settings(SHOWN_S)
        except Error:
            return {}
        known = {name.replace("_", " "): value for name, value in settings.items() if value is not None}
        return {"settings": ", ".join(f"{name} {value:,}" for name, value in known.items())}


def server_args(args: Any, keepalive: object, max_concurrent_streams: int | None) -> dict[str, int | str]:
    """All channel arguments of a server. Raises InvalidRequest for what is said twice."""
    checked = check_channel_args(args, "server")
    wanted = require_keepalive(keepalive)
    from_keepalive = {} if wanted is None else wanted.server_args()
    refuse_twice(checked, from_keepalive, "keepalive")
    if max_concurrent_streams is not None:
        refuse_twice(checked, ["grpc.max_concurrent_streams"], "max_concurrent_streams")
    return engine_args(checked) | from_keepalive


def _require_tcp(listen: object) -> None:
    if isinstance(listen, str) and listen.startswith("unix:"):
        raise InvalidRequest(f"keepalive: listen={listen!r} is no TCP; leave the tcp_ values out")


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


def behaviour_options(behaviour: Mapping[str, int | str] | None) -> list[str]:
    """What a server's calls do by default, as its command line has it. Raises InvalidRequest."""
    if behaviour is None:
        return []
    if not isinstance(behaviour, Mapping):
        raise InvalidRequest(
            f"behaviour must be a dict such as {{'delay-us': 20000}}, not {units.shown(behaviour)}"
        )
    short = {str(key).lower().replace("_", "-").removeprefix("grpcperf-"): key for key in behaviour}
    refuse_unknown(short, BEHAVIOURS, "behaviour")
    if len(short) < len(behaviour):
        raise InvalidRequest(f"behaviour names something twice: {', '.join(map(str, behaviour))}")
    options = []
    for name, key in short.items():
        high = {"hold": 2, "observe-cancel": 1, "status": 16}.get(name, 2**40)
        number = units.count(behaviour[key], f"behaviour {name}", low=0, high=high)
        options += ["--behaviour", f"grpcperf-{name}={number}"]
    return options
