"""`python -m grpcperf`: the same as the command `grpcperf`."""

from grpcperf_command import main

main()
