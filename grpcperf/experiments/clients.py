"""Clients in processes of their own: for what a client itself costs, and for what becomes of a server's calls
when their client dies or stops reading."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from grpcperf import goclient
from grpcperf.errors import EngineError, ServerDied
from grpcperf.load import probe
from grpcperf.spec import Load
from grpcperf.targets import Measurable, Process
from grpcperf.targets.allocations import Counting

LOOK_S = 0.005
OPEN_S = 30.0  # for a client to start, connect and have its calls running
CLIENT_IS_MEASURED = ("client_cpu_saturated",)  # findings that are then the answer: for Kit.note to ignore
LONG_S = "600s"  # a client that is to stay until it is ended


def command(*words: object) -> list[str]:
    """A command of our own shell, by this interpreter."""
    return [sys.executable, "-P", "-m", "grpcperf", *map(str, words)]


def metadata_words(metadata: Mapping[str, object]) -> list[str]:
    return [word for key, value in metadata.items() for word in ("--metadata", f"{key}={value}")]


def holding(
    target: Measurable,
    calls: int,
    *words: object,
    metadata: Mapping[str, object] | None = None,
    memstats: str = "proc",
) -> Process:
    """A process that holds calls in a server until it is ended; `words` are for `grpcperf hold`."""
    told = metadata_words(metadata or {})
    argv = command("hold", target.address, "--calls", calls, "--for", LONG_S, *words, *told)
    return Process(argv, memstats=memstats)


def go_holding(target: Measurable, calls: int) -> Process:
    """The same by grpc-go's client. Raises EngineError when it cannot be built."""
    spec = Load(
        transport="core", concurrency=calls, duration=LONG_S, warmup=0, metadata={"grpcperf-hold": "1"}
    )
    return Process([str(goclient.build()), goclient.request(target, spec, probe(target))])


def await_running(target: Measurable, client: Process, calls: int) -> int:
    """Wait until a client's calls run, and tell how many do by then: fewer when it takes too long. Raises
    EngineError with its last words when the client is dead."""
    end = time.monotonic() + OPEN_S
    while (running := target.counters().running) < calls and time.monotonic() < end:
        if reason := client.death():
            raise EngineError(f"a client of {calls:,} calls {reason}: {client.stderr.strip()[-300:]}")
        time.sleep(LOOK_S)
    return running


def await_first(target: Measurable, client: Process) -> float:
    """Wait until the first of a client's calls runs: the moment (time.monotonic) of the last look that found
    none, which is before any began."""
    none_s = look_s = time.monotonic()
    end = none_s + OPEN_S
    while not target.counters().running and client.death() is None and look_s < end:
        none_s = look_s
        time.sleep(LOOK_S)
        look_s = time.monotonic()
    return none_s


def kill(client: Process) -> None:
    """End it as a crash does: it says goodbye to nobody. Raises ServerDied when it is dead already."""
    _signal(client, signal.SIGKILL)


def stop(client: Process) -> None:
    """Have it stand still: it reads no more, and its connections stay. Raises ServerDied when it is dead."""
    _signal(client, signal.SIGSTOP)


def _signal(client: Process, number: int) -> None:
    if client.pid is None:
        raise ServerDied("the client is dead already")
    os.kill(client.pid, number)


def allocations_of(*words: object) -> tuple[int, int, str]:
    """Run a command of our shell to its end: bytes and blocks that it allocated, and what it wrote to stdout.
    Raises EngineError with what it said when it fails."""
    counting = Counting()
    try:
        # The order of a set of texts, and with it what is allocated, would differ from run to run.
        env = counting.environment({**os.environ, "PYTHONHASHSEED": "0"})
        with subprocess.Popen(
            command(*words), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                output, told = child.communicate()
            except BaseException:
                child.kill()
                raise
        counted: dict[str, Any] | None = counting.read(child.pid)
        if child.returncode != 0 or counted is None:
            raise EngineError(f"{' '.join(map(str, words))}: {told.strip()[-300:] or 'it was not counted'}")
        return counted["total_alloc"], counted["mallocs"], output
    finally:
        counting.close()
