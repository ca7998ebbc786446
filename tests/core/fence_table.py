"""The precedence table of the fence: situations, and the verdict that each must get.

`mistakes` runs the whole table against a fence module, so that the tests of the fence and the
tests of the table itself (which break the fence on purpose) read the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

NOW_MS = 1_000
TERM = 7


@dataclass(frozen=True)
class World:
    """One attempt and what is on record, flat. As it stands it breaks no rule.

    `prior` is the state of the effect under the same key; its states exclude each other.
    `resend` is the gateway's own, and `is_grantee` says that the grant's principal asks.
    `open` lists other attempts to the same thing as (effect, term, seal).
    """

    authority: str = "lease"
    callers: str = "leader"
    term: int = TERM
    holder: str = "ana#1"
    body: bytes = b"the request"
    canonical: bytes | None = None
    on_duplicate: str = "replay"
    max_term_jump: int | None = None
    registered_units: bool = False
    highest_term: int = TERM
    seen_holder: str | None = "ana#1"
    last_term: int = TERM
    granted_to: str | None = "ana#1"
    is_grantee: bool = True
    resend: bool = False
    expires_at_ms: int = NOW_MS + 1
    draining: bool = False
    has_claim: bool = False
    unit: str | None = None
    prior: str | None = None
    prior_version: int = 1
    prior_canonical: bytes | None = None
    attempts: int = 2
    rejected: int = 0
    open: tuple[tuple[str, int, int], ...] = ()
    doubted: bool = False

    def attempt(self, fence: ModuleType) -> Any:
        return fence.Attempt(
            key=fence.EffectKey("crm", "report", "", "k-1"),
            scope=fence.Scope("report"),
            term=self.term,
            holder=self.holder,
            fingerprint=fence.Fingerprint(1, self.body, self.canonical),
            covers="crm /notes",
            rules=fence.FunctionRules(
                fence.Authority(self.authority),
                fence.Callers(self.callers),
                self.max_term_jump,
                self.registered_units,
            ),
            on_duplicate=fence.OnDuplicate(self.on_duplicate),
            resend=self.resend,
        )

    def view(self, fence: ModuleType) -> Any:
        grant = None
        if self.granted_to is not None:
            grant = fence.Grant(self.granted_to, self.expires_at_ms, self.draining)
        return fence.FenceView(
            now_ms=NOW_MS,
            highest_term=self.highest_term,
            holder=self.seen_holder,
            last_term=self.last_term,
            grant=grant,
            is_grantee=self.is_grantee,
            has_claim=self.has_claim,
            unit=None if self.unit is None else fence.UnitState(self.unit),
            prior=self._prior(fence),
            open_attempts=tuple(
                fence.OpenAttempt(effect, 1, term, seal - 500, seal)
                for effect, term, seal in self.open
            ),
            doubted=self.doubted,
        )

    def _prior(self, fence: ModuleType) -> Any:
        if self.prior is None:
            return None
        outcomes = {"in-flight": None, "abandoned": fence.Outcome.UNKNOWN}
        return fence.PriorEffect(
            effect_id="e-1",
            outcome=outcomes[self.prior] if self.prior in outcomes else fence.Outcome(self.prior),
            fingerprint=fence.Fingerprint(self.prior_version, b"the request", self.prior_canonical),
            attempts=self.attempts,
            rejected=self.rejected,
            version=3,
            abandoned=self.prior == "abandoned",
        )


Changes = dict[str, Any]
Row = tuple[str, Changes, str]  # what is special, how the world differs, the verdict

BARRIER: Changes = {"open": (("e-0", TERM - 1, NOW_MS + 1),)}

KEY: list[tuple[str, Changes]] = [
    ("key-reused", {"body": b"another request", "prior": "in-flight"}),
    ("in-flight", {"prior": "in-flight"}),
    ("outcome-unknown", {"prior": "unknown"}),
    ("effect-abandoned", {"prior": "abandoned"}),
    ("duplicate", {"prior": "confirmed", "on_duplicate": "reject"}),
    ("attempts-exhausted", {"prior": "rejected", "rejected": 20}),
]
UNIT: list[tuple[str, Changes]] = [
    ("unit-unknown", {"registered_units": True, "unit": None}),
    ("unit-closed", {"unit": "closed"}),
]
DOUBT: tuple[str, Changes] = ("ledger-restored", {"doubted": True})

# The two authorities exclude each other, so each has a table of its own; the rules that both
# know stand in both.
LEASE: list[tuple[str, Changes]] = [
    ("stale-term", {"highest_term": TERM + 1}),
    ("term-never-issued", {"last_term": TERM - 1}),
    ("not-holder", {"granted_to": "bo#1"}),
    *KEY,
    ("lease-expired", {"expires_at_ms": NOW_MS}),
    ("leader-draining", {"draining": True}),
    *UNIT,
    DOUBT,
]
EXTERNAL: list[tuple[str, Changes]] = [
    ("stale-term", {"authority": "external", "highest_term": TERM + 1}),
    ("term-jump", {"authority": "external", "highest_term": TERM - 3, "max_term_jump": 2}),
    ("term-contested", {"authority": "external", "seen_holder": "bo#1"}),
    *KEY,
    *UNIT,
    DOUBT,
]
AUTHORITY_REFUSALS = frozenset(
    {"stale-term", "term-never-issued", "not-holder", "term-jump", "term-contested"}
)


def worst_wins(broken: Sequence[tuple[str, Changes]]) -> Changes:
    """Break every rule of `broken` at once; where two exclude each other, the first stays.

    What excludes each other: the states of one prior effect; a unit that is unknown and one
    that is closed; a term that is contested (equal) and one that jumps or is stale.
    """
    changes: Changes = {}
    for _, more in reversed(broken):
        changes |= more
    return changes


def precedence(rules: Sequence[tuple[str, Changes]], **always: Any) -> Iterator[Row]:
    """One row per refusal, worst first: each breaks its own rule and all later ones."""
    for at, (refusal, _) in enumerate(rules):
        yield refusal, BARRIER | always | worst_wins(rules[at:]), f"refuse {refusal}"


def raising(rules: Sequence[tuple[str, Changes]], **always: Any) -> Iterator[Row]:
    """The rows after the authority's, under a higher term: it counts, whatever follows."""
    higher = {"highest_term": TERM - 2, "seen_holder": "bo#1"} | always
    for refusal, changes, verdict in precedence(rules, **always):
        if refusal not in AUTHORITY_REFUSALS:
            yield f"{refusal} under a higher term", changes | higher, f"{verdict}, raising"


