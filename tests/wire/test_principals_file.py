"""The principals file: strict, and never a place where a token can be read."""

import hashlib

import pytest

from gateway.core.errors import SettingsError
from gateway.core.principals import DEV, Principal, Role
from gateway.wire.principals_file import load_principals, new_token

A = "a" * 64
B = "b" * 64
GOOD = f"""\
principals:
  - name: ana
    role: worker
    token_sha256: {A}
    functions: [relatorio]
    destinations: ["*"]
    expires: 2027-01-01
  - {{name: bo, role: operator, token_sha256: {B}, functions: ["*"], destinations: [crm, erp]}}
"""


@pytest.fixture
def load(tmp_path):
    def write_and_load(text):
        path = tmp_path / "principals.yaml"
        path.write_text(text)
        return load_principals(path)

    return write_and_load


def test_principals_are_found_by_their_tokens_digest(load):
    assert load(GOOD) == {
        A: Principal(
            "ana", frozenset({Role.WORKER}), frozenset({"relatorio"}), None, 1_798_761_600_000
        ),
        B: Principal("bo", frozenset({Role.OPERATOR}), None, frozenset({"crm", "erp"})),
    }


def test_an_empty_list_locks_everybody_out(load):
    assert load("principals: []\n") == {}


@pytest.mark.parametrize(
    ("change", "place", "complaint"),
    [
        (("name: ana", "name: bo"), "8:5", "'bo' is there twice"),
        (("name: ana", "name: ana b"), "2:11", "'ana b'"),
        (("role: worker", "role: boss"), "3:11", "'boss'; roles are worker, operator, viewer"),
        ((f"  token_sha256: {A}\n", f"  token_sha256: {B}\n"), "8:5", "same token as 'ana'"),
        (("    functions: [relatorio]\n", ""), "2:5", "'functions' is missing (["),
        (("[relatorio]", "relatorio"), "5:16", "functions is not a list"),
        (("[relatorio]", '["*", relatorio]'), "5:17", "'*'"),
        (("[relatorio]", "[2026]"), "5:17", "not text; put it in quotes"),
        (("expires: 2027-01-01", "expires: soon"), "7:14", "'soon'"),
        (("expires: 2027-01-01", "expires: 2027-02-30"), "7:14", "'2027-02-30'"),
        (("expires: 2027-01-01", "expires: 2027-01-01T10:00:00"), "7:14", "10:00:00'"),
        (("expires: 2027-01-01", "rights: all"), "7:5", "'rights' is not known"),
        (("role: worker", "role: worker\n    role: viewer"), "4:5", "'role' is there twice"),
        (("principals:", "people:"), "1:1", "'people' is not known in the file"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(load, tmp_path, change, place, complaint):
    with pytest.raises(SettingsError) as refused:
        load(GOOD.replace(*change))

    assert f"{tmp_path / 'principals.yaml'}:{place}: " in str(refused.value)
    assert complaint in str(refused.value)


def test_all_complaints_come_at_once(load):
    with pytest.raises(SettingsError) as refused:
        load(GOOD.replace("worker", "boss").replace("relatorio", "a b").replace("crm", "c r m"))

    assert len(str(refused.value).splitlines()) == 3


def test_a_token_in_the_place_of_its_digest_is_not_shown(load):
    token, _ = new_token()

    with pytest.raises(SettingsError) as refused:
        load(GOOD.replace(A, token))

    assert token not in str(refused.value)
    assert "4:19" in str(refused.value)


@pytest.mark.parametrize("text", ["", "# nobody\n", "principals: [\n", "principals: {}\n", "- a\n"])
def test_a_file_without_a_list_of_principals_is_refused(load, text):
    with pytest.raises(SettingsError, match=r"principals\.yaml"):
        load(text)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        load_principals(tmp_path / "none.yaml")


def test_a_new_token_is_long_and_its_digest_is_its_sha_256():
    token, digest = new_token()

    assert token.startswith("fg_")
    assert len(token) == 3 + 43
    assert digest == hashlib.sha256(token.encode()).hexdigest()
    assert new_token()[0] != token


def test_leadership_aside_a_principal_may_touch_only_what_it_was_given(load):
    ana = load(GOOD)[A]

    assert ana.may_use("relatorio")
    assert not ana.may_use("migracao")
    assert ana.may_reach("anything")
    assert ana.live(1_798_761_599_999)
    assert not ana.live(1_798_761_600_000)
    assert DEV.is_a(Role.OPERATOR)
    assert not ana.is_a(Role.OPERATOR, Role.VIEWER)
