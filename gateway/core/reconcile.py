"""Reconciliation: what to do next about an effect of which nobody knows whether it happened.

Theory of operation
-------------------
That it happened can be proven at any time: a probe that finds our mark confirms. That it did not
happen can be proven only once it can happen no more, so a probe that finds nothing counts only if
it was started at or after the seal of every unknown attempt plus the time that a write may stay
invisible (`look.settle`), and only the second of two, spaced, decides. A resend needs a reason
why it cannot make a second effect; the route's guard is that reason. All else is for a person.

Rules of this file
------------------
1. Nothing here does I/O, reads a clock or rolls dice. The caller asks again after every probe,
   every answer and every wait; the answer depends on what is on record alone.
2. A resend is an admission like any other: the ledger decides it again, under the live term.
3. Another write to the same thing admitted since the first attempt takes away both the resend
   (it would overtake) and the negative verdict (our mark may have been overwritten).
4. Every path ends: probes, resends and waits are bounded, and what is left is an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from gateway.core.classify import CONDITION_LOST, KEY_MISUSED
from gateway.core.effect import Outcome, ResolvedBy, add_up
from gateway.core.guards import Guard
from gateway.core.policy import Limits, Route
from gateway.core.probe import Verdict

SPACING_MIN_MS: Final = 1_000
PROBES_FAILED_MAX: Final = 12
BACK_OFF_MIN_MS: Final = 1_000
BACK_OFF_MAX_MS: Final = 300_000
RESENDS_MAX: Final = 12
LOST: Final = "ledger-restored"
"""The reason of an attempt that stands for one whose record may have been lost."""
ROUNDS_MAX: Final = 3
"""How often an effect that was looked for in vain is sent once more."""
WINDOW_USED: Final = 0.8
"""How much of a native key's window is used: clocks differ, and windows are pruned early."""
OWNER_SLACK_MS: Final = 1_000
LEADER_ASKED_MS: Final = 5_000
LEADER_AWAITED_MS: Final = 3_600_000
"""How long after the seal a resend waits for a live term before a person is asked."""


class Unsolved(StrEnum):
    """Why a person has to settle it."""

    NO_GUARD = "no-guard"  # the route gives no way to find out
    SEVERAL_MATCHES = "several-matches"  # it is there more than once
    OTHER_CONTENT = "other-content"  # the answer proves neither
    SUPERSEDED = "superseded"  # another write to the same thing came after
    STILL_MISSING = "still-missing"  # not there, and the route does not send it again by itself
    NEVER_RETRY = "never-retry"  # an answer forbade to send it again
    KEY_MISUSED = "key-misused"  # the destination knows the key from another request
    KEY_NOT_SUPPORTED = "key-not-supported"  # the destination has not said that it knows keys
    WINDOW_UNKNOWN = "window-unknown"  # how long the destination keeps keys is not published
    WINDOW_OVER = "window-over"  # the same key would now make a second effect
    CONDITION_LOST = "condition-lost"  # somebody wrote under the version: we, or another
    CONDITION_NOT_EXACT = "condition-not-exact"  # and repeating it may do harm
    PROBES_FAILED = "probes-failed"  # no answer to the question, too often
    RESEND_REJECTED = "resend-rejected"  # which says nothing about the first attempt
    RESENDS_EXHAUSTED = "resends-exhausted"  # sent again too often without an answer
    LEDGER_RESTORED = "ledger-restored"  # what came after it may not be on record
    NO_LEADER = "no-leader"  # nobody under whose term it could be sent again


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt of the effect. `outcome` None: in flight. `sent` False: not a byte left.

    `reason` is that of its record: `rule-3`, `key-misused`, `status-503`, …
    """

    n: int
    term: int
    began_at_ms: int
    deadline_at_ms: int
    seal_at_ms: int
    outcome: Outcome | None
    ended_at_ms: int | None = None
    sent: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """One probe since the case was opened, or opened again by a person. `term` is the scope's
    highest when it was started. `verdict` None: it has not ended. `moved`: the thing has
    another version than the one written under."""

    n: int
    term: int
    started_at_ms: int
    verdict: Verdict | None = None
    moved: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known of an unknown effect. `tries` and `probes` are in their order.

    `term` is the highest of the effect's scope; `live_term` the one under which a resend would
    be admitted now (None: nobody leads). `overtaken`: another write to the same destination and
    covers was admitted after the first attempt. `key_supported`: what the destination last said
    about native keys on this route. `window_unsure`: since the first attempt the machine was off
    for nobody knows how long, so that a key's window may be over.
    """

    route: Route
    tries: Sequence[Try]
    term: int
    now_ms: int
    probes: Sequence[Probed] = ()
    live_term: int | None = None
    overtaken: bool = False
    key_supported: bool | None = None
    window_unsure: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the destination, not before then."""

    not_before_ms: int


@dataclass(frozen=True, slots=True)
class Resend:
    """Ask for an admission under the live term, and send. `same_as` is the attempt whose very
    bytes have to be sent again; None: dress the worker's request anew."""

    same_as: int | None = None


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing can be done before then."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Settle:
    """It is known. `probes` are those that a negative verdict rests on, the first one first.
    `resend`: the key is free, and the effect is to be admitted anew."""

    outcome: Outcome
    by: ResolvedBy
    probes: tuple[Probed, ...] = ()
    resend: bool = False


