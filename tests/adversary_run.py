"""How the tests with a scripted peer put a load on it, and what must hold of the result whatever it did."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adversary import Peer, Script

import grpcperf as gp

CALLS = 4  # of a case, all in flight at once
DEADLINE_S = 2.0  # of each call; what is decided by the peer's words is decided long before
TRANSPORTS = ("wire", "core")
# With these, calls that the server never began go on elsewhere. Off by default: with them C core 1.51.1 ends
# the process when a response closes without grpc-status.
CORE_ARGS = {"grpc.enable_retries": 1}
ANY = "any"  # C core is no judge of HTTP/2: what it makes of some violations is told by no rule


@dataclass(frozen=True)
class Case:
    """What a peer does to CALLS calls, and how they must end.

    `wire`: the class of all of them, or counts. `core`: what C core makes of it where that is not the same;
    a connection's death is `transport` on wire and UNAVAILABLE on core, without saying so. `says`: the error
    code that wire must tell the peer, in a GOAWAY or an RST_STREAM; None: it must complain of nothing.
    """

    name: str
    script: Script
    wire: str | Mapping[str, int]
    core: str | Mapping[str, int] | None = None
    says: int | None = None
    load: Mapping[str, Any] = field(default_factory=dict)
    cause: str = ""  # what the result of wire must say, as a regular expression

    def wanted(self, transport: str) -> dict[str, int] | None:
        told = self.wire if transport == "wire" or self.core is None else self.core
        if told == ANY:
            return None
        counts = {told: CALLS} if isinstance(told, str) else dict(told)
        if transport == "core" and "transport" in counts:
            counts["UNAVAILABLE"] = counts.get("UNAVAILABLE", 0) + counts.pop("transport")
        return counts


def run(peer: Peer, transport: str, *, core_retries: bool = False, **load: Any) -> gp.Result:
    """A load without warm-up. Every call is in one class, and the end comes within the deadline and a
    second."""
    spec = {"calls": CALLS, "warmup": 0, "deadline": DEADLINE_S, "drain": 3.0} | load
    spec.setdefault("concurrency", spec["calls"])
    if transport == "core" and core_retries:
        spec["channel_args"] = CORE_ARGS
    begin = time.monotonic()
    result = gp.load(peer.address, transport=transport, **spec)
    took = time.monotonic() - begin
    rounds = -(-spec["calls"] // spec["concurrency"])
    assert result.calls == sum(result.status.values()) == spec["calls"]
    assert result.latency.count == result.status["OK"]
    assert result.error_latency.count == result.errors - result.status["in_flight_at_end"]
    slack = 1 if transport == "wire" else 3  # C core's threads have other ideas of time
    assert took < rounds * spec["deadline"] + slack, f"took {took:.1f} s"
    return result


def check(case: Case, transport: str) -> gp.Result:
    """Run a case and hold it against what it says."""
    wanted = case.wanted(transport)
    hurry = {"deadline": 0.2} if wanted is None else {}
    with Peer(case.script) as peer:
        result = run(peer, transport, **(hurry | case.load))
        if transport == "wire":
            peer.finish()
    counts = dict(result.status)
    assert wanted is None or counts == wanted, f"{counts}, not {wanted}"
    assert peer.looks == 1
    if transport == "wire":
        says = set() if case.says is None else {case.says}
        assert peer.errors_said == says, f"said {peer.errors_said}, not {says}"
        assert peer.requests == result.calls, f"{peer.requests} calls came, {result.calls} were counted"
        told = sum(cause.calls for cause in result.causes if cause.status == "transport" and cause.text)
        assert told == result.status["transport"], f"{result.causes}"
        assert not case.cause or any(re.search(case.cause, str(c)) for c in result.causes), f"{result.causes}"
    return result


def counted(*classes: str) -> dict[str, int]:
    return dict(Counter(classes))
