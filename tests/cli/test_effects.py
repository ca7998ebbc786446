"""`fencegate effects` on a file at rest: list, show, resolve."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from gateway.cli.exits import Exit
from gateway.core.effect import Outcome
from gateway.wire.control import EffectOut, EffectPage
from tests.cli.shelf import Shelf, at_rest, ten_thousand
from tests.cli.terminal import Ended, call, run


class Desk:
    """The command line over one ledger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: dict[str, str] = at_rest(path, self._fill)

    @staticmethod
    async def _fill(shelf: Shelf) -> dict[str, str]:
        return {
            "confirmed": await shelf.effect("k-confirmed", Outcome.CONFIRMED, unit="u-1"),
            "rejected": await shelf.effect("k-rejected", Outcome.REJECTED, function="sweep"),
            "unknown": await shelf.effect("k-unknown", Outcome.UNKNOWN, term=8),
            "unsealed": await shelf.effect("k-unsealed", Outcome.UNKNOWN, term=8, sealed=False),
            "in-flight": await shelf.effect("k-flying", None, term=8, destination="erp"),
        }

    def effects(self, *words: object) -> Ended:
        return call("effects", *words, "--ledger", f"sqlite:///{self.path}")

    def resolve(self, name: str, as_: str, *words: object) -> Ended:
        effect_id = self.ids.get(name, name)
        return self.effects("resolve", effect_id, "--as", as_, "--reason", "looked", *words)

    def outcome(self, name: str) -> str:
        return str(self.effects("show", self.ids[name], "--json").json["outcome"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "ledger.db")


def test_effects_are_listed_newest_first_one_to_a_line(desk: Desk):
    ended = desk.effects("ls")

    head, *lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (Exit.OK, "")
    assert head.split()[:3] == ["ID", "OUTCOME", "DESTINATION"]
    assert sorted(line.split()[0] for line in lines) == sorted(desk.ids.values())
    assert "in-flight" in ended.out
    assert all("POST /notes" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--outcome", "unknown"], {"unknown", "unsealed"}),
        (["--outcome", "in-flight"], {"in-flight"}),
        (["--function", "sweep"], {"rejected"}),
        (["--unit", "u-1"], {"confirmed"}),
        (["--destination", "erp"], {"in-flight"}),
        (["--term", "8", "--destination", "crm"], {"unknown", "unsealed"}),
        (["--function", "nobody"], set()),
    ],
)
def test_filters_find_what_they_say(desk: Desk, words: list[str], names: set[str]):
    items = desk.effects("ls", "--json", *words).json["items"]

    assert {item["id"] for item in items} == {desk.ids[name] for name in names}


def test_pages_follow_one_another(desk: Desk):
    first = desk.effects("ls", "--limit", 3)
    *_, more = first.out.splitlines()
    cursor = more.removeprefix("more: --cursor ")

    rest = desk.effects("ls", "--limit", 3, "--cursor", cursor)

    shown = [line.split()[0] for line in (first.out + rest.out).splitlines()]
    assert sorted(each for each in shown if len(each) == 26) == sorted(desk.ids.values())
    assert "more:" not in rest.out


def test_json_has_the_form_of_v1(desk: Desk):
    page = EffectPage.model_validate(desk.effects("ls", "--json").json)
    one = EffectOut.model_validate(desk.effects("show", page.items[0].id, "--json").json)

    assert one == page.items[0]
    assert page.next is None


def test_an_effect_is_told_with_its_attempts(desk: Desk):
    ended = desk.effects("show", desk.ids["unknown"])

    assert ended.code == Exit.OK
    for words in (
        desk.ids["unknown"],
        "outcome      unknown",
        ", unknown since 20",
        ", because ",
        "k-unknown",
        "attempt 1",
        "seal 20",
    ):
        assert words in ended.out


def test_an_effect_that_is_not_there_is_not_found(desk: Desk):
    assert desk.effects("show", "nobody").code == Exit.NOT_FOUND
    assert "'nobody'" in desk.effects("show", "nobody").said
    assert desk.resolve("nobody", "confirmed").code == Exit.NOT_FOUND


def test_an_unknown_effect_is_resolved_in_the_file(desk: Desk):
    ended = desk.resolve("unknown", "no-effect")

    assert ended.code == Exit.OK
    assert "no-effect, by operator" in ended.out
    assert desk.outcome("unknown") == "no-effect"
    with closing(sqlite3.connect(desk.path)) as db:
        (entry,) = db.execute(
            "SELECT effect_id, principal, reason FROM transition WHERE kind = 'effect-resolved'"
        ).fetchall()
    assert entry == (desk.ids["unknown"], "local-operator", "looked")


