"""An unknown effect as reconciliation sees it: from the ledger's rows to the pure decision's case.

Everything about it is read by the policy that its intent was written under, even if another one
is in force by now: another `look` might search for another mark.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.core.effect import Outcome
from gateway.core.fence import Authority
from gateway.core.fingerprint import strict_json
from gateway.core.ids import EffectKey, effect_mark
from gateway.core.match import split_path
from gateway.core.policy import Destination, Does, Function, Mode, PolicySet, Route
from gateway.core.reconcile import Case, Probed, Try
from gateway.core.template import RequestValues
from gateway.proxy.reading import Fields, query_of
from gateway.store.case_records import KeptRequest, UnknownAttempt, UnknownEffect
from gateway.store.queries import Reader

SHELF_MAX: Final = 64
NEVER_SENT: Final = frozenset({"never-sent", "send-budget-spent", "not-sent"})

DETAIL: Final[Mapping[str, str]] = {
    "no-guard": "the route gives the gateway no way to find out",
    "several-matches": "the destination has it more than once",
    "other-content": "the destination's answer proves neither",
    "superseded": "another write to the same thing came after it, so its mark proves nothing",
    "still-missing": "it is not there, and the route does not send it again by itself",
    "never-retry": "an answer forbade to send it again",
    "key-misused": "the destination knows its native key from another request",
    "key-not-supported": "the destination has not said that it knows native keys",
    "window-unknown": "how long the destination keeps native keys is not published",
    "window-over": "its native key would by now make a second effect",
    "condition-lost": "somebody wrote under the version that it was sent under",
    "condition-not-exact": "its condition is not exact, and repeating it may do harm",
    "probes-failed": "the destination did not answer the question, too often",
    "resend-rejected": "sent again it was rejected, which proves nothing about the first time",
    "resends-exhausted": "it was sent again too often without an answer",
    "ledger-restored": "the ledger came back older than it was, so what was sent may be missing in "
    "it, and the route gives no way to find out that nothing was",
    "no-leader": "nobody leads under whose term it could be sent again",
    "policy-withdrawn": "the policies in force no longer let the gateway send it again",
    "policy-gone": "the policy that it was sent under cannot be read any more",
    "request-gone": "the request is not on record any more",
    "request-elsewhere": "its request was too large for the ledger, and the gateway that has it on "
    "its disk is gone",
    "cannot-be-sent": "the request cannot be sent under that policy any more",
    "gateway-failure": "the gateway failed at it again and again; its log says how",
}
"""Why the gateway does not settle it, in words."""

ParsePolicy = Callable[[str, str], Destination | None]
"""From a policy's name and text to the destination that it describes; None if it is none."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Under whose name something may be sent for a scope now."""

    term: int
    holder: str


@dataclass(frozen=True, slots=True)
class Matter:
    """One unknown effect, and the policy that it is settled by."""

    effect: UnknownEffect
    destination: Destination
    route: Route
    function: Function | None
    request: KeptRequest
    leader: Leader | None
    read_s: float  # on the boot clock, when what is known of it was read


class Shelf:
    """Destinations' policies by digest: those in force, and those that effects are pinned to."""

    def __init__(self, in_force: Callable[[], PolicySet], parse: ParsePolicy) -> None:
        self._in_force = in_force
        self._parse = parse
        self._old: OrderedDict[str, Destination | None] = OrderedDict()

    async def find(self, name: str, digest: str, reader: Reader) -> Destination | None:
        now = self._in_force().destinations.get(name)
        if now is not None and now.digest == digest:
            return now
        if digest not in self._old:
            kept = await reader.policy_text(digest)
            found = self._parse(kept[0], kept[1]) if kept and kept[1] else None
            self._old[digest] = found
            while len(self._old) > SHELF_MAX:
                self._old.popitem(last=False)
        return self._old[digest]


def route_mark(route: Route) -> str:
    """Return what an attempt's record says of its route: its line in the file, and its name."""
    return f"{route.line}:{route.name}"


def find_route(destination: Destination, mark: str | None) -> Route | None:
    return next((route for route in destination.routes if route_mark(route) == mark), None)


def mark_of(effect: UnknownEffect) -> str:
    key = EffectKey(effect.destination, effect.scope.function, effect.unit, effect.key or "")
    return effect_mark(key)


def headers_of(head: str | None) -> list[tuple[str, str]]:
    return [(name, value) for name, value in orjson.loads(head or "[]")]


