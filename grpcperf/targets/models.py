"""How a server's calls get threads. Each model is a frozen value with a text form, which is what the shell
and the server's own command line use."""

from __future__ import annotations

from dataclasses import dataclass

from grpcperf import units
from grpcperf.errors import InvalidRequest

# Bounds of the native server. A thread's stack smaller than 16 KiB is refused by the system
# (PTHREAD_STACK_MIN).
MAX_THREADS = 1024
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
    KiB. Only the touched part of a stack costs memory.
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


Model = Async | ThreadPerCall

_NOT_BUILT = ("stream-workers", "pool")


def parse_model(model: Model | str) -> Model:
    """A model from itself or from its text: "async", "async:2", "thread", "thread:64KiB".

    Raises InvalidRequest naming the text and the forms that exist.
    """
    if isinstance(model, Async | ThreadPerCall):
        return model
    if not isinstance(model, str):
        raise InvalidRequest(f'model {model!r}: give gp.Async(), gp.ThreadPerCall() or a text like "async:2"')
    name, colon, argument = model.strip().partition(":")
    if name == "mirror":
        raise InvalidRequest(f"model {model!r} is a server of its own: gp.Mirror()")
    if name in _NOT_BUILT:
        raise InvalidRequest(
            f"model {model!r} is not built yet; there are async[:THREADS] and thread[:STACK]"
        )
    if name not in ("async", "thread") or (colon and not argument):
        raise InvalidRequest(f"model {model!r} is unknown; there are async[:THREADS] and thread[:STACK]")
    if name == "thread":
        return ThreadPerCall(argument or None)
    return Async(units.count(argument, "Async threads", high=MAX_THREADS) if argument else None)
