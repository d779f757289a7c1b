"""Whether handlers stop when their call is over for the client: it cancelled, its deadline passed, it died.

Published: 500 of 500 handlers that ignore it still run half a second after the cancellation and none 3.5 s
after; of those that observe it none. A cancelled call is over for the client at once, and says nothing about
the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from grpcperf.experiments.clients import await_first, await_running, holding, kill
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.readings import require_running
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.hold import hold
from grpcperf.result import Finding
from grpcperf.targets import Measurable
from grpcperf.units import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HANDLERS = ("ignores", "observes")
CAUSES = ("cancel", "deadline", "client_death")
STAGES = ("running_before", "running_soon", "running_late")
Over = tuple[int, float, float]


@dataclass(frozen=True, kw_only=True)
class Times:
    """In seconds: how long handlers take, after which time deadlines pass, and when it is looked, counted
    from the moment that the calls were over for the client."""

    handler_s: float
    deadline_s: float
    soon_s: float
    late_s: float
    over: threading.Event = field(default_factory=threading.Event)  # nobody waits for the rest

    def sleep_until(self, moment_s: float) -> None:
        self.over.wait(max(0.0, moment_s - time.monotonic()))


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    calls: int,
    handler_s: float,
    deadline_s: float,
    soon_s: float,
    late_s: float,
    causes: Sequence[str],
) -> Iterator[Row]:
    """All arms at the same time, each with a server of its own: nearly all of it is waiting."""
    times = Times(handler_s=handler_s, deadline_s=deadline_s, soon_s=soon_s, late_s=late_s)
    kit.say(calls=calls)
    arms = list(product(kit.servers(servers), HANDLERS, [one_of(cause, "cause", CAUSES) for cause in causes]))
    with ThreadPoolExecutor(max_workers=max(1, len(arms))) as threads:
        try:
            for measured in [threads.submit(_arm, kit, *arm, calls, times) for arm in arms]:
                if (row := measured.result()) is not None:
                    yield row
        except BaseException:
            times.over.set()  # an interrupt ends them all
            raise


def _arm(kit: Kit, server: ServerKind, handler: str, cause: str, calls: int, times: Times) -> Row | None:
    metadata = {
        "grpcperf-delay-us": round(times.handler_s * 1e6),
        "grpcperf-observe-cancel": int(handler == "observes"),
    }
    with server.start() as target:
        if not target.has_counters:
            kit.skip(server.name, "it does not tell how many of its handlers run")
            return None
        over = {"cancel": _cancelled, "deadline": _expired, "client_death": _orphaned}[cause]
        before, began_s, over_s = over(target, calls, metadata, times)
        require_running(kit, f"{server.name} ({cause})", before, calls)
        times.sleep_until(over_s + times.soon_s)
        soon, looked_s = target.counters().running, time.monotonic()
        if looked_s > began_s + times.handler_s:
            kit.note(_too_slow(server.name, cause, looked_s - began_s, times.handler_s))
        times.sleep_until(over_s + times.late_s)
        counters = target.counters()
    return {
        "server": server.name,
        "handler": handler,
        "cause": cause,
        "calls": calls,
        **dict(zip(STAGES, (before, soon, counters.running), strict=True)),
        "work_after_ms_per_call": counters.work_after_cancel_us / 1e3 / calls,
    }


# --- the causes: each opens the calls and gives how many ran, a moment before the first began, and when they
# were over for the client


def _cancelled(target: Measurable, calls: int, metadata: dict[str, int], times: Times) -> Over:
    began_s = time.monotonic()
    with hold(target, calls=calls, metadata=metadata, timeout=times.handler_s) as held:
        before = held.running
        held.cancel()
        return before, began_s, time.monotonic()


def _expired(target: Measurable, calls: int, metadata: dict[str, int], times: Times) -> Over:
    began_s, deadline_s = time.monotonic(), times.deadline_s
    with hold(target, calls=calls, metadata=metadata, deadline=deadline_s, timeout=deadline_s) as held:
        before, entered_s = held.running, time.monotonic()
        held.wait(deadline_s + times.soon_s)
        return before, began_s, min(time.monotonic(), entered_s + deadline_s)


def _orphaned(target: Measurable, calls: int, metadata: dict[str, int], times: Times) -> Over:
    with holding(target, calls, metadata=metadata) as client:
        began_s = await_first(target, client)  # it starts an interpreter before it calls
        before = await_running(target, client, calls)
        kill(client)
        return before, began_s, time.monotonic()


def _too_slow(server: str, cause: str, took_s: float, handler_s: float) -> Finding:
    return Finding(
        code="handlers_were_over",
        severity="invalid",
        message=f"{server} ({cause}): handlers of {handler_s:g} s were over by themselves when it was looked",
        advice="give them longer (handler_s) on a machine as busy as this",
        measured=took_s,
        threshold=handler_s,
    )


def verdict(report: Report) -> str:
    soon, late = report.parameters["soon_s"], report.parameters["late_s"]
    parts = [
        f"of handlers that {handler.removesuffix('s')} it {_still_running(report.select(handler=handler))}"
        for handler in dict.fromkeys(row["handler"] for row in report.rows)
    ]
    left = sum(row["running_late"] for row in report.rows)
    return (
        f"{soon:g} s after calls were over for the client, {' and '.join(parts)} still ran; "
        f"{late:g} s after, {f'{left:,}' if left else 'none'} did."
    )


def _still_running(rows: Sequence[Mapping[str, Any]]) -> str:
    shares = {
        f"{row['server']}, {row['cause'].replace('_', ' ')}": row["running_soon"] / row["running_before"]
        for row in rows
        if row["running_before"]
    }
    alike = {f"{share:.0%}" for share in shares.values()}
    if len(alike) == 1:
        return f"{alike.pop()} (whatever the cause)"
    return ", ".join(f"{share:.0%} ({name})" for name, share in shares.items())


def figures(report: Report) -> list[Figure]:
    return [
        Figure(
            title="Handlers that go on",
            draw=lambda ax: _draw(report, ax),
            caption="Running before, soon after and long after the calls were over for their client.",
        )
    ]


def _draw(report: Report, ax: Axes) -> None:
    for at, handler in enumerate(dict.fromkeys(row["handler"] for row in report.rows)):
        for number, row in enumerate(report.select(handler=handler)):
            counts = [row[stage] for stage in STAGES]
            ax.plot(STAGES, counts, label=None if number else handler, alpha=0.7, **look(at))
    ax.set_xticks(range(len(STAGES)), [stage.removeprefix("running_") for stage in STAGES])
    ax.set_ylabel("handlers running")
    ax.legend()


EXPERIMENT = Experiment(
    name="cancellation",
    question="Do handlers stop when their call is over for the client?",
    columns=("server", "handler", "cause", "calls", *STAGES, "work_after_ms_per_call"),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "calls": 500,
        "handler_s": 2.0,
        "deadline_s": 0.8,
        "soon_s": 0.5,
        "late_s": 2.5,
        "causes": list(CAUSES),
    },
    full={
        "servers": ["native", "native:thread", "grpc-go@1.46.2", "grpc-go"],
        "calls": 500,
        "handler_s": 3.0,
        "deadline_s": 1.5,
        "soon_s": 0.5,
        "late_s": 3.5,
        "causes": list(CAUSES),
    },
    source="500 calls of 3 s; before, 0.5 and 3.5 s after 500, 500, 0 run (ignores), 500, 0, 0 (observes)",
)
