"""Candidates: who may lead a function, and who should, out of what they report of themselves.

Deterministic and operational: the same reports and rules give the same order everywhere, so
that every gateway process and every follower comes to the same successor. What is not known
of a candidate never speaks for it: a version that cannot be read lies in no range and sorts
behind every version that can, and a report that is no longer fresh is no report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.core.errors import Malformed

LOSSES_KEPT_MS: Final = 24 * 3_600_000
"""How far back losses are known: no rule may ask for older ones."""

_NUMBERS: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,7}"
_PRE: Final = r"(?:-|\.?(?=(?:a|alpha|b|beta|c|rc|pre|dev)[.-]?[0-9]*(?:[+]|\Z)))"
_SUFFIX: Final = rf"{_PRE}[0-9a-z]+(?:[.-][0-9a-z]+)*"
_VERSION: Final = re.compile(
    rf"v?({_NUMBERS})({_SUFFIX})?(?:\+[0-9a-z.-]+)?", re.IGNORECASE | re.ASCII
)
_CONDITION: Final = re.compile(r"(>=|<=|==|!=|>|<)\s*(\S+)")
_PREFIX: Final = re.compile(rf"({_NUMBERS})\.\*")
_PIECE: Final = re.compile(r"[0-9]+|[a-z]+")
_LONGEST: Final = 100
_RANGE_FORM: Final = 'write it as ">=2026.10", ">=2026.10,<2027" or "==2026.10.*"'
_VERSION_FORM: Final = "a version is dotted numbers, such as 2026.10.1 or 2026.10-rc1"


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version in its order: `2026.10-rc1` < `2026.10` = `2026.10.0` < `2026.10.1`.

    Whatever follows the numbers makes a pre-release; what follows a `+` is ignored.
    """

    numbers: tuple[int, ...]  # without zeros at the end
    released: bool
    pre: tuple[tuple[bool, int, str], ...] = ()  # (is a word, number, word); numbers first

    @classmethod
    def parse(cls, text: str) -> Version:
        found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
        if found is None:
            raise Malformed(f"the version {text[:40]!r} cannot be read; {_VERSION_FORM}")
        numbers = _numbers(found[1])
        while numbers and numbers[-1] == 0:
            numbers = numbers[:-1]
        pieces = _PIECE.findall((found[2] or "").lower())
        pre = tuple((False, int(p), "") if p.isdecimal() else (True, 0, p) for p in pieces)
        return cls(numbers, not pre, pre)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def _read(text: str) -> Version | None:
    try:
        return Version.parse(text)
    except Malformed:
        return None


@dataclass(frozen=True, slots=True)
class _Condition:
    """One comparison. A bound with `prefix` stands for every version that begins like it."""

    operator: str
    bound: Version
    prefix: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> _Condition:
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise Malformed(f"{text!r} is no condition on a version; {_RANGE_FORM}")
        operator, bound = found.groups()
        prefixed = _PREFIX.fullmatch(bound)
        if prefixed is not None and operator in {"==", "!="}:
            return cls(operator, Version.parse(prefixed[1]), _numbers(prefixed[1]))
        if "*" in bound:
            raise Malformed(f"{text!r}: a * stands at the end of == or != only; {_RANGE_FORM}")
        return cls(operator, Version.parse(bound))

    def holds(self, version: Version) -> bool:
        match self.operator:
            case "==":
                return self._equals(version)
            case "!=":
                return not self._equals(version)
            case ">=":
                return version >= self.bound
            case ">":
                return version > self.bound
            case "<=":
                return version <= self.bound
            case _:
                return version < self.bound and not self._comes_before_release(version)

    def _equals(self, version: Version) -> bool:
        if self.prefix is None:
            return version == self.bound
        missing = (0,) * (len(self.prefix) - len(version.numbers))
        return (version.numbers + missing)[: len(self.prefix)] == self.prefix

    def _comes_before_release(self, version: Version) -> bool:
        """`<2027` keeps 2027 away, and so its pre-releases, which behave as it will."""
        return self.bound.released and version.numbers == self.bound.numbers

    def floor(self) -> tuple[Version, bool] | None:
        """Return the lowest version that holds, and whether it is one itself."""
        if self.operator in {">", ">="} or (self.operator == "==" and self.prefix is None):
            return self.bound, self.operator != ">"
        return (Version(self.bound.numbers, False), True) if self.operator == "==" else None

    def ceiling(self) -> tuple[Version, bool] | None:
        if self.operator == "<":
            return (
                Version(self.bound.numbers, False) if self.bound.released else self.bound
            ), False
        if self.operator == "<=" or (self.operator == "==" and self.prefix is None):
            return self.bound, True
        if self.operator != "==" or self.prefix is None:
            return None
        return Version((*self.prefix[:-1], self.prefix[-1] + 1), False), False


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Conditions on a version, all of which hold for one that is in the range."""

    text: str
    conditions: tuple[_Condition, ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Return the range that `text` says. Raises Malformed, also where nothing is in it."""
        if len(text) > _LONGEST:
            raise Malformed(f"a range of {len(text)} characters is too long; {_RANGE_FORM}")
        conditions = tuple(_Condition.parse(part.strip()) for part in text.split(","))
        floors = [found for one in conditions if (found := one.floor())]
        ceilings = [found for one in conditions if (found := one.ceiling())]
        for low, with_low in floors:
            for high, with_high in ceilings:
                if low > high or (low == high and not (with_low and with_high)):
                    raise Malformed(f"no version is in {text!r}; raise its end or lower its start")
        return cls(text, conditions)

    def contains(self, version: str) -> bool:
        """Whether `version` is in the range. One that cannot be read is in none."""
        found = _read(version)
        return found is not None and all(one.holds(found) for one in self.conditions)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of one holder that would lead.

    `losses` are the instants at which leases of this worker's name expired under it, the
    newest last: one that hangs or dies again and again should not be the first choice.
    """

    holder: str
    principal: str
    version: str = ""
    region: str = ""
    ready: bool = True
    priority: int = 0
    reported_at_ms: int = 0
    losses: tuple[int, ...] = ()


class Upgrades(StrEnum):
    """Which of several eligible versions leads while a new one is rolled out."""

    OLDEST_FIRST = "oldest-first"
    NEWEST_FIRST = "newest-first"


@dataclass(frozen=True, slots=True)
class CoolOff:
    """After `losses` expiries within `within_ms`, a worker ranks last for `lasts_ms`."""

    losses: int
    within_ms: int
    lasts_ms: int


@dataclass(frozen=True, slots=True)
class Eligibility:
    """What a function's policy wants of its leader. None is no condition."""

    versions: VersionRange | None = None
    regions: frozenset[str] | None = None
    preferred: str | None = None  # a worker's name
    upgrades: Upgrades = Upgrades.OLDEST_FIRST
    cool_off: CoolOff | None = None


