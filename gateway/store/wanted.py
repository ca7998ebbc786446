"""What a batch has to load, and what it has to hold, before it can decide.

Where several processes write at once, the locks follow from this (see locks.py); on the embedded
store the transaction itself holds everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.ids import EffectKey, Scope


@dataclass(slots=True)
class Wanted:
    """Filled by each operation of a batch."""

    keys: set[EffectKey] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    tries: set[tuple[str, int]] = field(default_factory=set)
    scopes: set[Scope] = field(default_factory=set)
    covers: set[tuple[Scope, str, str]] = field(default_factory=set)
    terms: dict[Scope, int] = field(default_factory=dict)
    # Terms that the caller asserts, and that raise the scope's if they are above it:
    asserted: dict[Scope, int] = field(default_factory=dict)
    leases: set[Scope] = field(default_factory=set)
    grants: set[Scope] = field(default_factory=set)  # a new term may be given out
    candidates: set[str] = field(default_factory=set)
    claimants: bool = False  # the current term's own attempts may hold somebody back
    # What nothing of is loaded for, and yet others must not change or read in between:
    renewals: set[Scope] = field(default_factory=set)  # the lease's own row is written
    things: set[tuple[str, str]] = field(default_factory=set)  # destination, covers: written to
    units: set[str] = field(default_factory=set)  # written: nobody else may read them now
    units_read: set[str] = field(default_factory=set)
    exceptions: bool = False
    alone: bool = False  # nobody else may decide anything meanwhile
    answers: int = 0  # how many may have to be numbered

    def name_term(self, scope: Scope, term: int, *, granted: bool) -> None:
        """Note a term that somebody comes with. One that a lease has `granted` is the scope's
        already, and raises nothing."""
        self.terms[scope] = max(self.terms.get(scope, 0), term)
        if granted:
            self.leases.add(scope)
        else:
            self.asserted[scope] = max(self.asserted.get(scope, 0), term)
