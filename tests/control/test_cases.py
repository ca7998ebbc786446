"""`/v1/exceptions`: what waits for a person, who may decide, and what a decision does."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.control.asked import looking_office
from tests.control.office import SEAL_S, Office, said_by
from tests.control.test_keepers import lines
from tests.control.test_metrics import scraped
from tests.house import FUNCTION, Got
from tests.proxy.setting import destination, eventually, principals
from tests.raw_destination import answer

SENT = {"Fence_Authorization": "Bearer fg_ana"}
PEOPLE = {
    "ana": "", "vera": "role: viewer", "olga": "role: operator", "otto": "role: operator",
    "sweeper": 'role: operator; functions: ["varredura"]',
    "erp": 'role: operator; destinations: ["erp"]',
}  # fmt: skip


@pytest.fixture
async def guarded_office(open_office: Any, tmp_path: Path) -> Office:
    office: Office = await open_office(principals=principals(tmp_path, **PEOPLE))
    return office


async def act(office: Office, case: dict[str, Any], action: str, by: str = "", **more: Any) -> Got:
    body = {"reason": "looked it up", "version": case["version"]} | more
    headers = said_by(by) if by else {}
    return await office.house.post(f"/v1/exceptions/{case['id']}/{action}", body, **headers)


async def waiting(office: Office, by: str) -> dict[str, Any]:
    """Wait for the one exception that there is."""

    async def listed() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (
            await office.house.get("/v1/exceptions", **said_by(by))
        ).json["items"]
        return items

    async def there() -> bool:
        return bool(await listed())

    await eventually(there)
    (case,) = await listed()
    return case


def decisions(folder: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(f"{(folder / 'ledger.db').as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(
            "SELECT principal, reason FROM transition WHERE kind = 'exception-decided'"
        ).fetchall()


async def test_an_effect_that_nobody_can_settle_waits_for_a_person(office: Office) -> None:
    effect_id = await office.unknown("k-1")
    case = await office.exception(effect_id)

    assert (case["state"], case["reason"], case["effect_id"]) == ("open", "no-guard", effect_id)
    assert (case["function"], case["destination"], case["term"]) == ("relatorio", "crm", 7)
    assert (case["owner"], case["overdue"], case["version"]) == ("ops-comercial", False, 1)
    assert "Nobody knows whether POST /k-1 took effect at crm" in case["detail"]
    assert case["allowed_actions"] == ["confirm", "not-applied", "abandon", "assign", "extend"]
    effect = await office.effect(effect_id)
    assert (effect["state"], effect["outcome"]) == ("exception", "unknown")
    assert case["seal_at"] == effect["attempts"][0]["seal_at"]
    (item,) = (await office.house.get("/v1/exceptions")).json["items"]
    assert item == case | {"evidence": None, "seal_at": None, "age_s": item["age_s"]}


async def test_the_evidence_is_the_request_by_its_digest_and_what_was_answered(
    office: Office,
) -> None:
    got = await office.send("k-1", answer(502, b"upstream said: no route"))

    case = await office.exception(got.headers["Fence-Effect"])

    evidence = case["evidence"]
    request = evidence["opened_on"]["request"]
    assert (request["method"], request["target"]) == ("POST", "/k-1")
    assert len(bytes.fromhex(request["fingerprint"])) == 32
    (said,) = evidence["answers"]
    assert (said["n"], said["status"], said["excerpt"]) == (1, 502, "upstream said: no route")
    assert evidence["probes"] == []


async def test_what_the_destination_was_asked_is_evidence_too(open_office: Any) -> None:
    office = await looking_office(open_office)

    case = await office.exception(await office.unknown("k-1"))

    assert case["reason"] == "several-matches"
    assert case["allowed_actions"][0] == "probe-again"
    (probe,) = case["evidence"]["probes"]
    assert (probe["n"], probe["verdict"], probe["status"]) == (1, "many", 200)
    assert probe["ended_at"] >= probe["started_at"]


async def test_of_two_operators_at_once_one_decides_and_the_other_is_told(
    guarded_office: Office, tmp_path: Path
) -> None:
    office = guarded_office
    await office.send("k-1", answer(500), **SENT)
    case = await waiting(office, "olga")

    answers = await asyncio.gather(
        act(office, case, "confirm", "olga", reason="note 5 is there"),
        act(office, case, "confirm", "otto", reason="note 5 is there"),
    )

    won, lost = sorted(answers, key=lambda got: got.status)
    assert (won.status, lost.status, lost.problem) == (200, 409, "version-conflict")
    winner = won.json["closed_by"]
    assert winner in ("olga", "otto")
    assert (lost.json["closed_by"], lost.json["decision"]) == (winner, "confirm")
    assert lost.json["version"] == won.json["version"] == 2
    assert f"{winner} has closed the exception" in lost.json["detail"]
    assert lost.headers["X-Should-Retry"] == "false"
    assert decisions(tmp_path) == [(winner, "note 5 is there")]


@pytest.mark.parametrize(
    ("by", "status", "problem"),
    [
        ("vera", 403, "forbidden"), ("ana", 403, "forbidden"), ("nobody", 401, "unauthenticated"),
        ("sweeper", 404, "not-found"), ("erp", 404, "not-found"), ("olga", 200, None),
    ],
)  # fmt: skip
async def test_only_an_operator_of_function_and_destination_decides(
    guarded_office: Office, tmp_path: Path, by: str, status: int, problem: str | None
) -> None:
    office = guarded_office
    await office.send("k-1", answer(500), **SENT)
    case = await waiting(office, "vera")

    got = await act(office, case, "confirm", by)

    assert (got.status, got.problem) == (status, problem)
    assert bool(decisions(tmp_path)) is (status == 200)


@pytest.mark.parametrize("by", ["sweeper", "erp"])
async def test_an_exception_that_one_may_not_see_looks_as_if_it_were_not_there(
    guarded_office: Office, by: str
) -> None:
    office = guarded_office
    await office.send("k-1", answer(500), **SENT)
    case = await waiting(office, "vera")

    listed = await office.house.get("/v1/exceptions", **said_by(by))
    shown = await office.house.get(f"/v1/exceptions/{case['id']}", **said_by(by))

    assert listed.json == {"items": [], "next": None}
    assert (shown.status, shown.problem) == (404, "not-found")


@pytest.mark.parametrize("action", ["not-applied", "abandon"])
async def test_before_the_seal_it_cannot_be_ruled_out(office: Office, action: str) -> None:
    case = await office.exception(await office.unknown())

    got = await act(office, case, action)

    assert (got.status, got.problem) == (409, "too-early")
    assert got.json["seal_at"] == case["seal_at"]
    assert case["seal_at"] in got.json["detail"]
    assert (await office.exception(case["effect_id"]))["version"] == 1


@pytest.mark.parametrize(
    ("action", "status", "problem"),
    [
        ("confirm", 409, "result-unavailable"),
        ("not-applied", 201, None),
        ("abandon", 409, "effect-abandoned"),
    ],
)
async def test_a_decision_closes_it_and_says_what_becomes_of_the_key(
    office: Office, action: str, status: int, problem: str | None
) -> None:
    case = await office.exception(await office.unknown("k-1"))
    office.clock.advance(seconds=SEAL_S + 0.001)

    got = await act(office, case, action)

    assert got.status == 200
    assert (got.json["state"], got.json["decision"]) == ("closed", action)
    assert (got.json["closed_by"], got.json["allowed_actions"]) == ("dev", [])
    assert (await office.effect(case["effect_id"]))["state"] == "settled"
    again = await office.send("k-1", answer(201, b"{}"))
    assert (again.status, again.problem) == (status, problem)
    closed = (await office.house.get("/v1/exceptions?closed=true")).json["items"]
    assert [item["id"] for item in closed] == [case["id"]]
    assert (await office.house.get("/v1/exceptions")).json["items"] == []


async def test_what_no_question_can_settle_is_not_probed_again(office: Office) -> None:
    case = await office.exception(await office.unknown())

    got = await act(office, case, "probe-again")

    assert (got.status, got.problem) == (400, "malformed")
    assert got.json["allowed_actions"] == case["allowed_actions"]


async def test_probing_again_gives_it_back_to_the_gateway(open_office: Any) -> None:
    office = await looking_office(open_office)
    case = await office.exception(await office.unknown())

    got = await act(office, case, "probe-again")
    assert (got.status, got.json["decision"]) == (200, "probe-again")

    async def another() -> bool:
        return (await office.effect(case["effect_id"]))["exception_id"] not in (None, case["id"])

    await eventually(another)  # it is found twice again, so a person is asked again


async def test_it_may_be_assigned_and_given_more_time(office: Office) -> None:
    case = await office.exception(await office.unknown())

    assigned = (await act(office, case, "assign", owner="Inês, plantão")).json
    stale = await act(office, case, "extend", deadline="2h")
    extended = (await act(office, assigned, "extend", deadline="2d")).json

    assert (stale.status, stale.problem, stale.json["version"]) == (409, "version-conflict", 2)
    assert "you decided on version 1, and it is at 2" in stale.json["detail"]
    assert (extended["owner"], extended["acknowledged_by"]) == ("Inês, plantão", "dev")
    assert (extended["state"], extended["version"]) == ("open", 3)
    assert extended["deadline_at"] > case["deadline_at"]


@pytest.mark.parametrize(
    ("action", "body", "named"),
    [
        ("confirm", {"version": 1}, "reason: "),
        ("confirm", {"reason": " ", "version": 1}, "reason is"),
        ("confirm", {"reason": "seen"}, "version: "),
        ("confirm", {"reason": "seen", "version": "1"}, "version is '1'"),
        ("confirm", {"reason": "seen", "version": 1, "owner": "bo"}, "owner is for assign"),
        ("assign", {"reason": "seen", "version": 1}, "assign needs owner"),
        ("assign", {"reason": "seen", "version": 1, "owner": "a\x1b[2J"}, "owner is"),
        ("extend", {"reason": "seen", "version": 1}, "extend needs deadline"),
        ("extend", {"reason": "seen", "version": 1, "deadline": "4"}, "'4' is not a duration"),
        ("extend", {"reason": "seen", "version": 1, "deadline": "0s"}, "not between"),
        ("extend", {"reason": "seen", "version": 1, "deadline": "999d"}, "not between"),
        ("abandon", {"reason": "seen", "version": 1, "force": True}, "force is 'True'"),
    ],
)
async def test_what_is_not_understood_decides_nothing(
    office: Office, action: str, body: dict[str, Any], named: str
) -> None:
    case = await office.exception(await office.unknown())

    got = await office.house.post(f"/v1/exceptions/{case['id']}/{action}", body)

    assert (got.status, got.problem) == (400, "malformed")
    assert named in got.json["detail"]
    assert (await office.exception(case["effect_id"]))["version"] == 1


@pytest.mark.parametrize(
    ("query", "named"),
    [("closed=yes", "'yes'"), ("cursor=x", "'x'"), ("limit=0", "'0'"), ("owner=bo", "'owner'")],
)
async def test_a_filter_that_is_not_understood_is_named(
    office: Office, query: str, named: str
) -> None:
    got = await office.house.get(f"/v1/exceptions?{query}")

    assert (got.status, got.problem) == (400, "malformed")
    assert named in got.json["detail"]


async def test_pages_are_by_age_and_follow_one_another(office: Office) -> None:
    for n in range(5):
        await office.exception(
            await office.unknown(f"k-{n}", function=("relatorio", "varredura")[n % 2])
        )
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = (await office.house.get(f"/v1/exceptions?limit=2{cursor}")).json
        seen += [item["detail"].split()[4] for item in page["items"]]
        cursor = f"&cursor={page['next']}" if page["next"] else None

    assert seen == [f"/k-{n}" for n in range(5)]
    only = (await office.house.get("/v1/exceptions?function=varredura")).json["items"]
    assert {item["function"] for item in only} == {"varredura"}


async def test_resolving_the_effect_closes_its_exception(office: Office) -> None:
    case = await office.exception(await office.unknown())

    got = await office.resolve(case["effect_id"], "confirmed")

    assert (got.json["state"], got.json["exception_id"]) == ("settled", None)
    now = (await office.house.get(f"/v1/exceptions/{case['id']}")).json
    assert (now["state"], now["closed_by"]) == ("closed", "dev")
    assert now["decision"] == "settled: confirmed"


async def test_what_is_rejected_too_often_waits_for_a_person(open_office: Any) -> None:
    limits = "{timeout: 5s, connect: 2s, settle: 1s, max_attempts: 2}"
    office: Office = await open_office(
        lambda crm: {"crm": destination(crm, limits=limits), "relatorio": FUNCTION}
    )
    for _ in range(2):
        rejected = await office.send("k-1", answer(422))
    refused = await office.send("k-1", answer(422))
    await office.send("k-1", answer(422))

    case = await office.exception(rejected.headers["Fence-Effect"])

    assert refused.problem == "attempts-exhausted"
    assert (case["reason"], case["owner"]) == ("attempts-exhausted", "ops-comercial")
    assert "crm has rejected POST /k-1 2 times" in case["detail"]
    assert case["allowed_actions"] == ["assign", "extend"]
    no = await act(office, case, "confirm")
    assert (no.status, no.problem) == (400, "malformed")
    assert no.json["allowed_actions"] == ["assign", "extend"]
    assert (await act(office, case, "extend", deadline="1h")).json["state"] == "closed"
    assert (await office.send("k-1", answer(201, b"{}"))).status == 201
    assert len((await office.house.get("/v1/exceptions?closed=true")).json["items"]) == 1


async def test_what_is_overdue_escalates_once(open_office: Any, capfdbinary: Any) -> None:
    office: Office = await open_office(log_level="warning")
    case = await office.exception(await office.unknown())
    office.clock.advance(seconds=4 * 3600)

    async def escalated() -> bool:
        return (await office.exception(case["effect_id"]))["escalated_at"] is not None

    await eventually(escalated)
    await eventually(lambda: counted(office, "exceptions_overdue", 1))
    await eventually(lambda: counted(office, "alerts_waiting", 0))
    await asyncio.sleep(0)

    now = await office.exception(case["effect_id"])
    assert (now["overdue"], now["version"]) == (True, case["version"])
    told = lines(capfdbinary.readouterr().out, "alert")
    assert [line["kind"] for line in told] == ["exception-opened", "exception-overdue"]
    late = told[1]
    assert (late["level"], late["responsible"]) == ("error", "ops-comercial")
    assert late["text"].startswith("An exception of relatorio is overdue: ops-comercial has not")
    assert "Until somebody decides it is not repeated" in late["text"]
    assert late["next_action"] == "decide it, extend it, or assign it"
    assert (late["exception_id"], late["effect_id"]) == (case["id"], case["effect_id"])


async def counted(office: Office, name: str, value: float, **labels: str) -> bool:
    found = [
        number
        for known, said, number in await scraped(office)
        if known == name and labels.items() <= said.items()
    ]
    return sum(found) == value


async def test_exceptions_are_counted_by_reason(office: Office) -> None:
    await office.exception(await office.unknown("k-1"))
    await office.exception(await office.unknown("k-2"))
    office.clock.advance(seconds=90)

    await eventually(lambda: counted(office, "exceptions_open", 2, reason="no-guard"))
    await eventually(lambda: counted(office, "exceptions_oldest_age_seconds", 90.001))
    assert await counted(office, "exceptions_open", 2)


async def test_no_query_string_gets_into_what_is_told(office: Office) -> None:
    office.crm.on("/k-1", answer(500))
    worker = office.worker("crm", "relatorio", 7)
    got = await worker.post("/k-1?token=hush", "k-1")

    case = await office.exception(got.headers["Fence-Effect"])

    assert "hush" not in case["detail"]
