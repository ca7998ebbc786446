"""The principals file: who may call, with which token, and what for.

    principals:
      - name: agente-1
        role: worker
        token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        functions: [relatorio-comercial-diario]
        destinations: ["*"]
        expires: 2027-01-01

Strict, because this file is the door: what is not understood is refused with its place, and
all complaints come at once. An entry that says too little does not mean "everything". The file
never holds a token, and no message shows what stands where a digest should: it may be one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gateway.core.errors import Malformed, SettingsError
from gateway.core.ids import parse_name
from gateway.core.principals import Principal, Role

TOKEN_PREFIX: Final = "fg_"
_NEEDED: Final = ("name", "role", "token_sha256", "functions", "destinations")
_KNOWN: Final = (*_NEEDED, "expires")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d\Z")
_TEXT_TAG: Final = "tag:yaml.org,2002:str"


class _Complaint(Exception):
    """One thing wrong in the file, at the node where it stands."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.node = node


def new_token() -> tuple[str, str]:
    """Return a fresh token and its digest. Only the digest is ever kept."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return token, token_digest(token)


def token_digest(token: str) -> str:
    """Return the SHA-256 of a token in hex, as the file holds it."""
    return hashlib.sha256(token.encode()).hexdigest()


def load_principals(path: Path) -> dict[str, Principal]:
    """Return the principals of the file by their token's digest.

    Raises SettingsError with every complaint, each with file:line:col. An empty list is
    good: that is how everybody is locked out.
    """
    try:
        root = YAML(typ="safe", pure=True).compose(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"principals file {path} cannot be read: {error}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise SettingsError(f"{place}: not YAML: {error.problem}") from error
    except YAMLError as error:
        raise SettingsError(f"{path}: not YAML: {error}") from error
    found: dict[str, Principal] = {}
    complaints: list[_Complaint] = []
    with _kept(complaints):
        for entry in _entries(root):
            with _kept(complaints):
                read = _principal(entry, complaints)
                if read is not None:
                    _add(found, entry, *read)
    if root is None:
        raise SettingsError(f"{path}:1:1: the file is empty; write 'principals: []' for nobody")
    if complaints:
        raise SettingsError("\n".join(_told(path, complaint) for complaint in complaints))
    return found


def _told(path: Path, complaint: _Complaint) -> str:
    mark = complaint.node.start_mark
    return f"{path}:{mark.line + 1}:{mark.column + 1}: {complaint}"


def _add(found: dict[str, Principal], entry: Node, digest: str, principal: Principal) -> None:
    if digest in found:
        raise _Complaint(
            entry,
            f"principal {principal.name!r} has the same token as {found[digest].name!r}; make "
            "one for each with 'fencegate token new'",
        )
    if any(other.name == principal.name for other in found.values()):
        raise _Complaint(entry, f"principal {principal.name!r} is there twice; names are unique")
    found[digest] = principal


def _entries(root: Node | None) -> Iterator[Node]:
    if root is None:
        return
    fields = _fields(root, ("principals",), "the file")
    if "principals" not in fields:
        raise _Complaint(root, "'principals' is missing; write 'principals: []' for nobody")
    entries = fields["principals"]
    if not isinstance(entries, SequenceNode):
        raise _Complaint(entries, "'principals' is not a list")
    yield from entries.value


def _fields(node: Node, known: tuple[str, ...], where: str) -> dict[str, Node]:
    if not isinstance(node, MappingNode):
        raise _Complaint(node, f"{where} is not a mapping of {', '.join(known)}")
    fields: dict[str, Node] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, ScalarNode) else "(not a word)"
        if name not in known:
            raise _Complaint(
                key, f"{name[:40]!r} is not known in {where}; known: {', '.join(known)}"
            )
        if name in fields:
            raise _Complaint(key, f"{name!r} is there twice")
        fields[name] = value
    return fields


def _principal(entry: Node, complaints: list[_Complaint]) -> tuple[str, Principal] | None:
    fields = _fields(entry, _KNOWN, "a principal")
    for name in _NEEDED:
        if name not in fields:
            more = ' (["*"] for all)' if name in ("functions", "destinations") else ""
            raise _Complaint(entry, f"{name!r} is missing{more}")
    before = len(complaints)
    with _kept(complaints):
        name = _name("name", fields["name"])
    with _kept(complaints):
        role = _role(fields["role"])
    with _kept(complaints):
        digest = _digest(fields["token_sha256"])
    functions = _names("functions", fields["functions"], complaints)
    destinations = _names("destinations", fields["destinations"], complaints)
    expires_at_ms = None
    with _kept(complaints):
        expires_at_ms = _expiry(fields["expires"]) if "expires" in fields else None
    if len(complaints) > before:
        return None
    return digest, Principal(name, frozenset({role}), functions, destinations, expires_at_ms)


@contextmanager
def _kept(complaints: list[_Complaint]) -> Iterator[None]:
    """Keep a complaint and go on, so that all of them are told at once."""
    try:
        yield
    except _Complaint as complaint:
        complaints.append(complaint)


def _role(node: Node) -> Role:
    text = _text("role", node)
    if text not in tuple(Role):
        raise _Complaint(node, f"role is {text[:40]!r}; roles are {', '.join(Role)}")
    return Role(text)


def _digest(node: Node) -> str:
    text = (node.value if isinstance(node, ScalarNode) else "").lower()
    if _DIGEST.match(text) is None:
        raise _Complaint(
            node,
            f"token_sha256 is not 64 hex digits ({len(text)} characters, not shown); it is the "
            "SHA-256 of the token, never the token",
        )
    return text


def _text(what: str, node: Node) -> str:
    if not isinstance(node, ScalarNode) or node.tag != _TEXT_TAG:
        raise _Complaint(node, f"{what} is not text; put it in quotes")
    return str(node.value)


def _name(what: str, node: Node) -> str:
    try:
        return parse_name(what, _text(what, node))
    except Malformed as error:
        raise _Complaint(node, str(error)) from error


def _names(what: str, node: Node, complaints: list[_Complaint]) -> frozenset[str] | None:
    """Return the names of a list, or None for `["*"]`, which is all."""
    if not isinstance(node, SequenceNode):
        complaints.append(_Complaint(node, f'{what} is not a list; write ["*"] for all'))
        return frozenset()
    if (
        len(node.value) == 1
        and isinstance(node.value[0], ScalarNode)
        and node.value[0].value == "*"
    ):
        return None
    names: set[str] = set()
    for item in node.value:
        with _kept(complaints):
            names.add(_name(f"an entry of {what}", item))
    return frozenset(names)


def parse_expiry_ms(text: str) -> int:
    """Return the instant of a date (its first moment, UTC) or of an RFC 3339 time.

    Raises ValueError, with the value and the forms that would do.
    """
    try:
        at = datetime.fromisoformat(f"{text}T00:00:00+00:00" if _DATE.match(text) else text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(
            f"expires is {text[:40]!r}; write a date like 2027-01-01 (its first moment, UTC) or "
            "a time like 2027-01-01T12:00:00Z"
        )
    return round(at.astimezone(UTC).timestamp() * 1000)


def _expiry(node: Node) -> int:
    try:
        return parse_expiry_ms(node.value if isinstance(node, ScalarNode) else "")
    except ValueError as error:
        raise _Complaint(node, str(error)) from error
