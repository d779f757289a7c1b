"""A grpcio (Python) server of grpc.testing.BenchmarkService, to be run by itself: prints its port, then
answers each line on stdin as JSON, "requests" with which requests have come and the last binary metadata, any
other with its counts, and ends with stdin. Messages are bytes, read by hand."""

import json
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc

SERVICE = "grpc.testing.BenchmarkService"

counts: Counter = Counter(started=0, finished=0, received=0, sent=0)
requests: Counter = Counter()  # small ones, in hex
metadata: dict[str, str] = {}
lock = threading.Lock()


def count(what):
    with lock:
        counts[what] += 1


def note(request):
    count("received")
    if len(request) <= 4096:
        with lock:
            requests[request.hex()] += 1


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at


def as_varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def response(request):
    """A SimpleResponse with as many bytes of body as field 2 of the request asks for."""
    at = size = 0
    while at < len(request):
        tag, at = varint(request, at)
        value, at = varint(request, at)
        if tag == 2 << 3:
            size = value
        if tag & 7 == 2:
            at += value
    payload = b"\x12" + as_varint(size) + bytes(size)
    return b"\x0a" + as_varint(len(payload)) + payload


def heard(requests):
    for request in requests:
        note(request)
        yield request


def unary(request, context):
    note(request)
    count("sent")
    return response(request)


def ping_pong(requests, context):
    for request in heard(requests):
        count("sent")
        yield response(request)


def from_client(requests, context):
    last = b""
    for request in heard(requests):
        last = request
    count("sent")
    return response(last)


def lasting(request, context):
    """Until it is cancelled, with as much memory as the request says in decimal."""
    ended, kept = threading.Event(), b"x" * int(request or b"0")
    context.add_callback(ended.set)
    ended.wait(60)
    return kept[:1]


def from_server(request, context):
    note(request)
    answer = response(request)
    while context.is_active():
        count("sent")
        yield answer


def both_ways(requests, context):
    incoming, ended = heard(requests), threading.Event()
    answer = response(next(incoming))

    def listen():
        try:
            for _ in incoming:
                pass
        finally:
            ended.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    while not ended.is_set() and context.is_active():
        count("sent")
        yield answer


def counted(handle):
    """Counts when the call ends, not when its handler does: a cancelled one's never runs to its end."""

    def run(request, context):
        count("started")
        metadata.update((k, v.hex()) for k, v in context.invocation_metadata() if k.endswith("-bin"))
        context.add_callback(lambda: count("finished"))
        return handle(request, context)

    return run


def main():
    methods = {
        "UnaryCall": grpc.unary_unary_rpc_method_handler(counted(unary)),
        "StreamingCall": grpc.stream_stream_rpc_method_handler(counted(ping_pong)),
        "Last": grpc.unary_unary_rpc_method_handler(counted(lasting)),
        "StreamingFromClient": grpc.stream_unary_rpc_method_handler(counted(from_client)),
        "StreamingFromServer": grpc.unary_stream_rpc_method_handler(counted(from_server)),
        "StreamingBothWays": grpc.stream_stream_rpc_method_handler(counted(both_ways)),
    }
    server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    for line in sys.stdin:
        with lock:
            asked = {"requests": requests, "metadata": metadata} if line == "requests\n" else counts
            print(json.dumps(asked), flush=True)
            requests.clear()
    server.stop(0)


if __name__ == "__main__":
    main()
