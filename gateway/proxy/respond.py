"""Answers in words: verdicts, replays and problems, each with what a client has to know."""

from __future__ import annotations

from typing import Final

from gateway.core.classify import Silence
from gateway.core.effect import Outcome
from gateway.core.fence import Refusal, Refuse
from gateway.outbound.incoming import Incoming
from gateway.proxy.answer import Answer
from gateway.store.records import AnswerState, Ruling, Settled, StoredAnswer
from gateway.wire.headers import (
    FENCE_AFTER_DISPATCH,
    FENCE_EFFECT,
    FENCE_LEDGER,
    FENCE_OUTCOME,
    FENCE_TERM,
    FENCE_VERDICT,
    IDEMPOTENT_REPLAYED,
)
from gateway.wire.problem import EffectWord, render

EXCERPT_BYTES: Final = 2048
_EFFECT_OF: Final[dict[Refusal, EffectWord]] = {
    Refusal.IN_FLIGHT: "unknown",
    Refusal.OUTCOME_UNKNOWN: "unknown",
    Refusal.DUPLICATE: "confirmed",
    Refusal.LEDGER_RESTORED: "unknown",
}
_RESTORED: Final = (
    "Nothing was sent now, but it may have been sent before: the ledger came back older than it "
    "was. Do not retry, and do not issue the same action under another key. Report the effect id "
    "and go on with other work; the outcome will be settled by looking it up or by a person."
)


def problem(
    slug: str,
    *,
    detail: str | None = None,
    effect: EffectWord | None = None,
    retry_after_s: float | None = None,
    verdict: str | None = None,
    facts: dict[str, object] | None = None,
) -> Answer:
    """Return the answer for a problem; refused unless `verdict` says otherwise."""
    rendered = render(
        slug,
        detail=detail,
        effect=effect,
        retry_after_s=retry_after_s,
        facts=facts,
    )
    answer = Answer(rendered.status, rendered.headers, rendered.body, reason=slug)
    answer.extra.append((FENCE_VERDICT, verdict or f"refused; reason={slug}"))
    return answer


def refused(ruling: Ruling, decision: Refuse, term: int) -> Answer:
    """Return the answer for a refusal by the fence."""
    prior = decision.prior
    facts: dict[str, object] = {"term": term, "highest_term": ruling.highest_term or None}
    retry_after_s: float | None = None
    effect: EffectWord | None = _EFFECT_OF.get(decision.reason)
    if prior is not None:
        facts["effect_id"] = prior.effect_id
        facts["attempts"] = prior.attempts
        if decision.reason is Refusal.KEY_REUSED:
            effect = "confirmed" if prior.outcome is Outcome.CONFIRMED else "unknown"
        if decision.reason is Refusal.IN_FLIGHT:
            left_s = (prior.deadline_at_ms - ruling.now_ms) / 1000
            retry_after_s = min(max(left_s, 1), 5)
    detail = None
    if decision.reason is Refusal.LEDGER_RESTORED:
        detail, facts["reason"] = _RESTORED, decision.reason.value
    if ruling.held is not None:
        facts["effect_id"], facts["attempts"] = ruling.effect_id, ruling.held
    answer = problem(
        decision.reason.slug, detail=detail, effect=effect, retry_after_s=retry_after_s, facts=facts
    )
    if ruling.held is not None:
        answer.effect_id, answer.attempt = ruling.effect_id, ruling.held
        answer.outcome = Outcome.UNKNOWN.value
        answer.extra.append((FENCE_EFFECT, ruling.effect_id))
        answer.extra.append((FENCE_OUTCOME, Outcome.UNKNOWN.value))
    elif prior is not None:
        answer.effect_id = prior.effect_id
        answer.extra.append((FENCE_EFFECT, prior.effect_id))
        if prior.outcome is not None:
            answer.outcome = prior.outcome.value
            answer.extra.append((FENCE_OUTCOME, prior.outcome.value))
    _add_term(answer, ruling.highest_term)
    return answer


def predecessor_in_flight(ruling: Ruling, predecessor_id: str, seal_at_ms: int) -> Answer:
    """Return the answer for a write that waited for an older term's write long enough."""
    answer = problem(
        "predecessor-in-flight",
        retry_after_s=min(max((seal_at_ms - ruling.now_ms) / 1000, 1), 30),
        facts={"highest_term": ruling.highest_term, "predecessor_effect_id": predecessor_id},
    )
    _add_term(answer, ruling.highest_term)
    return answer