def worker_name(holder: str) -> str:
    """Return the worker's name: what is left of `name#incarnation` across restarts."""
    return holder.partition("#")[0]


def why_not(candidate: Candidate, rules: Eligibility) -> str | None:
    """Return why the candidate may not lead, or None if it may."""
    who = candidate.holder
    if not candidate.ready:
        return f"{who!r} reports ready: false"
    if rules.versions is not None and not rules.versions.contains(candidate.version):
        wanted = f"the function wants {str(rules.versions)!r}"
        if not candidate.version:
            return f"{who!r} reports no version, and {wanted}"
        if _read(candidate.version) is None:
            return f"{who!r} reports the version {candidate.version!r}; {_VERSION_FORM}"
        return f"{who!r} runs version {candidate.version!r}, and {wanted}"
    if rules.regions is not None and candidate.region not in rules.regions:
        where = f"is in region {candidate.region!r}" if candidate.region else "reports no region"
        return f"{who!r} {where}, and the function wants {' or '.join(sorted(rules.regions))}"
    return None


def is_fresh(candidate: Candidate, now_ms: int, fresh_for_ms: int) -> bool:
    return now_ms < candidate.reported_at_ms + fresh_for_ms


def cooling(candidate: Candidate, rules: Eligibility, now_ms: int) -> int:
    """Return for how many more milliseconds the candidate cools off, 0 if it does not."""
    rule = rules.cool_off
    if rule is None:
        return 0
    losses = sorted(candidate.losses)
    ends = [
        last + rule.lasts_ms
        for first, last in zip(losses, losses[rule.losses - 1 :], strict=False)
        if last - first <= rule.within_ms
    ]
    return max(0, max(ends, default=now_ms) - now_ms)


def rank(
    candidates: Iterable[Candidate], rules: Eligibility, now_ms: int, fresh_for_ms: int
) -> list[Candidate]:
    """Return the fresh and eligible candidates, best first. Holders have to be unique.

    Cooling off ranks a candidate last and does not exclude it: alone, it may still lead.
    """
    fit = [
        one
        for one in candidates
        if is_fresh(one, now_ms, fresh_for_ms) and why_not(one, rules) is None
    ]
    versions = {one.holder: _read(one.version) for one in fit}
    ascending = sorted({version for version in versions.values() if version is not None})
    if rules.upgrades is Upgrades.NEWEST_FIRST:
        ascending.reverse()
    place = {version: at for at, version in enumerate(ascending)}

    def key(one: Candidate) -> tuple[bool, bool, int, int, str]:
        version = versions[one.holder]
        return (
            cooling(one, rules, now_ms) > 0,
            worker_name(one.holder) != rules.preferred,
            -one.priority,
            len(place) if version is None else place[version],
            one.holder,
        )

    return sorted(fit, key=key)
