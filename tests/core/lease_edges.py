"""The edges of the lease's table: moments, candidates, and answers that were lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from gateway.core.candidates import Candidate, CoolOff, Eligibility, VersionRange
from tests.core.lease_table import (
    ASKERS,
    CANDIDATES,
    DRAIN_MS,
    FRESH_MS,
    NOW_MS,
    PREFER_MS,
    TERM,
    TO,
    TTL_MS,
    Row,
    State,
)

BO = ASKERS["another worker"]
ANA = ASKERS["the holder"]
GRANT = f"grants {TERM + 1} to {{}} until +{TTL_MS}"
TO_ANA, TO_BO = GRANT.format("ana#1 of p-ana"), GRANT.format("bo#1 of p-bo")
RENEWED = f"extends {TERM} to +{TTL_MS}"


def at(expires: int, **more: Any) -> State:
    """A lease that ends `expires` from now, if nothing ended it before."""
    return State("?", expires - TTL_MS, expires - TTL_MS, expires, **more)


def moments() -> Iterator[Row]:
    """One millisecond before, at, and after each moment that counts."""
    alone: dict[str, Any] = {"candidates": ()}
    for expires, renew, take in (
        (1, RENEWED, "lease-held, rival ana#1, retry 1"),
        (0, "lease-gone", TO_BO),
        (-1, "lease-gone", TO_BO),
    ):
        state = at(expires)
        yield f"renewed {-expires:+} ms from the expiry", {"verb": "renew", "state": state}, renew
        taken = alone | {"verb": "acquire", "state": state, "asker": BO, "asking_since": 0}
        yield f"taken {-expires:+} ms from the expiry", taken, take
        back = {"verb": "acquire", "state": state, **alone}
        again = f"keeps {TERM} of ana#1" if expires > 0 else TO_ANA
        yield f"asked for again {-expires:+} ms from the expiry", back, again
        ended = f"ends {TERM} as released at +0" if expires > 0 else "not-holder"
        yield f"released {-expires:+} ms from the expiry", {
            "verb": "release", "state": state}, ended  # fmt: skip
    for drain, renew in ((1, RENEWED), (0, "lease-gone"), (-1, "lease-gone")):
        state = at(9_000, drain_until=drain)
        name = f"renewed {-drain:+} ms from the end of the draining"
        yield name, {"verb": "renew", "state": state}, renew
    for drain, ended in ((-1, "drained"), (0, "expired"), (1, "expired")):
        # Drained before it expired it may be handed off; expired it is nobody's any more.
        state = at(-10, drain_until=-10 + drain)
        handed = f"grants {TERM + 1} to {TO} of p-cy until +{TTL_MS}"
        yield f"it could drain until {drain:+} ms from its expiry", {
            "verb": "hand-off", "state": state,
        }, handed if ended == "drained" else "not-holder"  # fmt: skip
    for left in (1, 0, -1):
        free = PREFER_MS - left
        state = State("?", -90_000, -80_000, -free)
        said = f"not-preferred, rival ana#1, retry {left}" if left > 0 else TO_BO
        yield f"{-left:+} ms from the end of the preference", {
            "verb": "acquire", "state": state, "asker": BO}, said  # fmt: skip
        since = {"verb": "acquire", "asker": BO, "asking_since": -free}
        yield f"{-left:+} ms from the end of the preference by one's own first report", since, said
    for left in (1, 0):
        reported = NOW_MS - FRESH_MS + left
        rival = Candidate("ana#1", "p-ana", reported_at_ms=reported)
        yield f"the preferred one is fresh for {left} ms", {
            "verb": "acquire", "asker": BO, "asking_since": 0,
            "candidates": (rival, *CANDIDATES[2:]),
        }, f"not-preferred, rival ana#1, retry {PREFER_MS}" if left else TO_BO  # fmt: skip
        target = Candidate(TO, "p-cy", reported_at_ms=reported)
        handed = f"ends {TERM} as handed-off at +0, {GRANT.format('cy#1 of p-cy')}"
        yield f"the one it is handed to is fresh for {left} ms", {
            "verb": "hand-off", "state": State("?"), "candidates": (target,),
        }, handed if left else "not-eligible"  # fmt: skip


def among(*changed: Candidate) -> tuple[Candidate, ...]:
    """The candidates as they are, but for `changed`."""
    holders = {one.holder: one for one in changed}
    return tuple(holders.get(one.holder, one) for one in CANDIDATES)


ANA_1, _, BO_1, CY_1 = CANDIDATES
NEW = Eligibility(versions=VersionRange.parse(">=2026.10"))
HANDED = f"ends {TERM} as handed-off at +0, {GRANT.format('cy#1 of p-cy')}"
JUST_FREE: dict[str, Any] = {
    "verb": "acquire", "state": State("?", -90_000, -80_000, -30_000, None, "expired", 0),
}  # fmt: skip
GIVEN_BACK: dict[str, Any] = {
    "verb": "acquire", "state": State("?", -90_000, -80_000, -30_000, None, "released", 0),
}  # fmt: skip
FREE: dict[str, Any] = {"verb": "acquire", "asker": BO}
LEADING: dict[str, Any] = {"verb": "hand-off", "state": State("?")}
LOST = tuple(NOW_MS - 1_000 * n for n in (3, 2, 1))
COOL = Eligibility(cool_off=CoolOff(3, 60_000, 60_000))

ELIGIBLE: list[Row] = [
    ("one that has never reported", FREE | {"candidates": ()}, TO_BO),
    ("one that has never reported, where a version is wanted",
     FREE | {"candidates": (), "eligible": NEW}, "not-eligible"),
    ("one that is not ready", FREE | {"candidates": among(replace(BO_1, ready=False))},
     "not-eligible"),
    ("one that is not ready, though preferred",
     FREE | {"candidates": among(replace(BO_1, ready=False)),
             "eligible": Eligibility(preferred="bo")}, "not-eligible"),
    ("the holder keeps its lease, ready or not",
     {"verb": "acquire", "state": State("?"), "candidates": among(replace(ANA_1, ready=False))},
     f"keeps {TERM} of ana#1"),
    ("a next incarnation that is not ready supersedes nobody",
     {"verb": "supersede", "state": State("?"), "asker": ASKERS["its next incarnation"],
      "candidates": among(replace(CANDIDATES[1], ready=False))}, "not-eligible"),
    ("superseding waits for nobody who is preferred",
     {"verb": "supersede", "state": State("?"), "asker": ASKERS["its next incarnation"],
      "asking_since": 0},
     f"ends {TERM} as superseded at +0, {GRANT.format('ana#2 of p-ana')}"),
    ("superseding a lease that is over is acquiring",
     JUST_FREE | {"verb": "supersede", "asker": BO},
     f"not-preferred, rival ana#1, retry {PREFER_MS}"),
    ("the first in rank waits for nobody", JUST_FREE, TO_ANA),
    ("who gave it back waits for the others", GIVEN_BACK,
     f"not-preferred, rival ana#2, retry {PREFER_MS}"),
    ("nobody waits for who gave it back",
     GIVEN_BACK | {"asker": BO, "candidates": (ANA_1, BO_1)}, TO_BO),
    ("who gave it back may have it again, if there is nobody else",
     GIVEN_BACK | {"candidates": (ANA_1,)}, TO_ANA),
    ("the second waits", JUST_FREE | {"asker": BO},
     f"not-preferred, rival ana#1, retry {PREFER_MS}"),
    ("it does not wait for one that is not ready",
     JUST_FREE | {"asker": BO, "candidates": among(
         replace(ANA_1, ready=False), replace(CANDIDATES[1], ready=False))}, TO_BO),
    ("the preferred worker goes first",
     JUST_FREE | {"asker": BO, "eligible": Eligibility(preferred="bo")}, TO_BO),
    ("a higher priority goes first",
     JUST_FREE | {"asker": BO, "candidates": among(replace(BO_1, priority=1))}, TO_BO),
    ("one that cools off lets the others go first",
     JUST_FREE | {"eligible": COOL, "candidates": among(replace(ANA_1, losses=LOST))},
     f"not-preferred, rival ana#2, retry {PREFER_MS}"),
    ("one that cools off leads when it is alone",
     JUST_FREE | {"eligible": COOL, "candidates": (replace(ANA_1, losses=LOST),)}, TO_ANA),
    ("one's own report may be stale: it is here", FREE | {"candidates": (
        replace(BO_1, reported_at_ms=0),)}, TO_BO),
    ("the preference counts from the end of the lease, whoever reported first",
     JUST_FREE | {"asker": BO, "asking_since": -99_000},
     f"not-preferred, rival ana#1, retry {PREFER_MS}"),
    ("the preference counts from one's own first report, if that is later",
     FREE | {"asking_since": -1_000}, f"not-preferred, rival ana#1, retry {PREFER_MS - 1_000}"),
]  # fmt: skip

HANDING: list[Row] = [
    ("handed to a worker by its name", LEADING | {"to": "cy"}, HANDED),
    ("handed to the best incarnation of a worker",
     LEADING | {"to": "cy", "candidates": (
         replace(CY_1, ready=False), Candidate("cy#2", "p-cy", reported_at_ms=NOW_MS))},
     f"ends {TERM} as handed-off at +0, {GRANT.format('cy#2 of p-cy')}"),
    ("handed to another incarnation than the one that reports", LEADING | {"to": "cy#9"},
     "not-eligible"),
    ("handed to nobody that is known", LEADING | {"to": "dora"}, "not-eligible"),
    ("handed to one that is not ready",
     LEADING | {"candidates": among(replace(CY_1, ready=False))}, "not-eligible"),
    ("handed to one of an unwanted version", LEADING | {"eligible": NEW}, "not-eligible"),
    ("handed to oneself", LEADING | {"to": "ana#1"}, "not-eligible"),
    ("handed to one's own next incarnation", LEADING | {"to": "ana#2"},
     f"ends {TERM} as handed-off at +0, {GRANT.format('ana#2 of p-ana')}"),
    ("handed to one's own name, the next incarnation takes it", LEADING | {"to": "ana"},
     f"ends {TERM} as handed-off at +0, {GRANT.format('ana#2 of p-ana')}"),
    ("handed to one's own name, and there is no other", LEADING | {
        "to": "ana", "candidates": (ANA_1,)}, "not-eligible"),
    ("handed to one that is not preferred", LEADING | {"eligible": Eligibility(preferred="bo")},
     HANDED),
    ("handed off by an operator that names it exactly",
     LEADING | {"asker": ASKERS["an operator"]}, HANDED),
    ("handed off again to the same", {"verb": "hand-off", "state": State("live", handed=True)},
     f"keeps {TERM + 1} of {TO}"),
    ("handed off again to the same worker's name",
     {"verb": "hand-off", "state": State("live", handed=True), "to": "cy"},
     f"keeps {TERM + 1} of {TO}"),
    ("handed off again, to another",
     {"verb": "hand-off", "state": State("live", handed=True), "to": "bo#1"},
     f"not-holder, rival {TO}"),
    ("an older term handed off again, to the same",
     {"verb": "hand-off", "state": State("live", handed=True), "term": TERM - 1},
     f"not-holder, rival {TO}"),
]  # fmt: skip

OTHER: list[Row] = [
    ("a term that the fence has seen is not granted again", FREE | {
        "asking_since": -60_000, "last_term": 40}, f"grants 41 to bo#1 of p-bo until +{TTL_MS}"),
    ("a renewal never shortens a lease", {"verb": "renew", "state": State("?", -1, -1, 30_000)},
     f"extends {TERM} to +30000"),
    ("a renewal goes by the rules of now", {"verb": "renew", "state": State("?"),
                                            "ttl_ms": 50_000}, f"extends {TERM} to +50000"),
    ("stepping down for no time at all", {"verb": "step-down", "state": State("?"), "drain_ms": 0},
     f"ends {TERM} as drained at +0"),
    ("stepping down while something is in flight", {"verb": "step-down", "state": State("?")},
     f"drains {TERM} until +{DRAIN_MS}"),
    ("stepping down for longer than the lease lasts",
     {"verb": "step-down", "state": at(2_000), "drain_ms": 60_000}, f"drains {TERM} until +60000"),
]  # fmt: skip

EDGES: list[Row] = [*moments(), *ELIGIBLE, *HANDING, *OTHER]

# -- how a lease is shown, and what the fence is told

SHOWN: list[tuple[str, State | None, str]] = [
    ("never granted", None, "candidate"),
    ("just acquired", State("?"), "leader-acquired"),
    ("renewed", State("?", -8_000, -1_000, 19_000), "leader-renewing"),
    ("draining", State("?", -8_000, -1_000, 19_000, drain_until=1), "leader-renewing"),
    ("a millisecond before the margin", at(3_001), "leader-acquired"),
    ("at the margin", at(3_000), "leader-uncertain"),
    ("its last moment", State("?", -40_000, -19_999, 1), "leader-uncertain"),
    ("at its expiry", at(0), "leader-lost"),
    ("released", State("?", -1, -1, 19_000, None, "released", 0), "leader-lost"),
]
FOR_FENCE: list[tuple[str, State, tuple[str, int, bool]]] = [
    ("live", State("?"), ("ana#1", TTL_MS, False)),
    ("draining", State("?", drain_until=5), ("ana#1", TTL_MS, True)),
    ("released", State("?", ended="released", ended_at=-7), ("ana#1", -7, False)),
    ("expired", State("?", expires=-9, ended="expired", ended_at=-9), ("ana#1", -9, False)),
]


def misshown(module: ModuleType) -> list[str]:
    """Return a line for every lease that `module` shows otherwise than it must."""
    found = []
    for name, state, wanted in SHOWN:
        lease = None if state is None else state.lease(module)
        said = module.state_of(lease, NOW_MS, 3_000).value
        if said != wanted:
            found.append(f"{name} is shown as {said!r}, not {wanted!r}")
    for name, state, (holder, expires, draining) in FOR_FENCE:
        told = state.lease(module).for_fence()
        if (told.holder, told.expires_at_ms - NOW_MS, told.draining) != (holder, expires, draining):
            found.append(f"the fence is told of one {name}: {told}")
    return found
