"""Ctrl-C on the command line: it ends what is being measured, once, and what was measured is still told."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# From the first Ctrl-C on, to end a run and its server and to tell the result: that takes 3 s at most, and to
# be impatient meanwhile would lose what was measured.
ENDING_S = 5.0


@contextmanager
def heard_once() -> Iterator[None]:
    """Inside, Ctrl-C raises KeyboardInterrupt unless it follows another within ENDING_S. Does nothing where
    somebody else decides what becomes of the signal."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    ended_s = 0.0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal ended_s
        if time.monotonic() > ended_s:
            ended_s = time.monotonic() + ENDING_S
            signal.default_int_handler(number, frame)

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def let_through() -> None:
    """Raises KeyboardInterrupt here for one that was put off until now (grpcperf_command)."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def ignore() -> None:
    """From here to the end of heard_once: what remains is to tell, and must be whole."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
