"""The mirror: a server that does no work, to find out what a client itself can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grpcperf.memstats import MemStats
from grpcperf.targets.native import NativeChild


class Mirror(NativeChild):
    """A server of grpc.testing.BenchmarkService that answers every call at once, from bytes prepared
    beforehand, with one thread and no gRPC library: what a client reaches against it is the client's own
    ceiling, not the server's.

    Calls are right as far as a client can tell, of all five kinds and any response_size. What their metadata
    asks for (grpcperf-hold, grpcperf-delay-us, ...) is not done, for it would be work; compressed messages
    are answered by UNIMPLEMENTED; deadlines are left to the client. The constructor starts it and returns
    when it is ready; it lives and dies as gp.Server does.

    `cpus`: those it may use, as [0, 1] or "0-1". `env`: variables on top of this process's. `listen`: an
    IP address, or "unix:/path". `port`: 0 lets the system choose. Raises InvalidRequest, EngineError.
    """

    _executable = "grpcperf-mirror"
    _title = "mirror"

    def __init__(
        self,
        *,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__()
        self._start(listen=listen, port=port, cpus=cpus, env=env)

    def memstats(self, settle: bool = False) -> MemStats:
        """Its memory; the one thread's stack is not measured (None)."""
        return replace(super().memstats(settle), stack_inuse=None, stack_sys=None)
