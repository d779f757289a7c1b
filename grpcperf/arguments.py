"""The command line of `grpcperf`: which options there are. What they mean is checked where they are used, so
that the shell and Python refuse the same things in the same words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn


class Usage(Exception):
    """What was typed is no command line of ours."""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; the usage of a command with thirty options helps nobody."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        # "-1s" is a value, which is refused in our words, and no option, as argparse has it of all but "-1".
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{self.prog}: {message} (see {self.prog} --help)")


def parser(run: Mapping[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """The parser; `run` has the function of each command, which it leaves in the namespace as `run`."""
    from grpcperf import __version__

    made = Parser(
        prog="grpcperf",
        description="What gRPC servers and clients really cost, measured.",
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"grpcperf {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for name, (text, add_options) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            allow_abbrev=False,
            add_help=name != "experiment",  # whose own help knows the experiments
        )
        command.set_defaults(run=run[name])
        add_options(command)
    return made


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        help='"host:port" or "unix:/path"; none: a native server for this run',
    )
    parser.add_argument("--pid", help="process of the TARGET, when it runs here: for its memory and CPU")
    parser.add_argument("--authority", help="the :authority to send")
    _add_json(parser)


def _add_calls(parser: argparse.ArgumentParser) -> None:
    """What load and hold have in common."""
    parser.add_argument(
        "--metadata",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="may be repeated; the VALUE of a KEY ending in -bin is base64",
    )
    parser.add_argument(
        "--channel-arg", metavar="KEY=VALUE", action="append", default=[], help="of gRPC C core"
    )
    parser.add_argument("--deadline", metavar="TIME", help="of each call, as 200ms")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--model",
        default="async",
        help="async[:THREADS], thread[:STACK], stream-workers:N, pool:N[:QUEUE] or mirror",
    )
    add("--listen", metavar="ADDRESS", default="127.0.0.1", help='an IP address, or "unix:/path" (127.0.0.1)')
    add("--port", default=0, help="0 lets the system choose (default)")
    add("--max-concurrent-streams", metavar="N", help="calls that a connection may have in flight")
    add(
        "--channel-arg",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="of gRPC C core; may be repeated",
    )
    add(
        "--behaviour",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="of every call, as delay-us=20000",
    )
    add("--cpus", help="those it may use, as 0-3,5")
    add(
        "--limit",
        action="append",
        default=[],
        help="before the handlers: semaphore:N, rate:PER_S[:burst=N][:degrade], prune:TIME; may be repeated",
    )
    add(
        "--tls-self-signed",
        action="store_true",
        help="TLS with certificates made now; says where its authority is, for --cacert of clients",
    )
    add("--cert", metavar="FILE", help="TLS with this certificate (PEM)")
    add("--key", metavar="FILE", help="and its key")
    add("--client-ca", metavar="FILE", help="clients need a certificate signed by this authority")


def _add_load(parser: argparse.ArgumentParser, *, sweep: bool = False) -> None:
    """The options of a load, and with lists of values (1,2,4) those of a sweep."""
    _add_target(parser)
    _add_calls(parser)
    add = parser.add_argument
    add("-c", "--concurrency", metavar="N", help="calls kept in flight (64)")
    add("--connections", metavar="N", help="(1)")
    add("-d", "--duration", metavar="TIME", help="of the measured window (2s)")
    add("-n", "--calls", metavar="N", help="end after so many measured calls instead")
    add("--warmup", metavar="TIME", help="(500ms)")
    add("--drain", metavar="TIME", help="what calls in flight at the end are waited for (1s)")
    add("--kind", metavar="KIND", help="unary, server_stream, client_stream, bidi or bidi_free")
    add("--method", metavar="/PKG.SERVICE/METHOD", help="of any server; with --request")
    add(
        "--request",
        metavar="FILE",
        action="append",
        default=[],
        help="a serialized request message; of several, each message sent is drawn by --seed",
    )
    add("--request-size", metavar="SIZE", help="payload of a request (16), as 64KiB")
    add("--response-size", metavar="SIZE", help="payload of a response (16)")
    add("--messages-per-stream", metavar="N", help="(none: streams last as long as the run)")
    add("--think-time", metavar="TIME", help="pause of each caller between its calls (0)")
    add("--threads", metavar="N", help="of the client (1)")
    add("--cpus", metavar="LIST", help="the client's threads run on these, as 0-3,5")
    add("--seed", metavar="N", help="(0)")
    add("--transport", metavar="NAME", help="wire or core (wire)")
    if not sweep:
        add(
            "--check",
            metavar="BOUND",
            action="append",
            default=[],
            help="as 'p99<5ms' or 'errors==0'; exit 4 if broken",
        )
    add("--strict", action="store_true", help="exit 3 when the result is invalid or a check inconclusive")
    add("--rate", metavar="RPS", help="an open loop: calls per second, whatever becomes of them")
    add("--arrival", metavar="NAME", help="of an open loop: poisson (default), constant or uniform")
    add("--max-in-flight", metavar="N", help="of an open loop: calls at a time at most (10000)")
    add(
        "--catch-up",
        metavar="NAME",
        help="of calls that find no room in flight: none drops them, bounded (default) lets them wait for "
        "100 ms, full to the end",
    )
    add("--compression", metavar="NAME", help="of requests: gzip (none)")
    add("--window", metavar="SIZE", help="flow control of wire: what the peer may send unasked (4MiB, 16MiB)")
    add("--busy-poll", action="store_true", default=None, help="threads of wire never sleep")
    add("--pick", metavar="NAME", help="of connections: round_robin (default), locked or least_loaded")
    add("--calls-per-connection", metavar="N", help="of wire: then another takes its place")
    _add_tls(parser)


def _add_tls(parser: argparse.ArgumentParser) -> None:
    """How to call a TARGET; any of these means TLS."""
    add = parser.add_argument
    add("--tls", action="store_true", help="speak TLS; without a TARGET the server of this run does too")
    add("--cacert", metavar="FILE", help="authorities to trust (PEM; the system's)")
    add("--cert", metavar="FILE", help="certificate to show the server (PEM)")
    add("--key", metavar="FILE", help="and its key")
    add("--server-name", metavar="NAME", help="what the server's certificate is for (the host of TARGET)")
    add("--insecure", action="store_true", help="take any certificate; this is still TLS")


def _add_hold(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    _add_calls(parser)
    add = parser.add_argument
    add("--calls", metavar="N", required=True, help="calls to hold")
    add(
        "--kind",
        metavar="KIND",
        default="unary",
        help="unary, server_stream, client_stream, bidi or bidi_free",
    )
    add("--connections", metavar="N", default="1", help="(1)")
    add("--transport", metavar="NAME", default="wire", help="wire or core (wire)")
    add("--method", metavar="/PKG.SERVICE/METHOD", help="of any server, whose calls last; with --request")
    add("--request", metavar="FILE", help="a serialized request message")
    add("--send-first", action="store_true", help="streams send one message before they fall silent")
    add("--for", dest="hold_for", metavar="TIME", default="5s", help="how long they are held (5s)")
    add("--timeout", metavar="TIME", default="10s", help="how long opening them may take (10s)")
    _add_tls(parser)


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    _add_load(parser, sweep=True)
    add = parser.add_argument
    add("--repeats", metavar="N", default="1", help="rounds over all points (1)")
    add("--order", metavar="NAME", default="random", help="of the points in a round: random or given")
    add("--store", metavar="FILE", help="keep every measurement there; the same again goes on from there")
    add("--force", action="store_true", help="go on with a store of another machine or version")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("a", metavar="A.jsonl", help="a store of a sweep")
    add("b", metavar="B.jsonl", help="another, of the same axes")
    add("--metric", default="latency_p99_us", help="as in --json of load (latency_p99_us)")
    add("--min-effect", metavar="SHARE", default="0.02", help="changes smaller than that do not count (0.02)")
    add("--strict", action="store_true", help="exit 3 when any verdict is inconclusive")
    _add_json(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE.jsonl", help="a store of a sweep")
    parser.add_argument("--html", metavar="FILE", required=True, help="the page to write")


def _add_experiment(parser: argparse.ArgumentParser) -> None:
    parser.usage = "grpcperf experiment list | run NAME|all [OPTIONS] (see grpcperf experiment --help)"
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="parameters depend on the experiment")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", default="grpcperf-demo.html", help="the page to write")
    _add_json(parser)


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "serve": ("run a native server until it is told to stop", _add_serve),
    "load": ("put a load on a server and tell what it did", _add_load),
    "hold": ("hold calls in flight and tell what they cost", _add_hold),
    "sweep": ("load a server at every point of lists of options", _add_sweep),
    "compare": ("hold two stores of sweeps against each other", _add_compare),
    "report": ("make a page of a store: one HTML file", _add_report),
    "experiment": ("answer one of the questions that come with it, or all", _add_experiment),
    "demo": ("measure a native server here: memory per call, throughput over connections", _add_demo),
    "doctor": ("say whether this machine is a good place to measure", _add_json),
    "calibrate": ("find the ceiling of the load engine itself, and keep it for later runs", _add_json),
}
