"""Servers that are not ours, for tests: grpcio and grpc-go as BenchmarkService, nginx in front of a gRPC
server, nghttpd as a server of pages. Each runs as a process of its own on a port of its own. One that is not
installed raises Missing, with what to install."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent / "real"
CACHE = Path(__file__).parents[1] / "build" / "real"  # what was built stays: Go takes half a minute
PATIENCE_S = 10.0


class Missing(Exception):
    """A tool that is not installed, and how to have it."""


def required(tool: str, package: str) -> str:
    found = shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/usr/local/sbin:/usr/local/go/bin")
    if found is None:
        raise Missing(f"{tool} is not installed ({package})")
    return found


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Server:
    """A process and its address."""

    def __init__(self, command: list[str], port: int | None = None, **more: object) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,  # type: ignore[call-overload]
        )
        assert self.process.stdout is not None
        port = port or int(self.process.stdout.readline() or self._failed())
        self.pid = self.process.pid
        self.address = f"127.0.0.1:{port}"
        self._wait_until_it_listens(port)

    def _failed(self) -> int:
        self.process.kill()
        assert self.process.stderr is not None
        raise RuntimeError(f"{self.process.args} did not start: {self.process.stderr.read()[-1000:]}")

    def _wait_until_it_listens(self, port: int) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self._failed()
                time.sleep(0.02)
            else:
                return

    def counts(self) -> dict[str, int]:
        """started, finished (calls), received, sent (messages)."""
        return self._asked("counts")

    def requests(self) -> dict[str, dict[str, int]]:
        """Of grpcio: requests that came since this was asked last, in hex, and how often; metadata: the last
        binary one, in hex."""
        return self._asked("requests")

    def _asked(self, word: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


def grpcio() -> Server:
    if find_spec("grpc") is None:
        raise Missing('grpcio is not installed (the "test" extra)')
    return Server([sys.executable, "-P", str(HERE / "grpcio_server.py")])


def grpc_go() -> Server:
    go = required("go", "golang, 1.25 or newer")
    CACHE.mkdir(parents=True, exist_ok=True)
    binary = CACHE / "grpc_go_server"
    done = subprocess.run(
        [go, "build", "-trimpath", "-o", binary, "."], cwd=HERE / "go", capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"grpc-go: {done.stderr[-2000:]}")
    return Server([str(binary)])


class Nginx(Server):
    """HTTP/2 in front of a gRPC server, with a certificate or without."""

    def __init__(self, backend: str, *, tls: bool = False, **directives: object) -> None:
        nginx = required("nginx", "nginx")
        self.folder = tempfile.TemporaryDirectory(prefix="grpcperf-nginx-")
        folder, port = Path(self.folder.name), free_port()
        self.certificate = folder / "certificate.pem"
        if tls:
            self_signed(self.certificate, folder / "key.pem")
        lines = [f"{name} {value};" for name, value in directives.items()]
        if tls:
            lines += [f"ssl_certificate {self.certificate};", f"ssl_certificate_key {folder}/key.pem;"]
            lines += ["ssl_protocols TLSv1.2 TLSv1.3;"]
        (folder / "nginx.conf").write_text(f"""
            daemon off; master_process off; worker_processes 1;
            pid {folder}/pid; error_log {folder}/error.log;
            events {{ worker_connections 512; }}
            http {{
                access_log off; client_max_body_size 0;
                client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
                uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
                upstream backend {{ server {backend}; keepalive 64; keepalive_requests 1000000; }}
                server {{
                    listen 127.0.0.1:{port} {"ssl" if tls else ""} http2;
                    server_name localhost;
                    {" ".join(lines)}
                    location / {{ grpc_pass grpc://backend; }}
                }}
            }}
        """)
        super().__init__([nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"], port)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.folder.cleanup()


def self_signed(certificate: Path, key: Path) -> None:
    curve = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", *curve, "-nodes", "-days", "2", *names),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )


class Nghttpd(Server):
    """Pages by nghttp2's own server; it knows nothing of gRPC."""

    def __init__(self, folder: Path, *options: str) -> None:
        port = free_port()
        nghttpd = required("nghttpd", "nghttp2-server")
        where = ["--no-tls", "-a", "127.0.0.1", "-d", str(folder)]
        super().__init__([nghttpd, *where, *options, str(port)], port)