def test_what_nothing_will_settle_any_more_can_be_resolved(desk: Desk):
    assert desk.resolve("in-flight", "confirmed").code == Exit.OK
    assert desk.outcome("in-flight") == "confirmed"


def test_it_did_not_happen_is_not_taken_before_the_seal(desk: Desk):
    ended = desk.resolve("unsealed", "no-effect")

    assert ended.code == Exit.CONFLICT
    assert "until its seal" in ended.said
    assert desk.outcome("unsealed") == "unknown"
    assert desk.resolve("unsealed", "confirmed").code == Exit.OK


def test_an_effect_that_is_known_cannot_be_resolved(desk: Desk):
    ended = desk.resolve("confirmed", "no-effect")

    assert ended.code == Exit.CONFLICT
    assert desk.ids["confirmed"] in ended.said
    assert desk.outcome("confirmed") == "confirmed"


def test_a_version_that_has_passed_is_refused(desk: Desk):
    version = desk.effects("show", desk.ids["unknown"], "--json").json["version"]

    assert desk.resolve("unknown", "confirmed", "--version", version + 1).code == Exit.CONFLICT
    assert desk.outcome("unknown") == "unknown"
    assert desk.resolve("unknown", "confirmed", "--version", version).code == Exit.OK


@pytest.mark.parametrize("reason", ["", "  \n ", "a" * 2001])
def test_a_decision_needs_a_reason(desk: Desk, reason: str):
    ended = desk.effects(
        "resolve", desk.ids["unknown"], "--as", "confirmed", "--reason", reason
    )  # fmt: skip

    assert ended.code == Exit.USAGE
    assert "--reason" in ended.said
    assert desk.outcome("unknown") == "unknown"


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "--outcome", "done"],
        ["ls", "--term", "0"],
        ["ls", "--term", str(2**64)],
        ["ls", "--limit", "501"],
        ["ls", "--url", "http://127.0.0.1:1"],
        ["resolve", "x", "--as", "rejected", "--reason", "seen"],
        ["resolve", "x", "--as", "confirmed"],
    ],
)
def test_words_that_cannot_be_meant_are_wrong_usage(desk: Desk, words: list[str]):
    ended = desk.effects(*words)

    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "words", [["ls"], ["show", "x"], ["resolve", "x", "--as", "confirmed", "--reason", "seen"]]
)
def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path, words: list[str]):
    path = tmp_path / "none" / "ledger.db"

    ended = run("effects", *words, "--ledger", f"sqlite:///{path}")

    assert ended.code == Exit.UNAVAILABLE
    assert str(path) in ended.said
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_told_so(tmp_path: Path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is a letter to my aunt" * 100)

    ended = run("effects", "ls", "--ledger", f"sqlite:///{path}")

    assert ended.code == Exit.UNAVAILABLE
    assert "cannot be read" in ended.said


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@h/db", "mysql://u:s3cret@h", "ledger.db"])
def test_a_ledger_of_another_kind_is_refused_without_its_password(url: str):
    ended = call("effects", "ls", "--ledger", url)

    assert ended.code == Exit.REFUSED_TO_START
    assert "--ledger" in ended.said
    assert "s3cret" not in ended.err


def test_the_ledger_may_be_named_by_its_variable(desk: Desk):
    ended = call("effects", "ls", "--json", FENCEGATE_LEDGER=f"sqlite:///{desk.path}")

    assert len(ended.json["items"]) == len(desk.ids)


def test_ten_thousand_effects_are_no_hindrance(tmp_path: Path):
    path = tmp_path / "ledger.db"
    at_rest(path, ten_thousand)
    asked = (
        [],
        ["--outcome", "unknown"],
        ["--function", "function-3", "--unit", "unit-8", "--limit", "500"],
        ["--destination", "crm-2", "--outcome", "rejected"],
        ["--term", "7", "--outcome", "confirmed"],
    )
    for words in asked:
        began_s = time.perf_counter()
        ended = run("effects", "ls", *words, "--ledger", f"sqlite:///{path}")
        print(f"effects ls {' '.join(words)}: {time.perf_counter() - began_s:.2f} s")
        assert ended.code == Exit.OK
        assert len(ended.out.splitlines()) > 50
