"""What is measured: the native server and the mirror as child processes, and somebody else's server."""

from grpcperf.targets.mirror import Mirror
from grpcperf.targets.models import Async, ThreadPerCall
from grpcperf.targets.server import Server
from grpcperf.targets.target import Counters, Measurable, Target, as_target

__all__ = ["Async", "Counters", "Measurable", "Mirror", "Server", "Target", "ThreadPerCall", "as_target"]
