"""Adopting policies: what decides identity changes only while nothing that it touches is open."""

from __future__ import annotations

import pytest

from gateway.core.effect import Outcome
from gateway.store.upkeep import Identity
from tests.conformance.books import SEAL_MS, Books

FUNCTION = Identity("function", "report", "external, function")
CRM = Identity("destination", "crm", "covers: path")
CRM_CHANGED = Identity("destination", "crm", "covers: key")


@pytest.fixture
async def adopted(store: Books) -> Books:
    assert await store.ledger.adopt([FUNCTION, CRM], {"d1": "crm"}) == []
    return store


def versions(store: Books) -> dict[str, int]:
    return dict(store.rows("SELECT name, version FROM policy_identity"))


async def test_policies_adopted_again_stay_as_they_are(adopted: Books):
    await adopted.admitted()

    assert await adopted.ledger.adopt([FUNCTION, CRM], {"d2": "crm"}) == []
    assert versions(adopted) == {"report": 1, "crm": 1}
    assert adopted.rows("SELECT digest FROM policy ORDER BY 1") == [("d1",), ("d2",)]


@pytest.mark.parametrize("outcome", [None, Outcome.UNKNOWN])
@pytest.mark.parametrize(
    "changed", [CRM_CHANGED, Identity("function", "report", "external, unit")], ids=["crm", "f"]
)
async def test_a_change_of_identity_waits_for_the_attempts_it_touches(
    adopted: Books, changed: Identity, outcome: Outcome | None
):
    effect_id = await adopted.admitted()
    if outcome is not None:
        await adopted.settle(effect_id, outcome)

    (complaint,) = await adopted.ledger.adopt([FUNCTION, changed], {"d2": "crm"})

    assert changed.name in complaint
    assert "1 of its attempts" in complaint
    assert versions(adopted) == {"report": 1, "crm": 1}
    assert adopted.rows("SELECT digest FROM policy") == [("d1",)]

    await adopted.settle(effect_id, Outcome.CONFIRMED)
    assert await adopted.ledger.adopt([FUNCTION, changed], {}) == []
    assert versions(adopted)[changed.name] == 2


async def test_open_attempts_elsewhere_are_not_in_the_way(adopted: Books):
    await adopted.admitted(destination="mail", function="sweep")

    assert await adopted.ledger.adopt([CRM_CHANGED], {}) == []


async def test_a_destination_that_only_loses_writes_is_adopted_at_once(store: Books):
    before = Identity("destination", "crm", '[["POST /a",null,"a"],["POST /b",null,null]]')
    stopped = Identity("destination", "crm", '[["POST /b",null,null]]')
    assert await store.ledger.adopt([FUNCTION, before], {}) == []
    await store.admitted("k-1", term=7, covers="a")

    assert await store.ledger.adopt([stopped], {}) == []

    assert versions(store)["crm"] == 2
    assert await store.ask("k-2", term=8, covers="x") == "wait"  # it holds everything back
    (complaint,) = await store.ledger.adopt([before], {})
    assert "1 of its attempts" in complaint


async def test_a_forced_change_makes_open_attempts_hold_back_everything(adopted: Books):
    await adopted.admitted("k-1", term=7, covers="a")
    await adopted.admitted("k-2", term=7, covers="b", destination="mail")
    assert await adopted.ask("k-3", term=8, covers="z") == "admit"

    assert await adopted.ledger.adopt([CRM_CHANGED], {}, force=True) == []

    assert await adopted.ask("k-5", term=9, covers="x") == "wait"
    assert await adopted.ask("k-6", term=9, covers="x", destination="mail") == "admit"
    adopted.clock.advance(ms=SEAL_MS)
    assert await adopted.ask("k-5", term=9, covers="x") == "admit"
