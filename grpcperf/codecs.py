"""Codecs of a structured record of about 1 KB (csrc/codec), each timed in a process of its own: what there
is, what an operation costs, and what it allocates."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from grpcperf.errors import EngineError
from grpcperf.targets.allocations import Counting
from grpcperf.targets.child import executable

PROGRAM = "grpcperf-codec"
COUNTED_OPS = 1000
PACKAGES = {
    "protobuf-c": "libprotobuf-c-dev protobuf-c-compiler",
    "msgpack-c": "libmsgpack-dev",
    "flatbuffers": "libflatbuffers-dev flatbuffers-compiler g++",
}
"""All codecs that there may be, and the packages of Debian that they are built from."""


@dataclass(frozen=True, kw_only=True)
class Codec:
    """One that was built. `memories`: where each of its operations (encode, decode, decode_trusted) can have
    its memory from (malloc, arena, reuse)."""

    name: str
    version: str
    memories: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """`ns_per_op` is CPU time, which waiting for a busy machine is not part of."""

    ns_per_op: float
    encoded_bytes: int

    @property
    def mb_per_s(self) -> float:
        """Of encoded bytes, in millions."""
        return self.encoded_bytes / self.ns_per_op * 1e3


@cache
def built() -> Mapping[str, Codec]:
    """Those that this installation has, by name. Raises EngineError."""
    told: list[dict[str, Any]] = json.loads(_run("list"))
    return {
        one["name"]: Codec(
            name=one["name"],
            version=one["version"],
            memories={
                operation: tuple(memories)
                for operation, memories in one.items()
                if operation not in ("name", "version") and memories
            },
        )
        for one in told
    }


def encoded(codec: str) -> bytes:
    """The record, as this codec writes it. Raises EngineError."""
    return _run("write", codec)


def timed(codec: str, operation: str, memory: str, ops: int) -> Timing:
    """Do an operation so many times, after a warm-up. `codec` may be "buffer", which has "encode" alone: a
    buffer of 1 KiB is taken, its first byte written, and given back. Raises EngineError."""
    told = json.loads(_run("time", codec, operation, memory, ops))
    return Timing(ns_per_op=told["ns"] / ops, encoded_bytes=told["encoded_bytes"])


def allocated(codec: str, operation: str, memory: str) -> tuple[float, float]:
    """Allocations of one operation, and their bytes (as malloc_usable_size has them): what COUNTED_OPS more
    of them add to a process whose every malloc is counted. Raises EngineError."""
    words = ("time", codec, operation, memory)
    none, many = (_counted(*words, ops) for ops in (0, COUNTED_OPS))
    added = {name: (many[name] - none[name]) / COUNTED_OPS for name in ("mallocs", "total_alloc")}
    return added["mallocs"], added["total_alloc"]


def _counted(*words: object) -> Mapping[str, int]:
    counting = Counting()
    try:
        with _started(words, counting.environment(os.environ)) as process:
            _output(process)
        counts = counting.read(process.pid)
        if counts is None:
            raise EngineError(str(counting.missing(process.pid)))
        return counts
    finally:
        counting.close()


def _run(*words: object) -> bytes:
    with _started(words, os.environ) as process:
        return _output(process)


def _started(words: tuple[object, ...], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """In a process group of its own, so that Ctrl-C reaches this process alone."""
    return subprocess.Popen(
        [str(executable(PROGRAM)), *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        process_group=0,
    )


def _output(process: subprocess.Popen[bytes]) -> bytes:
    try:
        output, words = process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode != 0:
        said = words.decode(errors="replace").strip()[-500:] or "it said nothing"
        raise EngineError(f"{PROGRAM} failed ({process.returncode}): {said}")
    return output