@dataclass(frozen=True, slots=True)
class OpenException:
    """Hand it to a person."""

    reason: Unsolved


Step: TypeAlias = Probe | Resend | WaitUntil | Settle | OpenException


def next_step(case: Case) -> Step:
    """Decide what to do next about the effect of `case`."""
    known = add_up(one.outcome for one in case.tries)
    if known is None:
        open_until = max(one.deadline_at_ms for one in case.tries if one.outcome is None)
        return WaitUntil(max(open_until + OWNER_SLACK_MS, case.now_ms + 1))
    if known is not Outcome.UNKNOWN:
        return Settle(known, ResolvedBy.ANSWER)
    seen = [probe.verdict for probe in case.probes]
    if Verdict.FOUND in seen:
        return Settle(Outcome.CONFIRMED, ResolvedBy.PROBE)
    if Verdict.MANY in seen:
        return OpenException(Unsolved.SEVERAL_MATCHES)
    match case.route.guard:
        case Guard.NATIVE_KEY:
            return _by_key(case)
        case Guard.UNIQUE_FIELD | Guard.LOOK_FIRST:
            return _by_look(case, Unsolved.NO_GUARD)
        case Guard.VERSION:
            return _by_version(case)
        case Guard.REPEAT:
            return _again(case, _earliest_ms(case, after_seal=True))
        case Guard.NONE:
            return OpenException(Unsolved.NO_GUARD)


# -- what the attempts say


def _unknown(case: Case) -> list[Try]:
    return [one for one in case.tries if one.outcome is Outcome.UNKNOWN]


def _seal_ms(case: Case) -> int:
    """When the destination can no longer be running any of it."""
    return max(one.seal_at_ms for one in _unknown(case))


def _over_ms(one: Try) -> int:
    return one.deadline_at_ms if one.ended_at_ms is None else one.ended_at_ms


def _never_again(case: Case) -> Unsolved | None:
    """Whether an answer forbade to send it again."""
    reasons = {one.reason for one in case.tries}
    if KEY_MISUSED in reasons:
        return Unsolved.KEY_MISUSED
    rules = enumerate(case.route.results, start=1)
    forbidding = {f"rule-{at}" for at, rule in rules if rule.never_retry}
    return Unsolved.NEVER_RETRY if reasons & forbidding else None


# -- probing


def _by_look(case: Case, without: Unsolved) -> Step:
    """Look until it is found, or counted as missing; `without` is the reason if it cannot."""
    look = case.route.look
    if look is None:
        return OpenException(without)
    countable_ms = _seal_ms(case) + look.settle_ms
    for probe in case.probes:
        # Before it counts, an odd answer may be half of what is still being written.
        if probe.verdict is Verdict.OTHER and probe.started_at_ms >= countable_ms:
            return OpenException(Unsolved.OTHER_CONTENT)
    counted = [
        probe
        for probe in case.probes
        if probe.verdict is Verdict.MISSING
        and probe.started_at_ms >= countable_ms
        and probe.term == case.term  # a new leader's probes begin anew
    ]
    spacing_ms = max(SPACING_MIN_MS, look.settle_ms)
    if counted and counted[-1].started_at_ms - counted[0].started_at_ms >= spacing_ms:
        return _missing(case, (counted[0], counted[-1]))
    if case.probes and case.probes[-1].verdict is None:
        until_ms = case.probes[-1].started_at_ms + case.route.limits.timeout_ms + OWNER_SLACK_MS
        if case.now_ms < until_ms:
            return WaitUntil(until_ms)
    failures = _failures(case.probes)
    if failures >= PROBES_FAILED_MAX:
        return OpenException(Unsolved.PROBES_FAILED)
    if counted:
        earliest_ms = counted[0].started_at_ms + spacing_ms
    elif any(probe.verdict in (Verdict.MISSING, Verdict.OTHER) for probe in case.probes):
        earliest_ms = countable_ms
    else:  # nothing heard yet: that it is there can be found out at once
        earliest_ms = max(_over_ms(one) for one in _unknown(case))
    if failures:
        earliest_ms = max(earliest_ms, case.probes[-1].started_at_ms + _back_off_ms(failures))
    return Probe(earliest_ms)


def _failures(probes: Sequence[Probed]) -> int:
    """How many of the last probes in a row had no answer; one that never ended is one too."""
    failed = 0
    for probe in reversed(probes):
        if probe.verdict not in (Verdict.ERROR, Verdict.LOST, None):
            break
        failed += 1
    return failed


def _back_off_ms(times: int) -> int:
    return min(BACK_OFF_MIN_MS << min(times - 1, 30), BACK_OFF_MAX_MS)


