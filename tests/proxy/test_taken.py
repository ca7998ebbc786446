"""What is taken of an answer: never the credential, and nothing that a success could fail over."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.policy import Login, Secret
from gateway.outbound.login import holds_login, without_login
from gateway.proxy.keep import TAKE_MAX_BYTES, taken

LOGIN = Login("bearer", "Authorization", Secret("Bearer s3cr/et-token"))


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    ["Bearer s3cr/et-token", {"seen": ["s3cr/et-token"]}, deep(2000), "x" * (TAKE_MAX_BYTES + 1)],
    ids=["credential", "credential inside", "too deep", "too large"],
)
def test_what_must_not_be_kept_is_left_out_and_the_rest_stays(value: Any):
    assert taken({"id": 7, "echo": value}, LOGIN) == {"id": 7}


def test_a_credential_is_seen_with_escaped_slashes_too():
    said = rb'{"token": "s3cr\/et-token"}'

    assert holds_login(said, LOGIN)
    assert b"s3cr" not in without_login(said, LOGIN)
