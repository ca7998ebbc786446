"""The table of reconciliation: what is known of an effect, and the step that must follow.

`mistakes` runs the whole table against a reconcile module, so that the tests of reconciliation
and the tests of the table itself (which break it on purpose) read the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gateway.core.guards import Guard
from tests.core.reconcile_world import (
    COUNTABLE_MS,
    DEADLINE_MS,
    ENDED_MS,
    LATE_MS,
    SEAL_MS,
    SETTLE_MS,
    TERM,
    UNKNOWN,
    Asked,
    Attempt,
    World,
)

Changes = dict[str, Any]
Row = tuple[str, Changes, str]  # what is special, how the world differs, the step


def missing(*started: int, term: int = TERM, moved: bool | None = None) -> tuple[Asked, ...]:
    return tuple((at, "missing", term, moved) for at in started)


def failing(times: int, verdict: str | None = "error") -> tuple[Asked, ...]:
    return tuple((100_000 + n, verdict) for n in range(times))


TWICE = missing(COUNTABLE_MS, COUNTABLE_MS + SETTLE_MS)
NO_LOOK: Changes = {"look": False}
KEY: Changes = {"guard": "native_key", "look": False, "now_ms": 50_000}
REPEAT: Changes = {"guard": "repeat", "look": False}
VERSION: Changes = {"guard": "version", "look": False}
DENIED: tuple[Attempt, ...] = ((0, 1, 2, 40_000, "no-effect", "probe"),)
NEVER: Attempt = (*UNKNOWN, "rule-2")

ANY_GUARD: list[Row] = [
    ("in flight again", {"tries": (UNKNOWN, (900_000, 2_000_000, 2_005_000, None, None))},
     "wait until 2001000"),
    ("in flight past its deadline", {"tries": (UNKNOWN, (0, 999, 5_999, None, None))},
     f"wait until {LATE_MS + 1}"),
    ("an attempt was confirmed after all",
     {"tries": (UNKNOWN, (*UNKNOWN[:4], "confirmed"))}, "settle confirmed by answer"),
    ("the last word was a rejection", {"tries": ((*UNKNOWN[:4], "rejected"),)},
     "settle rejected by answer"),
]  # fmt: skip


def found_at_any_time() -> Iterator[Row]:
    for guard in Guard:
        harmless = {"guard": guard.value, "harmless": True}
        yield (
            f"{guard}: found before the seal, by an older leader's probe, though overtaken",
            harmless | {"probes": ((ENDED_MS, "found", TERM - 1),), "overtaken": True},
            "settle confirmed by probe",
        )
        yield (
            f"{guard}: found after it was missing",
            harmless | {"probes": (*TWICE, (COUNTABLE_MS + 9_000, "found"))},
            "settle confirmed by probe",
        )
        yield (
            f"{guard}: found before it was missing",
            harmless | {"probes": ((ENDED_MS, "found"), *TWICE)},
            "settle confirmed by probe",
        )
        yield (
            f"{guard}: several match before the seal",
            harmless | {"probes": ((ENDED_MS, "many"),)},
            "exception several-matches",
        )


LOOKS: list[Row] = [
    ("it is asked for at once, when the attempt is over", {}, f"probe from {ENDED_MS}"),
    ("an attempt without an end is over at its deadline",
     {"tries": ((*UNKNOWN[:3], None, "unknown"),)}, f"probe from {DEADLINE_MS}"),
    ("the last attempt to be over counts",
     {"tries": (UNKNOWN, (15_000, 45_000, 50_000, 20_000, "unknown"))}, "probe from 20000"),
    ("missing before it counts: again when it does",
     {"probes": missing(ENDED_MS)}, f"probe from {COUNTABLE_MS}"),
    ("missing twice before it counts",
     {"probes": missing(ENDED_MS, COUNTABLE_MS - 1)}, f"probe from {COUNTABLE_MS}"),
    ("missing between seal and lag does not count",
     {"probes": missing(SEAL_MS, SEAL_MS + SETTLE_MS - 1)}, f"probe from {COUNTABLE_MS}"),
    ("the latest seal of the unknown attempts counts",
     {"probes": TWICE, "tries": ((0, 60_000, 65_000, 100, "unknown"), UNKNOWN)},
     "probe from 68000"),
    ("an attempt that was answered has no seal to wait for",
     {"probes": missing(COUNTABLE_MS), "tries": (UNKNOWN, (1, 2, 900_000, 3, "no-effect"))},
     f"probe from {COUNTABLE_MS + SETTLE_MS}"),
    ("missing once", {"probes": missing(COUNTABLE_MS)}, f"probe from {COUNTABLE_MS + SETTLE_MS}"),
    ("missing twice, too close", {"probes": missing(COUNTABLE_MS, COUNTABLE_MS + SETTLE_MS - 1)},
     f"probe from {COUNTABLE_MS + SETTLE_MS}"),
    ("without lag the space is a second",
     {"settle_ms": 0, "probes": missing(SEAL_MS, SEAL_MS + 999)}, f"probe from {SEAL_MS + 1_000}"),
    ("without lag, a second apart",
     {"settle_ms": 0, "probes": missing(SEAL_MS, SEAL_MS + 1_000)}, "exception still-missing"),
    ("one under an older term, one under this",
     {"probes": missing(COUNTABLE_MS, term=TERM - 1) + missing(60_000)}, "probe from 63000"),
    ("two under an older term", {"probes": missing(COUNTABLE_MS, 60_000, term=TERM - 1)},
     f"probe from {COUNTABLE_MS}"),
    ("an error between the two", {"probes": (TWICE[0], (39_000, "error"), TWICE[1])},
     "exception still-missing"),
    ("odd content before it counts: again when it does", {"probes": ((ENDED_MS, "other"),)},
     f"probe from {COUNTABLE_MS}"),
    ("odd content when it counts", {"probes": ((COUNTABLE_MS, "other"),)},
     "exception other-content"),
    ("odd content and then nothing", {"probes": ((COUNTABLE_MS, "other"), *TWICE)},
     "exception other-content"),
    ("a probe under way", {"probes": ((LATE_MS - 10, None),)},
     f"wait until {LATE_MS - 10 + DEADLINE_MS + 1_000}"),
    ("a probe that never ended failed", {"probes": ((LATE_MS - DEADLINE_MS - 1_000, None),)},
     f"probe from {LATE_MS - DEADLINE_MS}"),
    ("one error: a second later", {"probes": failing(1)}, "probe from 101000"),
    ("three errors: four seconds later", {"probes": failing(3)}, "probe from 104002"),
    ("a lost one counts as an error", {"probes": failing(3, "lost")}, "probe from 104002"),
    ("ten errors: five minutes later, no more", {"probes": failing(10)}, "probe from 400009"),
    ("an answer ends the row of errors", {"probes": (*failing(11), *missing(200_000))},
     "probe from 203000"),
    ("an error after a counted one", {"probes": (*missing(100_000), (100_500, "error"))},
     "probe from 103000"),
    ("eleven errors", {"probes": failing(11)}, "probe from 400010"),
    ("twelve errors", {"probes": failing(12)}, "exception probes-failed"),
    ("a route that cannot look", NO_LOOK, "exception no-guard"),
    ("no leader is needed to look", {"live_term": None}, f"probe from {ENDED_MS}"),
    ("nor is another's write an obstacle", {"overtaken": True}, f"probe from {ENDED_MS}"),
]  # fmt: skip

NOT_THERE: list[Row] = [
    ("look_first: a person", {}, "exception still-missing"),
    ("missing a third time: once more",
     {"guard": "unique_field", "tries": (*DENIED * 2, UNKNOWN)},
     "settle no-effect by probe 1 2, resend"),
    ("missing a fourth time: a person",
     {"guard": "unique_field", "tries": (*DENIED * 3, UNKNOWN)}, "exception resends-exhausted"),
    ("look_first that says resend", {"if_still_missing": "resend"},
     "settle no-effect by probe 1 2, resend"),
    ("unique_field: again", {"guard": "unique_field"}, "settle no-effect by probe 1 2, resend"),
    ("unique_field that says park", {"guard": "unique_field", "if_still_missing": "park"},
     "exception still-missing"),
    ("unique_field without a leader: free for the next",
     {"guard": "unique_field", "live_term": None}, "settle no-effect by probe 1 2"),
    ("version: again", {"guard": "version"}, "settle no-effect by probe 1 2, resend"),
    ("version that moved: the worker's turn",
     {"guard": "version", "probes": missing(COUNTABLE_MS, 60_000, moved=True)},
     "settle no-effect by probe 1 2"),
    ("version that moved, though never to be sent again",
     {"guard": "version", "probes": missing(COUNTABLE_MS, 60_000, moved=True), "tries": (NEVER,)},
     "settle no-effect by probe 1 2"),
    ("version that did not move",
     {"guard": "version", "probes": missing(COUNTABLE_MS, 60_000, moved=False)},
     "settle no-effect by probe 1 2, resend"),
    ("the version that the last probe saw counts",
     {"guard": "version", "probes": missing(COUNTABLE_MS, moved=True) + missing(60_000)},
     "settle no-effect by probe 1 2, resend"),
    ("another guard knows no version",
     {"guard": "unique_field", "probes": missing(COUNTABLE_MS, 60_000, moved=True)},
     "settle no-effect by probe 1 2, resend"),
    ("probes that do not count are not cited",
     {"guard": "unique_field", "probes": (*missing(ENDED_MS), TWICE[0], (39_500, "error"),
                                          *missing(40_000, 41_000))},
     "settle no-effect by probe 2 5, resend"),
    *((f"{guard}: overtaken", {"guard": guard, "overtaken": True, "if_still_missing": "resend"},
       "exception superseded") for guard in ("look_first", "unique_field", "version")),
    ("overtaken, and the version moved",
     {"guard": "version", "overtaken": True,
      "probes": missing(COUNTABLE_MS, 60_000, moved=True)}, "exception superseded"),
    *((f"{guard}: of a ledger that came back older, a person",
       {"guard": guard, "tries": ((*UNKNOWN, "ledger-restored"),), "if_still_missing": "resend"},
       "exception ledger-restored") for guard in ("look_first", "unique_field", "version")),
    ("an answer said never", {"guard": "unique_field", "tries": (NEVER,)},
     "exception never-retry"),
    ("an earlier answer said never",
     {"guard": "unique_field", "tries": (NEVER, UNKNOWN)}, "exception never-retry"),
    ("another rule said nothing of it",
     {"guard": "unique_field", "tries": ((*UNKNOWN, "rule-1"),)},
     "settle no-effect by probe 1 2, resend"),
    ("never-retry does not hide that another wrote",
     {"guard": "unique_field", "tries": (NEVER,), "overtaken": True}, "exception superseded"),
]  # fmt: skip

KEYED: list[Row] = [
    ("a second after the attempt is over", {"now_ms": ENDED_MS + 999}, "wait until 11000"),
    ("then again, with its very bytes", {"now_ms": ENDED_MS + 1_000}, "resend as 1"),
    ("one at a time: not before the seal", {"at_once": 1, "now_ms": SEAL_MS - 1},
     f"wait until {SEAL_MS}"),
    ("one at a time: at the seal", {"at_once": 1, "now_ms": SEAL_MS}, "resend as 1"),
    ("inside four fifths of the window", {"now_ms": 239_999}, "resend as 1"),
    ("at four fifths of the window", {"now_ms": 240_000}, "exception window-over"),
    ("a short window has to hold the sending as well", {"now_ms": 54_999, "window_ms": 100_000},
     "resend as 1"),
    ("it is over a whole exchange before its end", {"now_ms": 55_000, "window_ms": 100_000},
     "exception window-over"),
    ("off meanwhile, nobody knows how long", {"now_ms": 11_000, "unsure": True},
     "exception window-over"),
    ("at four fifths, with a look", {"now_ms": 240_000, "look": True}, f"probe from {ENDED_MS}"),
    ("outside the window, missing twice: a person",
     {"now_ms": 240_000, "look": True, "probes": TWICE}, "exception still-missing"),
    ("outside the window, and the route says resend",
     {"now_ms": 240_000, "look": True, "probes": TWICE, "if_still_missing": "resend"},
     "settle no-effect by probe 1 2, resend"),
    ("the seal is outside the window", {"at_once": 1, "now_ms": 11_000, "window_ms": 80_000},
     "exception window-over"),
    ("the seal is just inside", {"at_once": 1, "now_ms": 11_000, "window_ms": 80_001},
     f"wait until {SEAL_MS}"),
    ("a window that nobody publishes", {"window_ms": None}, "exception window-unknown"),
    ("a window that nobody publishes, with a look", {"window_ms": None, "look": True},
     f"probe from {ENDED_MS}"),
    ("the window runs from the first request that left",
     {"tries": ((0, 1, 2, 1, "no-effect", "never-sent", TERM, False),
                (40_000, 41_000, 42_000, 41_000, "unknown")), "now_ms": 279_999}, "resend as 2"),
    ("and not from the first unknown one",
     {"tries": ((0, 1, 2, 1, "rejected"), (40_000, 41_000, 42_000, 41_000, "unknown")),
      "now_ms": 240_000}, "exception window-over"),
    ("the bytes are those of the first unknown attempt",
     {"tries": ((0, 1, 2, 1, "rejected"), (3, 4, 5, 4, "unknown"), (6, 7, 8, 7, "unknown"))},
     "resend as 2"),
    ("attempts before the unknown one delay nothing",
     {"tries": ((*UNKNOWN[:4], "rejected"), UNKNOWN), "now_ms": 10_999}, "wait until 11000"),
    ("a look is not asked while the window lasts", {"look": True}, "resend as 1"),
    ("the key is known from another request",
     {"tries": ((*UNKNOWN, "key-misused"),), "look": True}, "exception key-misused"),
    ("an earlier answer said so", {"tries": ((*UNKNOWN, "key-misused"), UNKNOWN)},
     "exception key-misused"),
    ("still running: again, later", {"tries": (UNKNOWN, (*UNKNOWN, "key-busy")), "now_ms": 11_999},
     "wait until 12000"),
    ("nobody said that keys are known", {"asks_support": True}, "exception key-not-supported"),
    ("an answer said that they are not", {"asks_support": True, "key_supported": False},
     "exception key-not-supported"),
    ("nobody said so, with a look", {"asks_support": True, "look": True},
     f"probe from {ENDED_MS}"),
    ("an answer said that they are", {"asks_support": True, "key_supported": True}, "resend as 1"),
    ("nobody asks whether they are", {"key_supported": False}, "resend as 1"),
]  # fmt: skip

AFTER_SEAL: list[Row] = [
    ("not before the seal", {"now_ms": SEAL_MS - 1}, f"wait until {SEAL_MS}"),
    ("at the seal", {"now_ms": SEAL_MS}, "resend"),
    ("the latest seal counts",
     {"tries": ((0, 60_000, 65_000, 100, "unknown"), UNKNOWN), "now_ms": 64_999},
     "wait until 65000"),
]  # fmt: skip


def again(times: int) -> tuple[Attempt, ...]:
    """One unknown attempt, and `times` more that were refused for the moment."""
    return (UNKNOWN, *(((0, 1, 2, 40_000, "no-effect", "slow-down"),) * times))


RESENDS: list[Row] = [
    ("under a successor's term", {"live_term": TERM + 1}, "resend"),
    ("under a term older than an attempt's", {"live_term": TERM - 1}, "wait for a leader"),
    ("the newest attempt's term counts",
     {"tries": ((*UNKNOWN, "x", 9), (*UNKNOWN, "x", 7)), "live_term": 8}, "wait for a leader"),
    ("nobody leads", {"live_term": None}, "wait for a leader"),
    ("overtaken", {"overtaken": True}, "exception superseded"),
    ("an answer said never", {"tries": (NEVER,)}, "exception never-retry"),
    ("a key was known from another request", {"tries": ((*UNKNOWN, "key-misused"),)},
     "exception key-misused"),
    ("the resend was rejected", {"tries": (UNKNOWN, (*UNKNOWN[:4], "rejected"))},
     "exception resend-rejected"),
    ("the resend lost the condition",
     {"tries": (UNKNOWN, (*UNKNOWN[:4], "rejected", "condition-lost"))},
     "exception condition-lost"),
    ("a rejection before it counts for nothing",
     {"tries": ((*UNKNOWN[:4], "rejected"), UNKNOWN)}, "resend"),
    ("refused for the moment: two seconds later", {"tries": again(1), "now_ms": 41_999},
     "wait until 42000"),
    ("refused thrice: eight seconds later", {"tries": again(3), "now_ms": 47_999},
     "wait until 48000"),
    ("sent again eleven times", {"tries": again(11), "now_ms": 339_999}, "wait until 340000"),
    ("sent again twelve times", {"tries": again(12)}, "exception resends-exhausted"),
]  # fmt: skip
WITH_LOOK = {
    "exception superseded", "exception never-retry", "exception resend-rejected",
    "exception condition-lost", "exception resends-exhausted",
}  # fmt: skip
LONG = {"window_ms": 100_000_000}

OTHERS: list[Row] = [
    ("no guard", {"guard": "none"}, "exception no-guard"),
    ("no guard, though it was missing", {"guard": "none", "probes": TWICE}, "exception no-guard"),
    ("a condition that is not exact", VERSION | {"exact": False}, "exception condition-not-exact"),
    ("not exact, but harmless to repeat", VERSION | {"exact": False, "harmless": True}, "resend"),
    ("version with a look: asked before anything is sent", {"guard": "version"},
     f"probe from {ENDED_MS}"),
    ("not exact, with a look", {"guard": "version", "exact": False}, f"probe from {ENDED_MS}"),
    ("repeat with a look: sent, not asked", REPEAT | {"look": True}, "resend"),
    ("nobody led for an hour", REPEAT | {"live_term": None, "now_ms": SEAL_MS + 3_600_000},
     "exception no-leader"),
    ("nobody led for nearly an hour",
     REPEAT | {"live_term": None, "now_ms": SEAL_MS + 3_599_999}, "wait for a leader"),
]  # fmt: skip


def resends() -> Iterator[Row]:
    for name, base, as_said in (
        ("native_key", KEY | LONG | {"now_ms": LATE_MS}, "resend as 1"),
        ("repeat", REPEAT, "resend"),
        ("version", VERSION, "resend"),
    ):
        for what, changes, said in RESENDS:
            first = 2 if what == "a rejection before it counts for nothing" else 1
            step = as_said.replace("1", str(first)) if said == "resend" else said
            yield f"{name}: {what}", base | changes, step
            if said in WITH_LOOK and name != "version":  # which looks before anything else
                over = max(
                    one[3] for one in changes.get("tries", (UNKNOWN,)) if one[4] == "unknown"
                )
                yield (
                    f"{name}, with a look: {what}",
                    base | changes | {"look": True},
                    (f"probe from {over}"),
                )


ROWS: list[Row] = [
    *((f"any: {name}", changes, said) for name, changes, said in ANY_GUARD),
    *found_at_any_time(),
    *((f"look: {name}", changes, said) for name, changes, said in LOOKS),
    *((f"look, unique_field: {name}", changes | {"guard": "unique_field"}, said)
      for name, changes, said in LOOKS if "still-missing" not in said),
    *((f"missing twice: {name}", {"probes": TWICE} | changes, said)
      for name, changes, said in NOT_THERE),
    *((f"native_key: {name}", KEY | changes, said) for name, changes, said in KEYED),
    *((f"repeat: {name}", REPEAT | changes, said) for name, changes, said in AFTER_SEAL),
    *((f"version: {name}", VERSION | changes, said) for name, changes, said in AFTER_SEAL),
    *resends(),
    *OTHERS,
]  # fmt: skip


def verdict(reconcile: ModuleType, changes: Changes) -> str:
    """Return the step that `reconcile` takes in the world with `changes`, in words."""
    world = World(**changes)
    step = reconcile.next_step(world.case(reconcile))
    match type(step).__name__:
        case "Probe":
            return f"probe from {step.not_before_ms}"
        case "Resend":
            return "resend" if step.same_as is None else f"resend as {step.same_as}"
        case "WaitUntil":
            if step.at_ms == world.now_ms + 5_000:
                return "wait for a leader"
            return f"wait until {step.at_ms}"
        case "Settle":
            cited = "".join(f" {probe.n}" for probe in step.probes)
            return f"settle {step.outcome} by {step.by}{cited}{', resend' if step.resend else ''}"
        case _:
            return f"exception {step.reason}"


def mistakes(reconcile: ModuleType) -> list[str]:
    """Return a line for every row that `reconcile` decides otherwise than it must."""
    found = []
    for name, changes, expected in ROWS:
        try:
            said = verdict(reconcile, changes)
        except (AttributeError, TypeError, ValueError, IndexError) as error:
            said = f"{type(error).__name__}: {error}"  # a broken one may trip over its guard
        if said != expected:
            found.append(f"{name}: {said!r}, not {expected!r}")
    return found
