"""Where a destination is, and which routes stand in another's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.wire.policy_file import Loaded, load_policies

HEAD = "destination: crm\nbase_url: https://crm.example.com\nchecked: 2026-11-01\n"
READS = 'routes:\n  - {match: "GET /{rest*}", does: read}\n'


def load(folder: Path, env: dict[str, str] | None = None, *, crm: str) -> Loaded:
    (folder / "crm.yaml").write_text(crm)
    return load_policies(folder, env=env or {})


@pytest.mark.parametrize(
    ("written", "base_url"),
    [
        ("http://127.0.0.1:9100", "http://127.0.0.1:9100"),
        ("http://127.8.9.1", "http://127.8.9.1:80"),
        ('"http://[::1]:9100/"', "http://[::1]:9100"),
        ("http://localhost", "http://localhost:80"),
        ("https://CRM.Example.com/api/", "https://crm.example.com:443/api"),
    ],
)
def test_a_base_url_is_taken_apart(tmp_path, written, base_url):
    loaded = load(tmp_path, crm=HEAD.replace("https://crm.example.com", written) + READS)

    assert loaded.policies.destinations["crm"].base_url == base_url


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("http://10.0.0.1", "https://"),
        ("http://localhost.example.com", "https://"),
        ("http://2130706433", "four numbers"),
        ("ftp://crm.example.com", "https://"),
        ("crm.example.com", "is not a URL"),
        ("https://", "host"),
        ("https://crm.example.com:0", "host:port"),
        ("https://crm.example.com:99999", "host:port"),
        ("https://crm.example.com?x=1", "query"),
        ('"https://crm.example.com/#top"', "fragment"),
        ("https://crm.example.com/a/../b", "segments"),
        ("https://${env:A}/", "variable A is not set"),
        ("https://${env:BAD}.example.com/", "not part of a host"),
        ("https://crm.example.com/${env:GOOD}", "host only"),
        ("https://${file:host.txt}", "login only"),
    ],
)
def test_a_base_url_that_cannot_be_meant_is_refused(tmp_path, written, word):
    text = HEAD.replace("https://crm.example.com", written) + READS

    loaded = load(tmp_path, {"GOOD": "ok", "BAD": "evil.com/"}, crm=text)

    assert len(loaded.complaints) == 1
    assert word in loaded.complaints[0].message


def test_a_user_in_the_base_url_is_refused_and_not_shown(tmp_path):
    text = HEAD.replace("https://", "https://ana:hunter2@") + READS

    loaded = load(tmp_path, crm=text)

    assert "move it into login" in loaded.complaints[0].message
    assert "hunter2" not in str(loaded)


def test_a_route_behind_a_wrong_one_is_still_found_to_be_shadowed(tmp_path):
    text = HEAD + (
        "routes:\n  - {match: 'GET /{rest*}', does: raed}\n  - {match: GET /a, does: read}\n"
    )

    loaded = load(tmp_path, crm=text)

    assert [(one.line, one.column) for one in loaded.complaints] == [(5, 35), (6, 13)]


@pytest.mark.parametrize(
    ("earlier", "later", "is_shadowed"),
    [
        ("GET /{rest*}", "GET /", True),
        ("GET /a/{rest*}", "GET /a", True),
        ("GET /a/{id}", "GET /a/{rest*}", False),
        ("GET /a/{id}", "GET /a/", False),
        ("GET /a/{id}", "GET /a/b/c", False),
        ("GET /{k:a|b}/{id}", "GET /a/{id:x|y}", True),
        ("GET /{k:a|b}", "GET /{k:a|c}", False),
        ("GET /{k:a|b}", "GET /{k}", False),
        ("GET /a", "GET /{k:a}", True),
        ("GET /a", "GET /A", False),
        ("GET /a%20b", "GET /{k:a b}", False),
        ("GET /a", "GET|HEAD /a", False),
        ("GET|HEAD|POST /{x}", "GET|HEAD /a", True),
    ],
)
def test_a_route_is_shadowed_only_if_all_its_requests_are_taken(
    tmp_path, earlier, later, is_shadowed
):
    def route(match: str) -> str:
        return f'  - {{match: "{match}", does: refuse, because: "no"}}\n'

    loaded = load(tmp_path, crm=HEAD + "routes:\n" + route(earlier) + route(later))

    shadowed = [one for one in loaded.complaints if "never match" in one.message]
    assert bool(shadowed) == is_shadowed


def test_routes_that_split_the_methods_shadow_together(tmp_path):
    text = HEAD + (
        "routes:\n"
        '  - {match: "GET /{rest*}", does: read}\n'
        '  - {match: "HEAD /a", does: read}\n'
        '  - {match: "GET|HEAD /a", does: read}\n'
    )

    loaded = load(tmp_path, crm=text)

    assert "'GET /{rest*}' (line 5) and 'HEAD /a' (line 6)" in loaded.complaints[0].message
