"""The promises about leadership, checked against the ledger's tables after every step."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.core.lease import Changed, Granted, Kept, Lease, Turned
from gateway.store.batch import STRANDED_AFTER_MS
from gateway.store.lease_records import LeaseAnswer
from gateway.store.lease_rows import LEASE_COLUMNS, LeaseRow
from tests.conformance.books import RULES
from tests.simulation.destination import Destination, hold
from tests.simulation.lease_client import Client, Request
from tests.simulation.watch import Snapshot, Watch, check_raises

ENDS = ("release", "step-down", "hand-off")


@dataclass
class LeaseSnapshot(Snapshot):
    """What the ledger says of the scope at one moment."""

    last_term: int = 0
    lease: Lease | None = None
    version: int = 0
    journal: list[tuple[str, int, str, str | None, int]] = field(default_factory=list)
    ready: dict[str, bool] = field(default_factory=dict)

    def in_flight(self, now_ms: int) -> int:
        """Count what may still settle. What nobody will settle is stranded by whoever meets it,
        and holds no draining up, whether it has been met or not."""
        return sum(
            attempt.outcome is None and now_ms <= attempt.deadline_at_ms + STRANDED_AFTER_MS
            for attempt in self.attempts.values()
        )

    def leads(self, now_ms: int) -> bool:
        """Whether somebody leads at `now_ms`, draining included."""
        lease = self.lease
        if lease is None or lease.ended is not None or now_ms >= lease.expires_at_ms:
            return False
        if lease.drain_until_ms is None:
            return True
        return now_ms < lease.drain_until_ms and self.in_flight(now_ms) > 0

    def named_by(self, request: Request) -> bool:
        """Whether the request names the latest lease, and may."""
        lease = self.lease
        return lease is not None and (lease.holder, lease.term, lease.principal) == (
            request.holder, request.term, request.principal,
        )  # fmt: skip


class LeaseWatch(Watch):
    """Looks at the ledger from beside it after every step."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Destination())
        self.seen: LeaseSnapshot = LeaseSnapshot()

    def read(self) -> LeaseSnapshot:
        db: sqlite3.Connection = self._db
        found = db.execute(f"SELECT {LEASE_COLUMNS} FROM lease").fetchone()
        row = LeaseRow.read(found) if found else None
        last = db.execute("SELECT last_term FROM scope").fetchone()
        seen = super().read()
        return LeaseSnapshot(
            **{name: getattr(seen, name) for name in Snapshot.__dataclass_fields__},
            last_term=last[0] if last else 0,
            lease=row.lease if row else None,
            version=row.version if row else 0,
            journal=[
                (kind, term, holder, reason, json.loads(detail)["ended_at_ms"] if lost else at_ms)
                for kind, term, holder, reason, at_ms, detail, lost in db.execute(
                    "SELECT kind, term, holder, reason, at_ms, detail, kind = 'leader-lost' "
                    "FROM transition WHERE kind IN ('leader-acquired', 'leader-lost') ORDER BY id"
                )
            ],
            ready={
                holder: bool(ready)
                for holder, ready in db.execute("SELECT holder, ready FROM candidate")
            },
        )

    def look(self) -> LeaseSnapshot:
        before, now = self.seen, self.read()
        hold("I18", now.now_ms >= before.now_ms, f"time went {before.now_ms} to {now.now_ms}")
        hold("I1", now.last_term >= before.last_term, f"{before.last_term}, then {now.last_term}")
        hold("I5", now.highest_term == now.last_term, f"{now.highest_term} is not {now.last_term}")
        if before.lease is not None and now.lease is not None:
            ended = before.lease.term == now.lease.term and before.lease.ended
            hold("I3", not ended or now.lease == before.lease, f"{before.lease} is {now.lease}")
        self._tenures(now)
        self.seen = now
        return now

    def _tenures(self, now: LeaseSnapshot) -> None:
        """I1 and I2, from the journal: one tenure after another, each ended once."""
        leading: tuple[int, str] | None = None
        last_term = at_ms = 0
        for kind, term, holder, reason, moment_ms in now.journal:
            if kind == "leader-acquired":
                hold("I1", term == last_term + 1, f"term {term} is granted after {last_term}")
                hold("I2", leading is None, f"{term} is granted while {leading} leads")
                hold("I2", moment_ms >= at_ms, f"{term} begins at {moment_ms}, before {at_ms}")
                leading, last_term = (term, holder), term
            else:
                hold("I2", leading == (term, holder), f"{term} of {holder} ends ({reason})")
                leading = None
            at_ms = max(at_ms, moment_ms)
        lease = now.lease
        live = (lease.term, lease.holder) if lease and lease.ended is None else None
        hold("I2", leading == live, f"{leading} leads by the journal, {live} by the lease")
        hold("I5", now.highest_term == last_term, f"{now.highest_term} was not granted")
        granted = set(range(1, last_term + 1))
        hold("I14", now.handovers.keys() == granted, f"handovers of {[*now.handovers]}")


