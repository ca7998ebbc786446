"""Waiting for another's result, and for an older leader's write to the same thing."""

from __future__ import annotations

import asyncio

import pytest

from gateway.proxy.answer import Answer
from tests.house import Got, House
from tests.proxy.provoking import until_shut_out
from tests.proxy.setting import OpenHouse, destination, effects, held
from tests.raw_destination import Behaviour, RawDestination, answer, rst, silent

PATIENT = "{timeout: 5s, settle: 1s, barrier_wait: 4s}"


class Waiting:
    """Counts who waits for an attempt to end."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self._count = 0
        self._more = asyncio.Condition()
        self._wait = house.gateway.house.inflight.wait
        monkeypatch.setattr(house.gateway.house.inflight, "wait", self._waits)

    async def _waits(self, effect_id: str, seconds: float) -> Answer | None:
        async with self._more:
            self._count += 1
            self._more.notify_all()
        return await self._wait(effect_id, seconds)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5), self._more:
            await self._more.wait_for(lambda: self._count >= count)


@pytest.fixture
def waiting(house: House, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(house, monkeypatch)


def ask_for(house: House, *, term: int = 7, path: str = "/notes", key: str = "k-1",
            **more: str) -> asyncio.Task[Got]:  # fmt: skip
    holder = f"leader-{term}#1"
    return asyncio.ensure_future(house.worker(holder, term).post(path, key, **more))


# -- for the result of the same request


@pytest.mark.parametrize(
    ("then", "status", "outcome"),
    [(answer(201, b"made"), 201, "confirmed"), (answer(422, b"no"), 422, "rejected"),
     (answer(429, b"later"), 429, "no-effect"), (rst, 423, "unknown"),
     (answer(500, b"oops"), 423, "unknown")],
    ids=["confirmed", "rejected", "no-effect", "reset", "500"],
)  # fmt: skip
async def test_who_waits_gets_the_first_one_s_result_and_sends_nothing(
    house: House, crm: RawDestination, waiting: Waiting, then: Behaviour, status: int, outcome: str
) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, then), answer(200, b"a second arrival"))
    first = ask_for(house)
    await crm.until_received(1)
    others = [ask_for(house, Prefer="wait=5") for _ in range(5)]
    await waiting.until(5)

    gate.set()
    told, *shared = [await each for each in (first, *others)]

    assert (told.status, told.headers["Fence-Outcome"]) == (status, outcome)
    for got in shared:
        assert (got.status, got.headers["Fence-Outcome"]) == (status, outcome)
        assert got.headers["Fence-Effect"] == told.headers["Fence-Effect"]
        assert got.headers["Fence-Verdict"] != "forwarded"
        if status != 423:
            assert got.body == told.body
    assert len(crm.received) == 1


async def test_a_wait_that_is_too_short_ends_in_flight(house: House, crm: RawDestination) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(201)))
    first = ask_for(house)
    await crm.until_received(1)

    second = await ask_for(house, Prefer="wait=1")
    third = await ask_for(house)
    gate.set()

    for got in (second, third):
        assert (got.status, got.problem) == (409, "in-flight")
        assert 1 <= int(got.headers["Retry-After"]) <= 5
        assert "X-Should-Retry" not in got.headers
    assert (await first).status == 201
    assert len(crm.received) == 1


async def test_the_preference_is_told_to_have_been_applied(
    house: House, crm: RawDestination, waiting: Waiting
) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(422)))
    first = ask_for(house)
    await crm.until_received(1)
    second = ask_for(house, Prefer="wait=5")
    await waiting.until(1)
    gate.set()

    assert "Preference-Applied" not in (await first).headers
    assert (await second).headers["Preference-Applied"] == "wait=5"


async def test_who_comes_too_late_for_the_result_still_sends_nothing(
    house: House, crm: RawDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one ends between the ledger's word and the wait for it."""
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(422)), answer(200, b"a second arrival"))
    inflight = house.gateway.house.inflight
    wait = inflight.wait

    async def dawdles(effect_id: str, seconds: float) -> Answer | None:
        gate.set()
        await first
        return await wait(effect_id, seconds)

    first = ask_for(house)
    await crm.until_received(1)
    monkeypatch.setattr(inflight, "wait", dawdles)

    second = await ask_for(house, Prefer="wait=5")

    assert (await first).status == 422
    assert (second.status, second.problem) == (409, "in-flight")
    assert len(crm.received) == 1


