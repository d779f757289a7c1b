"""What a Go program says of itself over HTTP: the variables that package expvar publishes, the runtime's
MemStats among them."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.errors import EngineError, InvalidRequest
from grpcperf.memstats import from_go

if TYPE_CHECKING:
    from http.client import HTTPResponse

_MOST_BYTES = 16 * 2**20


def check_url(url: object) -> str:
    """Where the variables are; "host:port" alone means http and /debug/vars. Raises InvalidRequest."""
    from urllib.parse import urlsplit

    if isinstance(url, str) and url.isprintable() and " " not in url:
        whole = url if "://" in url else f"http://{url}"
        with contextlib.suppress(ValueError):  # a port that is none
            parts = urlsplit(whole)
            if parts.scheme == "http" and parts.hostname and parts.port != 0 and not parts.fragment:
                return whole if parts.path else f"{whole.rstrip('/')}/debug/vars"
    raise InvalidRequest(
        f'expvar must be a URL such as "http://127.0.0.1:8080/debug/vars", not {units.shown(url)}'
    )


def fetch(url: str, timeout_s: float) -> dict[str, Any]:
    """The JSON object at an http:// URL. Raises EngineError with the reason."""
    import json

    try:
        said = json.loads(fetch_bytes(url, timeout_s))
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise EngineError(f"cannot read {url}: what it answers is no JSON object")
    return said


def fetch_bytes(url: str, timeout_s: float) -> bytes:
    """What is at an http:// URL. The connection is closed afterwards: an open one would be memory of the
    process that is measured.

    Raises EngineError with the reason.
    """
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        body = _read(response, time.monotonic() + timeout_s)
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(f"cannot read {url}: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise EngineError(f"cannot read {url}: it answers {response.status} {response.reason}")
    return body


def _read(response: HTTPResponse, end: float) -> bytes:
    """The body, also of one who sends a byte now and then: the socket's timeout is for each of them."""
    body = b""
    while len(body) < _MOST_BYTES and (piece := response.read1(65_536)):
        body += piece
        if time.monotonic() > end:
            raise TimeoutError("timed out")
    return body


def read_memory(url: str, timeout_s: float) -> dict[str, int | float]:
    """The fields of MemStats that a Go program's expvar tells; also `goroutines`, where it publishes a number
    under that name. Raises EngineError."""
    said = fetch(url, timeout_s)
    memory = said.get("memstats")
    if not isinstance(memory, dict):
        raise EngineError(f"{url} has no memstats: it is no page of Go's package expvar")
    fields = from_go(memory)
    goroutines = said.get("goroutines")
    if isinstance(goroutines, int) and not isinstance(goroutines, bool):
        fields["goroutines"] = goroutines
    return fields
