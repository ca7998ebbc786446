"""The words of a route that make an unknown outcome answerable: what is sent beside the worker's
own request, and how the destination is asked afterwards. Plain data; dress.py and probe.py act."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.core.facts import Test
from gateway.core.jsonpath import Path
from gateway.core.template import Template


class Guard(StrEnum):
    """What may happen after "unknown"."""

    NATIVE_KEY = "native_key"
    UNIQUE_FIELD = "unique_field"
    VERSION = "version"
    REPEAT = "repeat"
    LOOK_FIRST = "look_first"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeKey:
    """The destination's own idempotency key. Exactly one of the three places is set.

    `window_ms` None: not published, so no resend may count on it. `at_once` 1: two requests
    with one key at the same time may both run.
    """

    value: Template
    window_ms: int | None
    header: str | None = None
    body: Path | None = None
    query: str | None = None
    repeat_returns: str = "success_only"  # or: everything
    at_once: int | None = None
    replayed_when: Test | None = None
    busy_when: Test | None = None
    misuse_when: Test | None = None
    supported_when: Test | None = None

    @property
    def tests(self) -> list[Test]:
        each = (self.replayed_when, self.busy_when, self.misuse_when, self.supported_when)
        return [test for test in each if test is not None]


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is set in the outgoing body: members of a JSON body, or fields of a form."""

    json: tuple[tuple[Path, Template], ...] = ()
    form: tuple[tuple[str, Template], ...] = ()


@dataclass(frozen=True, slots=True)
class SendAs:
    """A safer form of the same effect. `method` and `target` are set together or not at all."""

    method: str | None = None
    target: Template | None = None
    query: tuple[tuple[str, Template], ...] = ()
    header: tuple[tuple[str, Template], ...] = ()
    drop: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The condition under which a write counts. Either `header` or `query` is set.

    `read` is the place of the version in the look's answer; None: the worker sends it.
    """

    lost_when: Test
    header: str | None = None
    query: tuple[tuple[str, Template], ...] = ()
    read: Path | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """How to find out whether an effect happened. `settle_ms` is how long after the seal a
    write may stay invisible to this question."""

    method: str
    target: Template
    found: Test
    missing: Test
    settle_ms: int
    reads: str = "record"  # or: index
    each: Path | None = None
    body: Any = None
    take: tuple[tuple[str, Path], ...] = ()
    if_still_missing: str | None = None  # resend or park; None: as the guard has it

    @property
    def templates(self) -> list[Template]:
        tests = [template for test in (self.found, self.missing) for _, template in test.same]
        return [self.target, *tests, *templates_in(self.body)]

    @property
    def asks_for_mark(self) -> bool:
        """Whether found cannot be true of another effect's doing."""
        asked = [self.target, *templates_in(self.body), *(t for _, t in self.found.same)]
        return any("effect" in template.sources for template in asked)


def templates_in(body: object) -> Iterator[Template]:
    """Yield the templates in a question's body."""
    if isinstance(body, Template):
        yield body
    elif isinstance(body, dict):
        for inner in body.values():
            yield from templates_in(inner)
    elif isinstance(body, list):
        for inner in body:
            yield from templates_in(inner)


def sent_templates(
    key: NativeKey | None, stamp: Stamp | None, send_as: SendAs | None, version: Version | None
) -> list[Template]:
    """Return every template whose value is sent."""
    found: list[Template] = []
    if key is not None:
        found.append(key.value)
    if stamp is not None:
        found += [template for _, template in (*stamp.json, *stamp.form)]
    if send_as is not None:
        found += [template for _, template in (*send_as.query, *send_as.header)]
        found += [send_as.target] if send_as.target is not None else []
    if version is not None:
        found += [template for _, template in version.query]
    return found
