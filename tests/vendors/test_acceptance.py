"""What happens at the vendor, and what the SDK's user sees. Run with -s to read the latter."""

from __future__ import annotations

import pytest

from gateway.client.errors import FencegateError, OutcomeUnknown, StaleTerm
from tests.vendors.conftest import Shop


def tell(shop: Shop, what: str, seen: object) -> None:
    kind = f"{type(seen).__module__}.{type(seen).__name__}: " if seen.__class__ is not str else ""
    print(f"\n{shop.vendor:10} | {what:30} | {kind}{str(seen)[:160]}")


async def refused(shop: Shop) -> FencegateError:
    with pytest.raises(FencegateError) as caught:
        await shop.create()
    return caught.value


async def test_a_create_happens_once_under_a_key_made_of_the_work(shop: Shop):
    with shop.leads():
        made = await shop.create()

    tell(shop, "create", made)
    assert made == f"{shop.vendor}-1"
    assert len(shop.standin.effects) == 1
    (effect,) = await shop.effects()
    assert effect["key"].startswith(f"relatorio//lead-1/POST:{shop.vendor}:/")
    assert effect["key"].endswith("#1")
    assert effect["outcome"] == "confirmed"


async def test_a_second_create_of_the_same_item_has_the_next_key(shop: Shop):
    with shop.leads():
        first, second = await shop.create("a@example.com"), await shop.create("b@example.com")

    assert first != second
    assert len(shop.standin.effects) == 2
    assert {effect["key"][-2:] for effect in await shop.effects()} == {"#1", "#2"}


async def test_the_sdks_own_retry_after_a_lost_answer_gets_the_recorded_one(shop: Shop):
    shop.relay.lose = 1
    with shop.leads():
        made = await shop.create()

    tell(shop, "answer lost, SDK retried", made)
    assert shop.relay.lost == 1
    assert made == f"{shop.vendor}-1"
    assert len(shop.standin.writes) == len(shop.standin.effects) == 1


async def test_a_successor_that_redoes_the_item_gets_the_recorded_answer(shop: Shop):
    with shop.leads():
        first = await shop.create()
    with shop.leads(term=8, holder="bo#1"):
        second = await shop.create()

    assert first == second
    assert len(shop.standin.effects) == 1


async def test_the_sdks_own_retry_of_a_503_that_changed_nothing_goes_through(shop: Shop):
    shop.standin.next(shop.standin.turn_away)
    with shop.leads():
        made = await shop.create()

    tell(shop, "503 with no effect, SDK retried", made)
    assert made == f"{shop.vendor}-1"
    assert len(shop.standin.writes) == 2
    assert len(shop.standin.effects) == 1
    assert [effect["outcome"] for effect in await shop.effects()] == ["confirmed"]


async def test_a_connection_lost_after_the_effect_is_unknown_and_never_repeated(shop: Shop):
    shop.standin.next(shop.standin.lose_the_answer)
    with shop.leads():
        error = await refused(shop)
        again = await refused(shop)

    tell(shop, "done, connection lost", error)
    assert type(error) is type(again) is OutcomeUnknown
    assert "Do not" in str(error)
    assert len(shop.standin.writes) == len(shop.standin.effects) == 1


async def test_a_connection_lost_before_the_effect_is_unknown_too(shop: Shop):
    from tests.raw_destination import fin

    shop.standin.next(fin)
    with shop.leads():
        error = await refused(shop)
        again = await refused(shop)

    tell(shop, "not done, connection lost", error)
    assert type(error) is type(again) is OutcomeUnknown
    assert len(shop.standin.writes) == 1
    assert shop.standin.effects == []


async def test_a_500_after_the_effect_is_unknown_and_never_repeated(shop: Shop):
    shop.standin.next(shop.standin.fail_afterwards)
    with shop.leads():
        error = await refused(shop)
        again = await refused(shop)

    tell(shop, "done, 500", error)
    assert type(error) is type(again) is OutcomeUnknown
    assert error.facts["destination_status"] == 500
    assert len(shop.standin.writes) == len(shop.standin.effects) == 1


async def test_a_stale_leader_is_told_and_nothing_is_sent(shop: Shop):
    with shop.leads(term=8, holder="bo#1", item="lead-0"):
        await shop.create()
    with shop.leads(term=7):
        error = await refused(shop)

    tell(shop, "stale term", error)
    assert type(error) is StaleTerm
    assert error.facts["highest_term"] == 8
    assert shop.leadership.refused is error
    assert len(shop.standin.effects) == 1
