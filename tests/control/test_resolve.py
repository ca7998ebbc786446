"""`POST /v1/effects/{id}/resolve`: an operator's word, when it is taken, and what it does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.core.errors import LedgerUnavailable
from tests.control.office import SEAL_S, Office, said_by
from tests.proxy.setting import principals
from tests.raw_destination import answer


def journal(folder: Path, kind: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{(folder / 'ledger.db').as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(
            "SELECT effect_id, principal, reason, detail FROM transition WHERE kind = ?", (kind,)
        ).fetchall()


async def test_it_happened_may_be_said_before_the_seal(office: Office) -> None:
    effect_id = await office.unknown()

    got = await office.resolve(effect_id, "confirmed")

    assert got.status == 200
    assert (got.json["outcome"], got.json["resolved_by"]) == ("confirmed", "operator")
    assert got.json == await office.effect(effect_id)


async def test_a_repetition_of_what_an_operator_confirmed_is_not_sent(office: Office) -> None:
    effect_id = await office.unknown()
    await office.resolve(effect_id, "confirmed")

    again = await office.send("k-1")

    assert (again.status, again.problem) == (409, "result-unavailable")
    assert again.json["effect"] == "confirmed"
    assert again.headers["Fence-Outcome"] == "confirmed"
    assert again.headers["X-Should-Retry"] == "false"
    assert len(office.crm.received) == 1


async def test_it_did_not_happen_is_too_early_before_the_seal(office: Office) -> None:
    effect_id = await office.unknown()
    seal_at = (await office.effect(effect_id))["attempts"][0]["seal_at"]
    office.clock.advance(seconds=SEAL_S - 0.001)

    got = await office.resolve(effect_id, "no-effect")

    assert (got.status, got.problem) == (409, "too-early")
    assert got.json["seal_at"] == seal_at
    assert seal_at in got.json["detail"]
    assert got.json["effect_id"] == effect_id
    assert got.headers["X-Should-Retry"] == "false"
    assert (await office.effect(effect_id))["outcome"] == "unknown"
    assert (await office.send("k-1")).problem == "outcome-unknown"


async def test_it_did_not_happen_frees_the_key_after_the_seal(office: Office) -> None:
    effect_id = await office.unknown()
    office.clock.advance(seconds=SEAL_S + 0.001)

    got = await office.resolve(effect_id, "no-effect")
    again = await office.send("k-1", answer(201, b"made"))

    assert (got.status, got.json["outcome"]) == (200, "no-effect")
    assert (again.status, again.body) == (201, b"made")
    assert again.headers["Fence-Effect"] == effect_id
    assert len((await office.effect(effect_id))["attempts"]) == 2
    assert len(office.crm.received) == 2


async def test_a_version_that_has_passed_is_refused(office: Office) -> None:
    effect_id = await office.unknown()
    version = (await office.effect(effect_id))["version"]

    stale = await office.resolve(effect_id, "confirmed", version=version - 1)
    fresh = await office.resolve(effect_id, "confirmed", version=version)

    assert (stale.status, stale.problem) == (409, "version-conflict")
    assert stale.json["version"] == version
    assert fresh.status == 200


@pytest.mark.parametrize("as_", ["confirmed", "no-effect"])
async def test_only_an_unknown_effect_is_for_a_person_to_decide(office: Office, as_: str) -> None:
    done = (await office.send("k-1")).headers["Fence-Effect"]
    await office.in_flight("k-2")
    (flying,) = (await office.house.get("/v1/effects?outcome=in-flight")).json["items"]

    for effect_id, outcome in ((done, "confirmed"), (flying["id"], "in-flight")):
        got = await office.resolve(effect_id, as_)
        assert (got.status, got.problem) == (409, "version-conflict")
        assert got.json["outcome"] == outcome
        assert f"The effect is {outcome}" in got.json["detail"]
    await office.land()
    assert (await office.effect(flying["id"]))["resolved_by"] == "answer"


async def test_deciding_twice_changes_nothing(office: Office) -> None:
    effect_id = await office.unknown()
    await office.resolve(effect_id, "confirmed")
    office.clock.advance(seconds=SEAL_S + 1)
    before = await office.effect(effect_id)

    got = await office.resolve(effect_id, "no-effect")

    assert got.status == 409
    assert await office.effect(effect_id) == before


async def test_an_effect_that_is_not_there_cannot_be_resolved(office: Office) -> None:
    got = await office.resolve("nobody", "confirmed")

    assert (got.status, got.problem) == (404, "not-found")
    assert "'nobody'" in got.json["detail"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"null", "the body"),
        (b"[]", "the body"),
        (b'{"reason": "seen"}', "as: "),
        (b'{"as": "confirmed"}', "reason: "),
        (b'{"as": "confirmed", "reason": ""}', "reason is ''"),
        (b'{"as": "confirmed", "reason": " \\n "}', "reason is"),
        (b'{"as": "confirmed", "reason": 5}', "reason is '5'"),
        (b'{"as": "confirmed", "reason": "' + b"a" * 2001 + b'"}', "reason is 'aaa"),
        (b'{"as": "rejected", "reason": "seen"}', "as is 'rejected'"),
        (b'{"as_": "confirmed", "reason": "seen"}', "as"),
        (b'{"as": "confirmed", "reason": "seen", "version": "1"}', "version is '1'"),
        (b'{"as": "confirmed", "reason": "seen", "version": true}', "version is 'True'"),
        (b'{"as": "confirmed", "reason": "seen", "force": true}', "force is 'True'"),
    ],
)
async def test_what_is_not_understood_decides_nothing(
    office: Office, body: bytes, named: str
) -> None:
    effect_id = await office.unknown()
    url = f"{office.house.url}/v1/effects/{effect_id}/resolve"

    async with office.house.session.post(url, data=body) as got:
        problem = await got.json(content_type=None)

    assert (got.status, problem["type"]) == (400, "/problems/malformed")
    assert named in problem["detail"]
    assert len(problem["detail"]) < 400
    assert (await office.effect(effect_id))["outcome"] == "unknown"


async def test_a_body_past_all_measure_is_refused(office: Office) -> None:
    effect_id = await office.unknown()

    got = await office.resolve(effect_id, "confirmed", reason="a" * 300_000)

    assert (got.status, got.problem) == (413, "body-too-large")


async def test_the_journal_says_who_decided_what_and_why(open_office: Any, tmp_path: Path) -> None:
    office = await open_office(principals=principals(tmp_path, ana="", olga="role: operator"))
    effect_id = await office.unknown(Fence_Authorization="Bearer fg_ana")

    got = await office.resolve(effect_id, "confirmed", by="olga", reason=" note 5 is there ")

    assert got.status == 200
    (entry,) = journal(tmp_path, "effect-resolved")
    assert entry == (effect_id, "olga", "note 5 is there", '{"as":"confirmed"}')
    said = got.json["resolution"]
    assert (said["principal"], said["reason"]) == ("olga", "note 5 is there")
    assert said["at"] == got.json["settled_at"]


async def test_only_an_operator_decides(open_office: Any, tmp_path: Path) -> None:
    people = principals(tmp_path, ana="", vera="role: viewer", olga="role: operator")
    office = await open_office(principals=people)
    effect_id = await office.unknown(Fence_Authorization="Bearer fg_ana")

    for name in ("ana", "vera"):
        got = await office.resolve(effect_id, "confirmed", by=name)
        assert (got.status, got.problem) == (403, "forbidden")
        assert repr(name) in got.json["detail"]
    nobody = await office.resolve(effect_id, "confirmed")
    assert (nobody.status, nobody.problem) == (401, "unauthenticated")
    (shown,) = (await office.house.get("/v1/effects", **said_by("vera"))).json["items"]
    assert shown["outcome"] == "unknown"
    assert (await office.resolve(effect_id, "confirmed", by="olga")).status == 200
    assert journal(tmp_path, "effect-resolved")[0][1] == "olga"


async def test_a_ledger_that_cannot_be_written_takes_no_decision(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    effect_id = await office.unknown()

    async def full(_: object) -> None:
        raise LedgerUnavailable("the disk is full")

    monkeypatch.setattr(office.panel.ledger, "resolve", full)
    got = await office.resolve(effect_id, "confirmed")

    assert (got.status, got.problem) == (503, "ledger-unavailable")
    assert int(got.headers["Retry-After"]) > 0
    assert (await office.effect(effect_id))["outcome"] == "unknown"