LEASE_ROWS = list(precedence(LEASE))
EXTERNAL_ROWS = list(precedence(EXTERNAL, authority="external"))

EVERY_LATER_RULE_BUT_THE_KEY = BARRIER | worst_wins(LEASE[-5:])
LAST: list[Row] = [
    ("replay of a confirmed effect comes before the lease, the unit and the barrier",
     EVERY_LATER_RULE_BUT_THE_KEY | {"prior": "confirmed"}, "replay e-1"),
    ("replay under a higher term",
     EVERY_LATER_RULE_BUT_THE_KEY | {"prior": "confirmed", "highest_term": 5},
     "replay e-1, raising"),
    ("wait comes after every refusal", BARRIER, "wait for e-0"),
    ("wait under a higher term", BARRIER | {"highest_term": 5}, "wait for e-0, raising"),
    ("admit a fresh key", {}, "admit as 1"),
    ("admit under a higher term", {"highest_term": 5}, "admit as 1, raising"),
]  # fmt: skip

OUT: Changes = {"authority": "external"}
TERMS: list[Row] = [
    ("lease: a term above the last one was never issued", {"term": 8, "highest_term": 5},
     "refuse term-never-issued"),
    ("lease: nobody was ever granted anything",
     {"granted_to": None, "highest_term": 0, "last_term": 0}, "refuse term-never-issued"),
    ("lease: an issued term whose grant is gone is nobody's", {"granted_to": None},
     "refuse not-holder"),
    ("lease: the holder that the fence saw does not matter, the grant does",
     {"seen_holder": "bo#1"}, "admit as 1"),
    ("lease: the jump bound is not for issued terms", {"highest_term": 1, "max_term_jump": 2},
     "admit as 1, raising"),
    ("external: equal term of the same holder", OUT, "admit as 1"),
    ("external: no grant is asked for", OUT | {"granted_to": None, "last_term": 0}, "admit as 1"),
    ("external: a higher term of another holder",
     OUT | {"highest_term": 6, "seen_holder": "bo#1"}, "admit as 1, raising"),
    ("external: equal term where no holder is on record", OUT | {"seen_holder": None},
     "refuse term-contested"),
    ("external: a jump of just the bound",
     OUT | {"highest_term": 5, "max_term_jump": 2}, "admit as 1, raising"),
    ("external: one above the bound",
     OUT | {"highest_term": 4, "max_term_jump": 2}, "refuse term-jump"),
    ("external: a bound of nothing still lets the equal term pass",
     OUT | {"max_term_jump": 0}, "admit as 1"),
    ("external: the first term of an empty scope is no jump",
     OUT | {"highest_term": 0, "seen_holder": None, "max_term_jump": 2}, "admit as 1, raising"),
    ("external: without a bound nothing is a jump", OUT | {"highest_term": 1},
     "admit as 1, raising"),
]  # fmt: skip

