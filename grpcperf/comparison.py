"""Two things measured in turn and told apart: A and B interleaved, judged by the ratios of pairs."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from grpcperf import units
from grpcperf.errors import Interrupted, InvalidRequest
from grpcperf.progress import SweepProgress
from grpcperf.result import Finding, Result
from grpcperf.results import Record, Results, record_key
from grpcperf.stats import CONFIDENCE, Interval, paired_ratio, ratio_of_means

Verdict = Literal["changed", "unchanged", "inconclusive"]
FEWEST_ROUNDS = 3


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """B against A. `ratio` is b / a of the metric (None: it has no values), `interval` what it lies in with
    95 % confidence. "changed": the interval excludes 1 and the ratio is further from it than `min_effect`;
    "unchanged": the interval lies within `min_effect` of 1; else "inconclusive", with the reason in `note`.
    """

    metric: str
    verdict: Verdict
    ratio: float | None
    interval: Interval | None
    min_effect: float
    a: tuple[float | None, ...]  # values by round
    b: tuple[float | None, ...]
    interleaved: bool = True
    valid: bool = True  # no result has a finding that says that it does not count
    findings: tuple[Finding, ...] = ()  # of all results, each code once
    note: str = ""
    aa: Comparison | None = None  # A against itself, measured the same way

    @property
    def changed(self) -> bool:
        return self.verdict == "changed"

    @property
    def effect(self) -> float | None:
        """The ratio less 1: 0.2 is a fifth more."""
        return None if self.ratio is None else self.ratio - 1

    def row(self) -> dict[str, Any]:
        """For tables and JSON."""
        return {
            "metric": self.metric,
            "verdict": self.verdict,
            "ratio": self.ratio,
            "ratio_low": None if self.interval is None else self.interval.low,
            "ratio_high": None if self.interval is None else self.interval.high,
            "min_effect": self.min_effect,
            "rounds": min(len(self.a), len(self.b)),
            "interleaved": self.interleaved,
            "aa_verdict": None if self.aa is None else self.aa.verdict,
            "valid": self.valid,
            "findings": [finding.code for finding in self.findings],
            "note": self.note,
        }

    def __repr__(self) -> str:
        head = f"Comparison: {self.metric} {self.verdict}{'' if self.valid else ' (NOT VALID)'}"
        return "\n  ".join([head, *self._lines(), *(f"! {finding}" for finding in self.findings)])

    def _lines(self) -> list[str]:
        told = []
        if self.ratio is not None and (bounds := self.interval) is not None:
            told.append(
                f"B is {self.ratio:.3g} times A ({bounds.confidence:.0%} interval {bounds.low:.3g} to "
                f"{bounds.high:.3g}, {bounds.method}); changes below {self.min_effect:.0%} do not count"
            )
        for name, values in (("A", self.a), ("B", self.b)):
            known = sorted(value for value in values if value is not None)
            if known:
                shown = map(units.format_number, (statistics.median(known), known[0], known[-1]))
                told.append("{}: median {}, from {} to {}, {} times".format(name, *shown, len(known)))
        return told + ([self.note] if self.note else [])

    def _repr_html_(self) -> str:
        import html

        from grpcperf.remarks import html_findings

        lines = "".join(f"<div>{html.escape(line)}</div>" for line in self._lines())
        head = html.escape(f"{self.metric}: {self.verdict}")
        remarks = html_findings(self.findings)
        return f'<div style="color:inherit">{remarks}<div><b>{head}</b></div>{lines}</div>'


def compare(
    a: Callable[[], Any],
    b: Callable[[], Any],
    *,
    rounds: int = 10,
    metric: str = "latency_p99_us",
    min_effect: float = 0.02,
    aa_check: bool = False,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Measure A and B in turn, `rounds` times each, and say whether `metric` changed from A to B.

    `a`, `b`: callables that return a Result (or a dict that has the metric, or a number). Each round measures
    both, in random order by `seed`, so that what the machine does meanwhile meets both alike; the ratios of
    the pairs are judged (grpcperf.stats.paired_ratio). `metric`: a name as in Result.row() or Result.check().
    `aa_check` measures A once more in each round, and compares it with itself: if that "changed", the machine
    or the measurement is too unsteady for any verdict but "inconclusive". Raises InvalidRequest, and what the
    callables raise.
    """
    times = units.count(rounds, "rounds", low=FEWEST_ROUNDS, high=100_000)
    least, sure = _share(min_effect), units.real(confidence)
    if sure is None or not 0 < sure < 1:
        raise InvalidRequest(f"confidence must lie between 0 and 1, as 0.95, not {units.shown(confidence)}")
    names = ["a", "b", "again"] if aa_check else ["a", "b"]
    callables = {"a": a, "b": b, "again": a}
    for name in names:
        if not callable(callables[name]):
            given = units.shown(callables[name])
            raise InvalidRequest(f"{name} must be a callable that measures, not {given}")
    order, measured = random.Random(seed), {name: list[Any]() for name in names}
    with SweepProgress(times * len(names), progress) as bar:
        for _ in range(times):
            for name in order.sample(names, len(names)):
                bar.show({"measuring": name.upper()})
                try:
                    measured[name].append(callables[name]())
                except KeyboardInterrupt:
                    found = _so_far(measured, metric, least, confidence)
                    raise Interrupted(_told_so_far(measured), found) from None
                bar.step(failed=False)
    values = {name: [value_of(one, metric) for one in given] for name, given in measured.items()}
    results = [one for given in measured.values() for one in given if isinstance(one, Result)]
    aa = _paired(values["a"], values["again"], metric, least, confidence, []) if aa_check else None
    return _paired(values["a"], values["b"], metric, least, confidence, results, aa)