async def test_who_waits_under_a_term_that_grows_stale_gets_no_result(
    house: House, crm: RawDestination, waiting: Waiting
) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(201, b"made")))
    first = ask_for(house, term=7)
    await crm.until_received(1)
    second = ask_for(house, term=7, Prefer="wait=5")
    await waiting.until(1)
    assert (await ask_for(house, term=8, path="/other", key="k-2")).status == 200
    gate.set()

    late, waited = await first, await second

    assert (late.status, late.headers["Fence-After-Dispatch"]) == (201, "superseded")
    assert (waited.status, waited.problem) == (412, "stale-term")


async def test_a_successor_may_wait_for_its_predecessor_s_result(
    house: House, crm: RawDestination
) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(201, b"made")))
    first = ask_for(house, term=7)
    await crm.until_received(1)
    second = ask_for(house, term=8, Prefer="wait=5")
    await until_shut_out(house, 7)
    gate.set()

    assert [(await each).body for each in (first, second)] == [b"made", b"made"]
    assert len(crm.received) == 1


# -- for an older leader's write


async def test_a_newer_term_s_write_waits_for_an_older_one_to_the_same_thing(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, limits=PATIENT))
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200, b"old")), answer(200, b"new"))
    old = ask_for(house, term=7, key="k-7")
    await crm.until_received(1)

    new = ask_for(house, term=8, key="k-8")
    await until_shut_out(house, 7)  # the new term counts at once, though its write waits
    elsewhere = await ask_for(house, term=8, path="/others", key="k-9")
    assert [r.path for r in crm.received] == ["/notes", "/others"]
    gate.set()

    late, waited = await old, await new
    assert elsewhere.status == 200
    assert (late.status, late.body) == (200, b"old")
    assert late.headers["Fence-After-Dispatch"] == "superseded"
    assert late.headers["Fence-Term"] == "8"
    assert (waited.status, waited.body) == (200, b"new")
    assert "Fence-After-Dispatch" not in waited.headers
    assert [r.path for r in crm.received] == ["/notes", "/others", "/notes"]


async def test_the_wait_for_an_older_write_has_an_end(house: House, crm: RawDestination) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200)))
    old = ask_for(house, term=7, key="k-7")
    await crm.until_received(1)

    new = await ask_for(house, term=8, key="k-8")
    at_once = await ask_for(house, term=8, key="k-8", Prefer="wait=0")
    gate.set()

    for got in (new, at_once):
        assert (got.status, got.problem) == (503, "predecessor-in-flight")
        assert got.json["predecessor_effect_id"] == (await old).headers["Fence-Effect"]
    assert len(crm.received) == 1
    assert (await ask_for(house, term=8, key="k-8")).status == 200


async def test_a_caller_may_wait_longer_for_an_older_write(
    house: House, crm: RawDestination
) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200)), answer(201))
    old = ask_for(house, term=7, key="k-7")
    await crm.until_received(1)
    new = ask_for(house, term=8, key="k-8", Prefer="wait=4")  # barrier_wait is 300 ms

    gone = await ask_for(house, term=8, key="k-9")
    assert gone.problem == "predecessor-in-flight"
    gate.set()

    assert [(await each).status for each in (old, new)] == [200, 201]


