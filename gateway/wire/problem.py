"""Problems: how a refusal looks over HTTP (RFC 9457), and the page that explains it.

The words are in problem_table.py; here they become an answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

import orjson

from gateway.wire.headers import X_SHOULD_RETRY
from gateway.wire.problem_table import PROBLEMS, EffectWord, Problem

__all__ = [
    "PROBLEMS",
    "PROBLEM_TYPE",
    "EffectWord",
    "Problem",
    "Rendered",
    "problem_index",
    "problem_page",
    "render",
]

PROBLEM_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A problem as an answer. Where it is part of the answer to a write, the caller adds
    `Fence-Verdict`."""

    slug: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes


def render(
    slug: str,
    *,
    status: int | None = None,
    detail: str | None = None,
    effect: EffectWord | None = None,
    safe_to_retry_same_key: bool | None = None,
    retry_after_s: float | None = None,
    instance: str | None = None,
    facts: Mapping[str, object] | None = None,
) -> Rendered:
    """Return the problem `slug`; what is not given is as the table says.

    `status` chooses among the problem's own (releasing as another holder is 409, commanding
    as one 412). Facts that are None are left out; none can take the place of a standard member.
    """
    problem = PROBLEMS[slug]
    if status is None:
        status = problem.status
    elif status != problem.status and status not in problem.also:
        raise ValueError(f"problem {slug!r} is {problem.status} or {problem.also}, not {status}")
    body: dict[str, object] = {
        "type": f"/problems/{slug}",
        "title": problem.title,
        "status": status,
        "detail": problem.detail if detail is None else detail,
        "effect": problem.effect if effect is None else effect,
        "safe_to_retry_same_key": (
            problem.same_key if safe_to_retry_same_key is None else safe_to_retry_same_key
        ),
    }
    headers = [("Content-Type", PROBLEM_TYPE), ("Cache-Control", "no-store"), *problem.headers]
    if instance is not None:
        body["instance"] = instance
    wait_s = problem.retry_after_s if retry_after_s is None else max(1, math.ceil(retry_after_s))
    if wait_s is not None:
        body["retry_after_s"] = wait_s
        headers.append(("Retry-After", str(wait_s)))
    if not problem.retry:
        headers.append((X_SHOULD_RETRY, "false"))
    for name, fact in (facts or {}).items():
        if fact is not None:
            body.setdefault(name, fact)
    return Rendered(slug, status, headers, _dump(body))


def _dump(body: dict[str, object]) -> bytes:
    """Return JSON for `body`, whatever a caller managed to put into it: a problem that
    cannot be told (a lone surrogate from a header, a huge number) would be a 500 instead."""
    try:
        return orjson.dumps(body)
    except TypeError:
        return json.dumps(body, default=str).encode("ascii")


_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}"
    "code{background:#8882;padding:.1em .3em}th,td{text-align:left;padding:.2rem 1rem .2rem 0}"
    ":root{color-scheme:light dark}"
)
_EFFECT_SAYS: Final[Mapping[EffectWord, str]] = {
    "none": "nothing happened",
    "confirmed": "it has happened",
    "unknown": "it may or may not have happened",
}


def _html(title: str, content: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{content}</body></html>\n"
    )


def problem_page(slug: str) -> str:
    """Return the readable page of `slug`. Raises KeyError if there is no such problem."""
    problem = PROBLEMS[slug]
    facts = {
        "Status": " or ".join(str(status) for status in (problem.status, *problem.also)),
        "Effect": f"{problem.effect}: {_EFFECT_SAYS[problem.effect]}",
        "Same key again": "yes, once what is said below is done" if problem.same_key else "no",
        "Retry as it is": "yes, later" if problem.retry else "no",
    }
    rows = "".join(
        f"<tr><th>{name}</th><td>{escape(said)}</td></tr>" for name, said in facts.items()
    )
    return _html(
        f"{slug}: {problem.title}",
        f"<h1>{escape(problem.title)}</h1><p><code>{escape(slug)}</code></p><table>{rows}</table>"
        f"<h2>What to do</h2><p>{escape(problem.detail)}</p>"
        f"<h2>What it means</h2><p>{escape(problem.page)}</p>"
        '<p><a href="/problems/">All problems</a></p>',
    )


def problem_index() -> str:
    """Return the readable page that lists all problems."""
    rows = "".join(
        f'<tr><td><a href="/problems/{slug}"><code>{slug}</code></a></td>'
        f"<td>{problem.status}</td><td>{escape(problem.title)}</td></tr>"
        for slug, problem in sorted(PROBLEMS.items())
    )
    return _html("Problems", f"<h1>Problems</h1><table>{rows}</table>")
