"""Where an SDK's own ways would get round the fence, or make its user see the wrong thing."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from simple_salesforce.exceptions import SalesforceExpiredSession
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from gateway.client.aiohttp import fence_middleware
from gateway.client.errors import FenceMissing, GatewayUnreachable, OutcomeUnknown
from gateway.client.vendors import hubspot_client, salesforce_client, slack_client, stripe_client
from tests.raw_destination import answer
from tests.vendors.conftest import Shop
from tests.vendors.standin import JSON

only = pytest.mark.parametrize


async def test_a_write_without_leadership_is_refused_whatever_key_the_sdk_made(shop: Shop):
    with pytest.raises(FenceMissing):
        await shop.create()

    assert shop.standin.writes == []


async def test_a_write_without_item_says_what_is_missing(shop: Shop):
    with shop.leads(item=""), pytest.raises(FenceMissing, match=r"leadership\.item"):
        await shop.create()

    assert shop.standin.writes == []


@only("shop", ["slack"], indirect=True)
async def test_slacks_no_in_a_200_leaves_the_key_free_for_the_corrected_call(shop: Shop):
    slack = slack_client(gateway=shop.relay.url)
    with shop.leads():
        with pytest.raises(SlackApiError, match="channel_not_found"):
            await asyncio.to_thread(slack.chat_postMessage, channel="C-GONE", text="hello")
        await asyncio.to_thread(slack.chat_postMessage, channel="C1", text="hello")

    (effect,) = await shop.effects()
    assert [attempt["outcome"] for attempt in effect["attempts"]] == ["rejected", "confirmed"]
    assert len(shop.standin.effects) == 1


@only("shop", ["slack"], indirect=True)
async def test_slacks_async_client_does_not_post_again_after_a_lost_answer(shop: Shop):
    middleware = fence_middleware({"https://slack.com": "slack"}, gateway=shop.relay.url)
    async with aiohttp.ClientSession(middlewares=[middleware]) as session:
        slack = AsyncWebClient("held-by-the-gateway", session=session)
        shop.relay.lose = 1
        with shop.leads():
            with pytest.raises(GatewayUnreachable, match=r"slack:/api/chat\.postMessage"):
                await slack.chat_postMessage(channel="C1", text="hello")
            posted = await slack.chat_postMessage(channel="C1", text="hello")

    assert posted["ts"] == "slack-1"
    assert len(shop.standin.effects) == 1


@only("shop", ["stripe"], indirect=True)
async def test_stripes_async_methods_retry_under_the_same_key(shop: Shop):
    stripe = stripe_client(gateway=shop.relay.url, max_network_retries=2)
    shop.relay.lose = 1
    with shop.leads():
        made = await stripe.v1.customers.create_async({"name": "ana"})
        shop.standin.next(shop.standin.lose_the_answer)
        with pytest.raises(OutcomeUnknown):
            await stripe.v1.customers.create_async({"name": "bia"})
    await stripe.v1._requestor._get_http_client().close_async()

    assert made.id == "stripe-1"
    assert len(shop.standin.effects) == 2
    assert len(await shop.effects()) == 2


@only("shop", ["salesforce"], indirect=True)
async def test_a_401_of_salesforce_ends_at_the_user_and_not_in_a_loop(shop: Shop):
    expired = json.dumps([{"errorCode": "INVALID_SESSION_ID", "message": "Session expired"}])
    shop.standin.next(answer(401, expired.encode(), [JSON]))
    salesforce = salesforce_client("acme.my.salesforce.com", gateway=shop.relay.url)
    with shop.leads():
        with pytest.raises(SalesforceExpiredSession):
            await asyncio.to_thread(salesforce.Contact.create, {"LastName": "ana"})
        assert len(shop.standin.writes) == 1
        await asyncio.to_thread(salesforce.Contact.create, {"LastName": "ana"})

    assert len(await shop.effects()) == len(shop.standin.effects) == 1


@only("shop", ["salesforce"], indirect=True)
async def test_a_query_needs_no_leadership(shop: Shop):
    salesforce = salesforce_client("acme.my.salesforce.com", gateway=shop.relay.url)

    found = await asyncio.to_thread(salesforce.query, "SELECT Id FROM Contact")

    assert found["totalSize"] == 0
    assert shop.standin.wire.received[0].target.endswith("query/?q=SELECT+Id+FROM+Contact")


@only("shop", ["hubspot"], indirect=True)
@only("leads", [True, False])
async def test_a_search_by_post_needs_neither_key_nor_leadership(shop: Shop, leads: bool):
    from hubspot.crm.contacts import PublicObjectSearchRequest as Search

    hubspot = hubspot_client(gateway=shop.relay.url)
    search = hubspot.crm.contacts.search_api.do_search
    if leads:
        with shop.leads(item=""):
            found = await asyncio.to_thread(search, Search(query="ana"))
    else:
        found = await asyncio.to_thread(search, Search(query="ana"))

    assert found.total == 0
