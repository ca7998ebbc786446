"""Where a request goes, and what it carries: alike for every client."""

from __future__ import annotations

import pytest

from gateway.client.errors import LeadershipLost, Malformed, RouteRefused
from tests.client.transports.conftest import Caller


@pytest.mark.parametrize(
    "target",
    ["/x?y", "/a%2Fb/c;v=1?q=a+b&q=%C3%A9&empty=", "/a//b/?", "/?only=query", "/~user/"],
)
async def test_path_and_query_go_as_they_stand(caller: Caller, target: str):
    await caller_sends(caller, f"https://api.example.com{target}")

    assert caller.gateway.received[0].target.rstrip("?") == f"/d/crm{target}".rstrip("?")


async def caller_sends(caller: Caller, url: str) -> None:
    with caller.leads():
        await caller.send("POST", url, b"{}")


async def test_a_base_path_of_the_destination_is_taken_off(caller: Caller):
    await caller_sends(caller, "https://old.example.com/v3/contacts?x=1")

    assert caller.gateway.received[0].target == "/d/old/contacts?x=1"


async def test_a_url_of_the_gateway_itself_is_left_as_it_is(caller: Caller):
    await caller_sends(caller, f"{caller.gateway.url}/d/crm/contacts")

    (request,) = caller.gateway.received
    assert request.target == "/d/crm/contacts"
    assert request.header("Fence-Term") == "7"


async def test_an_origin_without_destination_is_refused_before_anything_is_sent(caller: Caller):
    with caller.leads(), pytest.raises(RouteRefused, match=r"https://other\.example"):
        await caller.send("POST", "https://other.example.com/v3/x", b"{}")
    with caller.leads(), pytest.raises(RouteRefused):
        await caller.send("POST", "https://old.example.com/v30/x", b"{}")

    assert caller.gateway.received == []


async def test_the_fence_and_its_key_take_the_place_of_what_an_sdk_sends(caller: Caller):
    caller.leadership.token = "gateway-token"
    with caller.leads():
        await caller.send(
            "POST",
            "https://api.example.com/contacts?a=1",
            b'{"n": 1}',
            Authorization="Bearer sk_live_secret",
            Idempotency_Key="0e2b-random",
            Content_Type="application/json",
            X_Trace="t1",
        )

    (request,) = caller.gateway.received
    fields = {name.lower(): value for name, value in request.headers}
    assert fields["host"] == caller.gateway.url.removeprefix("http://")
    assert fields["fence-function"] == "f"
    assert fields["fence-term"] == "7"
    assert fields["fence-holder"] == "ana#1"
    assert fields["fence-item"] == "lead-1"
    assert fields["fence-authorization"] == "Bearer gateway-token"
    assert fields["idempotency-key"] == '"f//lead-1/POST:crm:/contacts#1"'
    assert fields["x-trace"] == "t1"
    assert request.body == b'{"n": 1}'
    assert b"sk_live_secret" not in request.head
    assert b"random" not in request.head
    names = [name.lower() for name, _ in request.headers]
    assert len(names) == len(set(names))


async def test_an_api_key_stays_where_no_gateway_token_is_known(caller: Caller):
    with caller.leads():
        await caller.send(
            "GET", "https://api.example.com/contacts", Authorization="Bearer gateway-token"
        )

    (request,) = caller.gateway.received
    assert request.header("Authorization") == "Bearer gateway-token"
    assert request.header("Fence-Authorization") is None


async def test_a_random_key_is_taken_out_even_without_leadership(caller: Caller):
    caller.options["gateway"] = caller.gateway.url

    await caller.send("POST", "https://api.example.com/x", b"{}", Idempotency_Key="random")

    assert caller.sent_keys() == [None]


async def test_a_caller_who_says_the_fence_itself_keeps_its_key(caller: Caller):
    caller.options["gateway"] = caller.gateway.url
    own = {"Fence_Function": "g", "Fence_Term": "3", "Fence_Holder": "bo#1"}
    with caller.leads():
        await caller.send("POST", "https://api.example.com/x", b"", Idempotency_Key="mine", **own)

    (request,) = caller.gateway.received
    assert request.header("Idempotency-Key") == "mine"
    assert request.header("Fence-Function") == "g"
    assert request.header("Fence-Item") is None


async def test_without_current_proof_nothing_is_sent(caller: Caller):
    caller.leadership.lost = LeadershipLost()
    with caller.leads(), pytest.raises(LeadershipLost):
        await caller.send("POST", "https://api.example.com/x", b"{}")

    assert caller.gateway.received == []


async def test_without_a_gateway_nothing_is_sent(caller: Caller, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FENCEGATE_URL", raising=False)
    with pytest.raises(Malformed, match="FENCEGATE_URL"):
        await caller.send("GET", "https://api.example.com/x")


async def test_a_waiting_time_is_added_to_what_the_caller_prefers(caller: Caller):
    caller.options["wait_s"] = 5
    with caller.leads():
        await caller.send("POST", "https://api.example.com/x", b"", Prefer="return=minimal")
        await caller.send("GET", "https://api.example.com/x")

    assert [request.header("Prefer") for request in caller.gateway.received] == [
        "return=minimal, wait=5",
        None,
    ]
