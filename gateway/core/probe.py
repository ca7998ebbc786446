"""Asking a destination whether an effect happened, and reading what it says.

A probe may only find too little, never too much: an answer counts as `missing` where the policy's
own test says so of an answer that is complete. What neither test knows is for a person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

from gateway.core.classify import Reply, Silence
from gateway.core.dress import render_target
from gateway.core.facts import NOT_JSON, Facts, Test
from gateway.core.guards import Look, Version
from gateway.core.policy import SlowDown
from gateway.core.template import RequestValues, Template

_PAGING: Final = re.compile(
    "more|next|cursor|page|last|done|complete|truncat|total|count", re.IGNORECASE
)
"""Names by which answers say whether a list goes on."""
_MORE: Final = re.compile(r"(?:has_?)?(?:more|next)(?:_?page)?\Z|is_?truncated\Z", re.IGNORECASE)
_NEXT: Final = re.compile(
    r"(?:@odata\.)?next(?:_?(?:page|cursor|link|url|page_?token|token|records_?url))?\Z",
    re.IGNORECASE,
)
_AROUND: Final = frozenset(
    {"meta", "metadata", "paging", "pagination", "links", "_links", "response_metadata"}
    | {"page_info", "pageinfo", "page"}
)
_TYPE: Final = "content-type"
_SHOWN: Final = 200


class Verdict(StrEnum):
    """What came of one probe, in a word."""

    FOUND = "found"
    MISSING = "missing"
    MANY = "many"
    OTHER = "other"
    ERROR = "error"
    LOST = "lost"  # opened and never closed: a crash came between


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One question, without the destination's login. `body` None: none is sent."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Our effect is there, once. `take` is what the policy keeps of it."""

    verdict: ClassVar[Verdict] = Verdict.FOUND
    take: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missing:
    """It is not there. `moved`: the thing's version is another than the one written under;
    None where that cannot be told."""

    verdict: ClassVar[Verdict] = Verdict.MISSING
    moved: bool | None = None


@dataclass(frozen=True, slots=True)
class Many:
    """It is there `n` times."""

    verdict: ClassVar[Verdict] = Verdict.MANY
    n: int


