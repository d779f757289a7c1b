"""The CPUs that a server and its clients run on when neither is to take the other's."""

from __future__ import annotations

import os
from typing import NamedTuple

from grpcperf.experiments.kit import Kit


class Places(NamedTuple):
    """CPU numbers, for `cpus=`; None: any."""

    server: list[int] | None = None
    client: list[int] | None = None


def can_pin() -> bool:
    return len(os.sched_getaffinity(0)) > 1


def places(kit: Kit, *, pinned: bool) -> Places:
    """Pinned: the first CPU is the client's and all others are the server's, so that an open loop is on time
    however busy the server is. Where there is one CPU only that is left out by name."""
    if not pinned:
        return Places()
    if not can_pin():
        kit.skip("pinned", "there is one CPU only")
        return Places()
    cpus = sorted(os.sched_getaffinity(0))
    return Places(cpus[1:], cpus[:1])
