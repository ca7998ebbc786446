"""What an answer means: whose it is, and when a step may go on to its next key."""

from __future__ import annotations

import pytest

from gateway.client.errors import GatewayUnreachable, OutcomeUnknown, StaleTerm
from gateway.wire.problem import PROBLEM_TYPE, render
from tests.client.transports.conftest import Caller, done, relayed
from tests.raw_destination import Received, Wire, answer, fin, raw

BROKEN_OFF = r"(?i)incomplete|not completed|enough data|complete message"
HALF = b"HTTP/1.1 200 Said\r\nFence-Verdict: forwarded\r\nFence-Outcome: confirmed\r\n"
URL = "https://api.example.com/contacts"
FIRST, SECOND = '"f//lead-1/POST:crm:/contacts#1"', '"f//lead-1/POST:crm:/contacts#2"'


async def broken_off(request: Received, wire: Wire) -> None:
    await raw(HALF + b"Content-Length: 100\r\n\r\nhalf")(request, wire)
    wire.fin()


async def test_a_confirmed_answer_moves_the_step_on(caller: Caller):
    caller.gateway.default = done()
    with caller.leads():
        assert await caller.send("POST", URL, b"{}") == (201, b"{}")
        await caller.send("POST", URL, b"{}")

    assert caller.sent_keys() == [FIRST, SECOND]


async def test_a_rejection_keeps_the_key_for_the_corrected_call(caller: Caller):
    rejected = [("Fence-Verdict", "forwarded"), ("Fence-Outcome", "rejected")]
    caller.gateway.on("/d/crm/contacts", answer(422, b'{"no": "email"}', rejected), done())
    with caller.leads():
        assert await caller.send("POST", URL, b"{}") == (422, b'{"no": "email"}')
        await caller.send("POST", URL, b"{}")

    assert caller.sent_keys() == [FIRST, FIRST]


async def test_an_answer_whose_body_breaks_off_keeps_the_key(caller: Caller):
    # an SDK sends again then; the next key would let it through a second time
    caller.gateway.on("/d/crm/contacts", broken_off, done())
    with caller.leads():
        with pytest.raises(Exception, match=BROKEN_OFF):
            await caller.send("POST", URL, b"{}")
        await caller.send("POST", URL, b"{}")

    assert caller.sent_keys() == [FIRST, FIRST]


async def test_a_redirect_keeps_the_key_because_what_follows_may_fail(caller: Caller):
    see = done(303, b"", ("Location", "https://api.example.com/broken"))
    caller.gateway.on("/d/crm/contacts", see, done())
    caller.gateway.on("/d/crm/broken", broken_off)
    with caller.leads():
        with pytest.raises(Exception, match=BROKEN_OFF):
            await caller.send("POST", URL, b"{}", follow=True)
        await caller.send("POST", URL, b"{}")

    assert caller.sent_keys()[::2] == [FIRST, FIRST]
    assert caller.gateway.received[1].target == "/d/crm/broken"


async def test_a_problem_of_the_gateway_is_raised_and_the_leadership_told(caller: Caller):
    problem = render("stale-term", facts={"highest_term": 9})
    headers = [*problem.headers, ("Fence-Verdict", "refused; reason=stale-term")]
    caller.gateway.default = answer(problem.status, problem.body, headers)
    with caller.leads(), pytest.raises(StaleTerm) as caught:
        await caller.send("POST", URL, b"{}")

    assert caught.value.facts["highest_term"] == 9
    assert caller.leadership.refused == [caught.value]


async def test_an_unknown_outcome_keeps_the_key(caller: Caller):
    problem = render("outcome-unknown")
    verdict = [("Fence-Verdict", "forwarded; reason=outcome-unknown"), ("Fence-Outcome", "unknown")]
    caller.gateway.default = answer(423, problem.body, [*problem.headers, *verdict])
    with caller.leads():
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                await caller.send("POST", URL, b"{}")

    assert caller.sent_keys() == [FIRST, FIRST]


async def test_a_problem_of_the_destination_is_an_answer_like_any_other(caller: Caller):
    own = [("Content-Type", PROBLEM_TYPE), ("Fence-Verdict", "forwarded")]
    body = b'{"type": "https://api.example.com/problems/stale-term"}'
    caller.gateway.default = answer(412, body, own)
    with caller.leads():
        assert await caller.send("POST", URL, b"{}") == (412, body)

    assert caller.leadership.refused == []


@pytest.mark.parametrize("status", [200, 502])
async def test_an_answer_of_something_in_between_proves_nothing(caller: Caller, status: int):
    caller.gateway.on("/d/crm/contacts", answer(status, b"<h1>Hello</h1>"), done())
    with caller.leads():
        with pytest.raises(GatewayUnreachable, match=str(status)):
            await caller.send("POST", URL, b"{}")
        await caller.send("POST", URL, b"{}")

    assert caller.sent_keys() == [FIRST, FIRST]


@pytest.mark.parametrize("caller", ["requests"], indirect=True)
async def test_a_streamed_answer_counts_at_its_end(caller: Caller):
    caller.gateway.default = done(200, b"a long answer, read in pieces")
    with caller.leads():
        got = await caller.send("POST", URL, b"{}", stream=True)
        await caller.send("POST", URL, b"{}", stream=True)

    assert got == (200, b"a long answer, read in pieces")
    assert caller.sent_keys() == [FIRST, SECOND]


@pytest.mark.parametrize("caller", ["aiohttp"], indirect=True)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
async def test_aiohttp_cannot_send_again_after_a_disconnect(caller: Caller, method: str):
    caller.gateway.on("/d/crm/contacts", fin, done())
    with caller.leads():
        with pytest.raises(GatewayUnreachable, match=f"{method} crm:/contacts"):
            await caller.send(method, URL, b"{}")
        assert len(caller.gateway.received) == 1
        await caller.send(method, URL, b"{}")

    first, second = caller.sent_keys()
    assert first == second


@pytest.mark.parametrize("caller", ["aiohttp"], indirect=True)
async def test_aiohttp_may_read_again(caller: Caller):
    caller.gateway.on("/d/crm/contacts", fin, relayed(200, b"[]"))
    with caller.leads():
        assert await caller.send("GET", URL) == (200, b"[]")

    assert len(caller.gateway.received) == 2
