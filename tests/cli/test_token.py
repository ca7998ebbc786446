"""`fencegate token new`."""

import hashlib

import pytest
from typer.testing import CliRunner

from gateway.cli.exits import Exit
from gateway.cli.token import app
from gateway.core.principals import Role
from gateway.wire.principals_file import load_principals

GIVEN = ["--role", "worker", "--function", "relatorio", "--destination", "*"]


def run(*arguments):
    return CliRunner().invoke(app, ["new", *arguments])


def test_the_entry_can_be_pasted_and_the_token_stands_there_once(tmp_path):
    ended = run("--name", "ana", *GIVEN, "--expires", "2027-01-01")

    assert ended.exit_code == Exit.OK
    token, _, entry = ended.stdout.partition("\n")
    assert ended.output.count(token) == 1
    path = tmp_path / "principals.yaml"
    path.write_text(entry)
    (found,) = load_principals(path).items()
    assert found[0] == hashlib.sha256(token.encode()).hexdigest()
    assert found[1].name == "ana"
    assert found[1].roles == {Role.WORKER}
    assert found[1].functions == {"relatorio"}
    assert found[1].destinations is None
    assert found[1].expires_at_ms == 1_798_761_600_000


def test_a_new_file_is_for_its_owner_alone_and_does_not_hold_the_token(tmp_path):
    path = tmp_path / "principals.yaml"

    ended = run("--name", "ana", *GIVEN, "--file", str(path))

    token = ended.stdout.strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert token not in path.read_text()
    assert hashlib.sha256(token.encode()).hexdigest() in load_principals(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["principals.yaml"]


def test_comments_and_mode_of_a_file_stay(tmp_path):
    path = tmp_path / "principals.yaml"
    path.write_text(f"""\
# our people
principals:
  # the daily report
  - {{name: bo, role: viewer, token_sha256: {"b" * 64}, functions: ["*"], destinations: []}}  # bo
""")
    path.chmod(0o640)

    run("--name", "ana", *GIVEN, "--file", str(path))

    text = path.read_text()
    for comment in ("# our people", "# the daily report", "# bo"):
        assert comment in text
    assert path.stat().st_mode & 0o777 == 0o640
    assert {known.name for known in load_principals(path).values()} == {"ana", "bo"}


def test_an_empty_list_takes_its_first_principal(tmp_path):
    path = tmp_path / "principals.yaml"
    path.write_text("principals: []\n")

    run("--name", "~", *GIVEN, "--file", str(path))

    assert [known.name for known in load_principals(path).values()] == ["~"]


def test_a_name_is_given_once(tmp_path):
    path = tmp_path / "principals.yaml"
    run("--name", "ana", *GIVEN, "--file", str(path))
    before = path.read_bytes()

    ended = run("--name", "ana", *GIVEN, "--file", str(path))

    assert ended.exit_code == Exit.CONFLICT
    assert "'ana'" in ended.stderr
    assert "fg_" not in ended.output
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--name", "a b", *GIVEN], "'a b'"),
        (["--name", "ana", *GIVEN, "--expires", "soon"], "'soon'"),
        (["--name", "ana", *GIVEN, "--destination", "crm"], "give '*' alone"),
        (["--name", "ana", *GIVEN, "--function", ""], "--function is ''"),
        (["--name", "ana", *GIVEN, "--role", "boss"], "boss"),
        (["--name", "ana", "--role", "worker"], "--function"),
        (["--name", "ana", *GIVEN, "--file", "no/such/folder/p.yaml"], "no/such/folder"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_value(arguments, complaint):
    ended = run(*arguments)

    assert ended.exit_code == Exit.USAGE
    assert complaint in ended.stderr
    assert "fg_" not in ended.output


def test_a_file_that_is_broken_is_left_alone(tmp_path):
    path = tmp_path / "principals.yaml"
    path.write_text("principals: [{name: x}]\n")

    ended = run("--name", "ana", *GIVEN, "--file", str(path))

    assert ended.exit_code == Exit.USAGE
    assert f"{path}:1:14" in ended.stderr
    assert path.read_text() == "principals: [{name: x}]\n"
