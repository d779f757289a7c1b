"""What is measured: the native server, the Go server, the mirror and any command as child processes,
somebody else's server, and a network in front of any of them."""

from grpcperf.targets.go import GoServer
from grpcperf.targets.keepalive import Keepalive
from grpcperf.targets.limits import PruneBelow, Rate, Semaphore
from grpcperf.targets.link import Link
from grpcperf.targets.mirror import Mirror
from grpcperf.targets.models import Async, Pool, StreamWorkers, ThreadPerCall
from grpcperf.targets.process import Process
from grpcperf.targets.server import Server
from grpcperf.targets.target import Counters, Measurable, Target, as_target

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
