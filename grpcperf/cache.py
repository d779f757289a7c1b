"""Where what was found out once is kept for the next time: ceilings of clients, programs that were built."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def folder() -> Path:
    """In $XDG_CACHE_HOME, or else ~/.cache (XDG Base Directory Specification). It need not be there yet."""
    from pathlib import Path

    base = os.environ.get("XDG_CACHE_HOME", "")
    caches = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    return caches / "grpcperf"
