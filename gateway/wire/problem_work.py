"""Problems of units of work: whose claim, which version, and what still stands open."""

from __future__ import annotations

from typing import Final

from gateway.wire.problem_form import Problem

WORK: Final[dict[str, Problem]] = {
    "unit-taken": Problem(
        status=409,
        title="This key is the unit of another function",
        detail="Nothing was changed. Do not retry. Give the unit a key that begins with its "
        "function, such as report:2026-10-02.",
        page="A unit's key is used once, whatever function it belongs to.",
    ),
    "unit-unfinished": Problem(
        status=409,
        title="The unit cannot be completed yet",
        detail="Nothing was changed. Do what 'reasons' names first: finish or settle the items, "
        "wait for the effects, or have an operator answer for those that are unknown. Then "
        "complete the unit again.",
        page="A unit is complete when its manifest is the recorded one, every item is done or "
        "failed, and it is known what became of every effect. An unknown effect stands in the "
        "way until its exception is acknowledged.",
        same_key=True,
    ),
    "item-unknown": Problem(
        status=404,
        title="The unit has no such item",
        detail="Nothing was changed. Check the item's name; GET /v1/units/{unit}/items lists those "
        "that there are.",
        page="Items are laid down in the manifest when the unit is created, and never change.",
    ),
    "not-claimed": Problem(
        status=409,
        title="You have no claim on this item",
        detail="Nothing was changed. Stop work on the item and do not retry: another worker may "
        "have it. Claim items again, and go on only with those that you are given.",
        page="A worker holds an item for the time of its claim and under the term of the leader "
        "that it works for. A claim that has expired is given to the next worker who asks, and "
        "one under an older term counts no more. What is final does not change.",
    ),
}
