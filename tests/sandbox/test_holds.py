"""Requests that wait for their release, whoever is still there to hear the answer."""

from __future__ import annotations

import asyncio


async def test_a_held_request_has_no_effect_until_it_is_released(crm):
    async with asyncio.TaskGroup() as tasks:
        held = tasks.create_task(crm.ask("POST", "/contacts", {}, X_Sandbox_Fault="hold:h"))
        _, waiting, _ = await crm.ask("GET", "/_sandbox/holds?name=h&wait=10s")
        assert waiting == {"h": 1}
        assert [entry["applied"] for entry in await crm.journal()] == [False]
        assert (await crm.ask("POST", "/_sandbox/release/h"))[1] == {"released": 1}
    assert held.result()[:2] == (201, {"id": "contact-1"})
    assert [entry["effect"] for entry in await crm.journal()] == ["contacts/contact-1@1"]


async def test_a_held_request_applies_even_if_its_client_is_gone(crm):
    _, writer = await crm.dial("POST", "/contacts", b"{}", X_Sandbox_Fault="hold:h")
    await crm.ask("GET", "/_sandbox/holds?name=h&wait=10s")
    writer.transport.abort()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    assert await crm.journal("applied=true") == []
    assert (await crm.ask("POST", "/_sandbox/release/h"))[1] == {"released": 1}
    [entry] = await crm.journal("applied=true&wait=10s")
    assert (entry["fault"], entry["effect"]) == ("hold:h", "contacts/contact-1@1")
    assert (await crm.ask("GET", "/contacts/contact-1"))[0] == 200


async def test_a_delayed_request_applies_even_if_its_client_is_gone(crm):
    _, writer = await crm.dial("POST", "/contacts", b"{}", X_Sandbox_Fault="delay:300ms")
    [entry] = await crm.received(1)
    assert entry["applied"] is False
    writer.transport.abort()
    [entry] = await crm.journal("applied=true&wait=10s")
    assert entry["effect"] == "contacts/contact-1@1"


async def test_hold_after_applies_at_once_and_answers_on_release(crm):
    reader, writer = await crm.dial("POST", "/contacts", b"{}", X_Sandbox_Fault="hold-after:h")
    await crm.ask("GET", "/_sandbox/holds?name=h&wait=10s")
    assert [entry["applied"] for entry in await crm.journal()] == [True]
    await crm.ask("POST", "/_sandbox/release/h")
    assert (await reader.read()).startswith(b"HTTP/1.1 201 ")
    writer.close()
    await writer.wait_closed()


async def test_a_release_frees_all_of_its_name_and_no_later_one(crm):
    async with asyncio.TaskGroup() as tasks:
        for number, name in enumerate(("a", "a", "b"), start=1):
            fault = f"hold:{name}"
            tasks.create_task(crm.ask("POST", "/contacts", {}, X_Sandbox_Fault=fault))
            await crm.received(number)
        assert (await crm.ask("GET", "/_sandbox/holds"))[1] == {"a": 2, "b": 1}
        assert (await crm.ask("POST", "/_sandbox/release/a"))[1] == {"released": 2}
        assert (await crm.ask("POST", "/_sandbox/release/a"))[1] == {"released": 0}
        assert (await crm.ask("POST", "/_sandbox/release/b"))[1] == {"released": 1}
    assert (await crm.summary())["applied"] == 3
