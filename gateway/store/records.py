"""What goes into the ledger and comes out of it, as plain values.

Those that are made for every request are not frozen: freezing them would cost a twentieth of
the gateway's throughput. Nobody changes them all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from gateway.core.effect import Outcome, ResolvedBy
from gateway.core.fence import Attempt, Decision


class AnswerState(StrEnum):
    """How much of the destination's answer is kept."""

    COMPLETE = "complete"  # all of it: may be replayed
    INCOMPLETE = "incomplete"  # the destination broke off
    OVER_CAP = "over-cap"  # larger than what is kept
    STREAMED = "streamed"  # relayed as it came
    REDACTED = "redacted"  # it held the destination's credential
    EVIDENCE = "evidence"  # an excerpt beside an unknown outcome
    EXPIRED = "expired"  # its time is over; the fact stays


@dataclass(slots=True)
class StoredAnswer:
    """A destination's answer as kept: headers without what belongs to that one exchange."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    body_sha256: bytes | None
    body_bytes: int
    state: AnswerState


@dataclass(slots=True)
class SentAs:
    """A request as it is really sent, where the policy dresses it up. `head` is JSON text."""

    method: str
    target: str
    head: str
    body: bytes | None


@dataclass(slots=True, kw_only=True)
class Proposal:
    """A write that asks to be admitted.

    `effect_id` names the effect if this becomes a new one. `attempt` is None for a write that
    observe mode lets through although it never gets as far as the fence; `observed_reason`
    says why. With `claim` False the decision is asked for, but no intent is written.
    """

    effect_id: str
    attempt: Attempt | None
    destination: str
    covers: str
    principal: str
    method: str
    target: str
    policy_digest: str
    timeout_ms: int
    settle_ms: int
    item: str | None = None
    request_head: str | None = None
    request_body: bytes | None = None
    request_file: str | None = None
    observe: bool = False
    observed_reason: str | None = None
    claim: bool = True
    route: str | None = None
    sent: SentAs | None = None

    def without_claim(self) -> Proposal:
        """Return the same question, asked without the wish to send."""
        return replace(self, claim=False)


@dataclass(slots=True, kw_only=True)
class Ruling:
    """What the ledger decided about a proposal, and recorded.

    `decision` is None for an unfenced write that was observed. `n` is set when an intent was
    written: the attempt may be sent. `held` is the number of an attempt that was recorded as
    unknown without being sent. `answer` comes with a Replay.
    """

    decision: Decision | None
    effect_id: str
    n: int | None
    now_ms: int
    highest_term: int
    tried_before: bool = False
    observed: str | None = None
    answer: StoredAnswer | None = None
    held: int | None = None

    def answered(self, answer: StoredAnswer | None) -> Ruling:
        return replace(self, answer=answer)


@dataclass(slots=True, kw_only=True)
class Settlement:
    """What came of an attempt."""

    effect_id: str
    n: int
    outcome: Outcome
    reason: str
    status: int | None = None
    answer: StoredAnswer | None = None
    resource: Mapping[str, Any] = field(default_factory=dict)
    by: ResolvedBy = ResolvedBy.ANSWER
    for_all: bool = False  # the destination gave the first attempt's answer again


@dataclass(slots=True, kw_only=True)
class Settled:
    """The effect after a settlement. `late` says that the attempt had another outcome on
    record already (given up as unknown, or decided by an operator); `disagrees` that the
    record stands against this answer."""

    outcome: Outcome | None
    highest_term: int
    superseded: bool
    late: bool
    disagrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt, for showing."""

    n: int
    term: int
    holder: str
    method: str
    target: str
    created_at_ms: int
    deadline_at_ms: int
    seal_at_ms: int
    ended_at_ms: int | None
    outcome: Outcome | None
    reason: str | None
    status: int | None


@dataclass(frozen=True, slots=True)
class ResolutionRecord:
    """Who decided what became of an unknown effect, when, and on what grounds."""

    at_ms: int
    principal: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """One effect, for showing."""

    id: str
    destination: str
    function: str
    unit: str
    item: str | None
    key: str | None
    covers: str
    outcome: Outcome | None
    resolved_by: ResolvedBy | None
    principal: str
    version: int
    observed: str | None
    resource: Mapping[str, Any] | None
    created_at_ms: int
    settled_at_ms: int | None
    attempts: tuple[AttemptRecord, ...]
    resolution: ResolutionRecord | None = None

    @property
    def state(self) -> str:
        return "in-flight" if self.outcome is None else "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFilter:
    """Which effects to list, newest first. `cursor` is the id to go on behind."""

    function: str | None = None
    unit: str | None = None
    destination: str | None = None
    outcome: str | None = None  # an outcome, or "in-flight"
    term: int | None = None
    cursor: str | None = None
    limit: int = 50
    only_functions: frozenset[str] | None = None  # what the asker may see; None is all
    only_destinations: frozenset[str] | None = None


class Unresolved(StrEnum):
    """Why an operator's word on an effect was not taken."""

    NOT_FOUND = "not-found"
    VERSION_CONFLICT = "version-conflict"
    NOT_UNKNOWN = "not-unknown"
    BEFORE_SEAL = "before-seal"


@dataclass(frozen=True, slots=True)
class Resolution:
    """What an operator says about an unknown effect."""

    effect_id: str
    outcome: Outcome  # confirmed or no-effect
    reason: str
    principal: str
    version: int | None = None