def replayed(ruling: Ruling, effect_id: str) -> Answer:
    """Return the recorded answer again, or say that it happened but the answer is gone."""
    stored = ruling.answer
    if stored is None or stored.state is not AnswerState.COMPLETE or stored.body is None:
        return result_unavailable(ruling, effect_id, stored)
    answer = Answer(stored.status, stored.headers, stored.body, decision="replayed")
    answer.outcome = Outcome.CONFIRMED.value
    answer.effect_id = effect_id
    answer.extra += [
        (FENCE_VERDICT, "replayed"),
        (FENCE_EFFECT, effect_id),
        (FENCE_OUTCOME, Outcome.CONFIRMED.value),
        (IDEMPOTENT_REPLAYED, "true"),
    ]
    _add_term(answer, ruling.highest_term)
    return answer


def result_unavailable(ruling: Ruling, effect_id: str, stored: StoredAnswer | None) -> Answer:
    location = None
    if stored is not None:
        location = next((v for n, v in stored.headers if n.lower() == "location"), None)
    answer = problem(
        "result-unavailable",
        effect="confirmed",
        facts={
            "effect_id": effect_id,
            "destination_status": stored.status if stored else None,
            "answer": stored.state.value if stored else "not-kept",
            "location": location,
        },
    )
    answer.effect_id = effect_id
    answer.outcome = Outcome.CONFIRMED.value
    answer.extra += [(FENCE_EFFECT, effect_id), (FENCE_OUTCOME, Outcome.CONFIRMED.value)]
    _add_term(answer, ruling.highest_term)
    return answer


def relayed(incoming: Incoming, body: bytes) -> Answer:
    """Return the destination's answer as it came, or as much of it as did."""
    answer = Answer(incoming.status, incoming.headers, body, decision="forwarded")
    answer.destination_status = incoming.status
    if incoming.broken is not None:
        answer.cut = True
    elif not incoming.complete:
        answer.rest = incoming
    answer.shareable = incoming.complete
    return answer


def outcome_unknown(effect_id: str, reason: str, *, status: int | None, excerpt: bytes) -> Answer:
    """Return 423: sent, and no trustworthy answer. The destination's own words are evidence."""
    answer = problem(
        "outcome-unknown",
        effect="unknown",
        verdict="forwarded; reason=outcome-unknown",
        facts={
            "effect_id": effect_id,
            "reason": reason,
            "destination_status": status,
            "excerpt": excerpt[:EXCERPT_BYTES].decode("utf-8", "replace") or None,
        },
    )
    answer.decision = "forwarded"
    answer.reason = reason
    answer.destination_status = status
    answer.shareable = True
    return answer


def gave_up(effect_id: str, n: int) -> Answer:
    """Return 423 for what is still under way when the gateway ends; it is on record as unknown."""
    answer = outcome_unknown(effect_id, "gateway-stopped", status=None, excerpt=b"")
    answer.effect_id, answer.attempt, answer.outcome = effect_id, n, Outcome.UNKNOWN.value
    answer.extra += [(FENCE_EFFECT, effect_id), (FENCE_OUTCOME, Outcome.UNKNOWN.value)]
    return answer


def unreachable(effect_id: str | None, reason: str) -> Answer:
    """Return 502: nothing was sent."""
    answer = problem(
        "destination-unreachable",
        effect="none",
        verdict="forwarded; reason=destination-unreachable",
        facts={"effect_id": effect_id, "reason": reason},
    )
    answer.decision = "forwarded"
    answer.reason = reason
    answer.shareable = True
    return answer


def unanswered_read(silence: Silence) -> Answer:
    """Return 502 for a read that got no answer: it changed nothing, sent or not."""
    detail = None
    if silence.sent:
        detail = (
            "The read was sent, but no answer came that could be read. It changed nothing; read "
            "again later."
        )
    answer = problem(
        "destination-unreachable",
        detail=detail,
        effect="none",
        verdict="forwarded; reason=destination-unreachable",
        facts={"reason": silence.reason},
    )
    answer.decision, answer.reason = "forwarded", silence.reason
    return answer


def settled(
    answer: Answer, effect_id: str, n: int, outcome: Outcome, after: Settled | None, highest: int
) -> None:
    """Add what is known of the effect by now."""
    answer.effect_id, answer.attempt, answer.outcome = effect_id, n, outcome.value
    answer.extra += [(FENCE_EFFECT, effect_id), (FENCE_OUTCOME, outcome.value)]
    _add_term(answer, after.highest_term if after else highest)
    if after is None:
        answer.extra.append((FENCE_LEDGER, "degraded"))
    elif after.superseded:
        answer.extra.append((FENCE_AFTER_DISPATCH, "superseded"))


def _add_term(answer: Answer, highest_term: int) -> None:
    if highest_term:
        answer.extra.append((FENCE_TERM, str(highest_term)))
