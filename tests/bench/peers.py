"""Load generators side by side: the same unary load through each, and what it cost.

Each class runs one tool for some seconds on one CPU. Of tools that are processes, CPU is what the kernel
counted for the process (wait4) less what a run of nearly nothing costs, so that starting up is not counted as
calling. Of our own transports it is what their results say.
"""

import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpcperf as gp
from grpcperf import _engine

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / "bench-tools"
METHOD = "grpc.testing.BenchmarkService/UnaryCall"
PATH = f"{TOOLS / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
MIB = 1 << 20


@dataclass(frozen=True)
class Job:
    """Unary calls of the benchmark service: `size` bytes of payload each way."""

    connections: int = 1
    in_flight: int = 64
    size: int = 16
    seconds: float = 1.0
    cpu: int = 0

    @property
    def message(self) -> bytes:
        return _engine.benchmark_request(self.size, self.size)


@dataclass(frozen=True)
class Figure:
    """What came of it. `mib_per_s` is payload one way."""

    calls_per_s: float
    cpu_us_per_call: float
    mib_per_s: float
    cpu_us_per_mib: float

    @classmethod
    def of(cls, job: Job, calls: int, seconds: float, cpu_s: float) -> "Figure":
        mib = calls * job.size / MIB
        return cls(calls / seconds, 1e6 * cpu_s / calls, mib / seconds, 1e6 * cpu_s / mib)


class Peer:
    """A tool. `version` is None where it is missing; `remark` says what is different with it."""

    name: str
    remark = ""

    def version(self) -> str | None:
        raise NotImplementedError

    def run(self, address: str, job: Job) -> Figure:
        raise NotImplementedError


class Ours(Peer):
    """One of our transports, in this process."""

    def __init__(self, transport: str) -> None:
        self.name = transport

    def version(self) -> str | None:
        core = f", gRPC C core {_engine.versions()['grpc']}" if self.name == "core" else ""
        return f"grpcperf {gp.__version__}{core}"

    def run(self, address: str, job: Job) -> Figure:
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, [job.cpu])  # C core's own threads, too
        try:
            result = gp.load(
                address,
                transport=self.name,
                connections=job.connections,
                concurrency=job.in_flight,
                request_size=job.size,
                response_size=job.size,
                duration=job.seconds,
                warmup=0.2,
                cpus=[job.cpu],
                progress=False,
            )
        finally:
            os.sched_setaffinity(0, allowed)
        if result.errors or result.client_cpu_us_per_call is None:
            raise RuntimeError(f"{self.name}: calls ended as {dict(result.status)}")
        cpu_s = result.client_cpu_us_per_call * result.throughput_rps / 1e6
        return Figure.of(job, round(result.throughput_rps * job.seconds), job.seconds, cpu_s * job.seconds)


# --- tools that are processes


@dataclass(frozen=True)
class Ran:
    text: str
    seconds: float
    cpu_s: float


def run(command: list[str], cpu: int) -> Ran:
    """Run a command on one CPU, and tell what it said and used."""
    with tempfile.TemporaryFile() as said:
        begin = time.monotonic()
        process = subprocess.Popen(
            ["taskset", "-c", str(cpu), *command],
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{text[-2000:]}")
    return Ran(text, seconds, usage.ru_utime + usage.ru_stime)


def found(tool: str) -> str | None:
    return shutil.which(tool, path=PATH)


def first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"no {pattern!r} in:\n{text[-2000:]}")
    return match[1]


@functools.cache
def module_version(tool: str) -> str | None:
    """Of a Go program: the version of its module, which `go install` puts into it."""
    path, go = found(tool), found("go")
    if path is None or go is None:
        return path
    said = subprocess.run([go, "version", "-m", path], capture_output=True, text=True, check=True).stdout
    module, compiler = first(r"mod\s+\S+\s+(\S+)", said), first(r": (go\S+)", said)
    return f"{module} ({compiler})"


