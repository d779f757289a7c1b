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
from .late import importer
from .load import load, start
from .memstats import MemStats
from .result import Finding, Result
from .spec import Load
from .targets import Counters, Target
from .tls import TLS

if TYPE_CHECKING:
    from .checkup import Checkup, doctor
    from .comparison import Comparison, compare
    from .memory import memory_per_call, memory_per_connection
    from .memory_cost import MemoryCost
    from .results import Results
    from .sampler import Sampler
    from .search import MaxRate, find_max_rate, until_precise
    from .sweep import Sweep
    from .targets import (
        Async,
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
        ThreadPerCall,
    )

__version__ = "0.1.0"

_LATE = {
    "Async": "targets",
    "Checkup": "checkup",
    "Comparison": "comparison",
    "GoServer": "targets",
    "Keepalive": "targets",
    "Link": "targets",
    "MaxRate": "search",
    "MemoryCost": "memory_cost",
    "Mirror": "targets",
    "Pool": "targets",
    "Process": "targets",
    "PruneBelow": "targets",
    "Rate": "targets",
    "Results": "results",
    "Sampler": "sampler",
    "Semaphore": "targets",
    "Server": "targets",
    "StreamWorkers": "targets",
    "Sweep": "sweep",
    "ThreadPerCall": "targets",
    "compare": "comparison",
    "doctor": "checkup",
    "experiments": "",
    "find_max_rate": "search",
    "goclient": "",
    "memory_per_call": "memory",
    "memory_per_connection": "memory",
    "plot": "",
    "stats": "",
    "until_precise": "search",
}
__getattr__ = importer(globals(), _LATE)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


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
