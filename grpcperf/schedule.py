"""When the calls of an open loop are to be sent: what people say of it, checked and in its plain form.

`rate` is calls per second over all connections and threads. `arrival` says how the calls lie in time:

- "constant": evenly spaced, 1/rate apart, the first at the very start.
- "poisson": gaps are exponential with mean 1/rate, as of many users who know nothing of each other.
- "uniform": gaps are uniform between 0 and 2/rate, so that their mean is 1/rate: less even than constant,
  without Poisson's long gaps and dense bursts.

`steps` lets the rate change over the measured window: a list of `(rate, seconds)`, which holds a rate, and
`(from, to, seconds)`, a ramp in a straight line. `steps=[(1000, "5s"), (1000, 4000, "10s"), (4000, "5s")]`
is 20 s long. A rate of 0 is a pause. The warm-up has the rate that the first step begins with; where the
window is longer than the steps, the last rate goes on.

The schedule is a pure function of these and `seed` (csrc/load/schedule.h says how it is computed): the same
for any number of threads, and never corrected by what happens to the calls.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from grpcperf import units
from grpcperf.errors import InvalidRequest

if TYPE_CHECKING:
    from grpcperf.spec import Load

ARRIVALS = ("poisson", "constant", "uniform")
CATCH_UPS = ("bounded", "none", "full")
MOST_RATE = 1e9  # calls per second: times are whole nanoseconds

Steps = tuple[tuple[float, ...], ...]

_GRAMMAR = (
    'steps must be a list of (rate, seconds) and (from, to, seconds), as [(1000, "5s"), (1000, 4000, 10)]'
)

_OF_OPEN_LOOP = ("arrival", "catch_up", "max_in_flight")
_OF_CLOSED_LOOP = {
    "concurrency": "an open loop has as many calls in flight as come; max_in_flight bounds them",
    "think_time": "an open loop sends when its schedule says",
}


def check_loop(spec: Load, given: Collection[str]) -> dict[str, Any]:
    """Closed or open, and nothing that only the other one has: rate and steps in their plain form. `given`
    are the arguments that were named. Raises InvalidRequest."""
    rate = None if spec.rate is None else check_rate(spec.rate)
    steps = None if spec.steps is None else check_steps(spec.steps)
    if rate is not None and steps is not None:
        raise InvalidRequest("rate contradicts steps, which have rates of their own; give one of them")
    units.one_of(spec.arrival, "arrival", ARRIVALS)
    units.one_of(spec.catch_up, "catch_up", CATCH_UPS)
    if rate is None and steps is None:
        for name in _OF_OPEN_LOOP:
            if name in given:
                raise InvalidRequest(f"{name} is of an open loop; give rate (or steps), or leave it out")
        return {}
    which = "steps" if rate is None else "rate"
    for name, why in _OF_CLOSED_LOOP.items():
        if name in given:
            raise InvalidRequest(f"{name} contradicts {which}: {why}")
    if spec.is_endless:
        raise InvalidRequest(
            f"{which} of kind {spec.kind!r} opens streams that would never end: give messages_per_stream"
        )
    return {"rate": rate, "steps": steps}


def check_rate(value: Any, name: str = "rate", *, zero: bool = False) -> float:
    """Calls per second, above 0 (or from 0) to 1e9, as a number or its text. Raises InvalidRequest."""
    number = units.real(value)
    if isinstance(value, str):
        try:
            number = float(value.replace(",", ""))
        except ValueError:
            number = None
    if number is None or not 0 <= number <= MOST_RATE or (number == 0 and not zero):
        bounds = f"{'from' if zero else 'above'} 0 to {MOST_RATE:,.0f}"
        raise InvalidRequest(f"{name} must be calls per second, {bounds}, not {value!r:.60}")
    return number


def check_steps(value: Any) -> Steps:
    """Steps as tuples of floats: (rate, seconds) or (from, to, seconds). Raises InvalidRequest."""
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        raise InvalidRequest(f"{_GRAMMAR}, not {value!r:.60}")
    steps = tuple(_check_step(step) for step in value)
    if not steps:
        raise InvalidRequest(f"{_GRAMMAR}; there is no step")
    if not any(rate > 0 for step in steps for rate in step[:-1]):
        raise InvalidRequest("steps: no step has a rate above 0")
    return steps


def _check_step(step: Any) -> tuple[float, ...]:
    parts = tuple(step) if isinstance(step, (tuple, list)) else ()
    if len(parts) not in (2, 3):
        raise InvalidRequest(f"{_GRAMMAR}, not {step!r:.60}")
    rates = (check_rate(rate, "the rate of a step", zero=True) for rate in parts[:-1])
    return (*rates, units.seconds(parts[-1], "the length of a step", above=True))


def length_s(steps: Steps) -> float:
    """How long the steps take together."""
    return sum(step[-1] for step in steps)


def engine_schedule(spec: Load) -> dict[str, Any] | None:
    """The Schedule of _engine.pyi; None for a closed loop."""
    if not spec.is_open_loop:
        return None
    steps: Steps = ((spec.rate, 1.0),) if spec.rate is not None else spec.steps
    return {
        "steps": [(step[0], step[-2], step[-1]) for step in steps],
        "arrival": spec.arrival,
        "seed": spec.seed,
        "catch_up": spec.catch_up,
    }


def intended_times(spec: Load, count: int) -> array[int]:
    """When the first `count` calls of the measured window are intended, in ns from its start; fewer where
    the rate falls to 0 for good. Raises InvalidRequest for a closed loop."""
    from grpcperf import _engine

    schedule = engine_schedule(spec)
    if schedule is None:
        raise InvalidRequest("a closed loop has no schedule; give rate or steps")
    times = array("Q")
    times.frombytes(_engine.schedule_times(schedule, count))
    return times
