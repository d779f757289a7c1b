"""How a server learns that its peers are gone, and how long their memory stays: keepalive of gRPC and of
TCP, bounds on a connection's idleness and age.

Connections with an idle stream each, through a gp.Link that swallows everything at one moment (`vanished`),
or forgets connections that are quiet for too long, as a NAT does (`idle_cut`). And the contrary: a client
that asks too often (`too_many_pings`).

Linux does not count a connection's probes once it has a TCP_USER_TIMEOUT, and gRPC sets one: the timeout of
its own keepalive, 20 s by default. TCP's keepalive then gives up at the first probe that comes so long after
the last word; `expected_s`, which is TCP's own arithmetic, is then not what is measured. Nor does a link let
TCP's probes through to the other side: they do not keep a connection from being forgotten. gRPC's PINGs do:
`was_cut` tells whether there was anything to notice.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from grpcperf import _engine
from grpcperf.engine import translated
from grpcperf.errors import InvalidRequest
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.hold import Hold, hold
from grpcperf.targets import Keepalive, Link, Measurable
from grpcperf.units import count, format_seconds, seconds, shown
from grpcperf.values import refuse_unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOK_S = 0.02  # between two looks at the servers' sockets, at least
LOOKS = 5000  # in all, at most: each reads every descriptor of every server
MEMORY_LOOK_S = 0.2  # a collection each in Go
BACK = 0.35  # memory is back when no more than this part of what the connections took is left
NEWS_S = 1.5  # within which a cancellation reaches a server's handlers, if it does
PING_TIMEOUT_S = 20.0  # gRPC's, where a keepalive leaves it out
HASTY = Keepalive(time="20ms", permit_without_calls=True)  # of a client


def measure(
    kit: Kit,
    *,
    servers: Sequence[Any],
    settings: Mapping[str, Mapping[str, Any]],
    idle_timeout: float | str,
    connections: int,
    observe: float | str,
) -> Iterator[Row]:
    """All at the same time: the longest wait is the time it takes.

    `settings`: arguments of gp.Keepalive by a name, none for no keepalive; `idle_timeout` of the link;
    `observe`: for how long to wait after the cut."""
    if not isinstance(settings, Mapping) or not all(isinstance(one, Mapping) for one in settings.values()):
        raise InvalidRequest(
            f'settings must be like {{"asks": {{"time": "10s", "timeout": "15s"}}}}, not {shown(settings)}'
        )
    keepalives = {name: _keepalive(arguments) for name, arguments in settings.items()}
    patience, cut = seconds(observe, "observe"), seconds(idle_timeout, "idle_timeout", above=True)
    connections = count(connections, "connections", high=10_000)
    with contextlib.ExitStack() as stack:
        kinds = list(kit.servers(servers))  # what has to be built is built before any clock runs
        for server in kinds:
            kit.say(server=server.name, cause="too_many_pings")
            yield _hasty(server, connections)
        arms: list[_Arm] = []
        for cause in ("vanished", "idle_cut"):  # these are cut while the others start: they come last
            for server in kinds:
                for name, keepalive in _settings(server, keepalives):
                    kit.say(server=server.name, setting=name, cause=cause)
                    arms.append(_Arm.start(stack, server, name, keepalive, cause, connections, cut))
                    for arm in arms:
                        if arm.cause == "idle_cut":
                            arm.look()
        for arm in arms:
            arm.cut()
        kit.say(cause="waiting")
        _watch(arms, patience)
        _call_off(arms)
        for arm in arms:
            yield arm.row()


def _keepalive(arguments: Mapping[str, Any]) -> Keepalive | None:
    refuse_unknown(arguments, [one.name for one in fields(Keepalive)], "setting of keepalive")
    return Keepalive(**arguments) if arguments else None


def _settings(
    server: ServerKind, keepalives: Mapping[str, Keepalive | None]
) -> Iterable[tuple[str, Keepalive | None]]:
    ours = server.is_go or server.is_native
    return keepalives.items() if ours else [("its own", None)]


@dataclass
class _Arm:
    """One server with its peers, behind its link."""

    server: str
    setting: str
    cause: str
    target: Measurable
    link: Link
    held: Hold
    has_calls: bool
    connections: int
    expected_s: float | None
    memory_before: int | None
    memory_held: int | None
    sockets_held: int
    cut_s: float  # monotonic: when they are gone
    noticed_s: float | None = None
    memory_back_s: float | None = None
    looked_s: float = 0.0

    @classmethod
    def start(
        cls,
        stack: contextlib.ExitStack,
        server: ServerKind,
        setting: str,
        keepalive: Keepalive | None,
        cause: str,
        connections: int,
        idle_timeout: float,
    ) -> _Arm:
        target = stack.enter_context(server.start(keepalive=keepalive))
        with hold(target, calls=1, kind="bidi", send_first=True):  # what a server makes once
            pass
        before = target.memstats(settle=True).heap_alloc
        link = stack.enter_context(Link(target, idle_timeout=idle_timeout if cause == "idle_cut" else None))
        held = stack.enter_context(
            hold(link, calls=connections, connections=connections, kind="bidi", send_first=True)
        )
        has_calls = keepalive is None or keepalive.max_idle is None
        if not has_calls:  # max_idle does not count a connection that has a call
            held.cancel()
        quiet_s = time.monotonic()
        return cls(
            server=server.name,
            setting=setting,
            cause=cause,
            target=target,
            link=link,
            held=held,
            has_calls=has_calls,
            connections=connections,
            expected_s=_expected_s(keepalive),
            memory_before=before,
            memory_held=target.memstats(settle=True).heap_alloc,
            sockets_held=_sockets(target),
            cut_s=quiet_s + idle_timeout,
        )

    def cut(self) -> None:
        if self.cause == "vanished":
            self.link.blackhole()
            self.cut_s = time.monotonic()

    def look(self) -> None:
        now = time.monotonic()
        if self.noticed_s is None:
            if _sockets(self.target) <= self.sockets_held - 0.9 * self.connections:
                self.noticed_s = now - self.cut_s
        elif self.memory_back_s is None and now - self.looked_s > MEMORY_LOOK_S:
            self.looked_s = now
            if self._is_memory_back():
                self.memory_back_s = time.monotonic() - self.cut_s

    def _is_memory_back(self) -> bool:
        left = self.target.memstats(settle=True).heap_alloc
        if left is None or self.memory_before is None or self.memory_held is None:
            return False
        return left - self.memory_before <= BACK * (self.memory_held - self.memory_before)

    def is_done(self, end_s: float) -> bool:
        knows_memory = self.memory_before is not None
        over = time.monotonic() > end_s
        return over or (self.noticed_s is not None and (self.memory_back_s is not None or not knows_memory))

    def was_cut(self) -> bool | None:
        """Whether the server's word no longer reached the client, nor the client's (whose calls have been
        called off by now) the server. None: it cannot be told, for there were no calls or nobody counts
        them."""
        if self.cause == "vanished":
            return True
        if self.noticed_s is not None:
            return self.noticed_s > 0 and not self.held.refused
        if not self.has_calls or not self.target.has_counters:
            return None
        return self.target.counters().running > self.connections / 2

    def row(self) -> Row:
        was_cut = self.was_cut()
        gone = was_cut is not False  # else the server closed them itself, or they are still there
        return {
            "server": self.server,
            "setting": self.setting,
            "cause": self.cause,
            "was_cut": was_cut,
            "noticed_s": self.noticed_s if gone else None,
            "memory_back_s": self.memory_back_s if gone else None,
            "expected_s": self.expected_s,
            "connections": self.connections,
        }


def _watch(arms: Sequence[_Arm], patience: float) -> None:
    """For so long after each was cut. What was cut while others started has all of it from now."""
    began_s = time.monotonic()
    left = list(arms)
    while left:
        for arm in left:
            arm.look()
        left = [arm for arm in left if not arm.is_done(max(began_s, arm.cut_s) + patience)]
        time.sleep(max(LOOK_S, patience / LOOKS))


def _call_off(arms: Sequence[_Arm]) -> None:
    """Cancel what nobody has noticed: where the network still carries, servers hear of it."""
    unnoticed = [arm for arm in arms if arm.cause == "idle_cut" and arm.noticed_s is None]
    for arm in unnoticed:
        arm.held.cancel()
    end_s = time.monotonic() + NEWS_S
    while time.monotonic() < end_s and any(arm.was_cut() for arm in unnoticed):
        time.sleep(LOOK_S)


def _sockets(target: Measurable) -> int:
    """Those of its process. Raises InvalidRequest when that is not known."""
    if target.pid is None:
        raise InvalidRequest(f"keepalive: the process of {target!r} is not known; give pid= to gp.Target")
    with translated():
        return int(_engine.process_sample(target.pid, sockets=True)["sockets"])


def _expected_s(keepalive: Keepalive | None) -> float | None:
    """What the settings say: how long after the last word a connection is given up. None where they leave
    that to the kernel."""
    if keepalive is None:
        return None
    tcp = (keepalive.tcp_idle, keepalive.tcp_interval, keepalive.tcp_probes)
    if any(value is not None for value in tcp):
        idle, interval, probes = (None if value is None else float(value) for value in tcp)
        return None if idle is None or interval is None or probes is None else idle + interval * probes
    if keepalive.time is not None:
        timeout = PING_TIMEOUT_S if keepalive.timeout is None else float(keepalive.timeout)
        return float(keepalive.time) + timeout
    if keepalive.max_age is not None and keepalive.max_age_grace is not None:
        return float(keepalive.max_age) + float(keepalive.max_age_grace)
    return None if keepalive.max_idle is None else float(keepalive.max_idle)


def _hasty(server: ServerKind, connections: int) -> Row:
    """A client that asks every 20 ms, of a server that was told nothing about it."""
    with server.start() as target:
        began = time.monotonic()
        with hold(target, calls=connections, connections=connections, kind="bidi", keepalive=HASTY) as held:
            while not (ended := sum(held.status.values())) and time.monotonic() < began + 2:
                time.sleep(LOOK_S)
        noticed = time.monotonic() - began if ended else None
    return {
        "server": server.name,
        "setting": "client asks every 20 ms",
        "cause": "too_many_pings",
        "was_cut": None,
        "noticed_s": noticed,
        "memory_back_s": None,
        "expected_s": None,
        "connections": connections,
    }


def verdict(report: Report) -> str:
    parts = []
    for server in dict.fromkeys(row["server"] for row in report.rows):
        told = []
        for row in report.select(server=server, cause="vanished"):
            when = (
                f"after {format_seconds(row['noticed_s'])}" if row["noticed_s"] is not None else "not noticed"
            )
            told.append(f"{row['setting']}: {when}")
        if told:
            parts.append(f"{server} notices vanished peers thus: {', '.join(told)}")
        if quiet := report.select(server=server, cause="idle_cut"):
            parts.append(_about_idleness(quiet))
        for row in report.select(server=server, cause="too_many_pings"):
            if row["noticed_s"] is not None:
                parts.append(f"a client asking every 20 ms is sent away by {server}")
    return f"{'; '.join(parts) or 'nobody was sent away, and nothing else was measured'}."


def _about_idleness(rows: Sequence[Mapping[str, Any]]) -> str:
    fates: dict[str, list[str]] = {}
    for row in rows:
        fates.setdefault(_fate(row), []).append(row["setting"])
    told = [f"{fate} with {' and '.join(settings)}" for fate, settings in fates.items()]
    return f"connections that the network would forget for idleness are {', '.join(told)}"


def _fate(row: Mapping[str, Any]) -> str:
    was_cut = row.get("was_cut")  # which older reports do not have
    if was_cut is False:
        return "kept from it"
    if row["noticed_s"] is not None:
        return "noticed"
    return "not noticed" if was_cut else "not noticed, if forgotten at all,"


def figures(report: Report) -> list[Figure]:
    return [Figure(title="Until a vanished peer is noticed", draw=lambda ax: _draw(report, ax))]


def _draw(report: Report, ax: Axes) -> None:
    rows = [row for row in report.rows if row["cause"] == "vanished"]
    names = [f"{row['server']}, {row['setting']}" for row in rows]
    for at, row in enumerate(rows):
        if row["noticed_s"] is None:
            ax.text(0, at, " not noticed", va="center")
        else:
            ax.barh(at, row["noticed_s"], color=look(0)["color"])
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.5, -0.5)  # also where the first or last has no bar
    ax.set_xlabel("time after they vanished (s)")


EXPERIMENT = Experiment(
    name="keepalive",
    question="How does a server learn that its peers are gone, and when is their memory back?",
    columns=(
        *("server", "setting", "cause", "was_cut", "noticed_s", "memory_back_s", "expected_s"),
        "connections",
    ),
    measure=measure,
    verdict=verdict,
    figures=figures,
    quick={
        "servers": ["native", "grpc-go"],
        "settings": {
            "off": {},
            "keepalive 1 s + 500 ms": {"time": "1s", "timeout": "500ms"},
            "TCP 1 s + 1 x 1 s": {
                "tcp_idle": "1s",
                "tcp_interval": "1s",
                "tcp_probes": 1,
                "time": "1h",
                "timeout": "1s",
            },
        },
        "idle_timeout": "1500ms",
        "connections": 50,
        "observe": "2500ms",
    },
    full={
        "servers": ["native", "grpc-go"],
        "settings": {
            "off": {},
            "keepalive 10 s + 15 s": {"time": "10s", "timeout": "15s"},
            "keepalive 30 s + 20 s": {"time": "30s", "timeout": "20s"},
            "max idle 3 min": {"max_idle": "3m"},
            "max age 5 min": {"max_age": "5m", "max_age_grace": "10s"},
            "TCP 10 min + 3 x 60 s": {"tcp_idle": "10m", "tcp_interval": "60s", "tcp_probes": 3},
            "TCP 2 h + 9 x 75 s": {"tcp_idle": "2h", "tcp_interval": "75s", "tcp_probes": 9},
        },
        "idle_timeout": "60s",
        "connections": 50,
        "observe": "15m",
    },
    source="TCP's defaults take 7,875 s (2 h + 9 x 75 s) to give a peer up, 10 min + 3 x 60 s takes 780 s",
)
