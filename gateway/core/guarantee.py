"""What a route promises after an unknown outcome, worked out from its words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.core.guards import Guard
from gateway.core.measures import show_duration
from gateway.core.policy import Does, Route
from gateway.core.reconcile import WINDOW_USED


class Strength(StrEnum):
    """How strong a promise is, strongest first."""

    STRONG = "strong"  # the destination itself lets it happen once
    GOOD = "good"  # once, if the destination does as the policy says
    BEST_EFFORT = "best effort"  # what can be found out is; exactly one effect is not promised
    ONCE = "at most once, then a person"
    NOTHING = "nothing is changed"  # no write


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A promise, and in `holds` what is done after an unknown outcome and on what it rests."""

    strength: Strength
    holds: str

    def __str__(self) -> str:
        return f"{self.strength}: {self.holds}" if self.holds else str(self.strength)


def guarantee(route: Route) -> Guarantee:
    """Return what `route` promises."""
    if route.does is not Does.WRITE:
        return Guarantee(Strength.NOTHING, "")
    match route.guard:
        case Guard.NATIVE_KEY:
            return _by_key(route)
        case Guard.UNIQUE_FIELD:
            return _by_field(route)
        case Guard.VERSION:
            return _by_version(route)
        case Guard.REPEAT:
            return Guarantee(
                Strength.BEST_EFFORT,
                "sent again under a live term once the first cannot be running, unless another "
                "write to the same thing came after; holds if the same bytes twice leave the "
                "same state",
            )
        case Guard.LOOK_FIRST:
            return _by_look(route, Strength.BEST_EFFORT)
        case Guard.NONE:
            return Guarantee(Strength.ONCE, "")


def _by_key(route: Route) -> Guarantee:
    key = route.native_key
    if key is None:
        return Guarantee(Strength.ONCE, "")
    after = _looked(route) if route.look is not None else "left to a person"
    if key.window_ms is None:
        return Guarantee(
            Strength.ONCE if route.look is None else Strength.BEST_EFFORT,
            "the key is sent, but how long the destination keeps it is not known, so nothing is "
            f"sent again under it; {after}",
        )
    used = f"{WINDOW_USED:.0%} of the {show_duration(key.window_ms)}"
    one = ", once the first cannot be running" if key.at_once == 1 else ""
    known = ", if an answer showed that the destination knows keys" if key.supported_when else ""
    saved = "" if key.repeat_returns == "everything" else "; an error is not kept, and runs again"
    strength = Strength.STRONG if key.repeat_returns == "everything" else Strength.GOOD
    return Guarantee(
        strength,
        f"sent again with the same key and bytes for {used} that the destination keeps "
        f"it{one}{known}{saved}; after that {after}",
    )


def _by_field(route: Route) -> Guarantee:
    found = _by_look(route, Strength.STRONG)
    if found.strength is Strength.ONCE:
        return found
    return Guarantee(
        found.strength,
        f"{found.holds}; holds if the destination refuses or merges a second one with our mark",
    )


def _by_version(route: Route) -> Guarantee:
    version = route.version
    if version is None:
        return Guarantee(Strength.ONCE, "")
    weak = "" if version.exact else "; the condition is not exact, so another write may slip by"
    if route.look is not None:
        found = _by_look(route, Strength.STRONG if version.exact else Strength.BEST_EFFORT)
        return Guarantee(found.strength, f"{found.holds} under the same condition{weak}")
    if not version.exact and not route.repeat_is_harmless:
        return Guarantee(Strength.ONCE, "the condition is not exact, and there is no look")
    return Guarantee(
        Strength.GOOD if version.exact else Strength.BEST_EFFORT,
        "sent again under the same condition once the first cannot be running; if the condition "
        f"is lost by then, a person finds out to whom{weak}",
    )


def _by_look(route: Route, best: Strength) -> Guarantee:
    look = route.look
    if look is None:
        return Guarantee(Strength.ONCE, "")
    lags = look.reads == "index" and best is Strength.STRONG
    return Guarantee(Strength.GOOD if lags else best, _looked(route))


def _looked(route: Route) -> str:
    look = route.look
    if look is None:
        return "left to a person"
    then = "sent again" if route.resends_if_missing else "left to a person"
    return (
        f"looked for in the {look.reads}; there: confirmed; missing twice, from "
        f"{show_duration(look.settle_ms)} after the seal on: {then}"
    )
