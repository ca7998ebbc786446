"""Effects of which nobody knows whether they happened, flat, for the table of reconciliation."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from gateway.core.effect import Outcome
from gateway.core.guards import Guard, Look, NativeKey, Version
from gateway.core.match import Match
from gateway.core.policy import Does, Is, Limits, Route, Rule, Test
from gateway.core.template import Template

SETTLE_MS = 3_000
DEADLINE_MS = 30_000
SEAL_MS = 35_000
ENDED_MS = 10_000
COUNTABLE_MS = SEAL_MS + SETTLE_MS
LATE_MS = 1_000_000
WINDOW_MS = 300_000
TERM = 7

Attempt = tuple[Any, ...]  # began, deadline, seal, ended, outcome, reason, term, sent
Asked = tuple[Any, ...]  # started, verdict, term, moved

UNKNOWN: Attempt = (0, DEADLINE_MS, SEAL_MS, ENDED_MS, "unknown")


@dataclass(frozen=True)
class World:
    """One effect whose only attempt is unknown, long after its seal, under a live leader."""

    guard: str = "look_first"
    tries: tuple[Attempt, ...] = (UNKNOWN,)
    probes: tuple[Asked, ...] = ()
    now_ms: int = LATE_MS
    term: int = TERM
    live_term: int | None = TERM
    overtaken: bool = False
    key_supported: bool | None = None
    unsure: bool = False
    look: bool = True
    settle_ms: int = SETTLE_MS
    if_still_missing: str | None = None
    window_ms: int | None = WINDOW_MS
    at_once: int | None = None
    asks_support: bool = False
    exact: bool = True
    harmless: bool = False

    def route(self) -> Route:
        mark = Template.parse("{effect}")
        look = Look(
            "GET", mark, Test(), Test(), self.settle_ms, if_still_missing=self.if_still_missing
        )
        key = NativeKey(
            value=mark,
            window_ms=self.window_ms,
            header="Idempotency-Key",
            at_once=self.at_once,
            supported_when=Test() if self.asks_support else None,
        )
        return Route(
            name="r",
            match=Match("", frozenset(), ()),
            does=Does.WRITE,
            guard=Guard(self.guard),
            results=(Rule(Test(), Is.UNKNOWN), Rule(Test(), Is.UNKNOWN, never_retry=True)),
            native_key=key if self.guard == "native_key" else None,
            version=Version(lost_when=Test(), header="If-Match", exact=self.exact)
            if self.guard == "version"
            else None,
            look=look if self.look else None,
            repeat_is_harmless=self.harmless,
            limits=Limits(timeout_ms=DEADLINE_MS),
        )

    def case(self, reconcile: ModuleType) -> Any:
        return reconcile.Case(
            route=self.route(),
            tries=[_try(reconcile, n, *one) for n, one in enumerate(self.tries, start=1)],
            term=self.term,
            now_ms=self.now_ms,
            probes=[_probed(reconcile, n, *one) for n, one in enumerate(self.probes, start=1)],
            live_term=self.live_term,
            overtaken=self.overtaken,
            key_supported=self.key_supported,
            window_unsure=self.unsure,
        )


def _try(
    reconcile: ModuleType,
    n: int,
    began: int,
    deadline: int,
    seal: int,
    ended: int | None,
    outcome: str | None,
    reason: str = "status-503",
    term: int = TERM,
    sent: bool = True,
) -> Any:
    return reconcile.Try(
        n=n,
        term=term,
        began_at_ms=began,
        deadline_at_ms=deadline,
        seal_at_ms=seal,
        ended_at_ms=ended,
        outcome=None if outcome is None else Outcome(outcome),
        sent=sent,
        reason=reason,
    )


def _probed(
    reconcile: ModuleType,
    n: int,
    started: int,
    verdict: str | None,
    term: int = TERM,
    moved: bool | None = None,
) -> Any:
    word = None if verdict is None else reconcile.Verdict(verdict)
    return reconcile.Probed(n=n, term=term, started_at_ms=started, verdict=word, moved=moved)
