"""What the user of each SDK sees of the gateway's refusals, and how often the SDK sends.

Once with the clients of `gateway.client.vendors`, once with nothing but a changed base URL. The
gateway is played here: it refuses everything alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import stripe
from hubspot import HubSpot
from hubspot.crm.contacts import ApiException
from hubspot.crm.contacts import SimplePublicObjectInputForCreate as New
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from urllib3.util.retry import Retry

from gateway.client.context import Fence, StepCounter, entered
from gateway.client.errors import (
    Duplicate,
    InFlight,
    KeyReused,
    LedgerUnavailable,
    OutcomeUnknown,
    StaleTerm,
)
from gateway.client.vendors import STAND_IN
from gateway.wire.problem import render
from tests.raw_destination import RawDestination, answer
from tests.vendors.conftest import AGAIN, VENDORS, Leadership, client_for

TYPED = {
    "stale-term": StaleTerm,
    "key-reused": KeyReused,
    "outcome-unknown": OutcomeUnknown,
    "duplicate": Duplicate,
    "in-flight": InFlight,
    "ledger-unavailable": LedgerUnavailable,
}
FINAL = ("stale-term", "key-reused", "outcome-unknown", "duplicate")


@pytest.fixture
async def gateway() -> AsyncIterator[RawDestination]:
    async with RawDestination() as played:
        yield played


def refuse(gateway: RawDestination, slug: str) -> None:
    problem = render(slug, retry_after_s=1)
    headers = [*problem.headers, ("Fence-Verdict", f"refused; reason={slug}")]
    headers = [(name, "0" if name == "Retry-After" else value) for name, value in headers]
    gateway.default = answer(problem.status, problem.body, headers)


async def seen_by(create: Callable[[str], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # which, is the question
        await asyncio.to_thread(create, "ana@example.com")
    return caught.value


def show(vendor: str, slug: str, gateway: RawDestination, seen: Exception) -> None:
    sends = len(gateway.received)
    print(f"\n{vendor:10} | {slug:18} | {sends} sent | {type(seen).__name__}: {str(seen)[:120]!r}")


def keys(gateway: RawDestination) -> set[str | None]:
    return {request.header("Idempotency-Key") for request in gateway.received}


@pytest.mark.parametrize("slug", TYPED)
@pytest.mark.parametrize("vendor", VENDORS)
async def test_our_clients_raise_one_typed_error_whatever_the_sdk(
    gateway: RawDestination, vendor: str, slug: str
):
    refuse(gateway, slug)
    leadership = Leadership(gateway.url, token="gateway-token")
    create = client_for(vendor, gateway.url)
    steps = StepCounter("relatorio", "", "lead-1")
    with entered(Fence("relatorio", "", 7, "ana#1", leadership, steps, "lead-1")):
        seen = await seen_by(create)

    show(vendor, slug, gateway, seen)
    assert type(seen) is TYPED[slug]
    assert len(keys(gateway)) == 1
    given = {request.header("Authorization") for request in gateway.received}
    assert given <= {None, f"Bearer {STAND_IN}"}
    tokens = {request.header("Fence-Authorization") for request in gateway.received}
    assert tokens == {"Bearer gateway-token"}
    if slug in FINAL:
        assert len(gateway.received) == 1


def plain(vendor: str, gateway: str) -> Callable[[str], Any]:
    """The SDK as it is, with another base URL, and its retries on."""
    if vendor == "stripe":
        client = stripe.StripeClient(
            "gateway-token", base_addresses={"api": f"{gateway}/d/stripe"}, max_network_retries=2
        )
        return lambda name: client.v1.customers.create({"name": name})
    if vendor == "slack":
        slack = WebClient("gateway-token", base_url=f"{gateway}/d/slack/api/")
        return lambda name: slack.chat_postMessage(channel="C1", text=name)
    again = Retry(**AGAIN, raise_on_status=False)
    hubspot = HubSpot(access_token="gateway-token", host=f"{gateway}/d/hubspot", retry=again)
    return lambda name: hubspot.crm.contacts.basic_api.create(
        New(properties={"email": name}, associations=[])
    )


PLAIN = {"stripe": stripe.APIError, "slack": SlackApiError, "hubspot": ApiException}


@pytest.mark.parametrize("slug", TYPED)
@pytest.mark.parametrize("vendor", PLAIN)
async def test_with_a_base_url_alone_the_sdks_own_error_carries_the_problem(
    gateway: RawDestination, vendor: str, slug: str
):
    refuse(gateway, slug)
    seen = await seen_by(plain(vendor, gateway.url))

    show(vendor, slug, gateway, seen)
    assert isinstance(seen, PLAIN[vendor])
    assert slug in str(seen)
    if slug in FINAL and seen.__class__ is not stripe.APIError:
        assert len(gateway.received) == 1
    if isinstance(seen, stripe.APIError):  # it repeats each 409; the key makes that harmless
        assert seen.http_status == render(slug).status
        assert len(gateway.received) == (1 if seen.http_status in (412, 422, 423) else 3)
        assert len(keys(gateway)) == 1
