"""The guards of leadership, each taken away: what the second simulation has to notice."""

from __future__ import annotations

from gateway.core import fence, lease
from gateway.store import batch, lease_rows, leases
from tests.simulation import lease_client
from tests.simulation.mutants import OF_BOTH_MODELS, Mutant

LEASE_MUTANTS = [
    Mutant("the fence at the grant", leases, "_grant",
           "scope.highest_term = scope.last_term = lease.term", "scope.last_term = lease.term"),
    Mutant("the handover at the grant", leases, "_grant",
           "batch.add_handover(scope, lease.term, lease.holder, left)", "pass"),
    Mutant("the handover's look at the whole scope", batch.Batch, "load",
           "for scope in raised | wanted.grants:", "for scope in raised:"),
    Mutant("the end of a lease that another replaces", leases, "_grant",
           "if granted.before is not None:", "if False:"),
    Mutant("no resurrection by a renewal", leases.Renewing, "run",
           "lease = machine.lapse(lease, batch.now_ms, in_flight=1)", "pass"),
    Mutant("the expiry", lease, "lapse",
           "if now_ms >= lease.expires_at_ms:", "if False:"),
    Mutant("the expiry to the millisecond", lease, "lapse",
           "if now_ms >= lease.expires_at_ms:", "if now_ms >= lease.expires_at_ms + 500:"),
    Mutant("the term that a release names", lease, "_holds",
           " or lease.term != ask.term:", ":"),
    Mutant("the holder that a renewal names", lease, "_holds",
           "lease.holder != ask.holder or ", ""),
    Mutant("the principal of the holder", lease, "_holds",
           "return ask.operator or lease.principal == ask.principal", "return True"),
    Mutant("the principal of an asker", lease, "acquire",
           "if lease.holder == ask.holder and same_principal:",
           "if lease.holder == ask.holder:"),
    Mutant("a new term for a new incarnation", lease, "acquire",
           "if lease.holder == ask.holder and same_principal:",
           "if worker_name(lease.holder) == worker_name(ask.holder) and same_principal:"),
    Mutant("one leader at a time", lease, "acquire",
           "if not (supersede and again):", "if False:"),
    Mutant("the term from the last term", leases, "view_of",
           "max(scope.last_term, scope.highest_term, batch.lineage.floor)",
           "row.transitions - (row.lease is not None and row.lease.ended is not None)"),
    Mutant("one step from term to term", lease, "_grant",
           "term=view.last_term + 1", "term=view.last_term + 2"),
    Mutant("readiness", lease, "acquire",
           "why = why_not(me, eligible)", "why = None"),
    Mutant("the bound on waiting for a better one", lease, "_polite",
           "if left_ms <= 0:", "if False:"),
    Mutant("the fence's look at the expiry", fence, "_lease_liveness",
           "or view.now_ms >= view.grant.expires_at_ms:", "or False:"),
    Mutant("the fence's look at the draining", fence, "_lease_liveness",
           "if view.grant.draining", "if False"),
    Mutant("the fence's look at the holder", fence, "_authority",
           "if not (_is_holder(attempt, view) if named else _may_call(attempt, view)):",
           "if False:"),
    Mutant("the fence's look at the principal", fence, "_is_holder",
           "return view.is_grantee or", "return True or"),
    Mutant("the fence's look at the term", fence, "_authority",
           "if attempt.term < view.highest_term:", "if False:"),
    Mutant("the fence's look at the last term", fence, "_authority",
           "if attempt.term > view.last_term:", "if False:"),
    Mutant("the end that the fence is told of", lease.Lease, "for_fence",
           "if self.ended_at_ms is not None:", "if False:"),
    Mutant("the deadline from before the question", lease_client, "trusted_from",
           "return asked_ms", "return heard_ms"),
    Mutant("the row-count check of a lease", lease_rows.LeaseBook, "flush",
           "if written != 1:", "if False:"),
    *OF_BOTH_MODELS,
]  # fmt: skip

LEASE_ESSENTIAL = frozenset(
    {
        "the fence at the grant", "the handover at the grant", "no resurrection by a renewal",
        "the term that a release names", "the holder that a renewal names",
        "a new term for a new incarnation", "one leader at a time", "the term from the last term",
        "the deadline from before the question", "the clock that never goes back",
        "the fence's look at the principal",
    }
)  # fmt: skip
"""Those that every run of the tests takes away; the others wait for a proof."""