def _so_far(
    measured: Mapping[str, list[Any]], metric: str, min_effect: float, confidence: float
) -> Comparison:
    """Of the rounds that were finished; never a verdict."""
    done = min(map(len, measured.values()))
    a, b = ([value_of(one, metric) for one in measured[name][:done]] for name in ("a", "b"))
    results = [one for name in ("a", "b") for one in measured[name][:done] if isinstance(one, Result)]
    found = _paired(a, b, metric, min_effect, confidence, results)
    return replace(found, verdict="inconclusive", note=f"interrupted after {done} rounds")


def _told_so_far(measured: Mapping[str, list[Any]]) -> str:
    return f"interrupted after {min(map(len, measured.values()))} rounds: `result` is the Comparison of these"


def value_of(measured: Any, metric: str) -> float | None:
    """The metric of what was measured: a Result, a mapping, or the number itself."""
    if isinstance(measured, Result):
        from grpcperf import checks

        return checks.metric(metric).value(measured)
    if isinstance(measured, Mapping):
        if metric not in measured:
            there = ", ".join(map(str, measured))
            raise InvalidRequest(f"there is no {metric!r} in what was measured: {there}")
        measured = measured[metric]
    elif measured is None:
        raise InvalidRequest("a callable returned None: is there a `return` missing?")
    number = units.real(measured)
    if number is None and measured is not None:
        given = units.shown(measured)
        raise InvalidRequest(f"a callable must return a Result, a dict or a number, not {given}")
    return number


def judge(ratio: float, interval: Interval, min_effect: float) -> Verdict:
    """Whether a ratio differs from 1 by more than the least effect that counts, up (1 + min_effect) or down
    (its reciprocal)."""
    if 1 not in interval and abs(math.log(ratio)) > math.log1p(min_effect):
        return "changed"
    if 1 / (1 + min_effect) <= interval.low and interval.high <= 1 + min_effect:
        return "unchanged"
    return "inconclusive"


