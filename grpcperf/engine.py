"""The door to the C engine: what it raises leaves here as one of the public exceptions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from grpcperf import _engine
from grpcperf.errors import from_engine

# A forked child must not keep the control sockets of its parent's servers open, or these would outlive the
# parent.
os.register_at_fork(after_in_child=_engine.abandon_after_fork)


@contextmanager
def translated() -> Iterator[None]:
    """Around calls of _engine: its failures become grpcperf.Error, without a chain that says nothing more."""
    try:
        yield
    except _engine.EngineFailure as failure:
        raise from_engine(failure) from None
