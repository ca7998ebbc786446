"""What the ledger does outside requests: recover, strand, resolve, adopt policies, forget.

Each function here runs in a transaction of its own: `fn(db, now_ms)` under the writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import orjson

from gateway.core.candidates import LOSSES_KEPT_MS
from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.ids import Scope
from gateway.store import rows
from gateway.store.batch import STRANDED_AFTER_MS, Batch
from gateway.store.cases import close_moot
from gateway.store.database import Database
from gateway.store.deciding import decide_effect
from gateway.store.records import Resolution, Unresolved
from gateway.store.wanted import Wanted

_SWEEP: Final = 500

DEAD_AFTER_MS: Final = 10_000
"""How long after its last heartbeat a gateway counts as dead. It beats every two seconds."""


def start_instance(db: Database, now_ms: int, instance: str, version: str) -> None:
    if db.alone:  # every earlier run of a gateway on this ledger is over
        db.execute(
            "UPDATE instance SET stopped_at_ms = heartbeat_at_ms WHERE stopped_at_ms IS NULL"
        )
    else:
        _bury(db, now_ms, instance)
    db.execute(
        "INSERT INTO instance (id, version, started_at_ms, heartbeat_at_ms) VALUES (?, ?, ?, ?)",
        (instance, version, now_ms, now_ms),
    )


def hold_seals(db: Database, now_ms: int, jump_ms: int) -> None:
    """Extend the seals that were not reached before the store's clock jumped by `jump_ms`.

    The jump may be an error of the wall clock, and a destination does not work faster for it.
    """
    db.execute(
        "UPDATE attempt SET seal_at_ms = seal_at_ms + ? WHERE open = 1 AND seal_at_ms > ?",
        (jump_ms, now_ms - jump_ms),
    )


NEVER_MS: Final = 2**53
KEEPER_MS: Final = 7_000
"""How long a gateway that does what is done once for all of them may miss its heartbeat."""


def beat(
    db: Database, now_ms: int, instance: str, *, version: str = "", stopped: bool = False
) -> int:
    """Record that this instance lives, or that it stops in order; and which others do not live.

    One that was only away for long says so with its next heartbeat, and lives again. Return
    until when it does what is done once for all gateways; 0 if another one does.
    """
    if not db.alone:
        _bury(db, now_ms, instance)
    known = db.execute(
        "UPDATE instance SET heartbeat_at_ms = ?, stopped_at_ms = ? WHERE id = ?",
        (now_ms, now_ms if stopped else None, instance),
    ).rowcount
    if not known:  # the ledger came back older than this run
        start_instance(db, now_ms, instance, version)
    if db.alone:
        return NEVER_MS
    if stopped:
        db.execute("DELETE FROM keeper WHERE instance = ?", (instance,))
        return 0
    until_ms = now_ms + KEEPER_MS
    taken = db.execute(
        "INSERT INTO keeper (name, instance, until_ms) VALUES ('house', ?1, ?2) "
        "ON CONFLICT (name) DO UPDATE SET instance = excluded.instance, "
        "until_ms = excluded.until_ms WHERE keeper.instance = ?1 OR keeper.until_ms <= ?3",
        (instance, until_ms, now_ms),
    )
    return until_ms if taken.rowcount == 1 else 0


def _bury(db: Database, now_ms: int, instance: str) -> None:
    db.execute(
        "UPDATE instance SET stopped_at_ms = ? WHERE stopped_at_ms IS NULL "
        "AND heartbeat_at_ms < ? AND id <> ?",
        (now_ms, now_ms - DEAD_AFTER_MS, instance),
    )


def strand(db: Database, now_ms: int, instance: str) -> int:
    """Turn the intents that nobody will settle into unknown ones; return how many.

    At start these are all intents of earlier runs: what a crash left between two steps.
    """
    over = "instance <> ?"
    if not db.alone:
        over += " AND instance NOT IN (SELECT id FROM instance WHERE stopped_at_ms IS NULL)"
    late = db.execute(
        "SELECT DISTINCT effect_id FROM attempt INDEXED BY attempt_open "
        "WHERE open = 1 AND outcome IS NULL "
        f"AND (({over}) OR deadline_at_ms + ? < ?)",
        (instance, STRANDED_AFTER_MS, now_ms),
    ).fetchall()
    ids = sorted(effect_id for (effect_id,) in late)
    for at in range(0, len(ids), _SWEEP):
        db.lock(Wanted(ids=set(ids[at : at + _SWEEP])))
        batch = Batch(db, now_ms, instance)
        for effect in rows.load_by_id(db, ids[at : at + _SWEEP]):
            batch.strand(effect)
        batch.flush()
    # Past its seal, one that was decided holds nobody back any more; nor does an unknown one
    # whose effect another attempt has confirmed.
    db.execute(
        "UPDATE attempt SET open = 0 WHERE open = 1 AND seal_at_ms <= ? AND (decided = 1 OR "
        "(outcome = 'unknown' AND EXISTS (SELECT 1 FROM effect e "
        "WHERE e.id = attempt.effect_id AND e.outcome = 'confirmed')))",
        (now_ms,),
    )
    return len(ids)


def resolve(db: Database, now_ms: int, instance: str, given: Resolution) -> Unresolved | None:
    """Take an operator's word on an unknown effect, or say why it is not taken.

    "It happened" may be said at any time. "It did not" only after the seal: until then the
    destination may still be running the request, and the key would be freed under its feet.
    """
    db.lock(Wanted(ids={given.effect_id}, exceptions=True))
    found = rows.load_by_id(db, [given.effect_id])
    if not found:
        return Unresolved.NOT_FOUND
    effect = found[0]
    batch = Batch(db, now_ms, instance)
    batch.strand(effect)
    refusal = _unresolvable(effect, now_ms, given)
    if refusal is None:
        decide_effect(
            batch, effect, given.outcome, ResolvedBy.OPERATOR,
            principal=given.principal, reason=given.reason,
        )  # fmt: skip
        batch.flush()
        close_moot(batch, effect.id, given.principal)
    batch.flush()
    return refusal


def _unresolvable(effect: rows.EffectRow, now_ms: int, given: Resolution) -> Unresolved | None:
    if given.version is not None and given.version != effect.version:
        return Unresolved.VERSION_CONFLICT
    if effect.outcome is not Outcome.UNKNOWN:
        return Unresolved.NOT_UNKNOWN
    unknown = [t for t in effect.tries.values() if t.outcome is Outcome.UNKNOWN]
    if given.outcome is Outcome.NO_EFFECT and any(now_ms < t.seal_at_ms for t in unknown):
        return Unresolved.BEFORE_SEAL
    return None


@dataclass(frozen=True, slots=True)
class Identity:
    """What of a policy decides which effect and which leadership a request belongs to."""

    kind: str  # "function" or "destination"
    name: str
    text: str


def adopt(
    db: Database,
    now_ms: int,
    identities: list[Identity],
    digests: Mapping[str, str],
    *,
    texts: Mapping[str, str],
    force: bool = False,
) -> list[str]:
    """Record the policies' identities; return sentences about changes that must wait.

    A change is refused while attempts that it touches are open: under another `covers` or
    scope they would hold nobody back. With `force` such attempts hold back everything at
    their destination until they are settled.
    """
    db.lock(Wanted(alone=True))
    recorded = {
        (kind, name): (text, version)
        for kind, name, text, version in db.execute(
            "SELECT kind, name, identity, version FROM policy_identity"
        )
    }
    complaints: list[str] = []
    changed: list[tuple[Identity, int, bool]] = []
    for identity in identities:
        text, version = recorded.get((identity.kind, identity.name), (None, 0))
        if text == identity.text:
            continue
        # What only takes writes away must not wait for anything: it may be an emergency stop.
        tightens = text is not None and _only_tightens(identity, text)
        if text is not None and not force and not tightens:
            complaints += _in_the_way(db, now_ms, identity)
        changed.append((identity, version + 1, tightens))
    if complaints:
        return complaints
    for identity, version, tightens in changed:
        if version > 1 and (force or tightens):
            _hold_back_all(db, identity)
        db.execute(
            "INSERT INTO policy_identity (kind, name, identity, version, changed_at_ms) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET "
            "identity = excluded.identity, version = excluded.version, "
            "changed_at_ms = excluded.changed_at_ms",
            (identity.kind, identity.name, identity.text, version, now_ms),
        )
    for digest, name in digests.items():
        db.execute(
            "INSERT INTO policy (digest, name, first_seen_at_ms, text) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (digest) DO UPDATE SET text = coalesce(excluded.text, policy.text)",
            (digest, name, now_ms, texts.get(digest)),
        )
    db.adopted(changed=bool(changed))
    return []


def _only_tightens(identity: Identity, before: str) -> bool:
    """Whether a destination has lost routes that write, and gained or changed none.

    Its open attempts then hold back everything there until their seals: with a route gone,
    another one may speak of the same things under another `covers`.
    """
    if identity.kind != "destination":
        return False
    try:
        routes, known = orjson.loads(identity.text), orjson.loads(before)
    except orjson.JSONDecodeError:
        return False
    return isinstance(known, list) and all(route in known for route in routes)


def _in_the_way(db: Database, now_ms: int, identity: Identity) -> list[str]:
    """Return what a change of `identity` has to wait for."""
    complaints = []
    column = "function" if identity.kind == "function" else "destination"
    (led,) = db.execute(
        "SELECT count(*) FROM lease WHERE ended IS NULL AND expires_at_ms > ? AND function = ?",
        (now_ms, identity.name if identity.kind == "function" else None),
    ).fetchone()
    if led:
        complaints.append(
            f"function {identity.name!r} changes its authority or leadership while {led} of its "
            "leases are live; let the leaders release them, wait until they expire, or start "
            "with --force-policies"
        )
    (count,) = db.execute(
        f"SELECT count(*) FROM attempt INDEXED BY attempt_open WHERE open = 1 AND {column} = ?",
        (identity.name,),
    ).fetchone()
    if count:
        complaints.append(
            f"{identity.kind} {identity.name!r} changes what decides identity (authority, "
            f"leadership, key or covers) while {count} of its attempts are open; wait for "
            "them to settle, resolve the unknown ones, or start with --force-policies"
        )
    return complaints


def _hold_back_all(db: Database, identity: Identity) -> None:
    column = "function" if identity.kind == "function" else "destination"
    db.execute(
        f"UPDATE attempt SET covers = ? WHERE open = 1 AND {column} = ?",
        (rows.COVERS_ALL, identity.name),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """How long things are kept."""

    bodies_ms: int = 30 * 86_400_000
    refusals_ms: int = 30 * 86_400_000
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What one sweep of retention did. `more` says that it stopped at its limit."""

    bodies: int
    refusals: int
    more: bool


