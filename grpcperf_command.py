"""The command `grpcperf`, from its first moment. It lives beside the package, because importing anything in
there imports the whole: Ctrl-C is put off until the package is there and can answer it."""

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command of the command line and exit with its code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    from grpcperf.cli import main as run

    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is the interpreter's own end
    sys.exit(code)
