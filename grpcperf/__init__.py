"""grpcperf: what gRPC servers and clients really cost.

    import grpcperf as gp

    with gp.Server() as server:
        print(gp.load(server, concurrency=64))

Importing this starts no thread, touches no network and imports none of numpy, pandas, matplotlib or grpc.
"""

from typing import TYPE_CHECKING

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
from .memstats import MemStats
from .result import Finding, Result
from .sampler import Sampler
from .spec import Load
from .targets import (
    Async,
    Counters,
    GoServer,
    Keepalive,
    Link,
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

# What composes and looks is imported when it is first asked for: importing the package should cost little.
_LATE = {
    "Checkup": "checkup",
    "Comparison": "comparison",
    "MaxRate": "search",
    "MemoryCost": "memory_cost",
    "Results": "results",
    "Sweep": "sweep",
    "compare": "comparison",
    "doctor": "checkup",
    "find_max_rate": "search",
    "until_precise": "search",
}
_LATE_ROOMS = ("experiments", "plot", "stats")

if TYPE_CHECKING:
    from .checkup import Checkup, doctor
    from .comparison import Comparison, compare
    from .memory_cost import MemoryCost
    from .results import Results
    from .search import MaxRate, find_max_rate, until_precise
    from .sweep import Sweep


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _LATE_ROOMS:
        return import_module(f"{__name__}.{name}")
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATE, *_LATE_ROOMS])


__all__ = [
    "TLS",
    "Async",
    "CheckFailed",
    "Checkup",
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
    "Link",
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
