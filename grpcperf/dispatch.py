"""Messages of many writers, handed to a few streams: round robin, or from one queue that all share. What no
stream takes in time goes to a queue on disk (csrc/load/dispatch.h, csrc/load/spill.h)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpcperf import _engine, units
from grpcperf.descriptors import require_descriptors
from grpcperf.engine import translated
from grpcperf.errors import Interrupted, InvalidRequest
from grpcperf.histogram import Histogram
from grpcperf.load import engine_client, probe
from grpcperf.spec import Load
from grpcperf.targets import Measurable, as_target

POLICIES = ("round_robin", "shared", "shared_buffered")
BUFFER = 128  # messages, of shared_buffered
STAMP_BYTES = 9  # at the end of each message: its number, big endian, and 1 if it may have come before
MOST_BYTES = 16_000
EMPTY_BYTES = 16  # of a log with no messages in it
CONNECT_S = 10.0
SLICE_S = 3600.0
STOP_S = 10.0  # what an interrupt waits for, so that what is in hand is not lost


@dataclass(frozen=True, kw_only=True)
class Dispatched:
    """What became of the messages, by their sequence numbers: `sent` is what writers got rid of, `delivered`
    what went straight through, `spilled` what took the disk; sent = delivered + spilled.

    `unsent` are messages that their writers still held at the end, one each, since neither a stream nor the
    disk had room for them. `lost` and `doubled` are 0 unless a stream and the disk failed together, or there
    is a bug. `replayed` were delivered from disk, `on_disk` are still there (in `directory`), `recovered`
    were there before, `cut_bytes` of a record that a crash had left unfinished. `repeated`: deliveries that
    were marked, for they may have come before. `held_up`: how long a message kept its writer, from when it
    was due; `delivery`: of those that went straight, from due until answered. `lock_waits` of `locks` times
    a queue's lock was not free, and `lock_wait_s` is what that cost in all. `refused`: times the disk did
    not take one, for the last time because of `disk_error`; `sync_s`: time spent in its `syncs`.
    """

    policy: str
    writers: int
    streams: int
    sent: int
    delivered: int
    spilled: int
    unsent: int
    lost: int
    doubled: int
    replayed: int
    repeated: int
    recovered: int
    on_disk: int
    cut_bytes: int
    refused: int
    syncs: int
    sync_s: float
    streams_ended: int
    locks: int
    lock_waits: int
    lock_wait_s: float
    writing_s: float
    total_s: float
    first_sequence: int
    directory: Path | None
    disk_error: str | None
    held_up: Histogram
    delivery: Histogram

    @property
    def spilled_share(self) -> float | None:
        return self.spilled / self.sent if self.sent else None

    @property
    def throughput_rps(self) -> float | None:
        """Messages that went straight through, per second of writing."""
        return self.delivered / self.writing_s if self.writing_s else None

    @property
    def lock_wait_ns_per_message(self) -> float | None:
        return self.lock_wait_s * 1e9 / self.sent if self.sent else None


def dispatch(
    target: Measurable | str | Sequence[Measurable | str],
    *,
    policy: str = "shared",
    writers: int = 1000,
    streams: int = 4,
    rate: float = 1000.0,
    duration: float | str = 2.0,
    timeout: float | str = "50ms",
    message_size: int | str = 64,
    stream_delays: Sequence[float | str] = (),
    buffer: int | None = None,
    writer_threads: int = 1,
    drain: float | str = 10.0,
    replay: str = "end",
    directory: str | Path | None = None,
    sync_every: int = 0,
    seed: int = 0,
) -> Dispatched:
    """Have `writers` say `rate` messages per second in all, each at regular times of its own, for `duration`,
    and carry them on `streams` bidi streams of `target` (or of several targets, in turn), each on its own
    connection. A stream takes its next message when the one before was answered.

    Writers are state machines, not threads (they share `writer_threads`). Each offers its message and waits:
    for a stream, for a place in the `buffer` of shared_buffered, or `timeout`, after which the message is
    written to disk and the writer goes on. When the disk has no room it waits on. Held up, a writer says
    less: it has one message at a time.

    `policy`: "round_robin" (a writer's messages go to one stream after the other), "shared" (all streams
    take from one queue) or "shared_buffered". `stream_delays`: how long a server of ours waits before each
    answer on the first, second ... stream. `replay`: when messages on disk are delivered: at the "end" (for
    `drain` at most), also while a stream is "idle", or "never". `directory`: where they are kept, by default
    a new one that stays only if messages do; those found in it are delivered too, and `writers=0` does that
    alone. `sync_every`: records between two fdatasync, 0 for none: then a crash of this process loses
    nothing, one of the machine may.

    Raises InvalidRequest, ConnectError, EngineError, and on Ctrl-C Interrupted with what there is by then:
    what is in hand is put away first.
    """
    units.one_of(policy, "policy", POLICIES)
    units.one_of(replay, "replay", ("end", "idle", "never"))
    given = [target] if isinstance(target, str) or not isinstance(target, Sequence) else list(target)
    if not given:
        raise InvalidRequest("target: at least one")
    count = units.count(streams, "streams", high=1024)
    size = units.size_bytes(message_size, "message_size", low=STAMP_BYTES, high=MOST_BYTES)
    speed = _rate(rate, writers)
    delays = [units.seconds(one, "stream_delays", high=units.DAY) for one in stream_delays]
    if len(delays) > count:
        raise InvalidRequest(f"stream_delays: {len(delays)} for {count} streams")
    place = Path(tempfile.mkdtemp(prefix="grpcperf-spill-") if directory is None else directory)
    arguments = {
        "policy": policy.removesuffix("_buffered"),
        "buffer": _buffer(policy, buffer),
        "writers": units.count(writers, "writers", low=0, high=10_000_000),
        "writer_threads": units.count(writer_threads, "writer_threads", high=1024),
        "period": writers / speed if writers else 1.0,
        "duration": units.seconds(duration, "duration"),
        "timeout": units.seconds(timeout, "timeout", above=True),
        "drain": units.seconds(drain, "drain"),
        "connect_timeout": CONNECT_S,
        "seed": units.count(seed, "seed", low=0, high=2**64 - 1),
        "replay_idle": replay == "idle",
        "replay_at_end": replay != "never",
        "directory": units.crossing(str(place), "directory"),
        "sync_every": units.count(sync_every, "sync_every", low=0),
    }
    try:
        clients = _clients([as_target(one) for one in given], count, size, delays)
        raw, interrupted = _run(_engine.Dispatch, streams=clients, **arguments)
    except KeyboardInterrupt:
        raise Interrupted("interrupted before anything was sent") from None
    finally:
        left = directory is not None or _has_messages(place)
        if not left:
            shutil.rmtree(place, ignore_errors=True)
    done = _dispatched(raw, policy, writers, count, place if left else None)
    if interrupted:
        raise Interrupted("interrupted: the result holds what was sent until then", done)
    return done


def _has_messages(directory: Path) -> bool:
    log = directory / "spill.log"
    return log.exists() and log.stat().st_size > EMPTY_BYTES


def _rate(rate: Any, writers: int) -> float:
    number = units.real(rate)
    if number is None or not 0 < number <= 1e9 or (writers and writers / number > units.DAY):
        raise InvalidRequest(
            f"rate must be messages per second, above 0 and enough for each writer to say one a day, "
            f"not {units.shown(rate)}"
        )
    return number


def _buffer(policy: str, buffer: int | None) -> int:
    if policy == "shared_buffered":
        return units.count(BUFFER if buffer is None else buffer, "buffer", high=10_000_000)
    if buffer is not None:
        raise InvalidRequest(f"buffer is of shared_buffered alone, not of {policy}")
    return 0


def _clients(
    targets: Sequence[Measurable], streams: int, size: int, delays: Sequence[float]
) -> tuple[tuple[dict[str, Any], dict[str, Any]], ...]:
    """The Client and Request of _engine.pyi for each stream."""
    peers = []
    for target in targets:
        target.require_usable()
        require_descriptors(target, -(-streams // len(targets)))
        peers.append(probe(target))
    made = []
    for number in range(streams):
        delay_us = round(delays[number] * 1e6) if number < len(delays) else 0
        metadata = {"grpcperf-message-delay-us": str(delay_us)} if delay_us else {}
        spec = Load(kind="bidi", request_size=size, response_size=0, concurrency=1, metadata=metadata)
        target, peer = targets[number % len(targets)], peers[number % len(targets)]
        made.append((engine_client(target, spec, peer), spec.engine_request(_engine.benchmark_request)))
    return tuple(made)


def _run(make: Any, **arguments: Any) -> tuple[dict[str, Any], bool]:
    interrupted = False
    with translated():
        engine = make(**arguments)
        try:
            engine.start()
            try:
                while not engine.wait(SLICE_S):
                    pass
            except KeyboardInterrupt:
                interrupted = True
                engine.stop()
                engine.wait(STOP_S)
            return engine.result(), interrupted
        except _engine.EngineFailure:
            if interrupted:  # while it was connecting
                raise KeyboardInterrupt from None
            raise
        finally:
            engine.close()


def _dispatched(
    raw: dict[str, Any], policy: str, writers: int, streams: int, directory: Path | None
) -> Dispatched:
    spill = raw["spill"]
    same = ("sent", "delivered", "spilled", "unsent", "lost", "doubled", "replayed", "repeated")
    timed = ("streams_ended", "writing_s", "total_s", "first_sequence")
    return Dispatched(
        policy=policy,
        writers=writers,
        streams=streams,
        **{name: raw[name] for name in (*same, *timed)},
        **{name: spill[name] for name in ("recovered", "cut_bytes", "refused", "syncs", "sync_s")},
        on_disk=spill["waiting"],
        locks=raw["locked"],
        lock_waits=raw["contended"],
        lock_wait_s=raw["contended_s"],
        directory=directory,
        disk_error=raw["disk_error"],
        held_up=Histogram.from_engine(raw["held_up"]),
        delivery=Histogram.from_engine(raw["delivery"]),
    )
