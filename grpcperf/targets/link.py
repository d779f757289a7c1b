"""A network between the client and a target: a relay process with delay, rate and faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import InvalidRequest
from grpcperf.memstats import MemStats
from grpcperf.targets.native import ANSWER_S, NativeChild
from grpcperf.targets.target import Counters, Measurable, as_target, engine_tls

PROBE_S = 5.0
_MOST_S = 60.0
_BITS = {"": 1, "bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*?)(?:/s)?\s*", re.IGNORECASE)
_LEAST_RATE, _MOST_RATE = 8e3, 1e12


class Relay(NativeChild):
    """The process behind a gp.Link. Its `.memstats()` are its own."""

    _executable = "grpcperf-relay"
    _title = "relay"
    has_counters = False

    def __init__(
        self,
        arguments: Iterable[str],
        *,
        listen: str,
        port: int,
        cpus: Iterable[int] | str | None,
        env: Mapping[str, str] | None,
    ) -> None:
        super().__init__()
        self._start(arguments, listen=listen, port=port, cpus=cpus, env=env)

    @property
    def cpu_s(self) -> float:
        """CPU it has used, user and system, in seconds. Raises ServerDied."""
        sample = self._ask(lambda child: _engine.process_sample(child.pid))
        return float(sample["cpu_user_s"] + sample["cpu_system_s"])

    def impair(self, how: str) -> None:
        """One of Impair.How in proto/control.proto."""
        self._ask(lambda child: child.impair(how, ANSWER_S))

    def _noun(self) -> str:
        return f"relay at {self.address}"


class Link(Measurable):
    """A network in front of a target, as a process that relays TCP connections: what is measured through it
    is measured at some distance. It is a target itself, with the pid, memory, counters, TLS and authority of
    the one behind it, which is `.target`; closing the link leaves that one alone.

    `delay`: one way, each way; so a round trip takes twice as long, and a new connection one round trip
    before its first bytes, as TCP's handshake would. `rate`: bits per second each way, shared by all
    connections, as a number or "100Mbit", "1Gbit"; None: as fast as it goes. `jitter`: each piece is up to so
    much later, uniformly drawn by `seed`; nothing overtakes within a connection. `idle_timeout`: a connection
    over which nothing has passed for so long is forgotten, as by a NAT: neither side is told, and neither
    gets through.

    Bytes are counted as the connection carries them, without headers of IP and TCP. What waits for the rate
    is a queue of a few milliseconds; the rest stays in the senders' sockets. Nothing is lost, and nothing
    slows down for having been lost: TCP's own behaviour over distance (slow start, recovery) is not part of
    it.

    `listen`, `port`, `cpus`, `env`: as of gp.Server, of the relay. The target must be there at the start.
    Raises InvalidRequest, EngineError, ServerDied, and ConnectError when the target is no gRPC server.
    """

    def __init__(
        self,
        target: Measurable | str,
        *,
        delay: float | str = 0.0,
        rate: float | str | None = None,
        jitter: float | str = 0.0,
        idle_timeout: float | str | None = None,
        seed: int = 0,
        listen: str = "127.0.0.1",
        port: int = 0,
        cpus: Iterable[int] | str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.delay = units.seconds(delay, "delay", high=_MOST_S)
        self.jitter = units.seconds(jitter, "jitter", high=_MOST_S)
        self.rate = None if rate is None else bits_per_s(rate)
        self.idle_timeout = (
            None if idle_timeout is None else units.seconds(idle_timeout, "idle_timeout", above=True)
        )
        self.target = as_target(target)
        self.target.require_usable()
        with translated():
            found = _engine.probe(self.target.address, PROBE_S, engine_tls(self.target))
        self.tls = self.target.tls
        self.authority = self.target.authority or found["authority"]
        self.has_counters = self.target.has_counters
        arguments = ["--target", found["resolved"], "--seed", str(units.count(seed, "seed", low=0))]
        arguments += ["--delay", _ns(self.delay), "--jitter", _ns(self.jitter)]
        if self.rate is not None:
            arguments += ["--rate", str(round(self.rate / 8))]
        if self.idle_timeout is not None:
            arguments += ["--idle", _ns(self.idle_timeout)]
        self.relay = Relay(arguments, listen=listen, port=port, cpus=cpus, env=env)
        self.address = self.relay.address

    # --- faults, of the connections that there are

    def blackhole(self) -> None:
        """Nothing comes through any more, and nobody is told: what is sent is not even acknowledged, new
        connections do not come about, keepalive probes are not answered. (Unix sockets have no
        acknowledgements: theirs fill up.) Ended by heal()."""
        self.relay.impair("BLACKHOLE")

    def reset(self) -> None:
        """Both sides of every connection are told by a reset, in the middle of whatever they were at. New
        ones are relayed as before."""
        self.relay.impair("RESET")

    def half_close(self, side: str) -> None:
        """As if "client" or "server" had closed its half of every connection: the other side reads the end of
        the stream; what that one sends still arrives."""
        self.relay.impair({"client": "CLOSE_CLIENT", "server": "CLOSE_SERVER"}[_side(side)])

    def heal(self) -> None:
        """End a blackhole: what was on its way arrives, once its sender's TCP tries again, which may take as
        long as it had been away. What idle_timeout has cut is reset."""
        self.relay.impair("HEAL")

    @property
    def cpu_s(self) -> float:
        """CPU that the relay has used, in seconds: it shares the machine with what is measured."""
        return self.relay.cpu_s

    # --- what the target says

    @property
    def pid(self) -> int | None:  # type: ignore[override]
        return self.target.pid

    @property
    def pidfd(self) -> int:
        return self.target.pidfd

    def memstats(self, settle: bool = False) -> MemStats:
        return self.target.memstats(settle)

    def counters(self) -> Counters:
        return self.target.counters()

    def peek(self, timeout: float) -> Mapping[str, int | float]:
        return self.target.peek(timeout)

    def release(self) -> None:
        self.target.release()

    def death(self) -> str | None:
        return self.target.death()

    def require_usable(self) -> None:
        self.target.require_usable()
        self.relay.require_usable()

    def close(self) -> None:
        """End the relay; connections through it are closed. The target goes on."""
        self.closed = True
        self.relay.close()

    def __repr__(self) -> str:
        if "relay" not in vars(self):
            return "<Link not started>"
        return f"<Link at {self.address}{', closed' if self.closed else ''}: {self._about()}>"

    def _about(self) -> str:
        about = [f"{units.format_seconds(self.delay)} one way"] if self.delay else []
        about += [f"{units.format_number(self.rate / 1e6)} Mbit/s"] if self.rate is not None else []
        about += [f"jitter {units.format_seconds(self.jitter)}"] if self.jitter else []
        return " ".join([", ".join(about), f"to {self.target!r}"]).strip()

    def _repr_html_(self) -> str:
        import html

        return f"<code>{html.escape(repr(self))}</code>"


def bits_per_s(rate: Any) -> float:
    """A rate in bits per second from a number or a text such as "100Mbit", "2.5Gbit/s". Raises
    InvalidRequest."""
    matched = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    scale = _BITS.get(matched[2].lower()) if matched else None
    number = float(matched[1]) * scale if matched and scale else units.real(rate)
    if isinstance(rate, str) and scale is None:
        number = None
    if number is None or not _LEAST_RATE <= number <= _MOST_RATE:
        raise InvalidRequest(
            'rate must be bits per second from 8 kbit to 1 Tbit, as a number or as "100Mbit", "1Gbit", '
            f"not {units.shown(rate)}"
        )
    return number


def _side(side: object) -> str:
    return units.one_of(side, "side", ("client", "server"))


def _ns(seconds: float) -> str:
    return str(round(seconds * 1e9))