def values_of(effect: UnknownEffect, request: KeptRequest, route: Route) -> RequestValues:
    """Return what the policy's templates may speak of, as at the first attempt."""
    path, _, query = request.target.partition("?")
    parts = route.match.parts_of(request.method, split_path(path)) or {}
    return RequestValues(
        parts=parts,
        query=query_of(query),
        query_string=query,
        headers=Fields(headers_of(request.head)),
        body=_parsed(request.body),
        unit=effect.unit,
        term=request.term,
        effect=mark_of(effect),
        first_sent_s=effect.attempts[0].created_at_ms // 1000,
    )


def _parsed(body: bytes | None) -> Any:
    try:
        return strict_json(body) if body else None
    except ValueError:
        return None


def case_of(
    effect: UnknownEffect,
    route: Route,
    now_ms: int,
    leader: Leader | None,
    key_supported: bool | None = None,
    unsure_before_ms: int = 0,
) -> Case:
    """Return what the pure decision has to know."""
    return Case(
        route=route,
        tries=[
            Try(
                n=one.n,
                term=one.term,
                began_at_ms=one.created_at_ms,
                deadline_at_ms=one.deadline_at_ms,
                seal_at_ms=one.seal_at_ms,
                outcome=one.outcome,
                ended_at_ms=one.ended_at_ms,
                sent=not (one.outcome is Outcome.NO_EFFECT and one.reason in NEVER_SENT),
                reason=one.reason or "",
            )
            for one in effect.attempts
        ],
        term=effect.highest_term,
        now_ms=now_ms,
        probes=[
            Probed(
                n=one.n,
                term=one.term,
                started_at_ms=one.started_at_ms,
                verdict=one.verdict,
                moved=one.moved,
            )
            for one in effect.probes
        ],
        live_term=leader.term if leader else None,
        overtaken=effect.superseded,
        key_supported=key_supported,
        window_unsure=effect.attempts[0].created_at_ms < unsure_before_ms,
    )


async def leader_of(
    effect: UnknownEffect, function: Function | None, reader: Reader, now_ms: int
) -> Leader | None:
    """Return who leads the effect's scope, as far as the gateway can tell."""
    if function is None:
        return None
    if function.rules.authority is Authority.EXTERNAL:
        if not effect.highest_term or effect.holder is None:
            return None
        return Leader(effect.highest_term, effect.holder)
    lease = (await reader.lease(effect.scope, now_ms)).lease
    if lease is None or lease.ended is not None or now_ms >= lease.expires_at_ms:
        return None
    return Leader(lease.term, lease.holder)


def evidence_of(effect: UnknownEffect) -> dict[str, Any]:
    """Return what a person who has to decide should see."""
    return {
        "request": {
            "method": effect.method,
            "target": effect.target,
            "fingerprint": effect.fp_raw.hex(),
        },
        "attempts": [_shown(one) for one in effect.attempts],
        "probes": [
            {
                "n": one.n,
                "started_at_ms": one.started_at_ms,
                "verdict": one.verdict.value if one.verdict else None,
                "status": one.status,
                "evidence": one.evidence,
            }
            for one in effect.probes
        ],
    }


def _shown(attempt: UnknownAttempt) -> dict[str, Any]:
    return {
        "n": attempt.n,
        "term": attempt.term,
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "reason": attempt.reason,
        "seal_at_ms": attempt.seal_at_ms,
    }


def latest_unknown(effect: UnknownEffect) -> int:
    unknown: Sequence[int] = [
        one.n for one in effect.attempts if one.outcome in (None, Outcome.UNKNOWN)
    ]
    return unknown[-1] if unknown else effect.attempts[-1].n


def why_not_sent(matter: Matter, in_force: PolicySet) -> str | None:
    """Return why the policies in force forbid that the gateway writes this itself.

    An effect is settled by the policy that it was sent under; whether anything may be sent now
    is for the one that counts now to say.
    """
    effect, function = matter.effect, matter.function
    now = in_force.destinations.get(effect.destination)
    if now is None or now.mode is not Mode.ENFORCE or now.base_url != matter.destination.base_url:
        return "policy-withdrawn"
    allowed = now.functions
    if function is None or (allowed is not None and function.name not in allowed):
        return "policy-withdrawn"
    if now.digest == effect.policy_digest:
        return None
    found = now.candidates(effect.method, effect.target.partition("?")[0])
    if not found or any(route.does is not Does.WRITE for route, _ in found):
        return "policy-withdrawn"
    return None
