"""How a server learns that its peers are gone, and how long their memory stays: keepalive of gRPC and of
TCP, bounds on a connection's idleness and age.

Connections with an idle stream each, through a gp.Link that swallows everything at one moment (`vanished`),
or forgets connections that are quiet for too long, as a NAT does (`idle_cut`). And the contrary: a client
that asks too often (`too_many_pings`).

Linux does not count a connection's probes once it has a TCP_USER_TIMEOUT, and gRPC sets one: the timeout of
its own keepalive, 20 s by default. TCP's keepalive then gives up at the first probe that comes so long after
the last word; `expected_s`, which is TCP's own arithmetic, is then not what is measured. Nor does a link let
TCP's probes through to the other side: they do not keep a connection from being forgotten.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpcperf import _engine
from grpcperf.engine import translated
from grpcperf.errors import InvalidRequest
from grpcperf.experiments.kit import Experiment, Figure, Kit, Row, ServerKind
from grpcperf.experiments.report import Report
from grpcperf.figures import look
from grpcperf.hold import hold
from grpcperf.targets import Keepalive, Link, Measurable
from grpcperf.units import count, format_seconds, seconds, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOK_S = 0.02  # between two looks at the servers' sockets, at least
LOOKS = 5000  # in all, at most: each reads every descriptor of every server
MEMORY_LOOK_S = 0.2  # a collection each in Go
BACK = 0.35  # memory is back when no more than this part of what the connections took is left
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
    patience, cut = seconds(observe, "observe"), seconds(idle_timeout, "idle_timeout", above=True)
    connections = count(connections, "connections", high=10_000)
    with contextlib.ExitStack() as stack:
        arms = []
        for server in kit.servers(servers):
            kit.say(server=server.name, cause="too_many_pings")
            yield _hasty(server, connections)
            ours = server.is_go or server.is_native
            for name, arguments in settings.items() if ours else [("its own", {})]:
                for cause in ("vanished", "idle_cut"):
                    kit.say(server=server.name, setting=name, cause=cause)
                    arms.append(_Arm.start(stack, server, name, arguments, cause, connections, cut))
        for arm in arms:
            arm.cut()
        kit.say(cause="waiting")
        _watch(arms, patience)
        for arm in arms:
            yield arm.row()


@dataclass
class _Arm:
    """One server with its peers, behind its link."""

    server: str
    setting: str
    cause: str
    target: Measurable
    link: Link
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
        arguments: Mapping[str, Any],
        cause: str,
        connections: int,
        idle_timeout: float,
    ) -> _Arm:
        keepalive = Keepalive(**arguments) if arguments else None
        target = stack.enter_context(server.start(keepalive=keepalive))
        with hold(target, calls=1, kind="bidi", send_first=True):  # what a server makes once
            pass
        before = target.memstats(settle=True).heap_alloc
        link = stack.enter_context(Link(target, idle_timeout=idle_timeout if cause == "idle_cut" else None))
        held = stack.enter_context(
            hold(link, calls=connections, connections=connections, kind="bidi", send_first=True)
        )
        if "max_idle" in arguments:  # which does not count a connection that has a call
            held.cancel()
        return cls(
            server=server.name,
            setting=setting,
            cause=cause,
            target=target,
            link=link,
            connections=connections,
            expected_s=_expected_s(arguments),
            memory_before=before,
            memory_held=target.memstats(settle=True).heap_alloc,
            sockets_held=_sockets(target),
            cut_s=time.monotonic() + idle_timeout,
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

    def is_done(self, patience: float) -> bool:
        knows_memory = self.memory_before is not None
        over = time.monotonic() > self.cut_s + patience
        return over or (self.noticed_s is not None and (self.memory_back_s is not None or not knows_memory))

    def row(self) -> Row:
        return {
            "server": self.server,
            "setting": self.setting,
            "cause": self.cause,
            "noticed_s": self.noticed_s,
            "memory_back_s": self.memory_back_s,
            "expected_s": self.expected_s,
            "connections": self.connections,
        }


def _watch(arms: Sequence[_Arm], patience: float) -> None:
    while left := [arm for arm in arms if not arm.is_done(patience)]:
        for arm in left:
            arm.look()
        time.sleep(max(LOOK_S, patience / LOOKS))


def _sockets(target: Measurable) -> int:
    """Those of its process. Raises InvalidRequest when that is not known."""
    if target.pid is None:
        raise InvalidRequest(f"keepalive: the process of {target!r} is not known; give pid= to gp.Target")
    with translated():
        return int(_engine.process_sample(target.pid, sockets=True)["sockets"])


def _expected_s(arguments: Mapping[str, Any]) -> float | None:
    """What the settings say: how long after the last word a connection is given up."""
    of = {name: seconds(value, name) for name, value in arguments.items() if isinstance(value, str)}
    if "tcp_idle" in of:
        return of["tcp_idle"] + of["tcp_interval"] * int(arguments["tcp_probes"])
    if "time" in of:
        return of["time"] + of["timeout"]
    if "max_age" in of:
        return of["max_age"] + of["max_age_grace"]
    return of.get("max_idle")


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
        parts.append(f"{server} notices vanished peers thus: {', '.join(told)}")
        cut = [row["setting"] for row in report.select(server=server, cause="idle_cut") if row["noticed_s"]]
        parts.append(
            f"connections cut for idleness are noticed with {', '.join(cut)}"
            if cut
            else "none notices connections cut for idleness"
        )
        for row in report.select(server=server, cause="too_many_pings"):
            if row["noticed_s"] is not None:
                parts.append(f"a client asking every 20 ms is sent away by {server}")
    return "; ".join(parts) + "."


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
    columns=("server", "setting", "cause", "noticed_s", "memory_back_s", "expected_s", "connections"),
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
