"""A closed loop of unary calls by grpcio's asyncio client, run by peers.py in an environment that has grpcio.

    python grpcio_client.py HOST:PORT CONNECTIONS IN_FLIGHT SECONDS MESSAGE_FILE

One JSON document on stdout. Messages are bytes as they are: encoding them is no part of the comparison.
"""

import asyncio
import json
import sys
import time

import grpc
import grpc.aio

METHOD = "/grpc.testing.BenchmarkService/UnaryCall"


async def main(address: str, connections: int, in_flight: int, seconds: float, message: bytes) -> None:
    options = [("grpc.use_local_subchannel_pool", 1)]  # or all channels would share one connection
    channels = [grpc.aio.insecure_channel(address, options) for _ in range(connections)]
    calls = [channel.unary_unary(METHOD) for channel in channels]
    ok = failed = response_bytes = 0
    until = time.monotonic() + 3600.0

    async def caller(number: int) -> None:
        nonlocal ok, failed, response_bytes
        call = calls[number % connections]
        while time.monotonic() < until:
            try:
                response_bytes = len(await call(message))
                ok += 1
            except grpc.RpcError:
                failed += 1

    callers = [asyncio.create_task(caller(number)) for number in range(in_flight)]
    await asyncio.sleep(0.3)
    before, begin, cpu = ok, time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    counted, length, cpu = ok - before, time.monotonic() - begin, time.process_time() - cpu
    until = 0.0
    await asyncio.gather(*callers)
    print(
        json.dumps(
            {
                "ok": counted,
                "failed": failed,
                "seconds": length,
                "cpu_s": cpu,
                "response_bytes": response_bytes,
            }
        )
    )


if __name__ == "__main__":
    with open(sys.argv[5], "rb") as file:
        asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), file.read()))
