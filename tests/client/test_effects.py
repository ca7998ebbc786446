"""Commands through the gateway: what is sent, what comes back, and what is asked again."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator

import pytest

from gateway.client.errors import (
    DestinationUnreachable,
    FenceMissing,
    GatewayUnreachable,
    InFlight,
    KeyReused,
    LeadershipLost,
    Malformed,
    OutcomeUnknown,
    StaleTerm,
)
from gateway.client.leadership import Leadership
from tests.client.conftest import MakeElector
from tests.client.hand_clock import HandClock
from tests.client.script import DROP, Reply, Script, forwarded, problem


@pytest.fixture
async def leadership(elect: MakeElector, clock: HandClock) -> AsyncIterator[Leadership]:
    async with elect(unit="u") as elector:
        following = asyncio.ensure_future(anext(elector))
        await clock.until(following.done)
        async with following.result() as running:
            yield running


def keys(script: Script) -> list[str]:
    return [asked.headers["idempotency-key"] for asked in script.of("effect")]


async def test_a_command_goes_to_its_destination_with_its_fence(
    leadership: Leadership, script: Script
):
    with leadership.item("lead-1"):
        answer = await leadership.effect("POST", "crm", "/contacts?x=1", json={"a": "é"}, wait_s=5)

    asked = script.of("effect")[0]
    assert (asked.method, asked.path, asked.query) == ("POST", "/d/crm/contacts", {"x": "1"})
    assert asked.json == {"a": "é"}
    assert {name: asked.headers[name] for name in asked.headers if name.startswith("fence-")} == {
        "fence-function": "f",
        "fence-unit": "u",
        "fence-term": "1",
        "fence-holder": "ana#1",
        "fence-item": "lead-1",
        "fence-authorization": "Bearer t-1",
    }
    assert asked.headers["prefer"] == "wait=5"
    assert keys(script) == ['"f/u/lead-1/POST:crm:/contacts#1"']
    assert (answer.status, answer.json()) == (201, {"id": "c-1"})
    assert (answer.outcome, answer.effect_id, answer.replayed) == ("confirmed", "e1", False)


async def test_a_rejected_command_is_an_answer_and_keeps_its_key(
    leadership: Leadership, script: Script
):
    script.then("effect", forwarded({"error": "email"}, 422, Fence_Outcome="rejected"))
    crm = leadership.session("crm")

    with leadership.item("lead-1"):
        first = await crm.post("/contacts", json={"email": "x"})
        await crm.post("/contacts", json={"email": "x@example.com"})
        await crm.post("/contacts", json={"email": "y@example.com"})

    assert (first.status, first.outcome) == (422, "rejected")
    step = "f/u/lead-1/POST:crm:/contacts"
    assert keys(script) == [f'"{step}#1"', f'"{step}#1"', f'"{step}#2"']


async def test_named_steps_and_keys_of_the_business_take_the_place_of_method_and_path(
    leadership: Leadership, script: Script
):
    crm = leadership.session("crm")
    with leadership.item("lead-1"):
        await crm.post("/a", step="create")
        with leadership.step("notify"):
            await crm.put("/b")
        with leadership.keyed(leadership.key("refund", 17)):
            await crm.delete("/c")
        await crm.patch("/d", key='say "hi"')

    assert keys(script) == [
        '"f/u/lead-1/create#1"',
        '"f/u/lead-1/notify#1"',
        '"f/u//refund/17"',
        '"say \\"hi\\""',
    ]


async def test_items_worked_on_at_once_have_keys_of_their_own(
    leadership: Leadership, script: Script
):
    async def work(item: str) -> None:
        with leadership.item(item):
            await leadership.effect("POST", "crm", "/c")
            await leadership.effect("POST", "crm", "/c")

    await asyncio.gather(work("a"), work("b"))

    assert sorted(keys(script)) == [f'"f/u/{i}/POST:crm:/c#{n}"' for i in "ab" for n in "12"]


async def test_without_patience_a_refusal_is_raised_at_once(leadership: Leadership, script: Script):
    script.then("effect", problem("in-flight", 409, verdict="refused", retry_after_s=2))

    with pytest.raises(InFlight):
        await leadership.effect("POST", "crm", "/c")

    assert len(script.of("effect")) == 1


@pytest.mark.parametrize(
    ("first", "pause_s"),
    [
        (problem("in-flight", 409, verdict="refused", retry_after_s=2), 2.0),
        (problem("predecessor-in-flight", 503, verdict="refused", retry_after_s=5), 5.0),
        (problem("ledger-unavailable", 503, verdict="refused", retry_after_s=5), 5.0),
        (problem("destination-unreachable", 502, verdict="forwarded", retry_after_s=5), 5.0),
        (DROP, 0.1),
        (Reply(502, b"<html>", {"Content-Type": "text/html"}), 0.1),
    ],
)
async def test_with_patience_the_same_key_is_sent_again_as_told(
    leadership: Leadership, script: Script, clock: HandClock, first: Reply, pause_s: float
):
    script.then("effect", first)
    began_s = clock.boot_s()

    sending = asyncio.ensure_future(leadership.effect("POST", "crm", "/c", json={}, patience_s=10))
    await clock.until(sending.done)

    assert sending.result().status == 201
    assert keys(script) == ['"f/u//POST:crm:/c#1"'] * 2
    assert script.of("effect")[0].body == script.of("effect")[1].body
    assert clock.boot_s() - began_s >= pause_s


async def test_patience_ends(leadership: Leadership, script: Script, clock: HandClock):
    unreachable = problem("destination-unreachable", 502, verdict="forwarded", retry_after_s=5)
    script.then("effect", *[unreachable] * 9)
    began_s = clock.boot_s()

    sending = asyncio.ensure_future(leadership.effect("POST", "crm", "/c", patience_s=12))
    await clock.until(sending.done)

    assert type(sending.exception()) is DestinationUnreachable
    assert len(script.of("effect")) == 3
    assert clock.boot_s() - began_s < 12


@pytest.mark.parametrize(
    ("slug", "status", "kind"),
    [("outcome-unknown", 423, OutcomeUnknown), ("key-reused", 422, KeyReused)],
)
async def test_what_must_not_be_repeated_is_not_repeated_however_patient(
    leadership: Leadership, script: Script, slug: str, status: int, kind: type[Exception]
):
    script.then("effect", problem(slug, status, verdict="refused"))

    with pytest.raises(kind):
        await leadership.effect("POST", "crm", "/c", patience_s=1000)

    assert len(script.of("effect")) == 1


async def test_a_loss_ends_patience(leadership: Leadership, script: Script, clock: HandClock):
    script.then("effect", problem("in-flight", 409, verdict="refused", retry_after_s=5))
    sending = asyncio.ensure_future(leadership.effect("POST", "crm", "/c", patience_s=60))
    await clock.until(lambda: script.of("effect"), step_s=0.01)

    leadership.lose("margin", "for the test")
    async with asyncio.timeout(5):
        while not sending.done():
            await clock.advance(1)

    assert type(sending.exception()) is LeadershipLost
    assert len(script.of("effect")) == 1


async def test_a_command_without_answer_may_have_happened(leadership: Leadership, script: Script):
    script.then("effect", DROP)

    with pytest.raises(GatewayUnreachable) as error:
        await leadership.effect("POST", "crm", "/c")

    assert (error.value.effect, error.value.safe_to_retry_same_key) == ("unknown", True)


async def test_a_later_try_that_sends_nothing_does_not_unsay_the_one_without_answer(
    leadership: Leadership, script: Script, clock: HandClock
):
    refused = problem("stale-term", 412, verdict="refused", effect="none")
    script.then("effect", DROP, refused)

    sending = asyncio.ensure_future(leadership.effect("POST", "crm", "/c", patience_s=12))
    await clock.until(sending.done)

    error = sending.exception()
    assert type(error) is StaleTerm
    assert (error.effect, pickle.loads(pickle.dumps(error)).effect) == ("unknown", "unknown")


async def test_what_cannot_be_sent_is_refused_before_it_is(leadership: Leadership, script: Script):
    with pytest.raises(Malformed, match="json and body"):
        await leadership.effect("POST", "crm", "/c", json={}, body=b"")
    with pytest.raises(Malformed, match="'a/b'"):
        await leadership.effect("POST", "a/b", "/c")
    with pytest.raises(Malformed, match="the key is"):
        await leadership.effect("POST", "crm", "/c", key="ключ")
    with pytest.raises(Malformed, match="an item is 'a b'"), leadership.item("a b"):
        pass

    assert script.of("effect") == []


async def test_work_without_a_name_is_not_sent(
    elect: MakeElector, script: Script, clock: HandClock
):
    async with elect() as elector:
        following = asyncio.ensure_future(anext(elector))
        await clock.until(following.done)

        with pytest.raises(FenceMissing):
            await following.result().effect("POST", "crm", "/c")

    assert script.of("effect") == []
