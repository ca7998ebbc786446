"""Histories that chance seldom comes to, told by hand to the machine of reconciliation."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.reconcile import Resend, Settle, WaitUntil
from tests.conformance.books import SEAL_MS
from tests.simulation.destination import Fate
from tests.simulation.reconcile_destination import WINDOW_MS
from tests.simulation.reconcile_machine import Reconciling
from tests.simulation.reconcile_stage import Decided

AT_ONCE_LEFT = 1  # an odd place: the caller gives up at once
ARRIVES_LAST = 6_999  # and what is late arrives at its seal


def a_new_leader_comes_between_two_negatives(machine: Reconciling) -> None:
    sent = machine.send("create", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(0)
    while len(machine.do(machine.watch.unknown(sent.effect_id)).probes) < 2:
        follow(machine, sent.effect_id)
    machine.terms.append(2)
    machine.send("mail", 2, Fate.ANSWERED, 0)
    for _ in range(4):
        follow(machine, sent.effect_id)


def the_first_write_still_travels_under_its_key(machine: Reconciling) -> None:
    sent = machine.send("keyed-one", 1, Fate.LATE, ARRIVES_LAST)
    assert sent is not None
    machine.time_passes(1_000)
    one = machine.decide(sent.effect_id)
    assert one is not None
    machine.take(one, Fate.ANSWERED, 1)
    machine.time_passes(ARRIVES_LAST)


def a_new_leader_comes_between_decision_and_resend(machine: Reconciling) -> None:
    sent = machine.send("keyed", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(1_000)
    one = machine.decide(sent.effect_id)
    machine.terms.append(2)
    machine.send("mail", 2, Fate.ANSWERED, 0)
    assert one is not None
    machine.take(one, Fate.ANSWERED, 1)


def two_look_at_once(machine: Reconciling) -> None:
    sent = machine.send("create", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(0)
    machine.two_look_at_one_effect_at_once(place=0, fate=Fate.ANSWERED)


def ruled_out(machine: Reconciling, kind: str) -> Decided:
    """Let a write vanish, look for it until it is ruled out, and return what was decided."""
    sent = machine.send(kind, 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(0)
    while True:
        one = machine.decide(sent.effect_id)
        assert one is not None
        if isinstance(one.step, Settle):
            return one
        follow(machine, sent.effect_id)


def somebody_writes_between_verdict_and_resend(machine: Reconciling) -> None:
    one = ruled_out(machine, "marked")
    machine.send("marked", 3, Fate.ANSWERED, 0)
    machine.take(one, Fate.ANSWERED, 1)


def a_new_leader_comes_between_verdict_and_conclusion(machine: Reconciling) -> None:
    machine.leaderless = True
    one = ruled_out(machine, "create")
    machine.terms.append(2)
    machine.send("mail", 2, Fate.ANSWERED, 0)
    machine.take(one, Fate.ANSWERED, 1)


def a_key_is_older_than_its_last_use(machine: Reconciling) -> None:
    sent = machine.send("keyed", 1, Fate.ANSWER_LOST, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(0)
    while machine.true_ms < WINDOW_MS // 2:
        one = machine.decide(sent.effect_id)
        assert one is not None
        assert isinstance(one.step, Resend | WaitUntil), one.step  # or this would never end
        follow(machine, sent.effect_id, Fate.FAILED)
        machine.time_passes(0)
    machine.time_passes(WINDOW_MS + 1 - machine.true_ms)
    follow(machine, sent.effect_id)


def the_second_write_still_travels_under_its_key(machine: Reconciling) -> None:
    sent = machine.send("keyed-one", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(SEAL_MS)
    one = machine.decide(sent.effect_id)
    assert one is not None
    machine.take(one, Fate.LATE, ARRIVES_LAST)
    machine.time_passes(2_000)
    again = machine.decide(sent.effect_id)
    assert again is not None
    machine.take(again, Fate.ANSWERED, 1)
    machine.time_passes(SEAL_MS)


def two_send_again_at_once(machine: Reconciling) -> None:
    sent = machine.send("keyed-one", 1, Fate.VANISHED, AT_ONCE_LEFT)
    assert sent is not None
    machine.time_passes(SEAL_MS)
    first, second = machine.decide(sent.effect_id), machine.decide(sent.effect_id)
    assert first is not None
    assert second is not None
    machine.take(first, Fate.LATE, ARRIVES_LAST)
    machine.time_passes(1)
    machine.take(second, Fate.ANSWERED, 1)
    machine.time_passes(SEAL_MS)


def the_older_repetition_still_travels(machine: Reconciling) -> None:
    sent = machine.send("repeat", 1, Fate.LATE, ARRIVES_LAST)
    assert sent is not None
    machine.terms.append(2)
    machine.send("mail", 2, Fate.ANSWERED, 0)
    machine.time_passes(1_000)
    one = machine.decide(sent.effect_id)
    assert one is not None
    machine.take(one, Fate.ANSWERED, 1)
    machine.time_passes(SEAL_MS)


def follow(machine: Reconciling, effect_id: str, fate: Fate = Fate.ANSWERED) -> None:
    """Take one step at its time."""
    one = machine.decide(effect_id)
    if one is None:
        return
    due_ms = getattr(one.step, "not_before_ms", getattr(one.step, "at_ms", 0))
    if due_ms > one.now_ms:
        machine.time_passes(due_ms - one.now_ms)
    else:
        machine.take(one, fate, 1)
        machine.answer_all()


STORIES: list[tuple[str, Callable[[Reconciling], None], str]] = [
    ("the term of a negative", a_new_leader_comes_between_two_negatives, "term of a negative"),
    ("the term of a negative, in the ledger alone",
     a_new_leader_comes_between_verdict_and_conclusion, "term of a negative"),
    ("the check for a later write, in the ledger alone",
     somebody_writes_between_verdict_and_resend, "superseded"),
    ("the window counts from the first", a_key_is_older_than_its_last_use, "I7"),
    ("one at a time under a native key", the_first_write_still_travels_under_its_key, "I7"),
    ("the seal of the last attempt", the_second_write_still_travels_under_its_key, "I7"),
    ("a resend meets the effect as it was", two_send_again_at_once, "I7"),
    ("a resend passes the fence", a_new_leader_comes_between_decision_and_resend, "I4"),
    ("a repetition waits for its older self", the_older_repetition_still_travels, "I10"),
    ("one probe at a time", two_look_at_once, "one probe at a time"),
]  # fmt: skip
"""The guard that is taken away, the history, and the promise that it breaks."""
