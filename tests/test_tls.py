"""TLS: certificates, what a server is handed and a client told, and what a handshake fails with."""

import copy
import os
import pickle
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import grpcperf as gp
from grpcperf import _engine
from grpcperf.load import probe
from grpcperf.spec import KINDS
from grpcperf.targets.child import executable

pytestmark = pytest.mark.usefixtures("no_leftovers")

TRANSPORTS = ("wire", "core")
QUICK = {"concurrency": 2, "calls": 20, "warmup": 0}


@pytest.fixture(scope="module")
def tls():
    return gp.TLS.self_signed()


@pytest.fixture(scope="module")
def secure(tls):
    with gp.Server(tls=tls) as server:
        yield server


def expired():
    return gp.TLS(**_engine.self_signed(["localhost", "127.0.0.1"], -7200, -3600))


# --- the value


def test_pem_is_text_bytes_or_a_file(tls, tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(getattr(tls, name))
    from_files = gp.TLS(ca=tmp_path / "ca", cert=str(tmp_path / "cert"), key=tmp_path / "key")
    from_bytes = gp.TLS(ca=tls.ca.encode(), cert=tls.cert.encode(), key=tls.key.encode())
    assert from_files == from_bytes == tls
    assert hash(from_files) == hash(tls)


def test_a_key_may_stand_beside_its_certificate(tls):
    both = gp.TLS(cert=tls.cert + tls.key)
    assert both.key == tls.cert + tls.key
    with gp.Server(tls=both) as server:
        assert gp.load(server, **QUICK).errors == 0


def test_it_is_frozen_and_its_key_is_not_shown(tls):
    with pytest.raises(FrozenInstanceError):
        tls.key = None
    shown = repr(tls.replace(server_name="a.test"))
    assert "PRIVATE" not in shown
    assert "BEGIN" not in shown
    assert "a.test" in shown
    assert pickle.loads(pickle.dumps(tls)) == copy.copy(tls) == tls


def test_replace_checks_anew(tls):
    assert tls.replace(min_version="1.3").min_version == "1.3"
    with pytest.raises(gp.InvalidRequest, match="max_version"):
        tls.replace(min_version="1.3", max_version="1.2")
    with pytest.raises(gp.InvalidRequest, match="server_name"):
        tls.replace(servername="x")


@pytest.mark.parametrize(("given", "kept"), [("1.2", "1.2"), ("TLSv1.3", "1.3"), (1.2, "1.2"), (None, None)])
def test_versions_are_spelled_in_several_ways(given, kept):
    assert gp.TLS(min_version=given).min_version == kept


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"ca": "/nowhere/ca.pem"}, ["ca", "/nowhere/ca.pem", "No such file"]),
        ({"ca": b"\x30\x82\x01\xff\xfe"}, ["ca", "DER"]),
        ({"ca": b"nothing"}, ["ca", "PEM"]),
        ({"ca": 5}, ["ca", "5"]),
        ({"ca": ""}, ["ca"]),
        ({"ca": "a\0b"}, ["ca"]),
        ({"ca": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}, ["ca", "certificate"]),
        ({"client_ca": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}, ["certificate"]),
        ({"min_version": "1.1"}, ["min_version", "1.2", "1.3"]),
        ({"max_version": 13}, ["max_version"]),
        ({"verify": "no"}, ["verify"]),
        ({"resume": 1}, ["resume"]),
        ({"server_name": "a.test:443"}, ["server_name", "port"]),
        ({"server_name": ""}, ["server_name"]),
        ({"server_name": "a" * 300}, ["server_name"]),
        ({"server_name": 5}, ["server_name"]),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, named):
    with pytest.raises(gp.InvalidRequest) as caught:
        gp.TLS(**arguments)
    assert all(word in str(caught.value) for word in named), str(caught.value)


