"""Who is calling: the gateway token of a request, looked up by its digest.

Vendor SDKs put their API key into Authorization and cannot be told otherwise, so the gateway
token may stand there in its place. `Fence-Authorization` comes first; where it is sent, it
alone counts.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from gateway.core.errors import Malformed
from gateway.core.principals import DEV, Principal

_LENGTHS: Final = frozenset({len("authorization"), len("fence-authorization")})


class Authenticator:
    """Knows the principals by the SHA-256 of their tokens; the tokens themselves by nothing.

    A lookup by digest tells a caller who measures it nothing about any token. With `dev`,
    everybody is the principal DEV.
    """

    def __init__(self, principals: Mapping[str, Principal], *, dev: bool = False) -> None:
        self._principals = principals
        self._dev = dev

    def replace(self, principals: Mapping[str, Principal]) -> None:
        """Know these principals from now on, and no others."""
        self._principals = principals

    def authenticate(
        self, raw_headers: Sequence[tuple[bytes, bytes]], now_ms: int
    ) -> Principal | None:
        """Return who is calling, or None: then `why_not` says what is wrong.

        Raises Malformed for a repeated Authorization or Fence-Authorization.
        """
        if self._dev:
            return DEV
        found = self._find(raw_headers)
        return found if found is not None and found.live(now_ms) else None

    def why_not(self, raw_headers: Sequence[tuple[bytes, bytes]], now_ms: int) -> str:
        """Say why nobody is calling, without the credential: it may be a secret of another
        house."""
        found = self._find(raw_headers)
        if found is not None and not found.live(now_ms):
            return (
                f"The token of principal {found.name!r} has expired. Ask the operator for a new "
                "one ('fencegate token new')."
            )
        given = _credentials(raw_headers)
        if given is None:
            return (
                "The request carries no token. Send a gateway token in Fence-Authorization: "
                "Bearer, or in place of the destination's API key."
            )
        if not given[1]:
            return (
                f"{given[0]} carries no token in a form that is understood. Send it as 'Bearer "
                "<token>'; Authorization may also be Basic with the token as user or password."
            )
        return (
            f"The token in {given[0]} is not one of this gateway's. Send a gateway token there, "
            "not the destination's own credential."
        )

    def _find(self, raw_headers: Sequence[tuple[bytes, bytes]]) -> Principal | None:
        given = _credentials(raw_headers)
        if given is not None:
            for token in given[1]:
                found = self._principals.get(sha256(token).hexdigest())
                if found is not None:
                    return found
        return None


def _credentials(
    raw_headers: Sequence[tuple[bytes, bytes]],
) -> tuple[str, Sequence[bytes]] | None:
    """Return which field speaks and what may be tokens in it; None if there is neither."""
    own: bytes | None = None
    common: bytes | None = None
    for name, value in raw_headers:
        if len(name) not in _LENGTHS:
            continue
        lower = name.lower()
        if lower == b"authorization":
            if common is not None:
                raise Malformed("Authorization is given more than once; send it once")
            common = value
        elif lower == b"fence-authorization":
            if own is not None:
                raise Malformed("Fence-Authorization is given more than once; send it once")
            own = value
    if own is not None:
        return "Fence-Authorization", _bearer(own)
    if common is not None:
        return "Authorization", _bearer(common) or _basic(common)
    return None


def _bearer(value: bytes) -> Sequence[bytes]:
    scheme, _, token = value.strip().partition(b" ")
    token = token.strip()
    return (token,) if token and scheme.lower() == b"bearer" else ()


def _basic(value: bytes) -> Sequence[bytes]:
    scheme, _, encoded = value.strip().partition(b" ")
    if scheme.lower() != b"basic":
        return ()
    try:
        user, _, password = b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return ()
    return tuple(part for part in (user, password) if part)
