"""What loads, targets and all else that is asked for check alike: names among those that there are, and CPUs;
and a dict that stays as it was checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from grpcperf import units
from grpcperf.errors import InvalidRequest


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed, so that a spec that holds one can be a key. Pickles and dumps as
    JSON."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a spec is frozen; use spec.replace(...)")

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


def refuse_unknown(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise InvalidRequest for the first name that is not known, with the names nearest to it."""
    choices = list(known)
    for name in names:
        if name not in choices:
            import difflib  # only for the message

            near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(choices)}"
            raise InvalidRequest(f"unknown {what} {name!r}{hint}")


def check_cpus(cpus: Any) -> tuple[int, ...] | None:
    """CPU numbers in rising order from ints or a text such as "0-3,5". Raises InvalidRequest."""
    if cpus is None:
        return None
    if isinstance(cpus, int):
        cpus = [cpus]
    if not isinstance(cpus, Iterable) or isinstance(cpus, (bytes, bytearray, memoryview)):
        raise InvalidRequest(f'cpus must be CPU numbers, as [0, 1] or "0-3,5", not {cpus!r}')
    wanted: set[int] = set()
    for part in cpus.split(",") if isinstance(cpus, str) else cpus:
        first, dash, last = part.partition("-") if isinstance(part, str) else (part, "", "")
        low = units.count(first, "cpus", low=0, high=4095)
        high = units.count(last, "cpus", low=low, high=4095) if dash else low
        wanted.update(range(low, high + 1))
    if not wanted:
        raise InvalidRequest(
            'cpus must name at least one CPU, as [0, 1] or "0-3,5"; None leaves it to the system'
        )
    return tuple(sorted(wanted))