def compare_apart(
    a: Sequence[float], b: Sequence[float], metric: str, *, min_effect: Any, note: str = ""
) -> Comparison:
    """Repeats of A and of B that were not interleaved, by Welch's t: what the machine did between them is
    part of the ratio. With a `note` that they cannot be compared at all, the verdict is never "changed"."""
    least = _share(min_effect)
    found = ratio_of_means(a, b)
    if not note and min([*a, *b], default=0) <= 0:
        note = f"{metric} is 0 in some repeats, and has no ratio there" if a and b else "one has no value"
    if not note and found is None:
        note = "fewer than two repeats of one of them"
    return Comparison(
        metric=metric,
        verdict="inconclusive" if note or found is None else judge(*found, least),
        ratio=None if found is None else found[0],
        interval=None if found is None else found[1],
        min_effect=least,
        a=tuple(a),
        b=tuple(b),
        interleaved=False,
        note=note,
    )


def compare_stores(
    a: Results, b: Results, metric: str = "latency_p99_us", *, min_effect: Any = 0.02
) -> list[tuple[dict[str, Any], Comparison]]:
    """The metric at each point that two sweeps have in common, by their repeats, as (point, Comparison).

    They were not interleaved; when they are of other machines or versions no verdict is "changed". Raises
    InvalidRequest for other axes, an unknown metric, or no point in common.
    """
    if set(a.axes) != set(b.axes):
        raise InvalidRequest(
            f"sweeps over {', '.join(a.axes)} and over {', '.join(b.axes)} cannot be compared"
        )
    a.require([metric])
    b.require([metric])
    if metric in (*a.axes, "repeat", "valid") or not any(_values(side.records, metric) for side in (a, b)):
        raise InvalidRequest(f"{metric} is no number that was measured")
    note = ""
    if a.header.fingerprint != b.header.fingerprint:
        note = "measured on different machines or by different versions, which alone may change it"
    sides = [_by_point(side) for side in (a, b)]
    common = [key for key in sides[0] if key in sides[1]]
    if not common:
        raise InvalidRequest("the two sweeps have no point in common")
    compared = []
    for key in common:
        ours, theirs = (side[key] for side in sides)
        found = compare_apart(
            _values(ours, metric), _values(theirs, metric), metric, min_effect=min_effect, note=note
        )
        findings = {one.code: one for record in (*ours, *theirs) for one in record.findings}
        valid = all(record.valid for record in (*ours, *theirs))
        compared.append((dict(ours[0].point), replace(found, valid=valid, findings=tuple(findings.values()))))
    return compared


def _by_point(results: Results) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in results:
        found.setdefault(record_key(record.point, 0), []).append(record)
    return found


def _values(records: Iterable[Record], metric: str) -> list[float]:
    values = (record.value(metric) for record in records if metric != "valid")
    return [float(value) for value in values if isinstance(value, int | float)]


def _paired(
    a: list[float | None],
    b: list[float | None],
    metric: str,
    min_effect: float,
    confidence: float,
    results: list[Result],
    aa: Comparison | None = None,
) -> Comparison:
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    positive = [(x, y) for x, y in pairs if x > 0 and y > 0]
    found = paired_ratio([x for x, _ in positive], [y for _, y in positive], confidence=confidence)
    verdict: Verdict = "inconclusive"
    note = ""
    if len(positive) < len(pairs):
        note = f"{metric} is 0 in some of {len(a)} rounds, and has no ratio there"
    elif found is None or len(pairs) < FEWEST_ROUNDS:
        note = f"{metric} has a value in {len(pairs)} of {len(a)} rounds only: longer measurements?"
    elif aa is not None and aa.changed:
        note = f"A differs from itself ({aa.ratio:.3g} times): too unsteady for a verdict"
    else:
        verdict = judge(*found, min_effect)
    findings = {one.code: one for result in results for one in result.findings}
    return Comparison(
        metric=metric,
        verdict=verdict,
        ratio=None if found is None else found[0],
        interval=None if found is None else found[1],
        min_effect=min_effect,
        a=tuple(a),
        b=tuple(b),
        valid=all(result.valid for result in results),
        findings=tuple(findings.values()),
        note=note,
        aa=aa,
    )


def _share(value: Any) -> float:
    try:
        share = float(value) if isinstance(value, str) else units.real(value)
    except ValueError:
        share = None
    if share is None or not 0 <= share < 10:
        raise InvalidRequest(f"min_effect must be a share such as 0.02, not {units.shown(value)}")
    return share
