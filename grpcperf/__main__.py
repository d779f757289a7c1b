"""`python -m grpcperf`: the same as the command `grpcperf`."""

import sys

from grpcperf.cli import main

sys.exit(main())
