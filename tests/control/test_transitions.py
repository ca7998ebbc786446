"""`GET /v1/transitions`: pages, and a stream of events that can be taken up again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.control import transitions
from gateway.wire.leadership import TransitionOut, TransitionPage
from tests.control.leading import Leader, policies_with_leases
from tests.control.office import Office, said_by
from tests.proxy.setting import eventually, principals

PATIENCE_S = 5.0


class Stream:
    """An open stream of events."""

    def __init__(self, got: aiohttp.ClientResponse) -> None:
        self.got = got

    async def block(self) -> list[str]:
        """The lines up to the next empty one; none at the end of the stream."""
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while line := await self.got.content.readline():
                if line == b"\n":
                    break
                lines.append(line.decode().removesuffix("\n"))
        return lines

    async def event(self) -> dict[str, Any]:
        """The next event's data, its other fields checked against it."""
        while True:
            lines = await self.block()
            fields = dict(line.split(": ", 1) for line in lines)
            if "data" in fields:
                break
            assert lines, "the stream has ended"
        data: dict[str, Any] = json.loads(fields["data"])
        TransitionOut.model_validate(data)
        assert (fields["id"], fields["event"]) == (str(data["id"]), data["kind"])
        return data


@asynccontextmanager
async def streaming(office: Office, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    given = {"Accept": "text/event-stream"} | {n.replace("_", "-"): v for n, v in headers.items()}
    async with office.house.session.get(
        f"{office.house.url}/v1/transitions{query}", headers=given
    ) as got:
        assert got.status == 200, await got.read()
        yield Stream(got)


async def journal(office: Office, query: str = "", by: str = "") -> list[dict[str, Any]]:
    headers = said_by(by) if by else {}
    got = await office.house.get(f"/v1/transitions{query}", **headers)
    assert got.status == 200, got.body
    items: list[dict[str, Any]] = got.json["items"]
    return items


async def fill(office: Office, count: int = 3) -> None:
    """Grants and releases of two functions."""
    for n in range(count):
        for function in ("ronda", "plantao"):
            leader = Leader(office, f"ana#{n}", function)
            await leader.acquire(candidate={"version": "2026.10"})
            await leader.named("release")
            await leader.withdraw()


async def test_pages_follow_one_another_oldest_first(leased: Office) -> None:
    await fill(leased)
    whole = await journal(leased)

    seen: list[dict[str, Any]] = []
    after = ""
    while True:
        got = await leased.house.get(f"/v1/transitions?limit=4{after}")
        page = TransitionPage.model_validate(got.json)
        seen += got.json["items"]
        if page.next is None:
            break
        after = f"&after={page.next}"

    assert seen == whole
    assert [item["id"] for item in whole] == sorted(item["id"] for item in whole)
    assert {"leader-acquired", "leader-lost", "candidate"} <= {item["kind"] for item in whole}


async def test_a_transition_says_what_follows_from_it(leased: Office) -> None:
    await leased.send("k-0")
    await Leader(leased).acquire()
    await leased.unknown(function="ronda", term=1)
    leased.clock.advance(seconds=20)

    async def lost() -> bool:
        return "leader-lost" in {item["kind"] for item in await journal(leased)}

    await eventually(lost)
    (item,) = [item for item in await journal(leased) if item["kind"] == "leader-lost"]
    assert (item["function"], item["unit"], item["term"]) == ("ronda", None, 1)
    assert (item["holder"], item["reason"], item["uncertain_effects"]) == ("ana#1", "expired", 1)
    assert "eligible candidate" in item["next_action"]


@pytest.mark.parametrize(
    ("query", "functions"),
    [("?function=ronda", {"ronda"}), ("?function=nobody", set()), ("?unit=u-1", {"carteira"})],
)
async def test_filters_find_what_they_say(leased: Office, query: str, functions: set[str]) -> None:
    await fill(leased, 1)
    await Leader(leased, function="carteira", unit="u-1").acquire()

    assert {item["function"] for item in await journal(leased, query)} == functions


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?after=x", "'x'"),
        ("?after=-1", "'-1'"),
        ("?limit=0", "'0'"),
        ("?limit=501", "'501'"),
        ("?kind=x", "'kind'"),
        ("?after=1&after=2", "2 times"),
    ],
)
async def test_a_filter_that_means_nothing_is_malformed(
    leased: Office, query: str, said: str
) -> None:
    for accept in ("application/json", "text/event-stream"):
        got = await leased.house.get(f"/v1/transitions{query}", Accept=accept)
        assert (got.status, got.problem) == (400, "malformed")
        assert said in got.json["detail"]


async def test_a_stream_begins_now_and_follows_every_commit(leased: Office) -> None:
    await fill(leased, 1)
    async with streaming(leased) as stream:
        assert stream.got.content_type == "text/event-stream"
        assert stream.got.headers["X-Accel-Buffering"] == "no"
        assert stream.got.headers["Cache-Control"] == "no-store"
        assert stream.got.headers["Fence-Request-Id"]
        assert await stream.block() == ["retry: 2000"]
        ana = Leader(leased, function="carteira", unit="u-1")

        await ana.acquire()
        await ana.named("release")

        told = [await stream.event() for _ in range(3)]
        assert [each["kind"] for each in told] == ["candidate", "leader-acquired", "leader-lost"]
        assert told[1]["unit"] == "u-1"
    assert told == (await journal(leased))[-3:]


