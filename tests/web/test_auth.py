"""Who is calling, by the gateway token of a request."""

from base64 import b64encode

import pytest

from gateway.core.errors import Malformed
from gateway.core.principals import DEV, Principal, Role
from gateway.web.auth import Authenticator
from gateway.wire.principals_file import new_token

NOW_MS = 1_790_000_000_000
TOKEN, DIGEST = new_token()
OLD, OLD_DIGEST = new_token()
ANA = Principal("ana", frozenset({Role.WORKER}), None, None)
LATE = Principal("late", frozenset({Role.WORKER}), None, None, expires_at_ms=NOW_MS)


@pytest.fixture
def door():
    return Authenticator({DIGEST: ANA, OLD_DIGEST: LATE})


def basic(user, password):
    return b"Basic " + b64encode(f"{user}:{password}".encode())


BEARER = f"Bearer {TOKEN}".encode()


@pytest.mark.parametrize(
    "headers",
    [
        [(b"Fence-Authorization", BEARER)],
        [(b"fence-authorization", b"bearer   " + TOKEN.encode())],
        [(b"Authorization", BEARER)],
        [(b"Authorization", basic(TOKEN, ""))],
        [(b"Authorization", basic("api", TOKEN))],
        [(b"Authorization", b"Bearer of-the-vendor"), (b"Fence-Authorization", BEARER)],
    ],
)
def test_a_token_is_known_wherever_it_may_stand(door, headers):
    assert door.authenticate(headers, NOW_MS) is ANA


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "carries no token"),
        ([(b"Authorization", b"Bearer sk_live_vendor")], "not one of this gateway's"),
        ([(b"Authorization", b"Bearer")], "no token in a form"),
        ([(b"Authorization", b"")], "no token in a form"),
        ([(b"Authorization", b"Basic !!!")], "no token in a form"),
        ([(b"Authorization", b"Basic \xff\xff")], "no token in a form"),
        ([(b"Authorization", b"Digest " + TOKEN.encode())], "no token in a form"),
        ([(b"Authorization", TOKEN.encode())], "no token in a form"),
        ([(b"Authorization", basic("api", "secret"))], "not one of this gateway's"),
        ([(b"Fence-Authorization", basic(TOKEN, ""))], "no token in a form"),
        ([(b"Fence-Authorization", b"Bearer x"), (b"Authorization", BEARER)], "Fence-Auth"),
        ([(b"Fence_Authorization", BEARER)], "carries no token"),
        ([(b"Authorization", f"Bearer {OLD}".encode())], "'late' has expired"),
    ],
)
def test_nobody_else_is_let_in_and_the_reason_shows_no_credential(door, headers, reason):
    assert door.authenticate(headers, NOW_MS) is None
    said = door.why_not(headers, NOW_MS)
    assert reason in said
    for secret in (TOKEN, OLD, "sk_live_vendor", "secret"):
        assert secret not in said


@pytest.mark.parametrize("name", [b"Authorization", b"Fence-Authorization"])
def test_a_repeated_credential_is_malformed(door, name):
    with pytest.raises(Malformed, match=name.decode()):
        door.authenticate([(name, BEARER), (name.lower(), BEARER)], NOW_MS)


def test_a_token_works_until_its_expiry(door):
    headers = [(b"Authorization", f"Bearer {OLD}".encode())]

    assert door.authenticate(headers, NOW_MS - 1) is LATE


def test_replaced_principals_count_at_once(door):
    door.replace({})

    assert door.authenticate([(b"Authorization", BEARER)], NOW_MS) is None


def test_in_dev_everybody_is_dev():
    door = Authenticator({}, dev=True)

    assert door.authenticate([], NOW_MS) is DEV
    assert door.authenticate([(b"Authorization", b"Bearer x")], NOW_MS) is DEV
