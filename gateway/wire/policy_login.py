"""Secrets and where a destination is: `${env:NAME}`, `${file:path}`, `login`, `base_url`.

A secret enters here and leaves as a `Secret`. It is never part of a message or a digest.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.core.policy import Login, Secret
from gateway.wire.policy_complaint import Loc, Sheet, show
from gateway.wire.policy_model import AnyLogin, BearerLogin, HeaderLogin

SECRET_MAX_BYTES: Final = 64 * 1024
_REFERENCE: Final = re.compile(r"\$\{(env):([A-Za-z_][A-Za-z0-9_]*)\}|\$\{(file):([^{}\n]+)\}")
_HEADER_SAFE: Final = re.compile(r"[\x20-\x7e]+\Z")
_BASE_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>(?:\$\{[^{}]*\}|[^/?#])*)"
    r"(?P<prefix>[^?#]*)(?P<rest>.*)\Z",
    re.DOTALL,
)
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?\Z")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_PREFIX: Final = re.compile(r"(?:/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*\Z")
_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}


@dataclass(slots=True)
class Secrets:
    """Where references are looked up. `files` collects the files that were referred to."""

    folder: Path
    env: Mapping[str, str]
    resolve: bool
    files: set[Path] = field(default_factory=set)

    def fill(self, text: str, *, only_env: bool = False) -> str:
        """Return `text` with its references filled in; as it stands if they are not resolved.

        Raises ValueError naming the variable or file, never a value.
        """
        if "${" in _REFERENCE.sub("", text):
            raise ValueError("a reference is not understood; write ${env:NAME} or ${file:path}")
        if only_env and any(found[3] for found in _REFERENCE.finditer(text)):
            raise ValueError("${file:…} is for login only; use ${env:NAME} here")
        return _REFERENCE.sub(self._value, text)

    def _value(self, reference: re.Match[str]) -> str:
        if reference[3]:
            path = self.folder / reference[4].strip()
            self.files.add(path)
            return self._file(path, reference[0]) if self.resolve else reference[0]
        if not self.resolve:
            return reference[0]
        name = reference[2]
        if not self.env.get(name, "").strip():
            state = "empty" if name in self.env else "not set"
            raise ValueError(f"the environment variable {name} is {state}; set it")
        return self.env[name]

    def _file(self, path: Path, written: str) -> str:
        try:
            with path.open("rb") as file:
                raw = file.read(SECRET_MAX_BYTES + 1)
            text = raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ValueError(
                f"the file of {written} cannot be read: {reason}; put it there"
            ) from None
        if not text.strip() or len(raw) > SECRET_MAX_BYTES:
            state = "too large" if text.strip() else "empty"
            raise ValueError(f"the file of {written} is {state}; put the secret alone into it")
        return text


def build_login(words: AnyLogin, secrets: Secrets, sheet: Sheet, loc: Loc) -> Login | None:
    """Return the login with its header's whole value, or None after complaining."""
    name = words.name if isinstance(words, HeaderLogin) else "Authorization"
    given = _given(words)
    if not any("${" in value for value in given.values()):
        word = next(reversed(given))
        sheet.warning(
            (*loc, word),
            f'{word}: the secret stands readable in this file; write "${{env:NAME}}" instead',
        )
    filled = {word: _fill(value, secrets, sheet, (*loc, word)) for word, value in given.items()}
    values = [value for value in filled.values() if value is not None]
    if len(values) != len(filled):
        return None
    if not secrets.resolve:
        return Login(words.kind, name)
    credential = values[0] if len(values) == 1 else _basic(values[0], values[1])
    header = f"{words.scheme} {credential}" if words.scheme else credential
    if _HEADER_SAFE.match(words.scheme or "x") is None:
        sheet.error((*loc, "scheme"), f"scheme: {show(words.scheme)} is no word for a header")
        return None
    return Login(words.kind, name, Secret(header))