@contextmanager
def in_file(content: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(content)
        file.flush()
        yield file.name


class H2load(Peer):
    """nghttp2's HTTP/2 load generator. To it a call is a POST with a prefixed message as its body; that the
    answers are OK calls is looked at by nghttp before each run, and in it by the bytes that came back."""

    name = "h2load"

    def version(self) -> str | None:
        path = found("h2load")
        if path is None:
            return None
        return first(
            r"(nghttp2/\S+)", subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        )

    def run(self, address: str, job: Job) -> Figure:
        with in_file(b"\0" + len(job.message).to_bytes(4) + job.message) as body:
            check_answer(address, body)
            idle = self._load(address, job, body, ["-n", str(job.in_flight), "-m", str(job.in_flight)])
            ran = self._load(address, job, body, ["-D", f"{job.seconds:g}", "-m", str(job.in_flight)])
        calls = int(first(r"requests:.* (\d+) succeeded", ran.text)) - job.in_flight
        data = int(first(r"traffic: .* \((\d+)\) data", ran.text))
        if data < calls * (job.size + 5):
            raise RuntimeError(f"h2load: {data} bytes in {calls} answers are too few to be OK:\n{ran.text}")
        seconds = float(first(r"finished in ([\d.]+)s", ran.text))
        return Figure.of(job, calls, seconds, ran.cpu_s - idle.cpu_s)

    def _load(self, address: str, job: Job, body: str, how: list[str]) -> Ran:
        fields = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        command = [str(found("h2load")), "-c", str(job.connections), *how, "-d", body, *fields]
        return run([*command, f"http://{address}/{METHOD}"], job.cpu)


@functools.cache
def nghttp() -> str:
    path = found("nghttp")
    if path is None:
        raise RuntimeError("nghttp is missing, which comes with h2load")
    return path


def check_answer(address: str, body: str) -> None:
    fields = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    command = [nghttp(), "-v", "-n", "-d", body, *fields, f"http://{address}/{METHOD}"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    if "grpc-status: 0" not in re.sub(r"\x1b\[[\d;]*m", "", said):
        raise RuntimeError(f"the answer to h2load's request is not OK:\n{said}")


class Ghz(Peer):
    """ghz, on grpc-go: reads the .proto, sends a message given as bytes."""

    name = "ghz"

    def version(self) -> str | None:
        return module_version("ghz")

    def run(self, address: str, job: Job) -> Figure:
        with in_file(job.message) as message:
            idle = self._load(address, job, message, ["-n", str(job.in_flight)])
            ran = self._load(address, job, message, ["-z", f"{job.seconds:g}s"])
        calls = int(first(r"\[OK\]\s+(\d+) responses", ran.text)) - job.in_flight
        return Figure.of(job, calls, float(job.seconds), ran.cpu_s - idle.cpu_s)

    def _load(self, address: str, job: Job, message: str, how: list[str]) -> Ran:
        service, method = METHOD.split("/")
        command = [
            *(str(found("ghz")), "--insecure", "--proto", str(ROOT / "proto" / "benchmark_service.proto")),
            *("--call", f"{service}/{method}", "-B", message),
            *("-c", str(job.in_flight), "--connections", str(job.connections), *how, address),
        ]
        return run(command, job.cpu)


class Fortio(Peer):
    """fortio, on grpc-go: can call nothing but its own ping service, so it is measured against its own
    server, on the CPU of the other. What it costs per call compares; its calls/s do not."""

    name = "fortio"
    remark = "its own ping service, on its own server: compare CPU per call"

    def __init__(self, server_cpu: int) -> None:
        self.server_cpu = server_cpu

    def version(self) -> str | None:
        return module_version("fortio")

    def run(self, address: str, job: Job) -> Figure:
        with self._server() as own, in_file(b"") as told_in:
            idle = self._load(own, job, ["-n", str(job.in_flight)])
            ran = self._load(own, job, ["-t", f"{job.seconds:g}s", "-json", told_in])
            told = json.loads(Path(told_in).read_text())
        calls = told["RetCodes"]["SERVING"] - job.in_flight
        return Figure.of(job, calls, told["ActualDuration"] / 1e9, ran.cpu_s - idle.cpu_s)

    def _load(self, address: str, job: Job, how: list[str]) -> Ran:
        streams = ["-c", str(job.connections), "-s", str(job.in_flight // job.connections)]
        size = ["-maxpayloadsizekb", "1024", "-payload-size", str(job.size)]
        command = [
            str(found("fortio")),
            "load",
            "-quiet",
            "-loglevel",
            "Error",
            "-grpc",
            "-ping",
            "-qps",
            "0",
        ]
        return run([*command, *streams, *size, *how, address], job.cpu)

    @contextmanager
    def _server(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        off = [word for name in ("http", "redirect", "tcp", "udp") for word in (f"-{name}-port", "disabled")]
        command = [str(found("fortio")), "server", "-loglevel", "Error", *off, "-grpc-port", address]
        server = subprocess.Popen(
            ["taskset", "-c", str(self.server_cpu), *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(address)
            yield address
        finally:
            server.kill()
            server.wait()


def wait_for(address: str) -> None:
    host, port = address.rsplit(":", 1)
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


class Grpcio(Peer):
    """grpcio's asyncio client, in an environment of its own."""

    name = "grpcio asyncio"
    python = TOOLS / "venv" / "bin" / "python"

    def version(self) -> str | None:
        if not self.python.exists():
            return None
        code = "import grpc, platform; print(grpc.__version__, f'(Python {platform.python_version()})')"
        return (
            subprocess.run([self.python, "-c", code], capture_output=True, text=True).stdout.strip() or None
        )

    def run(self, address: str, job: Job) -> Figure:
        script = Path(__file__).with_name("grpcio_client.py")
        with in_file(job.message) as message:
            numbers = (str(job.connections), str(job.in_flight), str(job.seconds))
            ran = run([str(self.python), str(script), address, *numbers, message], job.cpu)
        told = json.loads(ran.text[ran.text.index("{") :])
        if told["failed"] or told["response_bytes"] < job.size:
            raise RuntimeError(f"grpcio: {told}")
        return Figure.of(job, told["ok"], told["seconds"], told["cpu_s"])


def peers(server_cpu: int) -> list[Peer]:
    return [Ours("wire"), Ours("core"), H2load(), Ghz(), Fortio(server_cpu), Grpcio()]


if __name__ == "__main__":
    for peer in peers(0):
        print(f"{peer.name}: {peer.version() or 'missing: make bench-deps'}", file=sys.stdout)
