"""Destinations of every kind, as they are when answers are lost: late, out of order, forgetful.

One model knows the truth: what was carried out, when, under which term, and what a question about
it would find. It breaks a promise loudly the moment that something happens which must not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.core.effect import Outcome
from gateway.core.guards import Guard, Look, NativeKey, Version
from gateway.core.match import Match
from gateway.core.policy import Does, Limits, Route, Test
from gateway.core.probe import Failed, Finding, Found, Missing
from gateway.core.template import Template
from tests.conformance.books import SEAL_MS, SETTLE_MS, TIMEOUT_MS
from tests.simulation.destination import hold

LAG_MS: Final = 1_500
"""How long after its seal a write may stay invisible; also how far apart two negatives are."""
BLIND_MS: Final = LAG_MS - 1
WINDOW_MS: Final = 40_000

_MARK: Final = Template.parse("{effect}")


def _route(name: str, guard: Guard, *, park: bool = False, **more: object) -> Route:
    look = None
    if guard in (Guard.UNIQUE_FIELD, Guard.LOOK_FIRST, Guard.VERSION):
        still = "park" if park else "resend"
        look = Look("GET", _MARK, Test(), Test(), LAG_MS, if_still_missing=still)
    fields: dict[str, object] = {
        "match": Match("", frozenset(), ()),
        "does": Does.WRITE,
        "guard": guard,
        "look": look,
        "limits": Limits(connect_ms=1_000, timeout_ms=TIMEOUT_MS, settle_ms=SETTLE_MS),
    }
    return Route(name=name, **(fields | more))  # type: ignore[arg-type]


def _key(at_once: int | None) -> NativeKey:
    return NativeKey(value=_MARK, window_ms=WINDOW_MS, header="Idempotency-Key", at_once=at_once)


_EXACT: Final = Version(lost_when=Test(), header="If-Match", exact=True)

ROUTES: Final = {
    route.name: route
    for route in (
        _route("create", Guard.LOOK_FIRST),  # nothing there rejects a second one
        _route("parked", Guard.LOOK_FIRST, park=True),
        _route("unique", Guard.UNIQUE_FIELD),
        _route("marked", Guard.LOOK_FIRST),  # a record that bears the last writer's mark
        _route("keyed", Guard.NATIVE_KEY, native_key=_key(None)),
        _route("keyed-one", Guard.NATIVE_KEY, native_key=_key(1)),  # two at once both run
        _route("version", Guard.VERSION, version=_EXACT),
        _route("condition", Guard.VERSION, version=_EXACT, look=None),
        _route("repeat", Guard.REPEAT, repeat_is_harmless=True),
        _route("mail", Guard.NONE),
    )
}
SHARED: Final = frozenset({"marked", "version", "condition", "repeat"})
"""Kinds of which several effects go to one record."""
CAREFUL: Final = frozenset({"unique", "version", "condition", "keyed", "keyed-one"})
"""Kinds that see to it themselves that nothing is done twice."""
TELLING: Final = frozenset({"create", "unique"})
"""Kinds whose every unknown effect can be settled, if only the destination answers."""


@dataclass(frozen=True)
class Sent:
    """One attempt as it left. `seal_at_ms` is in true time, `condition` a record's version."""

    effect_id: str
    n: int
    kind: str
    key: str
    thing: str
    term: int
    seal_at_ms: int
    condition: int = 0

    @property
    def sent_ms(self) -> int:
        return self.seal_at_ms - SEAL_MS


@dataclass(frozen=True)
class Applied:
    sent: Sent
    at_ms: int
    seen_from_ms: int


@dataclass
class Record:
    version: int = 1
    mark: str | None = None


@dataclass
class Destination:
    """What was really done, in order, and what is still on the wire (by its arrival)."""

    applied: list[Applied] = field(default_factory=list)
    on_the_wire: list[tuple[int, Sent]] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    blind_until_ms: int = 0
    deaf: frozenset[str] = frozenset()
    """Kinds whose questions are never answered."""

    # -- writing

    def record(self, thing: str) -> Record:
        return self.records.setdefault(thing, Record())

    def take(self, sent: Sent, now_ms: int, lag_ms: int = 0) -> Outcome:
        """Carry out what arrives, or refuse it; return what the answer says."""
        same = [one for one in self.applied if one.sent.key == sent.key]
        match sent.kind:
            case "unique" if same:
                return Outcome.REJECTED
            case "version" | "condition" if self.record(sent.thing).version != sent.condition:
                return Outcome.REJECTED
            case "keyed" | "keyed-one" if same and now_ms < same[-1].at_ms + WINDOW_MS:
                if sent.kind == "keyed" or same[-1].at_ms <= sent.sent_ms:
                    return Outcome.CONFIRMED  # the first one's answer again
        self._apply(sent, now_ms, lag_ms)
        return Outcome.CONFIRMED

    def _travels(self, sent: Sent) -> bool:
        return any(other.key == sent.key for _, other in self.on_the_wire)

    def _apply(self, sent: Sent, now_ms: int, lag_ms: int) -> None:
        hold("seal", now_ms <= sent.seal_at_ms, f"{sent} is carried out after its seal")
        same = [one for one in self.applied if one.sent.key == sent.key]
        twice = bool(same) and sent.kind != "repeat"
        hold("I7", not twice, f"{sent} is a second time after {same}")
        newer = [
            one for one in self.applied
            if one.sent.thing == sent.thing and one.sent.term > sent.term
        ]  # fmt: skip
        hold("I10", not newer, f"{sent} comes after the newer {newer}")
        record = self.record(sent.thing)
        record.version, record.mark = record.version + 1, sent.effect_id
        self.applied.append(Applied(sent, now_ms, now_ms + lag_ms))

    def busy(self, sent: Sent) -> bool:
        """Whether an earlier attempt under the key is still travelling, and it says so."""
        return sent.kind == "keyed" and self._travels(sent)

    def arrive(self, until_ms: int) -> None:
        """Carry out what arrives until then, in its order. Nobody hears the answers."""
        due = sorted(
            (one for one in self.on_the_wire if one[0] <= until_ms), key=lambda one: one[0]
        )
        for at, sent in due:
            self.on_the_wire.remove((at, sent))
            self.take(sent, at, lag_ms=sent.n * 400 % LAG_MS)

    # -- asking

    def find(self, effect_id: str, kind: str, thing: str, condition: int, now_ms: int) -> Finding:
        """Answer the question whether an effect is there."""
        if kind in self.deaf:
            return Failed("no answer")
        if kind in SHARED:
            record = self.record(thing)
            if record.mark == effect_id:
                return Found()
            return Missing(moved=record.version != condition if kind == "version" else None)
        seen = [
            one for one in self.applied
            if one.sent.effect_id == effect_id and one.seen_from_ms <= now_ms
        ]  # fmt: skip
        return Found() if seen and now_ms >= self.blind_until_ms else Missing()

    # -- the truth

    def did(self, effect_id: str) -> bool:
        return any(one.sent.effect_id == effect_id for one in self.applied)

    def did_attempt(self, effect_id: str, n: int) -> bool:
        return any(one.sent.effect_id == effect_id and one.sent.n == n for one in self.applied)