def forget(db: Database, now_ms: int, kept: Kept) -> Forgotten:
    """Drop bodies past their time; the facts stay, so a key never becomes fresh again.

    Only confirmed effects give up their answers: an unknown one keeps its evidence, and its
    request, for as long as it is unknown.
    """
    done, through, more = _expire_answers(db, now_ms - kept.bodies_ms, kept.limit)
    bodies = db.execute(
        "UPDATE answer SET body = NULL, headers = '[]', state = 'expired' "
        "WHERE seq > ? AND seq <= ? AND state <> 'evidence' AND body IS NOT NULL",
        (done, through),
    ).rowcount
    if more:  # what has no index is gone through once, at the end
        return Forgotten(bodies, 0, more)
    refusals = db.execute(
        "DELETE FROM refusal WHERE last_at_ms < ?", (now_ms - kept.refusals_ms,)
    ).rowcount
    db.execute("DELETE FROM alert WHERE delivered_at_ms < ?", (now_ms - kept.refusals_ms,))
    gone_ms = now_ms - LOSSES_KEPT_MS
    db.execute("DELETE FROM candidate WHERE reported_at_ms < ?", (gone_ms,))
    db.execute("DELETE FROM lease_loss WHERE at_ms < ?", (gone_ms,))
    return Forgotten(bodies, refusals, more)