def check_verb(
    request: Request, before: LeaseSnapshot, answer: LeaseAnswer, after: LeaseSnapshot
) -> None:
    """Check what a verb came to against what stood there before."""
    now_ms, found = answer.record.now_ms, answer.answer
    if isinstance(found, Granted):
        _check_grant(request, before, found.lease, after, now_ms)
        return
    check_raises(before, after, {})
    match found:
        case Turned():
            same = after.lease == before.lease
            lapsed = not before.leads(now_ms) and after.lease is not None
            hold("I16", same or lapsed, f"{request} was refused and made {after.lease}")
        case Kept(lease):
            hold("I16", after.lease == lease, f"{request} is told of {lease}, not {after.lease}")
            if request.verb in ("acquire", "supersede"):
                hold("I2", before.leads(now_ms), f"{request} is told of {lease}, which is over")
                mine = (lease.holder, lease.principal) == (request.holder, request.principal)
                hold("I2", mine, f"{request} is told of {lease}")
        case Changed(lease):
            hold("I3", before.named_by(request), f"{request} changed {before.lease}")
            hold("I16", after.lease == lease, f"{request} is told of {lease}, not {after.lease}")
            _check_change(request, before, lease, now_ms)


def _check_grant(
    request: Request, before: LeaseSnapshot, lease: Lease, after: LeaseSnapshot, now_ms: int
) -> None:
    old = before.lease
    hold("I1", lease.term == before.last_term + 1, f"{lease.term} after {before.last_term}")
    hold("I16", after.lease == lease, f"{lease} was granted, and {after.lease} is on record")
    check_raises(before, after, {lease.term: before.unfinished(lease.term)})
    hold("7", after.ready.get(lease.holder, True), f"{lease.holder} is not ready, and leads")
    if request.verb == "hand-off":
        hold("I2", before.named_by(request), f"{request} handed {old} off")
        hold("7", lease.holder.startswith(request.to), f"{request} made {lease}")
    elif before.leads(now_ms):
        again = old is not None and old.principal == request.principal == request.worker
        hold("I2", again and request.verb == "supersede", f"{request} took {old}")
    else:
        hold("7", lease.holder == request.holder, f"{request} made {lease}")


def _check_change(request: Request, before: LeaseSnapshot, lease: Lease, now_ms: int) -> None:
    old = before.lease
    assert old is not None
    hold("I3", old.ended is None and now_ms < old.expires_at_ms, f"{request} at {now_ms}: {old}")
    if request.verb == "renew":
        wanted_ms = max(old.expires_at_ms, now_ms + RULES.ttl_ms)
        hold("I3", lease.expires_at_ms == wanted_ms, f"{request} at {now_ms} made {lease}")
    else:
        hold("I2", request.verb in ENDS, f"{request} made {lease}")


def check_admission(
    who: Mapping[str, str], term: int, before: LeaseSnapshot, now_ms: int, *, highest_term: int
) -> None:
    """I4: what is admitted carries the highest term, and a live lease of its holder and
    principal."""
    lease = before.lease
    hold("I4", term == highest_term, f"{term} of {who} is admitted under {highest_term}")
    hold(
        "I4",
        lease is not None
        and (lease.term, lease.holder, lease.principal) == (term, who["holder"], who["principal"]),
        f"{term} of {who} is admitted under {lease}",
    )
    hold("I4", before.leads(now_ms), f"{term} of {who} is admitted at {now_ms} under {lease}")
    hold("I4", lease is not None and not lease.draining, f"{lease} is draining and admits")


def check_beliefs(
    clients: Iterable[Client], true_ms: int, now: LeaseSnapshot, store_ms: int, excused: set[int]
) -> None:
    """I15: who believes that it leads does lead, until its belief ends."""
    for client in clients:
        if not client.believes(true_ms) or client.term in excused:
            continue
        lease, until_ms = now.lease, store_ms + client.believes_for_ms(true_ms)
        hold(
            "I15",
            lease is not None
            and (lease.term, lease.holder, lease.ended) == (client.term, client.holder, None)
            and until_ms <= lease.expires_at_ms,
            f"{client} believes until {until_ms}, at {store_ms} there is {lease}",
        )
