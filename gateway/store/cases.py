"""Exceptions on a batch: opened once for an effect, decided by one person, never forgotten.

What people have to hear of is written down beside it, in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.errors import InvariantError
from gateway.core.ids import Scope, new_effect_id
from gateway.store.alerts import alert
from gateway.store.batch import Batch
from gateway.store.case_records import Act, Action, CaseRecord, NotActed, Opening
from gateway.store.deciding import decide_effect
from gateway.store.probes import look_anew
from gateway.store.rows import EffectRow
from gateway.store.wanted import Wanted

CASE_COLUMNS: Final = (
    "id, effect_id, function, unit, item, destination, term, reason, detail, owner, "
    "deadline_at_ms, opened_at_ms, acknowledged_by, escalated_at_ms, closed_at_ms, closed_by, "
    "decision, evidence, version"
)
EXHAUSTED: Final = "attempts-exhausted"
"""The reason of an exception about an effect that is no unknown one: it was rejected too often."""

MOOT: Final = (
    "c.closed_at_ms IS NULL AND CASE WHEN c.reason = 'attempts-exhausted' "
    "THEN e.outcome IN ('confirmed', 'unknown') "
    "ELSE e.outcome IN ('confirmed', 'rejected', 'no-effect') END"
)
"""Open exceptions that are none any more: what a person was to settle has been settled."""

_UNDECIDED: Final = (
    "Until somebody decides it is not repeated, and its unit of work cannot be completed."
)
_CONSEQUENCE: Final = {
    EXHAUSTED: "It is not sent again until somebody lets it be tried anew.",
}
_NEXT: Final = {
    EXHAUSTED: "mend what the destination rejects, then extend the exception to let it be tried",
}


def case_record(row: Any) -> CaseRecord:
    names = [name.strip() for name in CASE_COLUMNS.split(",")]
    fields = dict(zip(names, row, strict=True))
    fields["evidence"] = orjson.loads(fields["evidence"])
    return CaseRecord(**fields)


def _tell(batch: Batch, case: CaseRecord, kind: str, says: str, next_action: str) -> None:
    alert(
        batch,
        kind,
        says=says,
        consequence=f"{case.detail} {_CONSEQUENCE.get(case.reason, _UNDECIDED)}",
        responsible=case.owner,
        next_action=next_action,
        about={
            "exception_id": case.id,
            "effect_id": case.effect_id,
            "function": case.function,
            "unit": case.unit,
            "item": case.item,
            "destination": case.destination,
            "term": case.term,
            "reason": case.reason,
            "deadline_at_ms": case.deadline_at_ms,
        },
    )


def _load(batch: Batch, where: str, value: str) -> CaseRecord | None:
    row = batch.db.execute(
        f"SELECT {CASE_COLUMNS} FROM exception_case WHERE {where} = ? "
        "ORDER BY opened_at_ms DESC LIMIT 1",
        (value,),
    ).fetchone()
    return None if row is None else case_record(row)


@dataclass(frozen=True, slots=True)
class OpeningCase:
    """Open an exception, unless one is open for the effect already."""

    opening: Opening

    def wants(self, wanted: Wanted) -> None:
        wanted.exceptions = True
        if self.opening.effect_id is not None:
            wanted.ids.add(self.opening.effect_id)

    def run(self, batch: Batch) -> CaseRecord:
        given = self.opening
        batch.flush()
        if given.effect_id is not None:
            known = _load(batch, "closed_at_ms IS NULL AND effect_id", given.effect_id)
            if known is not None:
                return known
        case_id = new_effect_id(batch.now_ms)
        batch.db.execute(
            f"INSERT INTO exception_case ({CASE_COLUMNS}) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, NULL, ?, 1)",
            (
                case_id, given.effect_id, given.scope.function, given.unit, given.item,
                given.destination, given.term, given.reason, given.detail, given.owner,
                batch.now_ms + given.deadline_ms, batch.now_ms,
                orjson.dumps(given.evidence).decode(),
            ),
        )  # fmt: skip
        batch.journal(
            "exception-opened",
            given.scope._replace(unit=given.unit),
            term=given.term,
            effect_id=given.effect_id,
            reason=given.reason,
            uncertain=1,
            next_action=f"{given.owner} decides",
            responsible=given.owner,
            detail={"exception_id": case_id, "says": given.detail},
        )
        case = _load(batch, "id", case_id)
        if case is None:
            raise InvariantError(f"exception {case_id} was written and is not there")
        says = f"An exception of {given.scope.function} needs a person: {given.reason}."
        look = f"look at {given.destination}, then confirm, not-applied or abandon, and say why"
        _tell(batch, case, "exception-opened", says, _NEXT.get(given.reason, look))
        return case


@dataclass(frozen=True, slots=True)
class Acting:
    """Take a person's act on an exception: of two at once, the first is taken."""

    act: Act
    effect_id: str | None

    def wants(self, wanted: Wanted) -> None:
        wanted.exceptions = True
        if self.effect_id is not None:
            wanted.ids.add(self.effect_id)

    def run(self, batch: Batch) -> NotActed | None:
        act = self.act
        batch.flush()
        case = _load(batch, "id", act.case_id)
        if case is None or case.effect_id != self.effect_id:
            return NotActed.NOT_FOUND
        if case.version != act.version:
            return NotActed.VERSION_CONFLICT
        if case.closed_at_ms is not None:
            return NotActed.CLOSED
        if act.action not in case.allowed:
            return NotActed.NOT_ALLOWED
        effect = batch.effects.get(case.effect_id) if case.effect_id else None
        refusal = self._do(batch, case, effect)
        if refusal is None:
            batch.journal(
                "exception-decided",
                Scope(case.function, case.unit),
                term=case.term,
                effect_id=case.effect_id,
                principal=act.principal,
                reason=act.reason,
                responsible=act.owner or case.owner,
                detail={"exception_id": case.id, "action": act.action.value},
            )
        return refusal

    def _do(self, batch: Batch, case: CaseRecord, effect: EffectRow | None) -> NotActed | None:
        act = self.act
        match act.action:
            case Action.ASSIGN:
                self._change(batch, case, "owner = ?, acknowledged_by = ?", act.owner or case.owner)
                return None
            case Action.EXTEND:
                until_ms = batch.now_ms + (act.deadline_ms or 0)
                self._change(batch, case, "deadline_at_ms = ?, acknowledged_by = ?", until_ms)
                batch.db.execute(
                    "UPDATE exception_case SET escalated_at_ms = NULL WHERE id = ?", (case.id,)
                )
                if case.reason == EXHAUSTED and effect is not None:
                    effect.rejected = 0
                    batch.change_effect(effect)
                    self._close(batch, case)
                return None
            case Action.PROBE_AGAIN:
                look_anew(batch, case.effect_id or "")
                self._close(batch, case)
                return None
            case _:
                return self._decide(batch, case, effect)

    def _decide(self, batch: Batch, case: CaseRecord, effect: EffectRow | None) -> NotActed | None:
        """Settle the effect: that it happened at any time, that it did not after the seal."""
        act = self.act
        if effect is None or effect.outcome is not Outcome.UNKNOWN:
            return NotActed.NOT_UNKNOWN
        unknown = [t for t in effect.tries.values() if t.outcome is Outcome.UNKNOWN]
        unsealed = any(batch.now_ms < attempt.seal_at_ms for attempt in unknown)
        if act.action is not Action.CONFIRM and unsealed:
            return NotActed.BEFORE_SEAL
        if act.action is Action.ABANDON:
            effect.abandoned = True
            batch.change_effect(effect)
        else:
            confirm = act.action is Action.CONFIRM
            decide_effect(
                batch, effect, Outcome.CONFIRMED if confirm else Outcome.NO_EFFECT,
                ResolvedBy.OPERATOR, principal=act.principal, reason=act.reason,
                detail={"exception_id": case.id},
            )  # fmt: skip
        self._close(batch, case)
        return None

    def _change(self, batch: Batch, case: CaseRecord, columns: str, value: Any) -> None:
        batch.db.execute(
            f"UPDATE exception_case SET {columns}, version = version + 1 WHERE id = ?",
            (value, self.act.principal, case.id),
        )

    def _close(self, batch: Batch, case: CaseRecord) -> None:
        close_case(batch, case.id, self.act.principal, self.act.action.value)


