"""What a gp.Link adds and holds: throughput beside a direct connection, round trips when idle, its delays and
its rates. The ends are plain sockets, so that nothing but the relay is between them. Run by `make bench`."""

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Iterator

from grpcperf.targets.link import Relay

PAIRS = 5
BULK_S = 1.0
CHUNK = 1 << 20
TRIPS = 2000
DELAYS_MS = (1, 5, 20, 80)  # one way
RATES_MBIT = (10, 100, 1000)


class Peer:
    """A server that sends back what it gets, or swallows it and says how much there was."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @staticmethod
    def _serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(OSError):
            swallows = connection.recv(1) == b"s"
            room = bytearray(CHUNK)
            count = 0
            while got := connection.recv_into(room):
                count += got
                if not swallows:
                    connection.sendall(room[:got])
            connection.sendall(count.to_bytes(8, "big"))


@contextlib.contextmanager
def connected(address: str, mode: bytes) -> Iterator[socket.socket]:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as made:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(mode)
        yield made


def bits_per_s(address: str, seconds: float = BULK_S) -> float:
    """What arrives of as much as can be sent, until the last of it has."""
    data = bytes(CHUNK)
    with connected(address, b"s") as to:
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
        arrived = int.from_bytes(to.recv(8), "big")
        return 8 * arrived / (time.perf_counter() - started)


def trip_s(address: str, trips: int = TRIPS) -> float:
    """The median round trip of a byte."""
    with connected(address, b"e") as to:
        times = []
        for _ in range(trips):
            started = time.perf_counter()
            to.sendall(b"x")
            to.recv(1)
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def relay(peer: Peer, *arguments: str) -> Relay:
    words = ["--target", f"ipv4:{peer.address}", *arguments]
    return Relay(words, listen="127.0.0.1", port=0, cpus=None, env=None)


def main() -> None:
    peer = Peer()
    with contextlib.closing(relay(peer)) as plain:
        pairs = [(bits_per_s(peer.address), bits_per_s(plain.address)) for _ in range(PAIRS)]
        through = statistics.median(rate for _, rate in pairs)
        ratio = statistics.median(there / direct for direct, there in pairs)
        cpu = plain.cpu_s / (sum(rate for _, rate in pairs) * BULK_S / 8e9)
        trips = [(trip_s(peer.address), trip_s(plain.address)) for _ in range(PAIRS)]
        added = 1e6 * statistics.median(there - direct for direct, there in trips)
        direct = statistics.median(direct for direct, _ in trips)
    print(
        f"a Link's throughput: {through / 1e9:.1f} Gbit/s, {ratio:.2f} of a direct connection, goal at least "
        f"10 Gbit/s; {cpu:.2f} s of CPU for a GB{'' if through >= 1e10 else '   <-- not reached'}"
    )
    print(f"a Link when idle: {added:.0f} µs added to a round trip, goal under 100 µs{told(added, 100)}")
    for delay_ms in DELAYS_MS:
        with contextlib.closing(relay(peer, "--delay", str(delay_ms * 10**6))) as far:
            added_ms = 1e3 * (trip_s(far.address, 40) - direct)
        off = 100 * (added_ms / (2 * delay_ms) - 1)
        print(f"a Link of {delay_ms} ms one way: {off:+.2f} %, goal within 3 %{told(abs(off), 3)}")
    for rate in RATES_MBIT:
        with contextlib.closing(relay(peer, "--rate", str(rate * 10**6 // 8))) as slow:
            off = 100 * (bits_per_s(slow.address, 2.0) / (rate * 1e6) - 1)
        print(f"a Link of {rate} Mbit/s: {off:+.2f} %, goal within 0.5 %{told(abs(off), 0.5)}")


def told(value: float, most: float) -> str:
    return "" if value <= most else "   <-- not reached"


if __name__ == "__main__":
    main()
