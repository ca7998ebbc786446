"""Bringing a ledger that came back older into service again.

Terms go above everything that was seen, nobody holds a lease, what was open is unknown, and what
may have been sent in the lost time is in doubt until a person trusts it. One transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.core.doubt import ALL, Doubt
from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.core.reconcile import LOST
from gateway.store import rows
from gateway.store.batch import Batch
from gateway.store.database import Database
from gateway.store.lineage import Lineage, read_lineage, write_lineage
from gateway.store.upkeep import DEAD_AFTER_MS
from gateway.store.wanted import Wanted
from gateway.store.watch import complaints
from gateway.store.witness import Seen

_SWEEP: Final = 500
_PUT_SCOPE: Final = (
    "INSERT INTO scope (function, unit, highest_term, last_term, holder, raised_at_ms) "
    "VALUES (?, ?, ?, ?, NULL, ?) ON CONFLICT (function, unit) DO UPDATE SET "
    "highest_term = excluded.highest_term, last_term = excluded.last_term, holder = NULL, "
    "raised_at_ms = excluded.raised_at_ms"
)
_NEXT: Final = "a new leader acquires the lease; every key is in doubt until somebody trusts it"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a recovery would be about. `older` says in what the ledger falls short."""

    lineage: Lineage
    older: list[str]
    scopes: int
    live_leases: int
    open_effects: int
    live_gateways: int
    last_at_ms: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery did."""

    recoveries: int
    terms: dict[Scope, int]
    leases_ended: int
    effects_unknown: int


def look(db: Database, now_ms: int, witnesses: Sequence[Seen]) -> Findings:
    """Compare the ledger with the witnesses; change nothing."""
    lineage = read_lineage(db)
    older = [one for seen in witnesses for one in complaints(db, lineage, seen)]
    scopes, live, opened, gateways = (
        db.execute(text, values).fetchone()[0]
        for text, values in (
            ("SELECT count(*) FROM scope", ()),
            ("SELECT count(*) FROM lease WHERE ended IS NULL", ()),
            ("SELECT count(DISTINCT effect_id) FROM attempt WHERE open = 1", ()),
            (
                "SELECT count(*) FROM instance WHERE stopped_at_ms IS NULL AND heartbeat_at_ms > ?",
                (now_ms - DEAD_AFTER_MS,),
            ),
        )
    )
    return Findings(
        lineage=lineage,
        older=list(dict.fromkeys(older)),
        scopes=scopes,
        live_leases=live,
        open_effects=opened,
        live_gateways=0 if db.alone else gateways,  # whoever has the file has it alone
        last_at_ms=_last_at_ms(db),
    )


def recover(
    db: Database, now_ms: int, witnesses: Sequence[Seen], *, principal: str, reason: str
) -> Recovered:
    """Recover the ledger, inside a transaction that is then committed."""
    db.lock(Wanted(alone=True))
    before = read_lineage(db)
    from_ms = _last_at_ms(db)
    if before.doubt is not None:  # what was in doubt before is so again
        from_ms = min(from_ms, before.doubt.from_ms)
    batch = Batch(db, now_ms, "")
    unknown = _open_to_unknown(batch)
    terms = _lift(batch, witnesses)
    ended = db.execute(
        "UPDATE lease SET ended = 'expired', ended_at_ms = ?, version = version + 1 "
        "WHERE ended IS NULL",
        (now_ms,),
    ).rowcount
    db.execute("DELETE FROM candidate")  # what they said, they said before: they say it anew
    if not db.alone:
        db.execute("DELETE FROM keeper")  # whoever kept house then is not waited for
    recoveries = 1 + max([before.recoveries, *(seen.recoveries for seen in witnesses)])
    identities = {seen.identity for seen in witnesses} - {before.identity}
    after = replace(
        before,
        recoveries=recoveries,
        restored=None,
        doubt=Doubt(from_ms, now_ms),
        floor=max([before.floor, *terms.values(), *_rest(witnesses)]),
        predecessors=before.predecessors | identities,
    )
    write_lineage(db, after)
    for scope, term in sorted(terms.items()):
        batch.journal(
            "ledger-recovered", scope, term=term, principal=principal, reason=reason,
            next_action=_NEXT,
        )  # fmt: skip
    batch.journal(
        "ledger-recovered", Scope(""), principal=principal, reason=reason, uncertain=unknown,
        next_action=_NEXT,
        detail={"recoveries": recoveries, "from_ms": from_ms, "leases_ended": ended},
    )  # fmt: skip
    batch.flush()
    return Recovered(recoveries, terms, ended, unknown)


def trust(
    db: Database, now_ms: int, names: Collection[str], *, principal: str, reason: str
) -> tuple[Doubt | None, int]:
    """Take functions, units or everything out of the doubt: a person answers for it that their
    lost effects are known. Return the doubt after it, and when trust may be given at the earliest:
    in that case, nothing has changed."""
    db.lock(Wanted(alone=True))
    lineage = read_lineage(db)
    if lineage.doubt is None:
        return None, 0
    sealed_ms = lineage.doubt.until_ms + _longest_ms(db)
    if now_ms < sealed_ms:
        return lineage.doubt, sealed_ms
    doubt = replace(lineage.doubt, trusted=lineage.doubt.trusted | set(names))
    write_lineage(db, replace(lineage, doubt=doubt))
    batch = Batch(db, now_ms, "")
    for name in sorted(names):
        function, _, unit = name.partition("/")
        batch.journal(
            "ledger-trusted", Scope("" if name == ALL else function, unit), principal=principal,
            reason=reason, next_action="keys that are not on record are sent again",
        )  # fmt: skip
    batch.flush()
    return doubt, 0


def _longest_ms(db: Database) -> int:
    """Return how long a lost attempt may be under way: no longer than those on record."""
    row = db.execute("SELECT coalesce(max(seal_at_ms - created_at_ms), 0) FROM attempt").fetchone()
    return int(row[0])


def _last_at_ms(db: Database) -> int:
    """Return the time of the last record: what came after it may be lost. What a gateway wrote
    since it came back (heartbeats, policies) is no such record."""
    (written,) = db.execute("SELECT coalesce(max(created_at_ms), 0) FROM attempt").fetchone()
    (answered,) = db.execute("SELECT coalesce(max(at_ms), 0) FROM answer").fetchone()
    return int(max(written, answered))


def _open_to_unknown(batch: Batch) -> int:
    """Make in-flight effects unknown; let every open one wait for what the lost time may have
    sent, and let nobody conclude from a look that it did not happen."""
    db, now_ms = batch.db, batch.now_ms
    found = db.execute("SELECT DISTINCT effect_id FROM attempt WHERE open = 1").fetchall()
    unknown = db.execute("SELECT id FROM effect WHERE outcome = 'unknown'").fetchall()
    ids = sorted({name for (name,) in [*found, *unknown]})
    count = 0
    for at in range(0, len(ids), _SWEEP):
        for effect in rows.load_by_id(db, ids[at : at + _SWEEP]):
            for attempt in effect.tries.values():
                if attempt.outcome is None:
                    attempt.outcome, attempt.reason = Outcome.UNKNOWN, LOST
                    attempt.ended_at_ms = now_ms
                    batch.change_attempt(effect, attempt)
            effect.recount()
            batch.change_effect(effect)
            if effect.outcome is Outcome.UNKNOWN:
                count += 1
                batch.journal("effect-stranded", effect.scope, effect_id=effect.id, reason=LOST)
        batch.flush()
    db.execute(
        "UPDATE attempt SET seal_at_ms = seal_at_ms - created_at_ms + ?1 "
        "WHERE open = 1 AND seal_at_ms < seal_at_ms - created_at_ms + ?1",
        (now_ms,),
    )
    db.execute("UPDATE effect SET superseded = 1 WHERE outcome = 'unknown'")
    return count


def _lift(batch: Batch, witnesses: Sequence[Seen]) -> dict[Scope, int]:
    """Raise the terms. Where the gateway grants them, the recovery takes a new one above all
    that was given out and gives it to nobody; where they come from outside, the highest one seen
    counts, and its holder is not known: the authority has to name a new one."""
    every = batch.db.execute("SELECT function, unit FROM scope").fetchall()
    scopes = {Scope(*row) for row in every} | {s for seen in witnesses for s in seen.scopes}
    granted = {Scope(*row) for row in batch.db.execute("SELECT function, unit FROM lease")}
    granting = _granting(batch.db)
    rest: dict[str, int] = {}
    for seen in witnesses:
        for function, term in seen.rest.items():
            rest[function] = max(term, rest.get(function, 0))
    lifted: dict[Scope, int] = {}
    for scope, row in rows.load_scopes(batch.db, sorted(scopes)).items():
        told = [seen.scopes[scope] for seen in witnesses if scope in seen.scopes]
        top = max([row.highest_term, row.last_term, *(max(pair) for pair in told)])
        if scope in granted or scope.function in granting:
            top = max(top, rest.get(scope.function, 0)) + 1
        elif top <= row.highest_term:
            continue
        lifted[scope] = top
    batch.db.executemany(
        _PUT_SCOPE, [(*scope, top, top, batch.now_ms) for scope, top in sorted(lifted.items())]
    )
    return lifted


def _granting(db: Database) -> set[str]:
    """Return the functions whose terms the gateway grants, by their policy on record."""
    found = db.execute("SELECT name, identity FROM policy_identity WHERE kind = 'function'")
    return {name for name, identity in found.fetchall() if '"lease"' in identity}


def _rest(witnesses: Sequence[Seen]) -> list[int]:
    return [term for seen in witnesses for term in seen.rest.values()]
