"""Alerts: sentences that people have to hear, written down in the transaction of what they tell.

So an alert is not lost between a commit and its sending, and none tells of what was rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gateway.core.ids import Scope, new_effect_id
from gateway.store.batch import Batch

NOBODY: Final = "operators"
"""Who is responsible where no policy names anybody."""


def alert(
    batch: Batch,
    kind: str,
    *,
    says: str,
    consequence: str,
    responsible: str,
    next_action: str,
    about: Mapping[str, Any],
) -> None:
    """Write an alert down, to be sent after the commit. `about` are ids and names."""
    body = {
        "says": says,
        "consequence": consequence,
        "responsible": responsible or NOBODY,
        "next_action": next_action,
        "about": {name: value for name, value in about.items() if value not in (None, "")},
    }
    batch.db.execute(
        "INSERT INTO alert (id, kind, body, made_at_ms, tries, next_at_ms) "
        "VALUES (?, ?, ?, ?, 0, ?)",
        (
            new_effect_id(batch.now_ms),
            kind,
            orjson.dumps(body).decode(),
            batch.now_ms,
            batch.now_ms,
        ),
    )


def named(scope: Scope) -> str:
    """Return a scope as a sentence says it."""
    return scope.function + (f", unit {scope.unit}" if scope.unit else "")


def leader_lost(batch: Batch, scope: Scope, holder: str, term: int, left: int, owner: str) -> None:
    """Tell that a lease expired over effects of which it is not known what became of them."""
    alert(
        batch,
        "leader-lost",
        says=f"{holder} did not renew its lease in time and no longer leads {named(scope)}.",
        consequence=f"Nothing new is admitted under term {term}. {left} of its effects are "
        "unfinished, and none of them is repeated before it is settled.",
        responsible=owner,
        next_action="see that a candidate takes over; settle what the gateway cannot settle by "
        "itself",
        about={
            "function": scope.function,
            "unit": scope.unit,
            "term": term,
            "holder": holder,
            "unfinished_effects": left,
        },
    )


def nobody_may_lead(batch: Batch, scope: Scope, reasons: list[str], owner: str) -> None:
    alert(
        batch,
        "no-eligible-candidate",
        says=f"Nobody leads {named(scope)}, and nobody who reports may.",
        consequence="Its work stands still until somebody leads. "
        + ("Why not: " + "; ".join(reasons) + "." if reasons else "No candidate reports."),
        responsible=owner,
        next_action="start an eligible worker, or change what the function's policy wants",
        about={"function": scope.function, "unit": scope.unit},
    )
