"""The destination's own credential, as a header field."""

from __future__ import annotations

from gateway.core.policy import Login


def login_header(login: Login | None) -> tuple[str, str] | None:
    """The field to inject. The value is secret: it goes on the wire and nowhere else."""
    if login is None:
        return None
    return login.header_name, login.header.value
