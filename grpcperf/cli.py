"""The command `grpcperf`.

Exit codes: 0 ok, 1 an error or every call failed, 2 usage, 3 invalid or inconclusive under --strict, 4 a
check failed, 130 interrupted (143 by SIGTERM). Under --json stdout carries exactly one JSON document, also
where that is an error's, and all that is for people goes to stderr.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from grpcperf import cli_compose, cli_experiment, interrupts
from grpcperf.arguments import Usage, parser
from grpcperf.cli_options import (
    CHECK_FAILED,
    FAILED,
    INTERRUPTED,
    INVALID,
    OK,
    TERMINATED,
    USAGE,
    channel_args,
    content,
    failure,
    metadata_of,
    pairs,
    print_json,
    spec_of,
    target_of,
    tell,
)
from grpcperf.errors import Error, Interrupted, InvalidRequest


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    from grpcperf.descriptors import raise_soft_limit

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # "µs" on a terminal that has no µ
    try:
        options = parser(_COMMANDS).parse_args(argv)
    except Usage as error:
        if sys.stderr is not None:
            with suppress(OSError):
                print(error, file=sys.stderr)
        _answer("--json" in (sys.argv if argv is None else argv), failure(error))
        return USAGE
    raise_soft_limit()
    with interrupts.heard_once() as heard, warnings.catch_warnings():
        warnings.showwarning = _warn
        code = _run(options)
        return TERMINATED if code == INTERRUPTED and heard.terminated else code


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    tell(f"warning: {message}", OK)


def _run(options: argparse.Namespace) -> int:
    try:
        interrupts.let_through()
        code: int = options.run(options)
        if sys.stdout is not None:  # it may have been closed
            sys.stdout.flush()
        return code
    except InvalidRequest as error:
        _answer(_wants_json(options), failure(error))
        return tell(error, USAGE)
    except KeyboardInterrupt as error:  # Interrupted too: the command has told nothing yet
        told = str(error) or "interrupted"
        _answer(_wants_json(options), failure(told, "interrupted"))
        return tell(told, INTERRUPTED)
    except Error as error:
        _answer(_wants_json(options), failure(error))
        return tell(error, FAILED)
    except OSError as error:
        _answer(_wants_json(options) and not isinstance(error, BrokenPipeError), failure(error))
        # The reader of our output has left, or the disk is full. At its exit Python would flush and complain.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED if isinstance(error, BrokenPipeError) else tell(error, FAILED)


def _wants_json(options: argparse.Namespace) -> bool:
    """`experiment` reads its words itself."""
    return getattr(options, "json", False) or "--json" in getattr(options, "words", ())


def _answer(wanted: bool, document: Mapping[str, Any]) -> None:
    if wanted and sys.stdout is not None:
        with suppress(OSError):
            print_json(document)


# --- commands


def _serve(options: argparse.Namespace) -> int:
    """A signal ends it well: a server that was told to stop has done its work."""
    import select
    import signal

    class Told(BaseException):
        pass

    def stop(*_: object) -> NoReturn:
        answer(signal.SIG_IGN)  # once is enough
        raise Told

    def answer(how: Any) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, how)

    answer(stop)
    try:
        with _served(options) as server, _authority_file(options, server) as path:
            print(f"listening on {server.address} pid {server.pid}", flush=True)
            if path is not None:
                print(f"clients trust it with --tls --cacert {path}", flush=True)
            poll = select.poll()
            poll.register(server.pidfd, select.POLLIN)
            poll.poll()
            server.require_usable()
    except Told:
        return OK
    return FAILED  # not reached: a server that is dead cannot be used


@contextmanager
def _authority_file(options: argparse.Namespace, server: Any) -> Iterator[str | None]:
    """Where the authority of a certificate made now is, for as long as the server runs; it is no secret."""
    import tempfile

    if not options.tls_self_signed:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", prefix="grpcperf-ca-", suffix=".pem") as file:
        file.write(server.tls.ca)
        file.flush()
        yield file.name


def _served(options: argparse.Namespace) -> Any:
    from grpcperf.targets import Mirror, Server

    if options.model == "mirror":
        for name in (
            *("limit", "max_concurrent_streams", "channel_arg", "behaviour"),
            *("tls_self_signed", "cert", "key", "client_ca"),
        ):
            if getattr(options, name):
                option = f"--{name.replace('_', '-')}"
                raise InvalidRequest(f"{option}: the mirror answers at once and has nothing to set")
        return Mirror(cpus=options.cpus, listen=options.listen, port=options.port)
    return Server(
        options.model,
        limits=options.limit,
        max_concurrent_streams=options.max_concurrent_streams,
        channel_args=channel_args(options.channel_arg),
        behaviour=pairs(options.behaviour, "--behaviour"),
        cpus=options.cpus,
        tls=_served_tls(options),
        listen=options.listen,
        port=options.port,
    )


def _served_tls(options: argparse.Namespace) -> Any:
    from grpcperf.tls import LOCAL_NAMES, TLS

    files = {name: getattr(options, name) for name in ("cert", "key", "client_ca")}
    given = {name: path for name, path in files.items() if path is not None}
    if not options.tls_self_signed:
        return TLS(**given) if given else None
    if given.keys() - {"client_ca"}:
        raise InvalidRequest("--tls-self-signed makes certificate and key: it contradicts --cert and --key")
    own = {options.listen.strip("[]")} - {*LOCAL_NAMES, "0.0.0.0", "::"}
    names = [*LOCAL_NAMES, *(name for name in own if not name.startswith("unix:"))]
    return TLS.self_signed(names).replace(**given)


def _load(options: argparse.Namespace) -> int:
    from grpcperf import checks
    from grpcperf.load import load, unmeasured
    from grpcperf.result import Result

    wanted = [checks.parse(text) for text in options.check]
    spec = spec_of(options)

    def show(result: Result) -> None:
        interrupts.ignore()
        if options.json:
            print_json(result.row())
        else:
            print(result)

    result = None
    try:
        with target_of(options) as target:
            result = load(target, spec, progress=False if options.json else None)
    except KeyboardInterrupt as interrupt:
        partial = interrupt.result if isinstance(interrupt, Interrupted) else result
        if options.json or partial is not None:
            show(partial or unmeasured(spec))
        return tell("interrupted", INTERRUPTED)
    show(result)
    outcomes = [checks.judge(check, result) for check in wanted]
    for outcome in outcomes:
        if outcome.verdict != "passed":
            word = "check failed" if outcome.verdict == "failed" else "warning: inconclusive"
            tell(f"{word}: {outcome.message}", OK)
    if any(outcome.verdict == "failed" for outcome in outcomes):
        return CHECK_FAILED
    for reason in checks.invalidity(result) if wanted else ():
        tell(f"warning: inconclusive: {reason}", OK)
    if result.calls == result.errors or any(one.code in _GONE for one in result.findings):
        return tell(_worst(result), FAILED)
    inconclusive = any(outcome.verdict == "inconclusive" for outcome in outcomes)
    return INVALID if options.strict and (inconclusive or not result.valid) else OK


_GONE = ("server_died", "connection_lost")  # findings that make a load one that failed


def _worst(result: Any) -> str:
    """Why a load counts as failed, in a line."""
    grave = [str(finding) for finding in result.findings if finding.severity == "invalid"]
    return grave[0] if grave else "no call was OK"


def _hold(options: argparse.Namespace) -> int:
    from grpcperf import units
    from grpcperf.parked import hold_and_measure

    seconds = units.seconds(options.hold_for, "--for")
    arguments = {
        "calls": units.count(options.calls, "calls"),
        "kind": options.kind,
        "connections": options.connections,
        "transport": options.transport,
        "metadata": metadata_of(options.metadata),
        "send_first": options.send_first,
        "deadline": options.deadline,
        "channel_args": channel_args(options.channel_arg),
        "timeout": options.timeout,
        "method": options.method,
        "request": None if options.request is None else content(options.request),
    }
    with target_of(options) as target:
        report = hold_and_measure(target, seconds, **arguments)
    if options.json:
        print_json(report.as_dict())
    else:
        print(report)
    if report.interrupted:
        return tell("interrupted", INTERRUPTED)
    if report.running + report.queued == 0:
        ended = ", ".join(f"{name} {count:,}" for name, count in report.ended.items())
        return tell(f"no call could be held; they ended as {ended or 'nothing'}", FAILED)
    if report.lost:
        ended = ", ".join(f"{name} {count:,}" for name, count in report.ended.items() if name != "OK")
        after = units.format_seconds(report.lost_s)
        told = f"{report.lost:,} of {report.calls:,} calls were lost after {after}; they ended as {ended}"
        all_gone = report.lost + report.refused == report.calls
        return tell(told, FAILED) if all_gone else tell(f"warning: {told}", OK)
    if report.running + report.queued < report.calls:
        tell(f"warning: {report.running + report.queued:,} of {report.calls:,} calls could be held", OK)
    return OK


def _demo(options: argparse.Namespace) -> int:
    from grpcperf.demo import run

    document = run(options.html, None if options.json else sys.stdout)
    if options.json:
        print_json(document)
    return INTERRUPTED if document["interrupted"] else OK


def _calibrate(options: argparse.Namespace) -> int:
    from grpcperf.calibrate import calibrate, keep

    found = calibrate()
    path = keep(found)
    if options.json:
        print_json(found.as_dict() | {"kept": None if path is None else str(path)})
    else:
        print(found)
    if found.disturbed:
        tell("warning: the runs differ much; with the machine at rest, do it again", OK)
    if path is None:
        tell("warning: it could not be kept for later runs: is the cache folder writable?", OK)
    return OK


def _doctor(options: argparse.Namespace) -> int:
    from grpcperf.checkup import doctor
    from grpcperf.environment import summary

    found = doctor()
    if options.json:
        print_json({**found.as_dict(), "environment": summary()})
    else:
        print(found)
    return OK


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "load": _load,
    "hold": _hold,
    "sweep": cli_compose.sweep,
    "compare": cli_compose.compare,
    "report": cli_compose.report,
    "experiment": cli_experiment.experiment,
    "demo": _demo,
    "doctor": _doctor,
    "calibrate": _calibrate,
}
