"""A grpcio server that writes the stamp of every message it receives to a file: `recorder.py FILE`."""

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

STAMP_BYTES = 9
DELAY = "grpcperf-message-delay-us"


def main() -> None:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        delay_s = int(dict(context.invocation_metadata()).get(DELAY, "0")) / 1e6
        for message in messages:
            os.write(file, message[-STAMP_BYTES:])
            time.sleep(delay_s)
            yield b""

    handlers = {"StreamingCall": grpc.stream_stream_rpc_method_handler(answer)}
    server = grpc.server(ThreadPoolExecutor(32))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.testing.BenchmarkService", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()  # until its parent closes it


main()
