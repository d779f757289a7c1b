"""The C engine as Python sees it (csrc/python). Times are seconds; sizes bytes; blocking calls release the
GIL and look at signals every 50 ms or sooner, so KeyboardInterrupt comes out of them."""

from collections.abc import Mapping, Sequence
from typing import Any, final

class EngineFailure(Exception):
    """Raised by every function here; args = (code, message), code one of "engine", "connect", "died",
    "invalid", "stopped". grpcperf.errors turns it into the public exceptions."""

def abandon_after_fork() -> None:
    """In a forked child: drop the descriptors of every Child, so that the parent's death still reaches its
    servers."""

def versions() -> dict[str, str]:
    """grpc (core version as the library gives it), protobuf_c, compiler, build ("release" or "debug")."""

Tls = dict[str, Any]
"""ca, cert, key (PEM texts or None), server_name (str or None), min_version, max_version ("1.2", "1.3" or
None), verify, resume (bool)."""

def check_tls(tls: Tls) -> None:
    """Raise what would be wrong with these in a client of "localhost"."""

def self_signed(names: Sequence[str], valid_from: int, valid_to: int, key: str = "p256") -> dict[str, str]:
    """ca, cert, key: PEM texts of an authority made for this, and of a certificate for the names with its
    key, "p256" or "rsa2048". Validity in seconds from now."""

def probe(address: str, timeout: float, tls: Tls | None = None) -> dict[str, Any]:
    """resolved, authority, connect_s, handshake_s (0 in plaintext), settings: {max_concurrent_streams,
    initial_window_size, max_frame_size, max_header_list_size, header_table_size}, each an int or None where
    the peer sent none."""

def handshakes(
    target: str,
    authority: str,
    count: int,
    timeout: float,
    tls: Tls | None,
    alpn: bool = True,
    server_pid: int = 0,
) -> dict[str, Any]:
    """Make `count` connections to `target` (as probe resolved it), one after the other, behind one that does
    not count; with `resume` in the Tls each takes up the session before it. `timeout` is of each. each: list
    of {connect_s, tls_s, settings_s (until the peer's first bytes of HTTP/2; None: it closed instead),
    resumed, sent, received (bytes of TLS by the end of its handshake)}; server_cpu_s: of all of them
    together (None without `server_pid`)."""

def benchmark_request(request_size: int, response_size: int, seed: int = 0) -> bytes:
    """A serialized grpc.testing.SimpleRequest, its payload random bytes of that seed."""

def histogram_slot(value_ns: int) -> int: ...
def histogram_slot_high(slot: int) -> int: ...
def process_sample(
    pid: int,
    *,
    pss: bool = False,
    maps: bool = False,
    sockets: bool = False,
    switches: bool = False,
    fds: bool = False,
    socket_bytes: bool = False,
) -> dict[str, int | float]:
    """time (monotonic seconds), rss, rss_anon, peak_rss, cpu_user_s, cpu_system_s, threads; pss; writable,
    mappings; sockets; context_switches; fds; socket_bytes, where asked for and allowed to be seen."""

def fd_limit(pid: int = 0) -> tuple[int, int]:
    """Soft and hard limit on open descriptors of a process (0: this one); -1 for no limit."""

@final
class Allocations:
    """What processes count that were started with the preload object: see csrc/process/allocations.h."""
    def __init__(self) -> None: ...
    variable: str
    path: str
    def read(self, pid: int) -> dict[str, int] | None:
        """mallocs, frees, allocated_bytes, freed_bytes; None when it does not count."""

@final
class Child:
    """A child process with a control channel."""
    def __init__(self, argv: Sequence[str], env: Mapping[str, str], files: Sequence[bytes] = ()) -> None:
        """`files`: what it finds as descriptors 4, 5, ... to read, without a name; at most 8."""
    pid: int
    pidfd: int
    def ready(self, timeout: float) -> dict[str, Any]:
        """Wait for Ready: port, pid, versions."""
    def memstats(self, settle: bool, timeout: float) -> dict[str, int | bool]:
        """The fields of MemStats in proto/control.proto."""
    def counters(self, timeout: float) -> dict[str, int]: ...
    def release(self, timeout: float) -> None: ...
    def reset_peaks(self, timeout: float) -> None: ...
    def impair(self, how: str, timeout: float) -> None:
        """Of a relay; `how` is one of Impair.How in proto/control.proto."""
    def dead(self) -> str | None:
        """Why it is dead ("killed by SIGKILL", "exited with code 1"), or None while it lives."""
    def tail(self, descriptor: int) -> str:
        """The end of what it wrote to descriptor 1 or 2, at most 64 KiB, from the start of a line."""
    def close(self, grace: float = ...) -> tuple[str, str]:
        """End it, with SIGKILL after `grace` seconds, and give its tail(1) and tail(2), which are empty from
        then on. Idempotent, quiet when it is dead; in a forked child a no-op."""