def _expire_answers(db: Database, before_ms: int, limit: int) -> tuple[int, int, bool]:
    """Return behind which answer and up to which one time is over, and whether there may be more.

    Answers are appended in the order of time, so how far retention has come is one number;
    an index by age would cost every request to spare one sweep an hour. The first that is to be
    kept ends the sweep: those behind it are not looked at, however many they are.
    """
    row = db.execute("SELECT value FROM ledger_meta WHERE name = 'answers_expired'").fetchone()
    done = int(row[0]) if row else 0
    found = db.execute(
        "SELECT seq, at_ms FROM answer WHERE seq > ? ORDER BY seq LIMIT ?", (done, limit)
    ).fetchall()
    over = [seq for seq, _ in takewhile(lambda row: row[1] < before_ms, found)]
    through = over[-1] if over else done
    db.execute(
        "INSERT INTO ledger_meta (name, value) VALUES ('answers_expired', ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (str(through),),
    )
    return done, through, len(over) >= limit


def alert_sent(db: Database, now_ms: int, *, seq: int, error: str | None, again_in_ms: int) -> None:
    db.execute(
        "UPDATE alert SET tries = tries + 1, last_error = ?, next_at_ms = ?, "
        "delivered_at_ms = ? WHERE seq = ?",
        (error, now_ms + again_in_ms, now_ms if error is None else None, seq),
    )


def journal(db: Database, now_ms: int, kind: str, *, principal: str, detail: object) -> None:
    """Append something that concerns the whole gateway to the journal."""
    batch = Batch(db, now_ms, "")
    batch.journal(kind, Scope(""), principal=principal, detail=orjson.loads(orjson.dumps(detail)))
    batch.flush()
