"""grpcperf: what gRPC servers and clients really cost.

    import grpcperf as gp

    with gp.Server() as server:
        print(gp.load(server, concurrency=64))

Importing this starts no thread, touches no network and imports none of numpy, pandas, matplotlib or grpc.
"""

from .compare import Comparison, compare
from .doctor import doctor
from .errors import (
    CheckFailed,
    ConnectError,
    EngineError,
    Error,
    InconclusiveWarning,
    Interrupted,
    InvalidRequest,
    ServerDied,
)
from .histogram import Histogram
from .hold import hold
from .load import load, start
from .memory import memory_per_call, memory_per_connection
from .memory_cost import MemoryCost
from .memstats import MemStats
from .result import Finding, Result
from .results import Results
from .sampler import Sampler
from .search import MaxRate, find_max_rate, until_precise
from .spec import Load
from .sweep import Sweep
from .targets import (
    Async,
    Counters,
    GoServer,
    Keepalive,
    Mirror,
    Pool,
    Process,
    PruneBelow,
    Rate,
    Semaphore,
    Server,
    StreamWorkers,
    Target,
    ThreadPerCall,
)
from .tls import TLS

__version__ = "0.1.0"

_LATE = ("experiments", "plot", "stats")  # rooms that cost more than importing the package should


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'grpcperf' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"grpcperf.{name}")


__all__ = [
    "TLS",
    "Async",
    "CheckFailed",
    "Comparison",
    "ConnectError",
    "Counters",
    "EngineError",
    "Error",
    "Finding",
    "GoServer",
    "Histogram",
    "InconclusiveWarning",
    "Interrupted",
    "InvalidRequest",
    "Keepalive",
    "Load",
    "MaxRate",
    "MemStats",
    "MemoryCost",
    "Mirror",
    "Pool",
    "Process",
    "PruneBelow",
    "Rate",
    "Result",
    "Results",
    "Sampler",
    "Semaphore",
    "Server",
    "ServerDied",
    "StreamWorkers",
    "Sweep",
    "Target",
    "ThreadPerCall",
    "compare",
    "doctor",
    "find_max_rate",
    "hold",
    "load",
    "memory_per_call",
    "memory_per_connection",
    "start",
    "until_precise",
]
