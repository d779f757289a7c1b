"""TLS: certificates, keys and versions, of a server or of whoever calls one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from grpcperf import _engine, units
from grpcperf.engine import translated
from grpcperf.errors import InvalidRequest
from grpcperf.values import refuse_unknown

VERSIONS = ("1.2", "1.3")
KEYS = ("p256", "rsa2048")
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_PEMS = ("ca", "cert", "key", "client_ca")
_DAY_S = 86_400

Pem = str | bytes | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class TLS:
    """TLS with HTTP/2 by ALPN. The same value serves both sides: gp.Server(tls=...) and gp.Target(tls=...).

    `ca`, `cert`, `key` and `client_ca` are PEM text, or the path of a file with it; files are read when the
    value is made, and without a `key` it is looked for in `cert`'s. Raises InvalidRequest naming the part.

    Calling: `ca` are the authorities to trust (None: the system's), `cert` and `key` are shown to a server
    that asks for a certificate of its clients; `server_name` is what the server's certificate must be for,
    when that is not the host of the address; `verify=False` takes any certificate. `min_version` and
    `max_version` are "1.2" or "1.3". `resume` offers the latest session to the next connection, which then
    costs a fraction of a first one.

    Serving: `cert` and `key` are the server's; `client_ca` makes it insist on a client certificate signed by
    one of these authorities. All other fields say how loads on that server object are to call it; without
    `ca` they trust the very certificate. The versions a C-core server takes are its own, 1.2 and 1.3.
    """

    ca: Pem | None = None
    cert: Pem | None = None
    key: Pem | None = None
    server_name: str | None = None
    verify: bool = True
    min_version: str | None = None
    max_version: str | None = None
    resume: bool = False
    client_ca: Pem | None = None

    def __post_init__(self) -> None:
        for name in _PEMS:
            self._set(name, _pem(getattr(self, name), name))
        if self.key is None and self.cert is not None and "PRIVATE KEY-----" in str(self.cert):
            self._set("key", self.cert)
        for name in ("verify", "resume"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidRequest(f"TLS {name} must be True or False, not {getattr(self, name)!r}")
        for name in ("min_version", "max_version"):
            self._set(name, _version(getattr(self, name), name))
        self._check_name()
        if not self.verify and self.ca is not None and self.cert is None:
            raise InvalidRequest("TLS verify=False takes any certificate: ca= contradicts it, leave one out")
        with translated():
            # Without a `ca` there is nothing to verify with yet: reading the system's takes its time.
            _engine.check_tls(self.engine_opts() | {"verify": self.verify and self.ca is not None})
            if self.client_ca is not None:
                _engine.check_tls(_DEFAULTS | {"ca": self.client_ca})

    @classmethod
    def self_signed(
        cls, names: Sequence[str] = LOCAL_NAMES, *, mutual: bool = False, key: str = "p256"
    ) -> TLS:
        """A fresh authority and a certificate for these names and IP addresses (valid for a year), for
        servers and tests on one's own machine. `mutual`: the server insists on a client certificate too, and
        takes the same one.

        `key` is the server's: "p256" signs a handshake in tens of µs, "rsa2048" in about a ms, and its
        certificate is larger. Take the latter where handshakes are to cost what they cost one of the many
        servers with an RSA key. The authority's is P-256 either way.

        Raises InvalidRequest for no names or too many, and for another `key`.
        """
        units.one_of(key, "key", KEYS)
        texts = [names] if isinstance(names, str) else list(names)
        if not 1 <= len(texts) <= 32 or not all(_is_name(name) for name in texts):
            raise InvalidRequest(f"names must be 1 to 32 host names or IP addresses, not {names!r}")
        with translated():
            made: dict[str, Any] = dict(_engine.self_signed(texts, -_DAY_S, 365 * _DAY_S, key))
        name = None if set(LOCAL_NAMES) <= set(texts) else texts[0]
        return cls(**made, server_name=name, client_ca=made["ca"] if mutual else None)

    def replace(self, **changes: Any) -> TLS:
        """One with these changes, checked anew."""
        refuse_unknown(changes, (field.name for field in fields(self)), "argument of TLS")
        return type(self)(**({field.name: getattr(self, field.name) for field in fields(self)} | changes))

    __replace__ = replace  # copy.replace, Python 3.13

    def for_clients(self) -> TLS:
        """What a client of a server with this needs: whom to trust, and its own certificate only where the
        server insists on one."""
        own = {} if self.client_ca is not None else {"cert": None, "key": None}
        trusted = {"ca": (self.ca or self.cert) if self.verify else None}
        return self.replace(client_ca=None, **trusted, **own)

    def server_files(self) -> dict[Literal["cert", "key", "client-ca"], bytes]:
        """What a server is handed. Raises InvalidRequest when it cannot be one."""
        if self.cert is None or self.key is None:
            raise InvalidRequest(
                "tls of a server needs cert= and key=; gp.TLS.self_signed() makes both for this machine"
            )
        files: dict[Literal["cert", "key", "client-ca"], bytes] = {
            "cert": str(self.cert).encode(),
            "key": str(self.key).encode(),
        }
        if self.client_ca is not None:
            files["client-ca"] = str(self.client_ca).encode()
        return files

    def engine_opts(self) -> dict[str, Any]:
        """The Tls of _engine.pyi, for a client."""
        return {name: getattr(self, name) for name in _DEFAULTS}

    def _check_name(self) -> None:
        name = self.server_name
        if name is None:
            return
        if not isinstance(name, str) or not _is_name(name):
            raise InvalidRequest(
                f"TLS server_name must be a host name or an IP address without a port, not {name!r}"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Without keys: it ends up in notebooks and logs."""
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(f"{field.name}={'...' if field.name in _PEMS else repr(value)}")
        return f"TLS({', '.join(shown)})"


_DEFAULTS: dict[str, Any] = {
    "ca": None,
    "cert": None,
    "key": None,
    "server_name": None,
    "verify": True,
    "min_version": None,
    "max_version": None,
    "resume": False,
}


def _pem(value: Any, name: str) -> str | None:
    """PEM text from itself or from a file."""
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray)):
        text = _decode(bytes(value), f"TLS {name}")
    elif isinstance(value, str) and "-----BEGIN" in value:
        text = value
    elif isinstance(value, (str, os.PathLike)) and str(value):
        try:
            with open(value, "rb") as file:
                text = _decode(file.read(units.MIB + 1), f"TLS {name}: {value}")
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidRequest(f"TLS {name}: {str(value)!r:.80}: {reason}") from None
    else:
        raise InvalidRequest(f"TLS {name} must be PEM text or the path of a file with it, not {value!r:.60}")
    if len(text.encode()) > units.MIB:
        raise InvalidRequest(f"TLS {name}: PEM of more than 1 MiB is refused")
    if "-----BEGIN" not in text or "\0" in text:
        raise InvalidRequest(f"TLS {name}: there is nothing in PEM form in it (-----BEGIN ...)")
    return text


def _decode(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{what} is not text; PEM is wanted, not DER") from None


def require_tls(tls: object) -> TLS | None:
    """A TLS or None. Raises InvalidRequest for anything else."""
    if tls is None or isinstance(tls, TLS):
        return tls
    raise InvalidRequest(f"tls must be a gp.TLS, as gp.TLS(ca=...) or gp.TLS.self_signed(), not {tls!r:.60}")


def _version(value: Any, name: str) -> str | None:
    if value is None:
        return None
    text = str(value) if isinstance(value, float) else value
    if isinstance(text, str):
        text = text.lower().removeprefix("tls").removeprefix("v")
    return units.one_of(text, f"TLS {name}", VERSIONS)


def _is_name(name: object) -> bool:
    """A DNS name or an IP address, as a certificate can be for."""
    if not isinstance(name, str) or len(name) > 253:
        return False
    if ":" in name:
        import socket

        try:
            return bool(socket.inet_pton(socket.AF_INET6, name))
        except OSError:
            return False
    return re.fullmatch(r"(?:\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?", name) is not None