def close_case(batch: Batch, case_id: str, by: str, decision: str) -> None:
    batch.db.execute(
        "UPDATE exception_case SET closed_at_ms = ?, closed_by = ?, decision = ?, "
        "version = version + 1 WHERE id = ? AND closed_at_ms IS NULL",
        (batch.now_ms, by, decision, case_id),
    )


def close_moot(batch: Batch, effect_id: str, by: str) -> None:
    """Close the exception of an effect that has been settled otherwise, if it has one."""
    found = batch.db.execute(
        f"SELECT c.id, e.outcome FROM exception_case c JOIN effect e ON e.id = c.effect_id "
        f"WHERE c.effect_id = ? AND {MOOT}",
        (effect_id,),
    ).fetchone()
    if found is None:
        return
    case = _load(batch, "id", found[0])
    if case is None:
        raise InvariantError(f"exception {found[0]} was read and is not there")
    close_case(batch, case.id, by, f"settled: {found[1]}")
    batch.journal(
        "exception-closed",
        Scope(case.function, case.unit),
        term=case.term,
        effect_id=case.effect_id,
        principal=by,
        reason=f"settled: {found[1]}",
        detail={"exception_id": case.id},
    )


@dataclass(frozen=True, slots=True)
class Escalating:
    """Tell people once about each exception whose deadline has passed, and close those whose
    effect is not unknown any more: truth came late, or somebody resolved it otherwise."""

    def wants(self, wanted: Wanted) -> None:
        wanted.exceptions = True

    def run(self, batch: Batch) -> list[CaseRecord]:
        batch.flush()
        moot = batch.db.execute(
            f"SELECT c.effect_id FROM exception_case c JOIN effect e ON e.id = c.effect_id "
            f"WHERE {MOOT}"
        ).fetchall()
        for (effect_id,) in moot:
            close_moot(batch, effect_id, "gateway")
        found = [
            case_record(row)
            for row in batch.db.execute(
                f"SELECT {CASE_COLUMNS} FROM exception_case WHERE closed_at_ms IS NULL "
                "AND escalated_at_ms IS NULL AND deadline_at_ms <= ?",
                (batch.now_ms,),
            ).fetchall()
        ]
        for case in found:
            batch.db.execute(
                "UPDATE exception_case SET escalated_at_ms = ? WHERE id = ?",
                (batch.now_ms, case.id),
            )
            batch.journal(
                "exception-overdue",
                Scope(case.function, case.unit),
                term=case.term,
                effect_id=case.effect_id,
                reason=case.reason,
                uncertain=1,
                next_action=f"{case.owner} is late: decide, extend, or assign somebody else",
                responsible=case.owner,
                detail={"exception_id": case.id},
            )
            says = f"An exception of {case.function} is overdue: {case.owner} has not decided."
            _tell(batch, case, "exception-overdue", says, "decide it, extend it, or assign it")
        return found
