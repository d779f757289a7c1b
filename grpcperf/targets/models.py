"""How a server's calls get threads. Each model is a frozen value with a text form, which is what the shell
and the server's own command line use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grpcperf import units
from grpcperf.errors import InvalidRequest

# Bounds of the native server. A thread's stack smaller than 16 KiB is refused by the system
# (PTHREAD_STACK_MIN).
MAX_THREADS = 1024
MAX_WORKERS = 10_000
MAX_QUEUE = 2**31 - 1
MIN_STACK_BYTES = 16 * 1024
MAX_STACK_BYTES = 1 << 30


@dataclass(frozen=True)
class Async:
    """Completion-queue threads run the handlers; a parked call owns no thread.

    `threads`: completion-queue threads, 1 to 1,024; None: one for each CPU the server may use.
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            object.__setattr__(self, "threads", units.count(self.threads, "Async threads", high=MAX_THREADS))

    def __str__(self) -> str:
        return "async" if self.threads is None else f"async:{self.threads}"


@dataclass(frozen=True)
class ThreadPerCall:
    """A thread for each call, for as long as the call lives: the goroutine-per-call server, with stacks.

    `stack`: size of a thread's stack, in bytes or as "64KiB", 16 KiB to 1 GiB; None: the server's default, 64
    KiB. Only the touched part of a stack costs memory. When the system gives no more threads, a call ends
    with RESOURCE_EXHAUSTED.
    """

    stack: int | str | None = None

    def __post_init__(self) -> None:
        if self.stack is not None:
            stack = units.size_bytes(
                self.stack, "ThreadPerCall stack", low=MIN_STACK_BYTES, high=MAX_STACK_BYTES
            )
            object.__setattr__(self, "stack", stack)

    def __str__(self) -> str:
        return "thread" if self.stack is None else f"thread:{self.stack}"


@dataclass(frozen=True)
class StreamWorkers:
    """`n` threads that are used again for call after call, and a new thread for a call that finds them all
    busy: grpc-go's NumStreamWorkers. It saves the making of threads and limits nothing.

    `n`: 0 to 10,000; with 0, grpc-go's default, it is ThreadPerCall.
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", units.count(self.n, "StreamWorkers n", low=0, high=MAX_WORKERS))

    def __str__(self) -> str:
        return f"stream-workers:{self.n}"


@dataclass(frozen=True)
class Pool:
    """`n` threads and no others. A call waits for one in a queue of `queue` calls; beyond that it ends with
    RESOURCE_EXHAUSTED. One that is cancelled, or whose deadline passes, leaves the queue.

    `n`: 1 to 10,000. `queue`: from 0, with which a call runs at once or not at all.
    """

    n: int
    queue: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", units.count(self.n, "Pool n", high=MAX_WORKERS))
        object.__setattr__(self, "queue", units.count(self.queue, "Pool queue", low=0, high=MAX_QUEUE))

    def __str__(self) -> str:
        return f"pool:{self.n}:{self.queue}"


Model = Async | ThreadPerCall | StreamWorkers | Pool

# By name: what makes the model of the texts between colons, and the fewest and most of them.
_MODELS: dict[str, tuple[Callable[..., Model], int, int]] = {
    "async": (lambda threads=None: Async(threads), 0, 1),
    "thread": (lambda stack=None: ThreadPerCall(stack), 0, 1),
    "stream-workers": (StreamWorkers, 1, 1),
    "pool": (Pool, 1, 2),
}
FORMS = "async[:THREADS], thread[:STACK], stream-workers:N and pool:N[:QUEUE]"


def parse_model(model: Model | str) -> Model:
    """A model from itself or from its text: "async", "async:2", "thread", "thread:64KiB", "stream-workers:8",
    "pool:100:1000".

    Raises InvalidRequest naming the text and the forms that exist.
    """
    if isinstance(model, Model):
        return model
    if not isinstance(model, str):
        raise InvalidRequest(
            f"model {units.shown(model)}: give gp.Async(), gp.ThreadPerCall(), gp.StreamWorkers(8), "
            'gp.Pool(100) or a text like "async:2"'
        )
    name, *fields = model.strip().split(":")
    if name == "mirror":
        raise InvalidRequest(f"model {units.shown(model)} is a server of its own: gp.Mirror()")
    make, fewest, most = _MODELS.get(name, (None, 0, 0))
    if make is None or not fewest <= len(fields) <= most or "" in fields:
        raise InvalidRequest(f"model {units.shown(model)} is unknown; there are {FORMS}")
    return make(*fields)
