"""What is measured: the native server, the Go server, the mirror and any command as child processes,
somebody else's server, and a network in front of any of them."""

from typing import TYPE_CHECKING

from grpcperf.late import importer
from grpcperf.targets.target import Counters, Measurable, Target, as_target

if TYPE_CHECKING:
    from grpcperf.targets.go import GoServer
    from grpcperf.targets.keepalive import Keepalive
    from grpcperf.targets.limits import PruneBelow, Rate, Semaphore
    from grpcperf.targets.link import Link
    from grpcperf.targets.mirror import Mirror
    from grpcperf.targets.models import Async, Pool, StreamWorkers, ThreadPerCall
    from grpcperf.targets.process import Process
    from grpcperf.targets.server import Server

_LATE = {
    "Async": "models",
    "GoServer": "go",
    "Keepalive": "keepalive",
    "Link": "link",
    "Mirror": "mirror",
    "Pool": "models",
    "Process": "process",
    "PruneBelow": "limits",
    "Rate": "limits",
    "Semaphore": "limits",
    "Server": "server",
    "StreamWorkers": "models",
    "ThreadPerCall": "models",
}
__getattr__ = importer(globals(), _LATE)

__all__ = [
    "Async",
    "Counters",
    "GoServer",
    "Keepalive",
    "Link",
    "Measurable",
    "Mirror",
    "Pool",
    "Process",
    "PruneBelow",
    "Rate",
    "Semaphore",
    "Server",
    "StreamWorkers",
    "Target",
    "ThreadPerCall",
    "as_target",
]
