"""What a server has in front of its handlers. Each limit is a frozen value with a text form, which is what
the shell and the native server's own command line use.

Several may be given; a call goes through them in that order. Under models that give a call a thread
(ThreadPerCall, StreamWorkers) a call that waits has its thread already, as it has its goroutine in grpc-go,
where a limit is an interceptor; under the others it is memory alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grpcperf import units
from grpcperf.errors import InvalidRequest

MAX_LIMITS = 8
MAX_RATE = 1e9


@dataclass(frozen=True)
class Semaphore:
    """At most `n` handlers at a time; the other calls wait, in the order in which they came, and are counted
    as queued. One that is cancelled, or whose deadline passes, leaves. `n`: at least 1, for with 0 every call
    would wait for ever."""

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", units.count(self.n, "Semaphore n"))

    def __str__(self) -> str:
        return f"semaphore:{self.n}"


@dataclass(frozen=True)
class Rate:
    """At most `per_s` calls a second in the long run and `burst` at once, by a token bucket that is full at
    the start.

    `on_excess`: "reject" ends a call with RESOURCE_EXHAUSTED; "degrade" gives it a cheap answer at once: OK
    and, where the method has one response, an empty one, without a handler. A degraded call is counted as
    such, not as started. `per_s`: above 0 to a billion; `burst`: at least 1.
    """

    per_s: float
    burst: int = 100
    on_excess: str = "reject"

    def __post_init__(self) -> None:
        per_s = units.real(self.per_s)
        if per_s is None or not 0 < per_s <= MAX_RATE:
            raise InvalidRequest(
                f"Rate per_s must be a number above 0 to {MAX_RATE:,.0f}, not {units.shown(self.per_s)}"
            )
        object.__setattr__(self, "per_s", per_s)
        object.__setattr__(self, "burst", units.count(self.burst, "Rate burst"))
        units.one_of(self.on_excess, "Rate on_excess", ("reject", "degrade"))

    def __str__(self) -> str:
        per_s = int(self.per_s) if self.per_s == int(self.per_s) else self.per_s
        return f"rate:{per_s}:burst={self.burst}:{self.on_excess}"


@dataclass(frozen=True)
class PruneBelow:
    """Calls whose deadline leaves less than `left` end with DEADLINE_EXCEEDED before any work is done; those
    without a deadline pass. They are counted as pruned, which is among the rejected.

    `left`: in seconds or as "50ms", to whole microseconds, up to a day; 0 refuses what has expired already.
    """

    left: float | str

    def __post_init__(self) -> None:
        left = units.seconds(self.left, "PruneBelow left", high=units.DAY)
        object.__setattr__(self, "left", round(left * 1e6) / 1e6)

    def __str__(self) -> str:
        return f"prune:{round(float(self.left) * 1e6)}us"


Limit = Semaphore | Rate | PruneBelow

FORMS = "semaphore:N, rate:PER_S[:burst=N][:reject or :degrade] and prune:TIME"


def parse_limit(limit: Limit | str) -> Limit:
    """A limit from itself or from its text: "semaphore:100", "rate:1500:burst=100:degrade", "prune:50ms".

    Raises InvalidRequest naming the text and the forms that exist.
    """
    if isinstance(limit, Limit):
        return limit
    if not isinstance(limit, str):
        raise InvalidRequest(
            f"limit {units.shown(limit)}: give gp.Semaphore(100), gp.Rate(1500), gp.PruneBelow('50ms') or a "
            'text like "semaphore:100"'
        )
    name, *fields = limit.strip().split(":")
    if name == "semaphore" and len(fields) == 1:
        return Semaphore(units.count(fields[0], "Semaphore n"))
    if name == "rate" and 1 <= len(fields) <= 3:
        return _parse_rate(limit, *fields)
    if name == "prune" and len(fields) == 1:
        return PruneBelow(fields[0])
    raise InvalidRequest(f"limit {units.shown(limit)} is unknown; there are {FORMS}")


def _parse_rate(text: str, per_s: str, *options: str) -> Rate:
    burst = [option.removeprefix("burst=") for option in options if option.startswith("burst=")]
    excess = [option for option in options if not option.startswith("burst=")]
    if len(burst) > 1 or len(excess) > 1:
        raise InvalidRequest(f"limit {units.shown(text)} names something twice; there are {FORMS}")
    try:
        number = float(per_s)
    except ValueError:
        raise InvalidRequest(
            f"limit {units.shown(text)}: {units.shown(per_s)} is no number of calls a second"
        ) from None
    return Rate(
        number,
        burst=units.count(burst[0], "Rate burst") if burst else 100,
        on_excess=excess[0] if excess else "reject",
    )


def limit_options(limits: Iterable[Limit]) -> list[str]:
    """As a server's command line has them."""
    return [part for limit in limits for part in ("--limit", str(limit))]


def parse_limits(limits: Iterable[Limit | str]) -> tuple[Limit, ...]:
    """Limits in the order given. Raises InvalidRequest."""
    if isinstance(limits, str | Limit) or not isinstance(limits, Iterable):
        raise InvalidRequest(
            "limits must be a list such as [gp.Semaphore(100)] or ['semaphore:100'], "
            f"not {units.shown(limits)}"
        )
    parsed = tuple(parse_limit(limit) for limit in limits)
    if len(parsed) > MAX_LIMITS:
        raise InvalidRequest(f"limits: {len(parsed)} are more than the {MAX_LIMITS} that a server takes")
    return parsed
