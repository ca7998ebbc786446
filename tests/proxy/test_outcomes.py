"""What an answer of the destination proves about a write, and what its caller is told."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.errors import LedgerUnavailable
from gateway.core.policy import DEFAULT_MEANING
from gateway.store.records import Settled, Settlement
from tests.house import Got, House
from tests.proxy.raw_caller import ask, request
from tests.proxy.setting import OpenHouse, destination, effects, eventually, raw_got
from tests.raw_destination import (
    Behaviour,
    RawDestination,
    answer,
    chunked,
    garbage,
    partial,
    raw,
    rst,
    silent,
    truncate,
)

STATUSES = [*range(200, 209), 226, 300, 301, 302, 303, 304, 305, 307, 308, *range(400, 419),
            421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504,
            507, 508, 520, 529]  # fmt: skip
ROUTE = "does: write, guard: none, result: [{}]"


def rules(*entries: str) -> str:
    return f'{{match: "POST /{{rest*}}", {ROUTE.format(", ".join(entries))}}}'


@pytest.mark.parametrize("status", STATUSES)
async def test_a_status_means_what_the_table_says(
    house: House, crm: RawDestination, status: int
) -> None:
    expected = DEFAULT_MEANING.get(status)
    outcome = expected.value if expected else "unknown"
    body = b"" if status in (204, 304) else b"said"
    crm.on("/x", answer(status, body, [("X-Own", "1")]))

    got = await ask(house.gateway.port, request("POST", "/d/crm/x", body=b"{}", key="k-1"))

    assert got.value("Fence-Outcome") == outcome
    assert [(e["outcome"], e["attempts"][0]["status"]) for e in await effects(house)] == [
        (outcome, status)
    ]
    relayed = outcome != "unknown" or 300 <= status < 400
    assert got.status == (status if relayed else 423)
    assert (got.value("X-Own"), got.body == body) == (("1", True) if relayed else (None, False))


def test_the_table_is_the_contract_s() -> None:
    said = {status for status in range(600) if status in DEFAULT_MEANING}

    assert said >= {200, 299, 303, 307, 308, 400, 401, 404, 409, 422, 429, 451}
    assert not said & {100, 301, 302, 304, 408, 500, 502, 503, 504, 599}


async def test_a_server_s_error_is_evidence_and_not_the_answer(
    house: House, crm: RawDestination
) -> None:
    crm.on("/notes", answer(500, b"stack trace " + b"x" * 5000, [("Retry-After", "1")]))

    got = await house.worker().post("/notes", "k-1")

    assert (got.status, got.problem) == (423, "outcome-unknown")
    assert got.headers["Fence-Verdict"] == "forwarded; reason=outcome-unknown"
    assert (got.json["effect"], got.json["safe_to_retry_same_key"]) == ("unknown", False)
    assert (got.json["destination_status"], got.json["reason"]) == (500, "status-500")
    assert got.json["excerpt"].startswith("stack trace xx")
    assert len(got.json["excerpt"]) == 2048
    assert "Retry-After" not in got.headers
    assert got.json["effect_id"] == got.headers["Fence-Effect"]


NO_ANSWER: dict[str, tuple[Behaviour, str]] = {
    "reset": (rst, "reset"),
    "half-a-head": (partial, "closed-without-answer"),
    "garbage": (garbage, "unreadable-answer"),
    "status-99": (raw(b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"), ""),
    "status-999": (raw(b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"), "bad-status"),
    "two-lengths": (
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "unreadable-answer",
    ),
}


@pytest.mark.parametrize("name", NO_ANSWER)
async def test_without_a_readable_answer_it_is_unknown(
    house: House, crm: RawDestination, name: str
) -> None:
    behaviour, reason = NO_ANSWER[name]
    crm.on("/notes", behaviour)

    got = await house.worker().post("/notes", "k-1")

    assert (got.status, got.problem) == (423, "outcome-unknown")
    assert got.json["reason"] == reason or not reason
    assert "destination_status" not in got.json
    assert len(crm.received) == 1


async def test_at_the_deadline_it_is_unknown_and_the_connection_is_reset(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, limits="{timeout: 300ms}"))
    crm.on("/notes", silent)

    got = await house.worker().post("/notes", "k-1")

    assert (got.status, got.json["reason"]) == (423, "deadline")
    assert await crm.how_it_ended(0) == "rst"


@pytest.mark.parametrize(
    "behaviour",
    [truncate(200, b"half", 100), truncate(200, b"half", 100, by_reset=True),
     chunked(b"half", end=b"")],
)  # fmt: skip
async def test_a_cut_success_is_confirmed_and_its_caller_s_connection_cut(
    house: House, crm: RawDestination, behaviour: Behaviour
) -> None:
    crm.on("/notes", behaviour, answer(200, b"again"))
    data = request("POST", "/d/crm/notes", body=b"{}", key="k-1")

    first = await ask(house.gateway.port, data)
    again = await raw_got(house, data)

    assert (first.status, first.complete) in ((200, False), (0, False))
    assert (await effects(house))[0]["outcome"] == "confirmed"
    assert (again.status, again.problem) == (409, "result-unavailable")
    assert (again.json["answer"], again.json["destination_status"]) == ("incomplete", 200)
    assert len(crm.received) == 1


async def test_a_corrected_request_goes_on_under_its_key(house: House, crm: RawDestination) -> None:
    crm.on("/notes", answer(422, b'{"missing":"name"}'), answer(201, b"made"))

    first = await house.worker().post("/notes", "k-1", {})
    second = await house.worker().post("/notes", "k-1", {"name": "n"})
    again = await house.worker().post("/notes", "k-1", {"name": "n"})
    old = await house.worker().post("/notes", "k-1", {})

    assert [got.status for got in (first, second, again, old)] == [422, 201, 201, 422]
    assert (first.headers["Fence-Outcome"], first.body) == ("rejected", b'{"missing":"name"}')
    assert (again.headers["Fence-Verdict"], old.problem) == ("replayed", "key-reused")
    effect = (await effects(house))[0]
    assert [attempt["outcome"] for attempt in effect["attempts"]] == ["rejected", "confirmed"]
    assert first.headers["Fence-Effect"] == second.headers["Fence-Effect"] == effect["id"]
    assert len(crm.received) == 2


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_the_same_request_goes_on_after_no_effect(
    house: House, crm: RawDestination, status: int
) -> None:
    crm.on("/notes", answer(status, b"later", [("Retry-After", "3")]), answer(201))

    first = await house.worker().post("/notes", "k-1")
    second = await house.worker().post("/notes", "k-1")

    assert (first.status, first.headers["Retry-After"]) == (status, "3")
    assert first.headers["Fence-Outcome"] == "no-effect"
    assert (second.status, second.headers["Fence-Outcome"]) == (201, "confirmed")
    assert len(crm.received) == 2


async def test_no_effect_is_not_counted_as_an_attempt_too_many(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, limits="{max_attempts: 1}"))
    crm.on("/notes", answer(429), answer(429), answer(429), answer(422))

    statuses = [(await house.worker().post("/notes", "k-1")).status for _ in range(5)]

    assert statuses == [429, 429, 429, 422, 409]
    assert len(crm.received) == 4


async def test_a_503_has_no_effect_only_where_the_route_says_so(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    rule = "{when: {status: 503, header: {Retry-After: {present: true}}}, is: no-effect, note: why}"
    house = await open_house(destination(
        crm,
        rules(rule, "{when: {status: 200}, is: confirmed}").replace("/{rest*}", "/ruled"),
        '{match: "POST /plain", does: write, guard: none}',
    ))  # fmt: skip
    busy = answer(503, b"busy", [("Retry-After", "9")])
    crm.on("/ruled", busy, answer(200))
    crm.on("/plain", busy)

    ruled = await house.worker().post("/ruled", "k-1")
    again = await house.worker().post("/ruled", "k-1")
    plain = await house.worker().post("/plain", "k-2")

    assert (ruled.status, ruled.headers["Fence-Outcome"]) == (503, "no-effect")
    assert (ruled.headers["Retry-After"], again.status) == ("9", 200)
    assert (plain.status, plain.headers["Fence-Outcome"]) == (423, "unknown")


RULED: list[tuple[str, Behaviour, str]] = [
    ("{when: {json: {ok: true}}, is: confirmed}", answer(200, b'{"ok":true}'), "confirmed"),
    ("{when: {json: {ok: false}}, is: rejected}", answer(200, b'{"ok":false}'), "rejected"),
    ("{when: {json: {ok: true}}, is: confirmed}", answer(200, b'{"ok":1}'), "unknown"),
    ("{when: {json: {ok: true}}, is: confirmed}", answer(200, b"no json"), "unknown"),
    ("{when: {header: {X-Done: [a, b]}}, is: confirmed, note: why}",
     answer(500, b"", [("x-done", "b")]),
     "confirmed"),
    ("{when: {header: {X-Done: a}}, is: confirmed, note: why}", answer(409), "rejected"),
    ('{when: {json: {name: {present: true}}, same: {name: "{body.name}"}}, is: confirmed}',
     answer(409, b'{"name":"ours"}'), "confirmed"),
    ('{when: {same: {name: "{body.name}"}}, is: confirmed}', answer(409, b'{"name":"x"}'),
     "rejected"),
    ("{when: {status: 404}, is: confirmed, note: why}", answer(404), "confirmed"),
    ("{when: {status: 404}, is: confirmed-if-tried-before}", answer(404), "rejected"),
    ("{when: {status: 200}, is: unknown}", answer(200), "unknown"),
    ("{when: {status: 200, json: {ok: true}}, is: confirmed}", truncate(200, b'{"ok":true}', 99),
     "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "behaviour", "outcome"), RULED)
async def test_a_rule_says_what_an_answer_means(
    open_house: OpenHouse, crm: RawDestination, rule: str, behaviour: Behaviour, outcome: str
) -> None:
    house = await open_house(destination(crm, rules(rule)))
    crm.on("/notes", behaviour)

    got = await house.worker().post("/notes", "k-1", {"name": "ours"})

    assert got.headers["Fence-Outcome"] == outcome
    assert (got.status == 423) is (outcome == "unknown")
    assert (await effects(house))[0]["outcome"] == outcome


async def test_an_answer_to_be_looked_into_is_unknown(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    route = (
        '{match: "POST /notes", does: write, guard: look_first, note: marked, '
        'result: [{when: {status: 409}, is: look}], look: {request: "GET /notes?m={effect}", '
        "settle: 5s, found: {status: 200}, missing: {status: 404}}}"
    )
    house = await open_house(destination(crm, route))
    crm.on("/notes", answer(409, b"there already"))

    got = await house.worker().post("/notes", "k-1")

    assert (got.status, got.json["destination_status"]) == (423, 409)
    assert [r.method for r in crm.received] == ["POST"]


async def test_where_the_policy_reads_the_answer_it_is_asked_for_uncoded(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, rules("{when: {json: {ok: true}}, is: confirmed}")))
    crm.on("/notes", answer(200, b'{"ok":true}'))

    await house.worker().post("/notes", "k-1", Accept_Encoding="gzip, br")

    assert crm.received[0].header("Accept-Encoding") == "identity"


async def test_what_a_rule_takes_is_kept(open_house: OpenHouse, crm: RawDestination) -> None:
    rule = "{when: {status: 201}, is: confirmed, take: {id: data.id, none: data.none}}"
    house = await open_house(destination(crm, rules(rule)))
    crm.on("/notes", answer(201, b'{"data":{"id":"n-7"}}'))

    await house.worker().post("/notes", "k-1")

    assert (await effects(house))[0]["resource"] == {"id": "n-7"}


async def test_an_alarm_is_raised(
    open_house: OpenHouse, crm: RawDestination, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "{when: {status: 400}, is: rejected, alarm: true}"
    house = await open_house(destination(crm, rules(rule)))
    crm.on("/notes", answer(400))

    got = await house.worker().post("/notes", "k-1")

    lines = [line for line in capsys.readouterr().out.splitlines() if '"alarm"' in line]
    assert len(lines) == 1
    assert got.headers["Fence-Effect"] in lines[0]


async def test_slowing_down_has_no_effect_on_any_route(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    slow = "[{when: {status: 500, json: {error: [ratelimited]}}}]"
    house = await open_house(destination(crm, slow_down=slow))
    crm.on("/notes", answer(500, b'{"error":"ratelimited"}'), answer(200))

    first = await house.worker().post("/notes", "k-1")
    second = await house.worker().post("/notes", "k-1")

    assert (first.status, first.headers["Fence-Outcome"]) == (500, "no-effect")
    assert (second.status, second.headers["Fence-Outcome"]) == (200, "confirmed")


async def test_an_outcome_that_cannot_be_written_is_told_and_written_later(
    house: House, crm: RawDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = house.gateway.house.ledger
    settle, well = ledger.settle, asyncio.Event()

    async def is_full(settlement: Settlement) -> Settled:
        if not well.is_set():
            raise LedgerUnavailable("the disk is full")
        return await settle(settlement)

    monkeypatch.setattr(ledger, "settle", is_full)
    got = await house.worker().post("/notes", "k-1")
    unready = await house.get("/readyz")
    again = await house.worker().post("/notes", "k-1")
    well.set()

    assert (got.status, got.headers["Fence-Ledger"]) == (200, "degraded")
    assert unready.status == 503
    assert again.problem == "in-flight"

    async def ready() -> bool:
        return (await house.get("/readyz")).status == 200

    await eventually(ready)
    replay: Got = await house.worker().post("/notes", "k-1")
    assert replay.headers["Fence-Verdict"] == "replayed"
    assert len(crm.received) == 1