def test_more_than_a_file_of_pem_is_refused_not_cut(tls, tmp_path):
    path = tmp_path / "large.pem"
    path.write_text(f"{tls.cert}{'#' * (1 << 20)}\n{tls.key}")
    for ca in (path, path.read_text()):
        with pytest.raises(gp.InvalidRequest, match="TLS ca: PEM of more than 1 MiB"):
            gp.TLS(ca=ca)
    server = [str(executable("grpcperf-server")), "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [*server, "--tls-cert", str(path), "--tls-key", str(path)],
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert done.returncode != 0
    assert f"{path} has more than 1 MiB" in done.stderr


def test_parts_that_do_not_fit_are_refused(tls):
    other = gp.TLS.self_signed()
    with pytest.raises(gp.InvalidRequest, match="key"):
        gp.TLS(cert=tls.cert)
    with pytest.raises(gp.InvalidRequest, match="cert"):
        gp.TLS(key=tls.key)
    with pytest.raises(gp.InvalidRequest, match="does not belong"):
        gp.TLS(cert=tls.cert, key=other.key)
    with pytest.raises(gp.InvalidRequest, match="verify=False"):
        gp.TLS(ca=tls.ca, verify=False)


@pytest.mark.parametrize("names", [[], ["x"] * 33, ["a b"], [5], ["a,DNS:b"], [""]])
def test_names_no_certificate_can_have(names):
    with pytest.raises(gp.InvalidRequest, match="names"):
        gp.TLS.self_signed(names)


def test_a_key_is_of_a_sort_there_is():
    for key in ("p384", None, 2048):
        with pytest.raises(gp.InvalidRequest, match=r"key must be one of 'p256', 'rsa2048'"):
            gp.TLS.self_signed(key=key)
    with pytest.raises(ValueError, match="p384"):
        _engine.self_signed(["localhost"], 0, 60, key="p384")


# --- a server with it


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_every_kind_through_tls(secure, kind, transport):
    before = secure.counters().started
    messages = None if kind == "unary" else 5
    result = gp.load(secure, kind=kind, messages_per_stream=messages, transport=transport, **QUICK)
    assert result.errors == 0
    assert result.calls == secure.counters().started - before == 20
    with gp.hold(secure, kind=kind, calls=10, transport=transport) as held:
        assert held.running == 10
        assert held.release() < 3
        assert held.status == {"OK": 10}


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_python_trusts_it_too(name, tls, secure):
    """Another reader of certificates agrees on authority, names and ALPN."""
    context = ssl.create_default_context(cadata=tls.ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["h2"])
    port = int(secure.address.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname=name) as stream,
    ):
        assert stream.selected_alpn_protocol() == "h2"


def test_a_server_says_that_it_speaks_tls(secure):
    assert "TLS" in repr(secure)
    assert "TLS" in secure._repr_html_()
    assert "PRIVATE" not in repr(secure) + secure._repr_html_()


def test_the_key_is_on_no_command_line_in_no_environment_and_on_no_disk(secure, tls):
    secret = tls.key.splitlines()[1].encode()
    folder = Path(f"/proc/{secure.pid}")
    for name in ("cmdline", "environ"):
        assert secret not in (folder / name).read_bytes()
    opened = [os.readlink(entry) for entry in (folder / "fd").iterdir()]
    assert sum("memfd:grpcperf-file" in target for target in opened) == 2
    assert not any(target.startswith(("/tmp/", "/dev/shm/")) and "memfd" not in target for target in opened)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_plaintext_client_is_told_before_the_load(secure, transport):
    with pytest.raises(gp.ConnectError, match="TLS"):
        gp.load(secure.address, transport=transport, **QUICK)
    with pytest.raises(gp.ConnectError, match="TLS"), gp.hold(secure.address, calls=5, transport=transport):
        pass


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_plaintext_server_is_told_before_the_load(server, tls, transport):
    with pytest.raises(gp.ConnectError, match="plaintext"):
        gp.load(gp.Target(server.address, tls=tls.for_clients()), transport=transport, **QUICK)


def test_who_is_not_trusted(secure):
    for client in (gp.TLS(), gp.TLS(ca=gp.TLS.self_signed().ca)):
        with pytest.raises(gp.ConnectError, match="not trusted"):
            gp.load(gp.Target(secure.address, tls=client), **QUICK)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_verify_false_takes_any_certificate(secure, transport):
    target = gp.Target(secure.address, tls=gp.TLS(verify=False, server_name="wrong.test"))
    assert gp.load(target, transport=transport, **QUICK).errors == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_certificate_for_another_name(transport):
    made = gp.TLS.self_signed(["example.test"])
    with gp.Server(tls=made) as server:
        assert gp.load(server, transport=transport, **QUICK).errors == 0
        with pytest.raises(gp.ConnectError, match=r'not for "127\.0\.0\.1" but for example\.test'):
            gp.load(gp.Target(server.address, tls=gp.TLS(ca=made.ca)), transport=transport, **QUICK)
        right = gp.Target(server.address, tls=gp.TLS(ca=made.ca, server_name="example.test"))
        assert gp.load(right, transport=transport, **QUICK).errors == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_certificate_is_to_be_for_the_authority_chosen(transport):
    made = gp.TLS.self_signed(["example.test"])
    client = gp.TLS(ca=made.ca)
    with gp.Server(tls=made) as server:
        right = gp.Target(server.address, tls=client, authority="example.test:443")
        assert gp.load(right, transport=transport, **QUICK).errors == 0
        with pytest.raises(gp.ConnectError, match=r"another\.test"):
            gp.load(gp.Target(server.address, tls=client, authority="another.test"), **QUICK)


def test_an_expired_certificate():
    with gp.Server(tls=expired()) as server, pytest.raises(gp.ConnectError, match="expired"):
        gp.load(server, **QUICK)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_client_certificates(transport):
    made = gp.TLS.self_signed(mutual=True)
    with gp.Server(tls=made) as server:
        assert gp.load(server, transport=transport, **QUICK).errors == 0
        with pytest.raises(gp.ConnectError, match="certificate"):
            gp.load(gp.Target(server.address, tls=gp.TLS(ca=made.ca)), transport=transport, **QUICK)
        stranger = gp.TLS.self_signed()
        shown = gp.TLS(ca=made.ca, cert=stranger.cert, key=stranger.key)
        with pytest.raises(gp.ConnectError):
            gp.load(gp.Target(server.address, tls=shown), transport=transport, **QUICK)