def _missing(case: Case, probes: tuple[Probed, Probed]) -> Step:
    """It is not there, twice, and can come no more. What follows is the route's to say."""
    if case.overtaken:
        return OpenException(Unsolved.SUPERSEDED)
    if any(one.reason == LOST for one in case.tries):
        return OpenException(Unsolved.LEDGER_RESTORED)  # a write unknown to us may hide the mark
    if case.route.guard is Guard.VERSION and probes[-1].moved:
        # Under the old version it would be refused; whoever wants it has to read anew.
        return Settle(Outcome.NO_EFFECT, ResolvedBy.PROBE, probes)
    never = _never_again(case)
    if never is not None:
        return OpenException(never)
    if not case.route.resends_if_missing:
        return OpenException(Unsolved.STILL_MISSING)
    if _denied(case) >= ROUNDS_MAX:
        # An answer that proves nothing came each time, and each time it was not there.
        return OpenException(Unsolved.RESENDS_EXHAUSTED)
    return Settle(Outcome.NO_EFFECT, ResolvedBy.PROBE, probes, resend=case.live_term is not None)


def _denied(case: Case) -> int:
    """How many attempts were settled before as not having happened, for looking in vain."""
    by_probe = ResolvedBy.PROBE.value
    return sum(one.outcome is Outcome.NO_EFFECT and one.reason == by_probe for one in case.tries)


# -- sending again


def _by_key(case: Case) -> Step:
    key = case.route.native_key
    if key is None:
        return OpenException(Unsolved.NO_GUARD)
    if any(one.reason == KEY_MISUSED for one in case.tries):
        return OpenException(Unsolved.KEY_MISUSED)
    if key.supported_when is not None and case.key_supported is not True:
        return _by_look(case, Unsolved.KEY_NOT_SUPPORTED)
    if key.window_ms is None:
        return _by_look(case, Unsolved.WINDOW_UNKNOWN)
    # The destination compares requests under a key, so the bytes are those of the first one
    # that may have arrived, old term and all.
    same_as = _unknown(case)[0].n
    earliest_ms = _earliest_ms(case, after_seal=key.at_once == 1)
    used_from_ms = min(one.began_at_ms for one in case.tries if one.sent)
    until_ms = used_from_ms + _usable_ms(key.window_ms, case.route.limits)
    if case.window_unsure or max(earliest_ms, case.now_ms) >= until_ms:
        return _by_look(case, Unsolved.WINDOW_OVER)
    return _again(case, earliest_ms, same_as)


def _usable_ms(window_ms: int, limits: Limits) -> int:
    """How much of a key's window a resend may be decided in: what is sent at its end has to be
    admitted, sent and carried out while the destination still knows the key."""
    under_way_ms = limits.connect_ms + limits.timeout_ms + limits.settle_ms
    return min(int(window_ms * WINDOW_USED), window_ms - under_way_ms)


def _by_version(case: Case) -> Step:
    version, route = case.route.version, case.route
    if version is None or route.look is not None:
        return _by_look(case, Unsolved.NO_GUARD)
    if not version.exact and not route.repeat_is_harmless:
        return OpenException(Unsolved.CONDITION_NOT_EXACT)
    return _again(case, _earliest_ms(case, after_seal=True))


def _earliest_ms(case: Case, *, after_seal: bool) -> int:
    """When the next resend may leave: never before the last attempt is over, and later each
    time. After the seal, two copies of it cannot be under way at once."""
    over_ms = _over_ms(case.tries[-1]) + _back_off_ms(_resent(case) + 1)
    return max(over_ms, _seal_ms(case)) if after_seal else over_ms


def _resent(case: Case) -> int:
    """How many attempts followed the first unknown one."""
    first = next(at for at, one in enumerate(case.tries) if one.outcome is Outcome.UNKNOWN)
    return len(case.tries) - first - 1


def _again(case: Case, earliest_ms: int, same_as: int | None = None) -> Step:
    """Send it again, unless something forbids it; then look, if the route can."""
    against = _why_not_again(case)
    if against is not None:
        return _by_look(case, against)
    if case.now_ms < earliest_ms:
        return WaitUntil(earliest_ms)
    # Its own leader's term or a successor's: who leads now inherits what was left undone. A
    # term below that of an attempt is no leader's any more.
    if case.live_term is None or case.live_term < max(one.term for one in case.tries):
        if case.now_ms >= _seal_ms(case) + LEADER_AWAITED_MS:
            return _by_look(case, Unsolved.NO_LEADER)
        return WaitUntil(case.now_ms + LEADER_ASKED_MS)
    return Resend(same_as)


def _why_not_again(case: Case) -> Unsolved | None:
    if case.overtaken:
        return Unsolved.SUPERSEDED
    never = _never_again(case)
    if never is not None:
        return never
    last = case.tries[-1]
    if last.outcome is Outcome.REJECTED:  # the same bytes would be refused again
        return (
            Unsolved.CONDITION_LOST if last.reason == CONDITION_LOST else Unsolved.RESEND_REJECTED
        )
    return Unsolved.RESENDS_EXHAUSTED if _resent(case) >= RESENDS_MAX else None
