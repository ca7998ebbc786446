"""Names, terms, keys and identities: their forms, checked once, where they come in.

A value that passed one of the parsers here is valid everywhere below.
"""

from __future__ import annotations

import hashlib
import random
import re
import secrets
from typing import Final, NamedTuple

from gateway.core.errors import Malformed

MAX_TERM: Final = 2**53 - 1
MAX_REASON: Final = 2000  # characters of a person's reason for an act
NAME_FORM: Final = "[A-Za-z0-9._:@#~-]{1,200}"
_NAME: Final = re.compile(NAME_FORM + r"\Z")
_TERM: Final = re.compile(r"[1-9][0-9]{0,15}\Z")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,255}\Z")
_SF_STRING: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"(?:;[^",]*)?\Z')
_CROCKFORD: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [high + low for high in _CROCKFORD for low in _CROCKFORD]
_SHIFTS: Final = tuple(range(120, -1, -10))

_chance: Final = random.Random(secrets.randbits(256))
"""Effect ids have to differ, not to be secret; and asking the system for 10 bytes lets go of
the interpreter's lock, which costs more than all the rest of an id."""


class Scope(NamedTuple):
    """What one leader leads: a function, or a function and a unit (`unit` is "" otherwise)."""

    function: str
    unit: str = ""


class EffectKey(NamedTuple):
    """Where an idempotency key is unique. Never the holder or the term: a successor must
    meet the record of its predecessor."""

    destination: str
    function: str
    unit: str
    key: str


def parse_name(what: str, text: str) -> str:
    """Return `text` if it has the form of a name."""
    if _NAME.match(text) is None:
        raise Malformed(f"{what} is {text[:80]!r}; a name matches {NAME_FORM}")
    return text


def parse_term(text: str) -> int:
    """Return the term that `text` says in plain decimal digits, 1 to 2^53-1."""
    if _TERM.match(text) is None or int(text) > MAX_TERM:
        raise Malformed(
            f"Fence-Term is {text[:40]!r}; a term is 1 to {MAX_TERM} in plain decimal digits"
        )
    return int(text)


def parse_key(text: str) -> str:
    """Return the idempotency key that the header says.

    An RFC 8941 string (`"abc"`) or a bare token (`abc`); both spell the same key. Never
    shortened, never hashed: two keys that differ stay different.
    """
    if text.startswith('"'):
        found = _SF_STRING.match(text)
        key = re.sub(r"\\(.)", r"\1", found.group(1)) if found else ""
    else:
        key = text if _BARE_KEY.match(text) else ""
    if not key.strip() or len(key) > 255:
        raise Malformed(
            f"Idempotency-Key is {text[:80]!r}; send 1 to 255 printable ASCII characters, "
            'as "quoted string" or as bare letters, digits and ._~:/+=@-'
        )
    return key


def new_effect_id(now_ms: int) -> str:
    """Return a fresh effect id: 48 bits of time, 80 of chance, sortable by birth.

    Ids grow with time so that the ledger's index is appended to, not scattered.
    """
    value = (now_ms << 80) | _chance.getrandbits(80)
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in _SHIFTS])


def effect_mark(key: EffectKey) -> str:
    """Return our mark for the effect under `key`: the same for every attempt and successor.

    32 hex digits of SHA-256 over the length-prefixed parts; what `{effect}` in a policy's
    templates stands for.
    """
    digest = hashlib.sha256()
    for part in (key.destination, key.function, key.unit, key.key):
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()[:32]


def new_request_id() -> str:
    """Return an id for a request that brought none; it has to differ, not to be secret."""
    return f"{_chance.getrandbits(64):016x}"