@pytest.mark.timeout(400)  # it may have to build one
@pytest.mark.parametrize("serve", [gp.Server, gp.GoServer])
def test_a_server_may_have_an_rsa_key(serve):
    made = gp.TLS.self_signed(mutual=True, key="rsa2048")
    assert len(made.key) > 4 * len(gp.TLS.self_signed().key)
    with serve(tls=made) as server:
        for transport in TRANSPORTS:
            assert gp.load(server, transport=transport, **QUICK).errors == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("listen", ["::1", "unix"])
def test_tls_over_ipv6_and_unix_sockets(listen, transport, tls, tmp_path):
    with gp.Server(tls=tls, listen=f"unix:{tmp_path}/s.sock" if listen == "unix" else listen) as server:
        assert gp.load(server, transport=transport, **QUICK).errors == 0


@pytest.mark.parametrize("value", [True, "cert.pem", {"ca": 1}])
def test_tls_is_a_tls(value):
    for make in (gp.Server, lambda **given: gp.Target("127.0.0.1:1", **given)):
        with pytest.raises(gp.InvalidRequest, match=r"gp\.TLS"):
            make(tls=value)


def test_a_server_needs_a_certificate(tls):
    with pytest.raises(gp.InvalidRequest, match="self_signed"):
        gp.Server(tls=gp.TLS(ca=tls.ca))


def test_core_has_no_say_in_versions(tls):
    with (
        gp.Server(tls=tls.replace(max_version="1.2")) as server,
        pytest.raises(gp.InvalidRequest, match="max_version"),
    ):
        gp.load(server, transport="core", **QUICK)


# --- against a TLS server that is not ours


@contextmanager
def greeter(tls, alpn="h2", version=None, client_ca=None, lasts=None):
    """Says SETTINGS on each connection, one after the other, and takes leave (GOAWAY) after `lasts` seconds;
    yields its port and what was agreed on each."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as combined:
        combined.write(tls.cert + tls.key)
        combined.flush()
        context.load_cert_chain(combined.name)
    if alpn:
        context.set_alpn_protocols([alpn])
    if version:
        context.minimum_version = context.maximum_version = version
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca)
    agreed = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as stream:
                    agreed.append((stream.version(), stream.getpeercert(), stream.session_reused))
                    stream.sendall(b"\0\0\0\4\0\0\0\0\0")
                    if lasts is not None:
                        time.sleep(lasts)
                        stream.sendall(b"\0\0\x08\7\0\0\0\0\0" + bytes(8))
                        continue
                    while stream.recv(4096):
                        pass
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], agreed
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@pytest.mark.parametrize("number", ["1.2", "1.3"])
def test_the_version_asked_for_is_spoken(tls, number):
    with greeter(tls) as (port, agreed):
        client = tls.for_clients().replace(min_version=number, max_version=number)
        assert probe(gp.Target(f"127.0.0.1:{port}", tls=client)).handshake_s > 0
    assert [version for version, *_ in agreed] == [f"TLSv{number}"]


def test_a_version_the_server_does_not_speak(tls):
    client = tls.for_clients().replace(min_version="1.3")
    with (
        greeter(tls, version=ssl.TLSVersion.TLSv1_2) as (port, _),
        pytest.raises(gp.ConnectError, match="version"),
    ):
        gp.load(gp.Target(f"127.0.0.1:{port}", tls=client), **QUICK)


@pytest.mark.parametrize("alpn", [None, "http/1.1"])
def test_a_server_without_http2(tls, alpn):
    with greeter(tls, alpn=alpn) as (port, _), pytest.raises(gp.ConnectError, match="ALPN"):
        gp.load(gp.Target(f"127.0.0.1:{port}", tls=tls.for_clients()), **QUICK)


def test_the_client_certificate_is_the_one_given(tls):
    mine = gp.TLS.self_signed(["me.test"])
    client = gp.TLS(ca=tls.ca, cert=mine.cert, key=mine.key)
    with greeter(tls, client_ca=mine.ca) as (port, agreed):
        probe(gp.Target(f"127.0.0.1:{port}", tls=client))
    assert agreed[0][1]["subjectAltName"] == (("DNS", "me.test"),)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("resume", [True, False])
def test_sessions_are_resumed_when_asked(tls, resume, version):
    client = tls.for_clients().replace(resume=resume, max_version=version)
    with greeter(tls, lasts=0.1) as (port, agreed):
        target = gp.Target(f"127.0.0.1:{port}", tls=client)
        result = gp.load(target, concurrency=1, duration=0.8, warmup=0, drain=0)
    reused = [one[2] for one in agreed[1:]]  # the first was the probe's
    assert len(reused) >= 3
    assert result.row()["reconnects"] >= 2
    assert not reused[0]
    assert any(reused) is resume
