"""The destination's own credential, as a header field."""

from __future__ import annotations

import base64

from gateway.core.policy import Login


def login_header(login: Login | None) -> tuple[str, str] | None:
    """The field to inject. The value is secret: it goes on the wire and nowhere else."""
    if login is None:
        return None
    return login.header_name, login.header.value


def without_login(text: bytes, login: Login | None) -> bytes:
    """Take the credential out of what a destination said: some echo the request when they fail."""
    if login is None:
        return text
    whole = login.header.value
    for secret in (whole, whole.rpartition(" ")[2], *_user_and_password(login)):
        if secret:
            text = text.replace(secret.encode(), b"(secret)")
    return text


def _user_and_password(login: Login) -> tuple[str, ...]:
    if login.kind != "basic":
        return ()
    coded = login.header.value.rpartition(" ")[2]
    user, _, password = base64.b64decode(coded).decode().partition(":")
    return f"{user}:{password}", password
