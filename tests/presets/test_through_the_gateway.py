"""Two presets in a whole gateway: an unknown outcome is settled, and it happened once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.house import FUNCTION, House, running_house
from tests.presets.standins import HubSpot, Stripe
from tests.presets.vendor import PRESETS
from tests.proxy.setting import effects
from tests.raw_destination import RawDestination, Received

SETTLED_WITHIN_S = 20.0
CUSTOMER = b"name=Ana&email=ana%40example.com"
FORM = {"Content_Type": "application/x-www-form-urlencoded"}
CONTACT = {"properties": {"email": "ana@example.com"}}


@dataclass
class Shop:
    """A gateway with one preset, and its destination."""

    house: House
    wire: RawDestination

    @property
    def writes(self) -> list[Received]:
        return [request for request in self.wire.received if request.method == "POST"]

    async def settled(self) -> dict[str, Any]:
        """Wait until the only effect is known; return it."""
        async with asyncio.timeout(SETTLED_WITHIN_S):
            while True:
                shown = await effects(self.house)
                assert len(shown) == 1
                if shown[0]["outcome"] in ("confirmed", "rejected"):
                    return shown[0]
                await asyncio.sleep(0.02)  # the gateway has no event for it


Opener = Callable[[str, Any], Any]


@pytest.fixture
async def open_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opener]:
    """Opens a gateway with the preset of a vendor, as it is but for the address and the times."""
    monkeypatch.setenv("STRIPE_KEY", "rk_test")
    monkeypatch.setenv("HUBSPOT_PRIVATE_APP", "pat-test")
    async with AsyncExitStack() as stack:

        async def open_it(vendor: str, standin: Any) -> Shop:
            wire = await stack.enter_async_context(RawDestination())
            wire.default = standin
            text = (PRESETS / f"{vendor}.yaml").read_text("utf-8")
            text, origins = re.subn("(?m)^base_url: .*$", f"base_url: {wire.url}", text)
            text, limits = re.subn(
                r"(?m)^(limits: .*)timeout: \d+s, settle: \d+s",
                r"\1timeout: 2s, connect: 1s, settle: 200ms",
                text,
            )
            text = re.sub(r"(?m)^( +settle:) \d+s", r"\1 200ms", text)
            assert (origins, limits) == (1, 1)
            policies = {vendor: text, "relatorio": FUNCTION}
            house = await stack.enter_async_context(running_house(tmp_path, policies))
            return Shop(house, wire)

        yield open_it


async def test_stripe_is_asked_again_under_the_same_key_and_has_one_customer(open_shop: Opener):
    stripe = Stripe(loses=["answer"])
    shop = await open_shop("stripe", stripe)
    worker = shop.house.worker(destination="stripe")

    got = await worker.send("POST", "/v1/customers", key="k-1", body=CUSTOMER, **FORM)
    effect = await shop.settled()
    again = await worker.send("POST", "/v1/customers", key="k-1", body=CUSTOMER, **FORM)

    assert got.problem == "outcome-unknown"
    assert (effect["outcome"], effect["resource"]) == ("confirmed", {"id": "cus_1"})
    assert (again.status, again.json["id"]) == (200, "cus_1")
    assert stripe.objects == [{"name": "Ana", "email": "ana@example.com"}]
    first, second = shop.writes
    assert first.body == second.body == CUSTOMER
    assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
    assert first.header("Idempotency-Key") not in (None, "k-1", '"k-1"')
    assert second.header("Authorization") == "Bearer rk_test"


async def test_a_card_that_stripe_declines_is_not_tried_again(open_shop: Opener):
    stripe = Stripe(declines=True)
    shop = await open_shop("stripe", stripe)
    worker = shop.house.worker(destination="stripe")

    first = await worker.send("POST", "/v1/payment_intents", key="k-1", body=b"a=1", **FORM)
    second = await worker.send("POST", "/v1/payment_intents", key="k-1", body=b"a=1", **FORM)

    assert (first.status, second.status) == (402, 402)
    assert len(shop.writes) == 1
    assert (await shop.settled())["outcome"] == "confirmed"


async def test_a_record_whose_answer_was_lost_is_found_at_hubspot(open_shop: Opener):
    hubspot = HubSpot(loses=["answer"])
    shop = await open_shop("hubspot", hubspot)
    worker = shop.house.worker(destination="hubspot")

    got = await worker.post("/crm/v3/objects/contacts", "k-1", CONTACT)
    effect = await shop.settled()

    assert got.problem == "outcome-unknown"
    assert (effect["outcome"], effect["resolved_by"]) == ("confirmed", "probe")
    assert effect["resource"] == {"id": "6001"}
    assert len(shop.writes) == 1
    assert [record["fence_term"] for record in hubspot.records] == ["7"]
    question = next(one for one in shop.wire.received if one.method == "GET")
    assert question.header("Authorization") == "Bearer pat-test"


async def test_a_record_that_never_came_to_hubspot_is_sent_again_once(open_shop: Opener):
    hubspot = HubSpot(loses=["request"])
    shop = await open_shop("hubspot", hubspot)
    worker = shop.house.worker(destination="hubspot")

    got = await worker.post("/crm/v3/objects/contacts", "k-1", CONTACT)
    effect = await shop.settled()

    assert got.problem == "outcome-unknown"
    assert (effect["outcome"], effect["resource"]) == ("confirmed", {"id": "6001"})
    assert len(shop.writes) == 2
    assert len(hubspot.records) == 1
    methods = [one.method for one in shop.wire.received]
    assert methods[0] == methods[-1] == "POST"
    assert methods[1:-1].count("GET") >= 2  # "not there" counts when it was said twice


async def test_a_contact_that_hubspot_has_already_is_refused_and_not_made(open_shop: Opener):
    hubspot = HubSpot([{"email": "ana@example.com", "fence_effect": "another's"}])
    shop = await open_shop("hubspot", hubspot)

    got = await shop.house.worker(destination="hubspot").post(
        "/crm/v3/objects/contacts", "k-1", CONTACT
    )

    assert (got.status, got.headers["Fence-Outcome"]) == (409, "rejected")
    assert "Existing ID: 6001" in got.json["message"]
    assert (await shop.settled())["outcome"] == "rejected"
    assert len(hubspot.records) == 1