@dataclass(frozen=True, slots=True)
class Other:
    """An answer that proves neither; asking again will hardly change it."""

    verdict: ClassVar[Verdict] = Verdict.OTHER
    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer to the question: ask again later."""

    verdict: ClassVar[Verdict] = Verdict.ERROR
    why: str


Finding: TypeAlias = Found | Missing | Many | Other | Failed


def render_look(
    look: Look, values: RequestValues, *, first_sent_ms: int, probe: str
) -> ProbeRequest:
    """Return the question about one effect. `probe` names this very question.

    `values` are those of the effect's request, with its mark. Fields that choose an API's
    version go along, since they decide how the answer reads.

    Raises Malformed where the request has no value that the question needs.
    """
    values = replace(values, first_sent_s=first_sent_ms // 1000, probe=probe)
    headers = [
        (name, value) for name, value in values.headers.items() if name.lower().endswith("-version")
    ]
    headers += [("Accept", "application/json"), ("Accept-Encoding", "identity")]
    body = None
    if look.body is not None:
        headers.append(("Content-Type", "application/json"))
        body = json.dumps(_filled(look.body, values), ensure_ascii=False).encode()
    return ProbeRequest(look.method, render_target(look.target, values), headers, body)


def _filled(body: Any, values: RequestValues) -> Any:
    if isinstance(body, Template):
        return body.render(values)
    if isinstance(body, dict):
        return {name: _filled(inner, values) for name, inner in body.items()}
    if isinstance(body, list):
        return [_filled(inner, values) for inner in body]
    return body


def read_probe(
    look: Look,
    answer: Reply | Silence,
    values: RequestValues,
    *,
    slow_down: Sequence[SlowDown] = (),
    version: Version | None = None,
    condition: str = "",
) -> Finding:
    """Return what `answer` proves. `condition` is the version that the write was sent under.

    A test that names no status asks for 2xx.
    """
    if isinstance(answer, Silence):
        return Failed(answer.reason)
    facts = Facts(answer.status, answer.headers, _body(answer))
    good = 200 <= answer.status < 300
    if any(slow.when.holds(facts, values) for slow in slow_down):
        return Failed("slow-down")
    if good and facts.body is NOT_JSON and _wants_json(look, facts):
        return Failed(f"status {answer.status}, and the body is no JSON")
    ours, n = _ours(look, facts, values) if _asks(look.found, good) else (None, 0)
    if n > 1:
        return Many(n)
    if n == 1:
        return Found(*_kept(look, ours, facts, values))
    if _asks(look.missing, good) and look.missing.holds(facts, values):
        doubt = _incomplete(look, facts)
        return Missing(_moved(facts, version, condition)) if doubt is None else Other(doubt)
    if not good:
        return Failed(f"status {answer.status}")
    return Other(f"status {answer.status}, and neither found nor missing holds")


def _body(answer: Reply) -> Any:
    try:
        return NOT_JSON if answer.json is None else answer.json()
    except ValueError:
        return NOT_JSON


def _wants_json(look: Look, facts: Facts) -> bool:
    """Whether the answer has to be JSON. A page for people is never the answer: it is what
    stands in front of one, for a login."""
    page = any(value.strip().startswith("text/html") for value in facts.headers.get(_TYPE, ()))
    return look.each is not None or look.found.reads_body or page


def _asks(test: Test, good: bool) -> bool:
    return good or test.status is not None


def _ours(look: Look, facts: Facts, values: RequestValues) -> tuple[Any, int]:
    """Return the entry that is ours, and how many are.

    With `each`, `same` is about one entry of the list, and all else about the whole answer.
    """
    if not look.found.holds_apart(facts):
        return None, 0
    if look.each is None:
        return facts.body, look.found.ours(facts.body, values) if look.found.same else 1
    entries = [entry for one in _lists(look, facts) for entry in one]
    if look.found.same:
        entries = [entry for entry in entries if look.found.ours(entry, values)]
    return (entries[0] if entries else None), len(entries)


def _lists(look: Look, facts: Facts) -> list[list[Any]]:
    if look.each is None or facts.body is NOT_JSON:
        return []
    around = look.each.list_itself
    return [found for found in around.find(facts.body) if isinstance(found, list)]


def _kept(
    look: Look, ours: Any, facts: Facts, values: RequestValues
) -> tuple[dict[str, Any], dict[str, Any]]:
    take = {name: found[0] for name, path in look.take if (found := path.find(ours))}
    evidence: dict[str, Any] = {"status": facts.status}
    if look.found.same:
        evidence["same"] = {p.text: t.render(values)[:_SHOWN] for p, t in look.found.same}
    return take, evidence


def _incomplete(look: Look, facts: Facts) -> str | None:
    """Return why the list in the answer may not be all there is, or None if it is.

    A page that has entries proves nothing about the pages behind it, or about a filter that
    the destination ignored, unless the policy's test asks the answer for its end.
    """
    if look.each is None or _asks_for_end(look):
        return None
    lists = _lists(look, facts)
    if not lists:
        return f"there is no list at {look.each.text}"
    if any(lists):
        return f"{look.each.text} has entries, none ours, and missing does not ask for its end"
    return "the answer says that there are more pages" if _goes_on(facts) else None


def _asks_for_end(look: Look) -> bool:
    tested = [str(path.steps[-1]) for path, _ in look.missing.json if path != look.each]
    headers = [name for name, _ in look.missing.header]
    by_absence = any(path == look.each and e.absent for path, e in look.missing.json)
    return by_absence or any(_PAGING.search(name) or name == "link" for name in [*tested, *headers])


def _goes_on(facts: Facts) -> bool:
    if any('rel="next"' in value or "rel=next" in value for value in facts.headers.get("link", ())):
        return True
    if not isinstance(facts.body, dict):
        return False
    around = [v for name, v in facts.body.items() if name.lower() in _AROUND]
    for document in [facts.body, *(one for one in around if isinstance(one, dict))]:
        for name, value in document.items():
            if _MORE.match(name) and value is True:
                return True
            if _NEXT.match(name) and value not in (None, "", False, {}, []):
                return True
            if name.lower() == "done" and value is False:
                return True
    return False


def _moved(facts: Facts, version: Version | None, condition: str) -> bool | None:
    """Whether the thing has another version than `condition`; None where one cannot tell."""
    if version is None or not condition or version.header is None:
        return None
    if version.read is not None:
        found = version.read.find(facts.body) if facts.body is not NOT_JSON else []
        return str(found[0]) != condition if len(found) == 1 else None
    field_name = {"if-match": "etag", "if-unmodified-since": "last-modified"}
    seen = facts.headers.get(field_name.get(version.header.lower(), ""), ())
    if len(seen) != 1:
        return None
    return seen[0].strip().removeprefix("W/") != condition.removeprefix("W/")
