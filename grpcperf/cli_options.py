"""From the options of a command to the arguments of the package, and what all commands say and answer
with."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from grpcperf import interrupts
from grpcperf.errors import InvalidRequest

OK, FAILED, USAGE, INVALID, CHECK_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130
TERMINATED = 143  # interrupted by SIGTERM


def tell(what: object, code: int) -> int:
    if sys.stderr is not None:  # print() would then take stdout
        with contextlib.suppress(OSError):
            print(f"grpcperf: {what}", file=sys.stderr)
    return code


def failure(what: object, *findings: str) -> dict[str, Any]:
    """The JSON document of a command that has no other to print."""
    return {"error": str(what), "valid": False, "findings": list(findings)}


def print_json(document: Any) -> None:
    interrupts.ignore()
    print(json.dumps(document, allow_nan=False), flush=True)


SPEC_OPTIONS = (
    *(
        "kind",
        "method",
        "connections",
        "concurrency",
        "duration",
        "calls",
        "warmup",
        "drain",
        "rate",
        "arrival",
    ),
    *("catch_up", "max_in_flight", "think_time", "request_size", "response_size", "messages_per_stream"),
    *("deadline", "compression", "transport", "window", "busy_poll", "threads", "seed", "cpus"),
    *("pick", "calls_per_connection"),
)


def spec_of(options: argparse.Namespace) -> Any:
    """The Load of what was given; what was not is left to Load's own defaults."""
    from grpcperf.spec import Load

    given = {name: getattr(options, name) for name in SPEC_OPTIONS if getattr(options, name) is not None}
    if options.metadata:
        given["metadata"] = metadata_of(options.metadata)
    if options.channel_arg:
        given["channel_args"] = channel_args(options.channel_arg)
    if options.request:
        given["request"] = [content(path) for path in options.request]
    return Load(**given)


def content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidRequest(f"--request {path}: {error.strerror}") from None


def target_of(options: argparse.Namespace) -> Any:
    """The target named, or a native server for this command alone."""
    from grpcperf.targets import Server, Target

    if options.target is not None:
        return Target(options.target, tls=_tls(options), pid=options.pid, authority=options.authority)
    if options.pid is not None:
        raise InvalidRequest("--pid is of a TARGET; without one, a server is started whose pid is known")
    for name in ("authority", "cacert", "cert", "key", "server_name", "insecure"):
        if getattr(options, name):
            raise InvalidRequest(f"--{name.replace('_', '-')} is of a TARGET; give one")
    return Server(tls=_self_signed() if options.tls else None)


def _self_signed() -> Any:
    from grpcperf.tls import TLS

    return TLS.self_signed()


def _tls(options: argparse.Namespace) -> Any:
    """How to call a TARGET; None: in plaintext."""
    given = {"ca": options.cacert, "cert": options.cert, "key": options.key}
    given |= {"server_name": options.server_name}
    parts = {name: value for name, value in given.items() if value is not None}
    if not (options.tls or options.insecure or parts):
        return None
    if options.insecure and options.cacert is not None:
        raise InvalidRequest("--insecure takes any certificate: it contradicts --cacert")
    from grpcperf.tls import TLS

    return TLS(**parts, verify=not options.insecure)


def metadata_of(texts: Iterable[str]) -> dict[str, str | bytes]:
    from grpcperf.metadata import from_shell

    return from_shell(pairs(texts, "--metadata"))


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidRequest(f"{option} must be KEY=VALUE, not {text!r}")
        found[key] = value
    return found


def channel_args(texts: Iterable[str]) -> dict[str, int | str]:
    """Channel arguments; what looks like a whole number is one."""
    given = pairs(texts, "--channel-arg")
    return {key: int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else text for key, text in given.items()}