async def test_a_seal_that_passes_lets_the_newer_write_go_on(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    limits = "{timeout: 300ms, settle: 300ms, barrier_wait: 4s}"
    house = await open_house(destination(crm, limits=limits))
    crm.on("/notes", silent, answer(200, b"new"))
    old = ask_for(house, term=7, key="k-7")
    await crm.until_received(1)

    new = ask_for(house, term=8, key="k-8")
    given_up = await old
    assert (given_up.status, len(crm.received)) == (423, 1)  # unknown, and not yet sealed
    went_on = await new

    assert (went_on.status, went_on.body) == (200, b"new")
    shown = {effect["key"]: effect for effect in await effects(house)}
    assert shown["k-8"]["attempts"][0]["created_at"] >= shown["k-7"]["attempts"][0]["seal_at"]


async def test_an_answer_is_enough_whatever_it_says(
    open_house: OpenHouse, crm: RawDestination
) -> None:
    house = await open_house(destination(crm, limits=PATIENT))
    crm.on("/notes", answer(422), answer(201))

    old = await ask_for(house, term=7, key="k-7")
    new = await ask_for(house, term=8, key="k-8", Prefer="wait=0")

    assert (old.status, new.status) == (422, 201)


@pytest.mark.parametrize(
    ("spelled", "waits"),
    [("/notes/1", True), ("/notes/1/", True), ("/notes/%31", True), ("/notes/1?x=2", True),
     ("/notes/2", False), ("/Notes/1", False)],
)  # fmt: skip
async def test_one_thing_has_several_spellings(
    house: House, crm: RawDestination, spelled: str, waits: bool
) -> None:
    gate = asyncio.Event()
    crm.on("/notes/1", held(gate, answer(200)))
    old = ask_for(house, term=7, path="/notes/1", key="k-7")
    await crm.until_received(1)

    new = await ask_for(house, term=8, path=spelled, key="k-8", Prefer="wait=0")
    gate.set()

    assert (new.problem == "predecessor-in-flight") is waits
    assert (await old).status == 200


async def test_covers_may_name_the_thing(open_house: OpenHouse, crm: RawDestination) -> None:
    routes = [
        '{match: "POST /notes", does: write, guard: none, covers: "contact/{body.contact}"}',
        '{match: "PUT /contacts/{id}", does: write, guard: none, covers: "contact/{id}"}',
    ]
    house = await open_house(destination(crm, *routes))
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200)))
    old = asyncio.ensure_future(house.worker("a#1", 7).post("/notes", "k-7", {"contact": 5}))
    await crm.until_received(1)
    new = house.worker("b#1", 8)

    same = await new.send("PUT", "/contacts/5", key="k-8", body={}, Prefer="wait=0")
    other = await new.send("PUT", "/contacts/6", key="k-9", body={}, Prefer="wait=0")
    gate.set()

    assert (same.problem, other.status) == ("predecessor-in-flight", 200)
    assert (await old).status == 200


async def test_the_same_term_s_writes_do_not_wait_for_each_other(
    house: House, crm: RawDestination
) -> None:
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200)), answer(200))
    slow = ask_for(house, key="k-1")
    await crm.until_received(1)

    quick = await ask_for(house, key="k-2")
    gate.set()

    assert (quick.status, (await slow).status) == (200, 200)


async def test_who_waits_holds_no_slot(open_house: OpenHouse, crm: RawDestination) -> None:
    house = await open_house(destination(crm, limits=PATIENT.replace("{", "{at_once: 2, ")))
    gate = asyncio.Event()
    crm.on("/notes", held(gate, answer(200)), answer(200))
    old = ask_for(house, term=7, key="k-7")
    await crm.until_received(1)
    waiting = [ask_for(house, term=8, key=f"k-8-{n}") for n in range(5)]
    await until_shut_out(house, 7)

    others = [await ask_for(house, term=8, path="/others", key=f"k-9-{n}") for n in range(5)]
    gate.set()

    assert [got.status for got in others] == [200] * 5
    assert [(await each).status for each in (old, *waiting)] == [200] * 6
