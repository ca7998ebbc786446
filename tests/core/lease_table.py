"""What each verb of a lease must answer: every state, every asker, every term it may name.

The answers are rules of their own, in words; `mistakes` holds a lease module to them, so that
the tests of the machine and the tests of this table (which break it on purpose) read the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any

from gateway.core.candidates import Candidate, Eligibility

NOW_MS = 100_000
TERM = 7
TTL_MS, PREFER_MS, FRESH_MS = 20_000, 5_000, 13_000
DRAIN_MS = 6_000
TO = "cy#1"  # whom the leader hands off to
ANYBODY = Eligibility()


@dataclass(frozen=True)
class Asker:
    holder: str
    principal: str
    operator: bool = False


ASKERS = {
    "the holder": Asker("ana#1", "p-ana"),
    "its next incarnation": Asker("ana#2", "p-ana"),
    "another worker": Asker("bo#1", "p-bo"),
    "another principal by its name": Asker("ana#1", "p-eve"),
    "an operator": Asker("ana#1", "p-ops", operator=True),
}
TERMS = {"the right term": TERM, "an older one": TERM - 1, "a newer one": TERM + 1, "none": 0}
VERBS = ("acquire", "supersede", "renew", "release", "step-down", "hand-off")

# Ranked as they stand here: nothing but their names tells them apart.
CANDIDATES = tuple(
    Candidate(holder, principal, reported_at_ms=NOW_MS)
    for holder, principal in (
        ("ana#1", "p-ana"), ("ana#2", "p-ana"), ("bo#1", "p-bo"), (TO, "p-cy"),
    )
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """A scope's lease on record, and what it amounts to now, time taken into account.

    Instants are counted from now. `phase` is nobody, live, draining, or how it has ended;
    `free_ms` for how long the scope has been free.
    """

    phase: str
    acquired: int = 0
    renewed: int = 0
    expires: int = TTL_MS
    drain_until: int | None = None
    ended: str | None = None
    ended_at: int | None = None
    in_flight: int = 2
    holder: str = "ana#1"
    term: int = TERM
    free_ms: int | None = None
    handed: bool = False  # to TO, by ana#1 under TERM

    @property
    def live(self) -> bool:
        return self.phase in ("live", "draining")

    def lease(self, module: ModuleType) -> Any:
        """Return it as a lease of `module`, not yet brought up to date."""
        if self.phase == "nobody":
            return None
        lease = module.Lease(
            term=TERM if self.handed else self.term,
            holder="ana#1" if self.handed else self.holder,
            principal="p-ana",
            acquired_at_ms=NOW_MS + self.acquired,
            renewed_at_ms=NOW_MS + self.renewed,
            expires_at_ms=NOW_MS + self.expires,
            duration_ms=TTL_MS,
            drain_until_ms=None if self.drain_until is None else NOW_MS + self.drain_until,
            ended=None if self.ended is None else module.Ended(self.ended),
            ended_at_ms=None if self.ended_at is None else NOW_MS + self.ended_at,
        )
        if not self.handed:
            return lease
        asked = module.Ask(holder="ana#1", principal="p-ana", term=TERM)
        view = module.LeaseView(
            now_ms=NOW_MS, last_term=TERM, lease=lease, in_flight=2, candidates=CANDIDATES
        )
        return module.hand_off(asked, TO, view, rules(module), ANYBODY).lease


STATES = {
    "never granted": State("nobody", free_ms=60_000),
    "just acquired": State("live"),
    "renewed": State("live", -8_000, -1_000, 19_000),
    "late": State("live", -18_000, -18_000, 2_000),
    "its last moment": State("live", -20_000, -20_000, 1),
    "idle": State("live", -8_000, -1_000, 19_000, in_flight=0),
    "draining": State("draining", -9_000, -1_000, 10_000, drain_until=4_000),
    "its last moment of draining": State("draining", -9_000, -1_000, 10_000, drain_until=1),
    "draining, and nothing in flight": State(
        "drained", -9_000, -1_000, 10_000, drain_until=4_000, in_flight=0, free_ms=0
    ),
    "drained as long as it may": State(
        "drained", -9_000, -1_000, 10_000, drain_until=0, free_ms=0
    ),
    "drained, and met late": State("drained", -30_000, -20_000, -2_000, -6_000, free_ms=6_000),
    "drained, nothing in flight, and met late": State(
        "drained", -30_000, -20_000, -2_000, -6_000, in_flight=0, free_ms=6_000
    ),
    "expired while draining": State(
        "expired", -20_000, -20_000, 0, drain_until=4_000, in_flight=0, free_ms=0
    ),
    "drained": State(
        "drained", -9_000, -1_000, 19_000, -3_000, "drained", -3_000, in_flight=0, free_ms=3_000
    ),
    "at its expiry": State("expired", -20_000, -20_000, 0, free_ms=0),
    "past its expiry": State("expired", -24_000, -24_000, -4_000, free_ms=4_000),
    "long past its expiry": State("expired", -90_000, -70_000, -50_000, free_ms=50_000),
    "expired on record": State(
        "expired", -24_000, -24_000, -4_000, None, "expired", -4_000, free_ms=4_000
    ),
    "released": State("released", -9_000, -1_000, 19_000, None, "released", -3_000, free_ms=3_000),
    "released long ago": State(
        "released", -90_000, -70_000, -50_000, None, "released", -60_000, free_ms=60_000
    ),
    "handed off": State("live", term=TERM + 1, holder=TO, handed=True),
    "superseded": State("live", term=TERM + 1, holder="ana#2"),
}  # fmt: skip


# -- the rules

# What the exact holder of a lease gets. A phase that is not named gets the refusal.
EXACT: dict[str, dict[str, str]] = {
    "renew": {
        "live": "extends {term} to +20000",
        "draining": "extends {term} to +20000",
    },
    "release": {
        "live": "ends {term} as released at +0",
        "draining": "ends {term} as released at +0",
        "released": "keeps {term} of {holder}",
        "drained": "keeps {term} of {holder}",
    },
    "step-down": {
        "live": "drains {term} until +6000",
        "draining": "keeps {term} of {holder}",
        "drained": "keeps {term} of {holder}",
    },
    "hand-off": {
        "live": "ends {term} as handed-off at +0, grants {next} to cy#1 of p-cy until +20000",
        "draining": "ends {term} as handed-off at +0, grants {next} to cy#1 of p-cy until +20000",
        "drained": "grants {next} to cy#1 of p-cy until +20000",
    },
}
REFUSALS = {"renew": "lease-gone", "release": "not-holder"}
OPERATORS_TOO = ("release", "step-down", "hand-off")  # they may end what others hold


def expected(verb: str, state: State, asker: Asker, term: int) -> str:
    """Return what the design promises, in the words of `verdict`."""
    if verb in ("acquire", "supersede"):
        return _when_acquiring(state, asker, supersede=verb == "supersede")
    if state.handed and verb == "hand-off" and (asker, term) == (ASKERS["the holder"], TERM):
        return f"keeps {TERM + 1} of {TO}"  # asked again: the answer was lost
    names_it = state.phase != "nobody" and (asker.holder, term) == (state.holder, state.term)
    speaks = asker.principal == "p-ana" or (asker.operator and verb in OPERATORS_TOO)
    said = EXACT[verb].get(state.phase) if names_it and speaks else None
    if said is None:
        return REFUSALS.get(verb, "not-holder") + _led_by(state)
    if verb == "step-down" and state.phase == "live" and state.in_flight == 0:
        said = "ends {term} as drained at +0"
    return said.format(term=state.term, next=state.term + 1, holder=state.holder)


def _led_by(state: State) -> str:
    return f", rival {state.holder}" if state.live else ""


def _when_acquiring(state: State, asker: Asker, *, supersede: bool) -> str:
    grant = f"grants {{}} to {asker.holder} of {asker.principal} until +{TTL_MS}"
    if state.live:
        if asker.principal == "p-ana" and asker.holder == state.holder:
            return f"keeps {state.term} of {state.holder}"
        if supersede and asker.principal == "p-ana" and state.holder.startswith("ana#"):
            return f"ends {state.term} as superseded at +0, " + grant.format(state.term + 1)
        left_ms = TTL_MS if state.handed else state.expires
        return f"lease-held, rival {state.holder}, retry {left_ms}"
    if asker.principal not in ("p-ana", "p-bo"):
        return "not-eligible"  # the name is p-ana's
    free_ms = state.free_ms or 0
    given_back = state.phase in ("released", "drained") and state.holder == "ana#1"
    first = "ana#2" if given_back else "ana#1"  # who gave it back is nobody's better
    if asker.holder != first and free_ms < PREFER_MS:
        return f"not-preferred, rival {first}, retry {PREFER_MS - free_ms}"
    return grant.format(1 if state.phase == "nobody" else state.term + 1)


Row = tuple[str, dict[str, Any], str]  # what is special, the situation, the answer


def crossed() -> Iterator[Row]:
    """Every verb in every state, by every asker, under every term."""
    for verb, state, asker, term in product(VERBS, STATES, ASKERS, TERMS):
        who = ASKERS[asker]
        yield (
            f"{verb}: {state}: {asker}, naming {term}",
            {"verb": verb, "state": STATES[state], "asker": who, "term": TERMS[term]},
            expected(verb, STATES[state], who, TERMS[term]),
        )


# -- asking a module


def rules(module: ModuleType, **changes: int) -> Any:
    times = {"ttl_ms": TTL_MS, "prefer_for_ms": PREFER_MS, "fresh_for_ms": FRESH_MS}
    return module.LeaseRules(**(times | changes))


@dataclass(frozen=True)
class Situation:
    """A verb, who says it, and what is on record."""

    verb: str
    state: State = STATES["long past its expiry"]
    asker: Asker = ASKERS["the holder"]
    term: int = TERM
    to: str = TO
    drain_ms: int = DRAIN_MS
    last_term: int | None = None
    candidates: Sequence[Candidate] = CANDIDATES
    asking_since: int = -60_000
    eligible: Eligibility = ANYBODY
    ttl_ms: int = TTL_MS

    def ask(self, module: ModuleType) -> tuple[Any, Any]:
        """Return the lease as it was when it was asked for, and the answer."""
        state = self.state
        lease = state.lease(module)
        if lease is not None:
            lease = module.lapse(lease, NOW_MS, state.in_flight)
        last_term = 0 if lease is None else lease.term
        view = module.LeaseView(
            now_ms=NOW_MS,
            last_term=last_term if self.last_term is None else self.last_term,
            lease=lease,
            in_flight=state.in_flight,
            candidates=self.candidates,
            asking_since_ms=NOW_MS + self.asking_since,
        )
        who, times = self.asker, rules(module, ttl_ms=self.ttl_ms)
        ask = module.Ask(
            holder=who.holder, principal=who.principal, term=self.term, operator=who.operator
        )
        match self.verb:
            case "acquire" | "supersede":
                supersede = self.verb == "supersede"
                return lease, module.acquire(ask, supersede, view, times, self.eligible)
            case "renew":
                return lease, module.renew(ask, view, times)
            case "release":
                return lease, module.release(ask, view)
            case "step-down":
                return lease, module.step_down(ask, self.drain_ms, view)
            case _:
                return lease, module.hand_off(ask, self.to, view, times, self.eligible)


def verdict(module: ModuleType, situation: dict[str, Any]) -> str:
    """Return what `module` answers, in words. An answer that loses a fact says so."""
    before, answer = Situation(**situation).ask(module)
    match type(answer).__name__:
        case "Turned":
            said = answer.reason.value
            said += f", rival {answer.rival}" if answer.rival else ""
            said += f", retry {answer.retry_ms}" if answer.retry_ms is not None else ""
            return said if answer.why else f"{said}, without a word"
        case "Kept":
            unchanged = "keeps" if answer.lease == before else "changes"
            return f"{unchanged} {answer.lease.term} of {answer.lease.holder}"
        case "Changed":
            return _changed(before, answer.lease)
        case _:
            ended = f"{_changed(before, answer.before)}, " if answer.before else ""
            return ended + _granted(answer.lease)


def _granted(lease: Any) -> str:
    fresh = lease.acquired_at_ms == lease.renewed_at_ms == NOW_MS
    clean = (lease.drain_until_ms, lease.ended, lease.ended_at_ms) == (None, None, None)
    counted = lease.expires_at_ms - NOW_MS == lease.duration_ms
    flawed = "" if fresh and clean and counted else " (flawed)"
    until = f"until +{lease.expires_at_ms - NOW_MS}"
    return f"grants {lease.term} to {lease.holder} of {lease.principal} {until}{flawed}"


def _changed(before: Any, after: Any) -> str:
    """Say the one thing that has changed of a lease."""
    changed = {
        name: getattr(after, name)
        for name in type(after).__slots__
        if getattr(after, name) != getattr(before, name)
    }
    changed.pop("duration_ms", None)
    match sorted(changed):
        case ["ended", "ended_at_ms"]:
            at = f"at {after.ended_at_ms - NOW_MS:+}"
        case ["drain_until_ms", "ended", "ended_at_ms"] if after.ended.value == "drained":
            at = f"at {after.ended_at_ms - NOW_MS:+}"
        case ["drain_until_ms"]:
            return f"drains {after.term} until {after.drain_until_ms - NOW_MS:+}"
        case ["expires_at_ms"] | ["expires_at_ms", "renewed_at_ms"] | ["renewed_at_ms"]:
            on_time = "" if after.renewed_at_ms == NOW_MS else " (flawed)"
            return f"extends {after.term} to {after.expires_at_ms - NOW_MS:+}{on_time}"
        case [] if after.renewed_at_ms == NOW_MS:  # granted this very moment
            return f"extends {after.term} to {after.expires_at_ms - NOW_MS:+}"
        case other:
            return f"changes {other}"
    return f"ends {after.term} as {after.ended.value} {at}"


def mistakes(module: ModuleType, rows: Sequence[Row]) -> list[str]:
    """Return a line for every row that `module` answers otherwise than it must."""
    found = []
    for name, situation, wanted in rows:
        try:
            said = verdict(module, situation)
        except (AttributeError, TypeError, ValueError) as error:  # broken ones may trip
            said = f"{type(error).__name__}: {error}"
        if said != wanted:
            found.append(f"{name}: {said!r}, not {wanted!r}")
    return found


CROSSED = list(crossed())