OTHER: Changes = {"granted_to": "bo#1", "seen_holder": "bo#1"}


def callers() -> Iterator[Row]:
    verdicts = {"leader": (False, False), "leader-or-claimant": (False, True), "any": (True, True)}
    for authority, refusal in (("lease", "not-holder"), ("external", "term-contested")):
        for who, passes in verdicts.items():
            for has_claim in (False, True):
                yield (
                    f"{authority}: callers {who}, {'a' if has_claim else 'no'} claim",
                    OTHER | {"authority": authority, "callers": who, "has_claim": has_claim},
                    "admit as 1" if passes[has_claim] else f"refuse {refusal}",
                )


NOT_GRANTEE: Changes = {"is_grantee": False}
CLAIMANT: Changes = {"callers": "leader-or-claimant", "has_claim": True}


def impostors() -> Iterator[Row]:
    """The name of the grant's holder in another principal's mouth, worst first."""
    for name, changes in LEASE:
        earlier = name in ("stale-term", "term-never-issued")
        said = name if earlier else "not-holder"
        yield f"lease: another principal, and {name}", changes | NOT_GRANTEE, f"refuse {said}"


IMPOSTORS: list[Row] = [
    *impostors(),
    ("lease: the holder's name is not enough", NOT_GRANTEE, "refuse not-holder"),
    ("lease: another principal is not told the recorded answer",
     NOT_GRANTEE | {"prior": "confirmed"}, "refuse not-holder"),
    ("lease: another principal's higher term does not count",
     NOT_GRANTEE | {"highest_term": 5}, "refuse not-holder"),
    ("lease: a claim is no excuse for the leader's name", NOT_GRANTEE | CLAIMANT,
     "refuse not-holder"),
    ("lease: a claimant is another principal", NOT_GRANTEE | OTHER | CLAIMANT, "admit as 1"),
    ("lease: where anybody may call, a name is no right", NOT_GRANTEE | {"callers": "any"},
     "admit as 1"),
    ("lease: the gateway sends again in the holder's name",
     NOT_GRANTEE | {"resend": True, "prior": "unknown"}, "admit as 3"),
    ("lease: it does so in nobody else's",
     NOT_GRANTEE | OTHER | {"resend": True, "prior": "unknown"}, "refuse not-holder"),
    ("external: nobody is a grantee, and none is needed", OUT | NOT_GRANTEE, "admit as 1"),
]  # fmt: skip

KEYS: list[Row] = [
    *((f"another request under a key that is {state}",
       {"prior": state, "body": b"another request"}, "refuse key-reused")
      for state in ("in-flight", "unknown", "confirmed", "abandoned")),
    *((f"a corrected request after {state}", {"prior": state, "body": b"another request"},
       "admit as 3") for state in ("rejected", "no-effect")),
    *((f"the same request after {state}", {"prior": state}, "admit as 3")
      for state in ("rejected", "no-effect")),
    ("a re-serialised retry is the same request",
     {"prior": "confirmed", "body": b"reordered", "canonical": b"c", "prior_canonical": b"c"},
     "replay e-1"),
    ("another version of the fingerprint proves no sameness",
     {"prior": "confirmed", "prior_version": 2}, "refuse key-reused"),
    ("one rejection short of the bound", {"prior": "rejected", "rejected": 19, "attempts": 30},
     "admit as 31"),
    ("at the bound", {"prior": "rejected", "rejected": 20, "attempts": 30},
     "refuse attempts-exhausted"),
    ("past the bound", {"prior": "no-effect", "rejected": 21, "attempts": 30},
     "refuse attempts-exhausted"),
    ("attempts without effect are not counted", {"prior": "no-effect", "attempts": 50},
     "admit as 51"),
    ("a rejected key where duplicates are", {"prior": "rejected", "on_duplicate": "reject"},
     "admit as 3"),
]  # fmt: skip

