"""Four vendors' real SDKs, each before a real gateway and a stand-in for the vendor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import stripe
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    ServerErrorRetryHandler,
)
from slack_sdk.http_retry.builtin_interval_calculators import FixedValueRetryIntervalCalculator
from urllib3.util.retry import Retry

from gateway.client.context import Fence, StepCounter, entered
from gateway.client.errors import FencegateError
from gateway.client.vendors import hubspot_client, salesforce_client, slack_client, stripe_client
from tests.house import FUNCTION, House, running_house
from tests.raw_destination import RawDestination
from tests.vendors.relay import Relay, relaying
from tests.vendors.standin import StandIn

POLICIES = Path(__file__).parent / "policies"
VENDORS = ("stripe", "slack", "salesforce", "hubspot")
AGAIN = {"total": 2, "allowed_methods": None, "status_forcelist": [500, 502, 503]}


@dataclass
class Leadership:
    """A proof of leadership that holds, for tests of what stands above it."""

    url: str
    token: str | None = None
    refused: FencegateError | None = None

    def check(self) -> None: ...

    def refuted(self, error: FencegateError) -> None:
        self.refused = error


def client_for(vendor: str, gateway: str) -> Callable[[str], Any]:
    """Return how a user of the SDK creates a record by name; its own retries are on."""
    if vendor == "stripe":
        client = stripe_client(gateway=gateway, max_network_retries=2)
        return lambda name: client.v1.customers.create({"name": name}).id
    if vendor == "slack":
        at_once = FixedValueRetryIntervalCalculator(0.01)
        handlers = [
            ConnectionErrorRetryHandler(2, at_once), ServerErrorRetryHandler(2, at_once)
        ]  # fmt: skip
        slack = slack_client(gateway=gateway, retry_handlers=handlers)
        return lambda name: slack.chat_postMessage(channel="C1", text=name)["ts"]
    if vendor == "salesforce":
        salesforce = salesforce_client(
            "acme.my.salesforce.com", gateway=gateway, max_retries=Retry(**AGAIN)
        )
        return lambda name: salesforce.Contact.create({"LastName": name})["id"]
    from hubspot.crm.contacts import SimplePublicObjectInputForCreate as New

    hubspot = hubspot_client(gateway=gateway, retry=Retry(**AGAIN))
    return lambda name: (
        hubspot.crm.contacts.basic_api.create(New(properties={"email": name}, associations=[])).id
    )


@dataclass
class Shop:
    """A vendor, the gateway before it, a bad network before that, and a worker."""

    vendor: str
    standin: StandIn
    house: House
    relay: Relay
    create_now: Callable[[str], Any]
    leadership: Leadership

    def leads(self, *, term: int = 7, holder: str = "ana#1", item: str = "lead-1") -> Any:
        """Enter a leadership and an item of its work."""
        steps = StepCounter("relatorio", "", item)
        return entered(Fence("relatorio", "", term, holder, self.leadership, steps, item or None))

    async def create(self, name: str = "ana@example.com") -> Any:
        return await asyncio.to_thread(self.create_now, name)

    async def effects(self) -> list[dict[str, Any]]:
        got: list[dict[str, Any]] = (await self.house.get("/v1/effects")).json["items"]
        return got


@pytest.fixture(autouse=True)
def stripe_pauses_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the pause between its retries is another one than its users have."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0.01)


@pytest.fixture(params=VENDORS)
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    vendor: str = request.param
    policy = (POLICIES / f"{vendor}.yaml").read_text("utf-8")
    async with AsyncExitStack() as stack:
        wire = await stack.enter_async_context(RawDestination())
        policies = {"f": FUNCTION, vendor: policy.replace(":9200", f":{wire.port}")}
        house = await stack.enter_async_context(running_house(tmp_path, policies))
        relay = await stack.enter_async_context(relaying(house.gateway.port))
        yield Shop(
            vendor,
            StandIn(vendor, wire),
            house,
            relay,
            client_for(vendor, relay.url),
            Leadership(relay.url),
        )