def _given(words: AnyLogin) -> dict[str, str]:
    if isinstance(words, BearerLogin):
        return {"token": words.token}
    if isinstance(words, HeaderLogin):
        return {"value": words.value}
    return {"user": words.user, "password": words.password}


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _fill(value: str, secrets: Secrets, sheet: Sheet, loc: Loc) -> str | None:
    word = loc[-1]
    try:
        filled = secrets.fill(value)
    except ValueError as error:
        sheet.error(loc, f"{word}: {error}")
        return None
    if secrets.resolve and word in {"token", "value"} and _HEADER_SAFE.match(filled) is None:
        sheet.error(
            loc, f"{word}: the secret holds characters that no header can (not shown); look at it"
        )
        return None
    if word == "user" and ":" in filled and (secrets.resolve or "${" not in filled):
        sheet.error(loc, "user: a basic user cannot hold a colon (not shown); use another")
        return None
    return filled


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a destination is. An IPv6 `host` keeps its brackets."""

    scheme: str
    host: str
    port: int
    prefix: str


def parse_base_url(text: str, secrets: Secrets) -> Origin:
    """Return where `text` points. Raises ValueError saying what to write instead."""
    found = _BASE_URL.match(text)
    if found is None:
        raise ValueError(f"{show(text)} is not a URL; write https://host or https://host/prefix")
    scheme, authority = found["scheme"].lower(), found["authority"]
    if scheme not in _PORTS:
        raise ValueError(f"the scheme {show(scheme)} is not spoken; write https://")
    if "@" in authority:
        raise ValueError("a user stands in front of the host (not shown); move it into login")
    if found["rest"]:
        raise ValueError(f"{show(text)} has a query or a fragment; remove it")
    host, port, is_known = _host_and_port(authority, _PORTS[scheme], secrets)
    if scheme == "http" and is_known and not is_loopback(host):
        raise ValueError(
            f"http to {show(host)} sends the login readable; write https:// (http is for loopback)"
        )
    return Origin(scheme, host, port, _prefix(found["prefix"]))


def _host_and_port(authority: str, default: int, secrets: Secrets) -> tuple[str, int, bool]:
    """Return host, port, and whether the host is known (its variables were looked up)."""
    if re.search(r"[{}]", _REFERENCE.sub("", authority)) is not None:
        raise ValueError(
            f"{show(authority)}: no template may choose the host; write it, or ${{env:NAME}}"
        )
    names = [found[0] for found in _REFERENCE.finditer(authority)]
    filled = secrets.fill(authority, only_env=True)
    for name in names:
        value = secrets.fill(name)
        if secrets.resolve and re.fullmatch(r"[A-Za-z0-9._-]+", value) is None:
            raise ValueError(f"{name} is {show(value)}, which is not part of a host; mend it")
    is_known = secrets.resolve or not names
    parts = _AUTHORITY.match(filled if is_known else _REFERENCE.sub("x", authority))
    if parts is None or not 0 < int(parts["port"] or default) < 65536:
        raise ValueError(f"{show(filled)} is not host or host:port; write https://host:8443")
    host, port = parts["host"].lower(), int(parts["port"] or default)
    _check_host(host)
    if not is_known:
        host = authority.removesuffix(f":{parts['port']}")
    return host, port, is_known


def _check_host(host: str) -> None:
    try:
        if host.startswith("["):
            ipaddress.IPv6Address(host[1:-1])
            return
        if re.fullmatch(r"[0-9.]+|.*\.(?:0x[0-9a-f]*|[0-9]+)", host):
            ipaddress.IPv4Address(host)
            return
    except ValueError:
        raise ValueError(
            f"{show(host)} is not an address; write all four numbers, or a name"
        ) from None
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels):
        raise ValueError(f"{show(host)} is not a host name; write it in ASCII, as xn--… if need be")


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine: 127.0.0.0/8, ::1 or localhost."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _prefix(path: str) -> str:
    if "${" in path:
        raise ValueError("${env:…} may stand in the host only; write the path out")
    if "{" in path or "}" in path:
        raise ValueError(f"{show(path)}: no template may stand in base_url; use the route's path")
    prefix = path.removesuffix("/")
    dots = any(re.fullmatch(r"(?:\.|%2e){1,2}", one, re.IGNORECASE) for one in prefix.split("/"))
    if dots or _PREFIX.match(prefix) is None:
        raise ValueError(f"the path {show(path)} has . or .. segments or odd characters; encode it")
    return prefix


def stray_references(
    data: object, allowed: Callable[[Loc], bool], loc: Loc = ()
) -> Iterator[tuple[Loc, str]]:
    """Yield where a `${…}` stands although it may not, and how it is written."""
    if isinstance(data, dict):
        for word, inner in data.items():
            yield from stray_references(inner, allowed, (*loc, word))
    elif isinstance(data, list):
        for at, inner in enumerate(data):
            yield from stray_references(inner, allowed, (*loc, at))
    elif isinstance(data, str) and (found := re.search(r"\$\{[^}]*\}?", data)) and not allowed(loc):
        yield loc, found[0]