LIVENESS: list[Row] = [
    ("the lease ends in a millisecond", {"expires_at_ms": NOW_MS + 1}, "admit as 1"),
    ("the lease ends now", {"expires_at_ms": NOW_MS}, "refuse lease-expired"),
    ("any caller, but no lease at all", {"callers": "any", "granted_to": None},
     "refuse lease-expired"),
    ("a claimant under an expired lease",
     OTHER | {"callers": "leader-or-claimant", "has_claim": True, "expires_at_ms": NOW_MS},
     "refuse lease-expired"),
    ("external: no lease to expire or to drain",
     OUT | {"expires_at_ms": 0, "draining": True}, "admit as 1"),
    ("an open unit", {"registered_units": True, "unit": "open"}, "admit as 1"),
    ("a closed unit of a function that wants registered units",
     {"registered_units": True, "unit": "closed"}, "refuse unit-closed"),
    ("a unit that nobody registered, and nobody has to", {"unit": None}, "admit as 1"),
]  # fmt: skip

BARRIERS: list[Row] = [
    ("a predecessor's attempt a millisecond before its seal",
     {"open": (("e-0", 6, NOW_MS + 1),)}, "wait for e-0"),
    ("a predecessor's attempt at its seal", {"open": (("e-0", 6, NOW_MS),)}, "admit as 1"),
    ("a predecessor's attempt past its deadline only",
     {"open": (("e-0", 6, NOW_MS + 400),)}, "wait for e-0"),
    ("an attempt of the same term", {"open": (("e-0", 7, NOW_MS + 900),)}, "admit as 1"),
    ("an older predecessor among attempts of the same term",
     {"open": (("e-9", 7, NOW_MS + 900), ("e-0", 2, NOW_MS + 1))}, "wait for e-0"),
    ("the predecessor that may run the longest is waited for",
     {"open": (("e-a", 6, NOW_MS + 5), ("e-b", 5, NOW_MS + 9), ("e-c", 6, NOW_MS + 7))},
     "wait for e-b"),
    ("external: the barrier is the same", OUT | BARRIER, "wait for e-0"),
    ("a free key waits for its own predecessor", BARRIER | {"prior": "rejected"},
     "wait for e-0"),
]  # fmt: skip

ROWS: list[Row] = [
    *((f"lease: {name}", changes, verdict) for name, changes, verdict in LEASE_ROWS),
    *((f"external: {name}", changes, verdict) for name, changes, verdict in EXTERNAL_ROWS),
    *((f"lease: {name}", changes, verdict) for name, changes, verdict in raising(LEASE)),
    *((f"external: {name}", changes, verdict)
      for name, changes, verdict in raising(EXTERNAL, authority="external")),
    *LAST,
    *TERMS,
    *callers(),
    *IMPOSTORS,
    *KEYS,
    *LIVENESS,
    *BARRIERS,
]  # fmt: skip


def verdict(fence: ModuleType, changes: Changes) -> str:
    """Return what `fence` decides in the world with `changes`, in words."""
    world = World(**changes)
    decision = fence.decide(world.attempt(fence), world.view(fence))
    match type(decision).__name__:
        case "Refuse":
            said = f"refuse {decision.reason}"
        case "Replay":
            said = f"replay {decision.effect_id}"
        case "Wait":
            said = f"wait for {decision.predecessor.effect_id}"
        case _:
            said = f"admit as {decision.n}"
    return f"{said}, raising" if decision.raises_term else said


def mistakes(fence: ModuleType) -> list[str]:
    """Return a line for every row that `fence` decides otherwise than it must."""
    found = []
    for name, changes, expected in ROWS:
        try:
            said = verdict(fence, changes)
        except (AttributeError, TypeError) as error:  # a broken fence may trip over its guard
            said = f"{type(error).__name__}: {error}"
        if said != expected:
            found.append(f"{name}: {said!r}, not {expected!r}")
    return found
