"""The command `grpcperf`, from its first moment. It lives beside the package, because importing anything in
there imports the whole: Ctrl-C and SIGTERM are put off until the package is there and can answer them."""

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command of the command line and exit with its code."""
    ends = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    from grpcperf.cli import main as run

    code = run()
    for number in ends:
        signal.signal(number, signal.SIG_IGN)  # what is left is the interpreter's own end
    sys.exit(code)
