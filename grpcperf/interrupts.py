"""Ctrl-C and SIGTERM on the command line: they end what is being measured, once, and what was measured is
still told."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

# From the first of them on, to end a run and its server and to tell the result: that takes 3 s at most, and
# to be impatient meanwhile would lose what was measured.
ENDING_S = 5.0
# Where somebody else decides what becomes of the signal, that holds.
_USUAL: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}
_ours: list[signal.Signals] = []  # those that heard_once answers now


@dataclass
class Heard:
    """What has been heard so far."""

    terminated: bool = False  # the first that was heard was SIGTERM
    until_s: float = 0.0


@contextmanager
def heard_once() -> Iterator[Heard]:
    """Inside, Ctrl-C and SIGTERM raise KeyboardInterrupt unless they follow another within ENDING_S."""
    heard = Heard()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if time.monotonic() > heard.until_s:
            heard.until_s = time.monotonic() + ENDING_S
            heard.terminated = number == signal.SIGTERM
            signal.default_int_handler(signal.SIGINT, frame)

    _ours[:] = [number for number, usual in _USUAL.items() if signal.getsignal(number) is usual]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    for number in _ours:
        signal.signal(number, interrupt)
    try:
        yield heard
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in _ours:
            signal.signal(number, _USUAL[number])
        _ours.clear()


def let_through() -> None:
    """Raises KeyboardInterrupt here for one that was put off until now (grpcperf_command)."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _USUAL)


def ignore() -> None:
    """From here to the end of heard_once: what remains is to tell, and must be whole."""
    for number in _ours:
        signal.signal(number, signal.SIG_IGN)
