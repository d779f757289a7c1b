"""The door to the C engine: what it raises leaves here as one of the public exceptions."""

from __future__ import annotations

import os
from types import TracebackType

from grpcperf import _engine
from grpcperf.errors import from_engine

# A forked child must not keep the control sockets of its parent's servers open, or these would outlive the
# parent.
os.register_at_fork(after_in_child=_engine.abandon_after_fork)


class translated:  # no contextmanager: its frames would stand in every traceback
    """Around calls of _engine: its failures become grpcperf.Error, without a chain that says nothing more."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, _engine.EngineFailure):
            raise from_engine(error) from None