@pytest.mark.parametrize("how", ["header", "query", "both"])
async def test_a_stream_is_taken_up_behind_the_last_event(leased: Office, how: str) -> None:
    await fill(leased)
    whole = await journal(leased)
    at = str(whole[4]["id"])
    query = {"header": "", "query": f"?after={at}", "both": "?after=0"}[how]
    headers = {} if how == "query" else {"Last_Event_ID": at}

    async with streaming(leased, query, **headers) as stream:
        told = [await stream.event() for _ in whole[5:]]

    assert told == whole[5:]


async def test_more_than_a_page_is_sent_without_waiting(leased: Office) -> None:
    await fill(leased, 20)
    whole = await journal(leased, "?limit=500")
    assert len(whole) > 100

    async with streaming(leased, "?after=0") as stream:
        assert [await stream.event() for _ in whole] == whole


async def test_silence_is_broken_by_a_sign_of_life(
    leased: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "HEARTBEAT_S", 0.05)
    async with streaming(leased) as stream:
        assert await stream.block() == ["retry: 2000"]
        assert await stream.block() == [": still here"]
        assert await stream.block() == [": still here"]


async def test_a_stream_ends_in_order_when_the_gateway_stops(leased: Office) -> None:
    async with streaming(leased) as stream:
        await stream.block()
        await leased.house.gateway.drain(asyncio.Event())
        assert await stream.block() == []
        assert stream.got.content.at_eof()
    got = await leased.house.get("/v1/transitions", Accept="text/event-stream")
    assert got.problem == "draining"


async def test_a_listener_that_leaves_is_forgotten(leased: Office) -> None:
    bell = leased.panel.ledger.bell
    before = len(bell._of_all)
    async with streaming(leased) as stream:
        await stream.block()
        assert len(bell._of_all) >= 1

    async def gone() -> bool:
        return len(bell._of_all) <= max(before, 1)

    await eventually(gone)


async def test_a_fault_in_a_stream_cuts_it_and_is_told(
    leased: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with streaming(leased) as stream:
        await stream.block()

        def burst(*_: object) -> None:
            raise RuntimeError("nobody foresaw this")

        monkeypatch.setattr(transitions, "event", burst)
        await Leader(leased).acquire()
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.block()
    assert (await leased.house.get("/livez")).status == 200


PEOPLE = {
    "everything": "",
    "ana": 'functions: ["ronda"]',
    "erp": 'role: viewer; destinations: ["erp"]',
    "nothing": "role: viewer; functions: []",
}


@pytest.fixture
async def guarded(open_office: Any, tmp_path: Path) -> Office:
    people = principals(tmp_path, **PEOPLE)
    office: Office = await open_office(policies_with_leases, principals=people)
    return office


async def test_a_principal_is_shown_its_functions_and_destinations(guarded: Office) -> None:
    for function in ("ronda", "carteira"):
        unit = "u-1" if function == "carteira" else None
        await Leader(guarded, "a#1", function, unit, by="everything").acquire()

    whole = await journal(guarded, by="everything")
    by_ana = await journal(guarded, by="ana")

    assert {"ronda", "carteira"} <= {item["function"] for item in whole}
    assert {item["function"] for item in by_ana} == {"ronda"}
    assert await journal(guarded, by="nothing") == []
    mine = {"Fence_Authorization": "Bearer fg_ana"}
    async with streaming(guarded, "?after=0", **mine) as stream:
        assert [await stream.event() for _ in by_ana] == by_ana


async def test_effects_at_other_destinations_are_not_shown(
    open_office: Any, tmp_path: Path
) -> None:
    people = principals(tmp_path, **PEOPLE, olga="role: operator")
    office: Office = await open_office(policies_with_leases, principals=people)
    sent = {"Fence_Authorization": "Bearer fg_everything"}
    ids = {d: await office.unknown(f"k-{d}", destination=d, **sent) for d in ("crm", "erp")}
    for effect_id in ids.values():
        assert (await office.resolve(effect_id, "confirmed", by="olga")).status == 200

    resolved = {
        by: [i["effect_id"] for i in await journal(office, by=by) if i["effect_id"] is not None]
        for by in ("everything", "erp")
    }

    assert resolved == {"everything": [ids["crm"], ids["erp"]], "erp": [ids["erp"]]}


async def test_a_stream_ends_when_rights_are_taken_away(
    guarded: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {"Fence_Authorization": "Bearer fg_ana"}
    async with streaming(guarded, **mine) as stream:
        await stream.block()
        guarded.house.gateway.house.authenticator.replace({})
        guarded.panel.ledger.bell.ring_all()
        assert await stream.block() == []


async def test_the_latest_transition_is_found_without_a_walk(leased: Office) -> None:
    reader = await leased.panel.ledger.reader()
    assert await transitions.latest_id(reader) == max(
        [item["id"] for item in await journal(leased)], default=0
    )
    await fill(leased, 7)
    asked = 0
    read = reader.transitions

    async def counted(wanted: Any) -> Any:
        nonlocal asked
        asked += 1
        return await read(wanted)

    whole = await journal(leased, "?limit=500")
    reader.transitions = counted

    assert await transitions.latest_id(reader) == whole[-1]["id"]
    assert asked < 25
