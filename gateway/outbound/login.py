"""The destination's own credential, as a header field."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Final

from gateway.core.policy import Login


def login_header(login: Login | None) -> tuple[str, str] | None:
    """The field to inject. The value is secret: it goes on the wire and nowhere else."""
    if login is None:
        return None
    return login.header_name, login.header.value


def without_login(text: bytes, login: Login | None) -> bytes:
    """Take the credential out of what a destination said: some echo the request when they fail."""
    for secret in _secrets(login):
        text = text.replace(secret, b"(secret)")
    return text


def holds_login(text: bytes, login: Login | None) -> bool:
    """Whether a destination said its credential."""
    for secret in _least(login):  # noqa: SIM110  # asked of every answer; a generator costs more
        if secret in text:
            return True
    return False


@lru_cache(maxsize=256)
def _secrets(login: Login | None) -> tuple[bytes, ...]:
    """The credential in all its spellings, longest first. Worked out once: it is looked for in
    every answer that is kept."""
    if login is None:
        return ()
    whole = login.header.value
    spelled = {whole, whole.rpartition(" ")[2], *_user_and_password(login)}
    spelled |= {one.replace("/", "\\/") for one in spelled}  # as many write JSON
    return tuple(sorted((s.encode() for s in spelled if s), key=len, reverse=True))


_looked_for: list[tuple[Login, tuple[bytes, ...]]] = []
_LOOKED_FOR_MAX: Final = 16


def _least(login: Login | None) -> tuple[bytes, ...]:
    """The spellings that hold no other one: who holds any spelling holds one of these.

    Kept by the login's identity, since working out its hash costs more than the search.
    """
    if login is None:
        return ()
    for known, least in _looked_for:
        if known is login:
            return least
    found = _secrets(login)
    least = tuple(one for one in found if not any(o in one for o in found if o != one))
    if len(_looked_for) >= _LOOKED_FOR_MAX:
        _looked_for.clear()
    _looked_for.append((login, least))
    return least


def _user_and_password(login: Login) -> tuple[str, ...]:
    if login.kind != "basic":
        return ()
    coded = login.header.value.rpartition(" ")[2]
    user, _, password = base64.b64decode(coded).decode().partition(":")
    return f"{user}:{password}", password