Client = dict[str, Any]
"""transport, target (as probe resolved it), authority, connections, tls (Tls or None), channel_args (dict of
int or str, of C core); of wire: window (bytes, 0 its own), gzip, busy_poll (bool), keepalive (None, or time,
timeout, without calls, and TCP's idle, interval, probes: seconds, a bool, and 0 for a default); pick
("round_robin", "locked", "least_loaded"); calls_per_connection (of wire; 0: no bound)."""

Request = dict[str, Any]
"""kind ("unary", "server_stream", "client_stream", "bidi", "bidi_free"), method, pool (tuple of
bytes: the request, or those that each message is drawn from by seed), seed, metadata (sequence of (str, str
or bytes)), deadline (seconds, 0 none), messages (0: no bound)."""

Schedule = dict[str, Any]
"""Of an open loop: steps (sequence of (from, to, seconds), rates in calls per second; the last rate goes
on), arrival ("constant", "poisson", "uniform"), seed, catch_up ("none", "bounded", "full")."""

def schedule_times(schedule: Schedule, count: int, part: int = 0, parts: int = 1) -> bytes:
    """When the first `count` calls are intended, in ns from the start of the measured window: native
    uint64. Fewer when the rate falls to 0 for good. `part` of `parts`: those of one load thread. See
    csrc/load/schedule.h."""

@final
class Dispatch:
    """Messages of many writers handed to a few streams: see csrc/load/dispatch.h."""
    def __init__(
        self,
        *,
        streams: tuple[tuple[Client, Request], ...],
        policy: str,
        buffer: int,
        writers: int,
        writer_threads: int,
        period: float,
        duration: float,
        timeout: float,
        drain: float,
        connect_timeout: float,
        seed: int,
        replay_idle: bool,
        replay_at_end: bool,
        directory: str,
        sync_every: int,
    ) -> None:
        """`policy`: "round_robin" or "shared". The first stream's message is what all carry."""
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def wait(self, timeout: float) -> bool:
        """Whether it has finished."""
    def result(self) -> dict[str, Any]:
        """The counts of struct gp_dispatch_result by their names, writing_s and total_s, the histograms
        held_up and delivery (as those of Run), contended_s, disk_error (a text or None), and spill:
        waiting, recovered, cut_bytes, appended, appended_bytes, refused, syncs, sync_s (struct
        gp_spill_stats). Raises when a stream could not connect."""
    def close(self) -> None: ...

@final
class Run:
    """A load run in threads of its own: see csrc/load/run.h."""
    def __init__(
        self,
        *,
        client: Client,
        request: Request,
        threads: int,
        concurrency: int,
        connect_timeout: float,
        warmup: float,
        duration: float,
        calls: int,
        drain: float,
        think_time: float,
        schedule: Schedule | None,
        server_pid: int,
        server_pidfd: int,
        cpus: Sequence[int] | None,
    ) -> None: ...
    def start(self) -> None: ...
    def wait(self, timeout: float) -> bool: ...
    def stop(self) -> None: ...
    def snapshot(self) -> dict[str, Any]:
        """phase ("connect", "warmup", "measure", "drain", "ended"), elapsed_s; of measured calls sent,
        calls (finished), ok, not_sent; p50_s, p99_s (latency in windows that are over; 0: none yet)."""
    def result(self) -> dict[str, Any]:
        """status {class name: count, only those that occurred}, causes (list of {status, calls, text}: why
        calls of the whole run ended badly, as far as the transport tells), not_sent; the histograms latency,
        errors, service, send_lag, queued, send_gap, first_message, message_gap, round_trip; ok_in_window,
        all_in_window, messages_sent, payload_sent (their bytes), messages_received, ahead (streams that are
        OK for the client's end of them, though the server had not answered), settings (what peers allow at
        the end, the least of all connections; None where there is no limit, or with core), bursts,
        burst_calls, largest_burst, polls, idle_polls, window_s, windows (list of {start_s, length_s, sent,
        ok, failed, entries}), connect_s, connected, reconnects, alive (connections at the end),
        connections_opened and tls_resumed (in the measured window), drain_s, client_cpu_s, server_cpu_s,
        steal, pressure (shares; these four None when not known), server_died, stopped: see csrc/load/run.h. A
        histogram is {count, overflow, sum_ns, min_ns, max_ns, entries}; entries are bytes: pairs of native
        uint64 (slot, count) in rising order of slot."""

@final
class Park:
    """Calls held in flight: see csrc/load/park.h."""
    def __init__(
        self,
        *,
        client: Client,
        request: Request,
        calls: int,
        connect_timeout: float,
    ) -> None: ...
    def start(self) -> None: ...
    def open(self, calls: int) -> None:
        """Have so many in all, at most the `calls` it was made for; only ever more."""
    def counts(self) -> dict[str, Any]:
        """connecting, connected, sent, finished, status {class: count}, first_sent_s, last_finished_s
        (monotonic). Raises when it could not connect."""
    def cancel(self) -> None: ...
    def wait_finished(self, timeout: float) -> bool: ...
    def close(self) -> None: ...
