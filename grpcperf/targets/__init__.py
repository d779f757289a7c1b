"""What is measured: the native server as a child process, and somebody else's server."""

from grpcperf.targets.models import Async, ThreadPerCall
from grpcperf.targets.server import Server
from grpcperf.targets.target import Counters, Measurable, Target, as_target

__all__ = ["Async", "Counters", "Measurable", "Server", "Target", "ThreadPerCall", "as_target"]
