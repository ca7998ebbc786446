from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gateway.wire.policy_file import Loaded, load_policies

HEAD = "destination: crm\nbase_url: https://crm.example.com\nchecked: 2026-11-01\n"
READS = 'routes:\n  - {match: "GET /{rest*}", does: read}\n'


def load(folder: Path, login: str, env: dict[str, str] | None = None, **options: bool) -> Loaded:
    (folder / "crm.yaml").write_text(f"{HEAD}login: {login}\n{READS}")
    return load_policies(folder, env=env or {}, **options)


BASIC = base64.b64encode(b"ana:s3cr3t").decode()


@pytest.mark.parametrize(
    ("login", "name", "value"),
    [
        ('{kind: bearer, token: "${env:S}"}', "Authorization", "Bearer s3cr3t"),
        (
            '{kind: bearer, token: "${env:S}", scheme: Zoho-oauthtoken}',
            "Authorization",
            "Zoho-oauthtoken s3cr3t",
        ),
        ('{kind: header, name: X-Api-Key, value: "${env:S}"}', "X-Api-Key", "s3cr3t"),
        ('{kind: header, name: X-Key, value: "${env:S}", scheme: K}', "X-Key", "K s3cr3t"),
        ('{kind: basic, user: ana, password: "${env:S}"}', "Authorization", f"Basic {BASIC}"),
    ],
)
def test_a_login_becomes_one_header_that_no_text_shows(tmp_path, login, name, value):
    loaded = load(tmp_path, login, {"S": "s3cr3t"})

    assert loaded.complaints == ()
    found = loaded.policies.destinations["crm"].login
    assert (found.header_name, found.header.value) == (name, value)
    for shown in (repr(loaded), str(loaded), repr(found), str(found), str(found.header)):
        assert "s3cr3t" not in shown
        assert BASIC not in shown


def test_a_secret_file_is_relative_to_the_folder_and_loses_its_last_newline(tmp_path):
    (tmp_path / "token").write_text("s3cr3t\r\n")

    loaded = load(tmp_path, '{kind: bearer, token: "${file:token}"}')

    assert loaded.policies.destinations["crm"].login.header.value == "Bearer s3cr3t"
    assert loaded.secret_files == (tmp_path / "token",)


@pytest.mark.parametrize(
    ("token", "word"),
    [
        ("${env:MISSING}", "variable MISSING is not set"),
        ("${env:EMPTY}", "variable EMPTY is empty"),
        ("${file:nowhere}", "${file:nowhere}"),
        ("${env:BAD}", "characters that no header can"),
        ("${secret:x}", "write ${env:NAME}"),
    ],
)
def test_a_secret_that_cannot_be_had_is_named_and_not_shown(tmp_path, token, word):
    env = {"EMPTY": " ", "BAD": "s3cr3t\nX: y"}

    loaded = load(tmp_path, f'{{kind: bearer, token: "{token}"}}', env)

    assert [one.severity for one in loaded.complaints] == ["error"]
    assert word in loaded.complaints[0].message
    assert "s3cr3t" not in str(loaded)


def test_secrets_are_not_looked_up_unless_asked(tmp_path):
    login = '{kind: bearer, token: "${env:MISSING}"}'

    loaded = load(tmp_path, login, resolve_secrets=False)

    assert loaded.complaints == ()
    assert loaded.policies.destinations["crm"].login.header.value == ""


@pytest.mark.parametrize(
    ("login", "place"),
    [
        ("{kind: bearer, token: s3cr3t}", "4:30: warning"),
        ("{kind: header, name: X-Key, value: s3cr3t}", "4:43: warning"),
        ("{kind: basic, user: ana, password: s3cr3t}", "4:43: warning"),
    ],
)
def test_a_secret_that_stands_in_the_file_is_a_warning(tmp_path, login, place):
    loaded = load(tmp_path, login)

    assert place in str(loaded.complaints[0])
    assert "stands readable" in loaded.complaints[0].message
    assert loaded.policies is not None
    assert "s3cr3t" not in str(loaded)


@pytest.mark.parametrize(
    "login",
    [
        "s3cr3t",
        "[s3cr3t]",
        "{kind: bearer, token: 0737}",
        "{kind: bearer, token: 737}",
        "{kind: bearer, token: [s3cr3t]}",
        "{kind: bearer, token: {a: s3cr3t}}",
        "{kind: bearer, tokn: s3cr3t}",
        '{kind: header, name: Host, value: "${env:S}"}',
        '{kind: basic, user: "${env:S}", password: "${env:P}"}',
        '{kind: bearer, token: "${env:S}", scheme: "${env:S}"}',
        '{token: "${env:S}"}',
        "{kind: hmac, secret: s3cr3t}",
        "{kind: bearer, token: s3cr3t, expired_when: {status: 401}}",
    ],
)
def test_a_login_that_is_wrong_is_refused_without_its_value(tmp_path, login):
    loaded = load(tmp_path, login, {"S": "s3cr3t:737", "P": "s3cr3t"})

    assert loaded.policies is None
    assert all(one.line == 4 for one in loaded.complaints)
    assert "s3cr3t" not in str(loaded)
    assert "737" not in str(loaded)
