"""Policies as the house uses them: parsed, checked, ready to match. Files are wire's matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.core.candidates import Eligibility
from gateway.core.effect import Outcome
from gateway.core.facts import NOT_JSON as NOT_JSON
from gateway.core.facts import Expect as Expect
from gateway.core.facts import Facts as Facts
from gateway.core.facts import Test as Test
from gateway.core.fence import FunctionRules, OnDuplicate
from gateway.core.guards import Guard as Guard
from gateway.core.guards import Look as Look
from gateway.core.guards import NativeKey, SendAs, Stamp, Version, sent_templates
from gateway.core.jsonpath import Path
from gateway.core.lease import LeaseRules
from gateway.core.match import Match, split_path
from gateway.core.template import Template


class Does(StrEnum):
    """What a route is."""

    READ = "read"
    WRITE = "write"
    REFUSE = "refuse"


class Mode(StrEnum):
    """Whether the fence acts, or only says what it would have done."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class Connections(StrEnum):
    """Whether a write may travel on a connection that carried another."""

    REUSE = "reuse"
    FRESH = "fresh"


class Is(StrEnum):
    """What a result rule says that an answer means."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    NO_EFFECT = "no-effect"
    UNKNOWN = "unknown"
    LOOK = "look"
    CONFIRMED_IF_TRIED_BEFORE = "confirmed-if-tried-before"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is never shown: not in logs, problems, the ledger or on a screen."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "(secret)"


@dataclass(frozen=True, slots=True)
class Login:
    """The credential that the gateway injects. `header` is the field's whole value."""

    kind: str  # bearer, header or basic
    header_name: str = "Authorization"
    header: Secret = Secret("")


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of `result`: what an answer means, and what to keep of it."""

    when: Test
    means: Is
    take: tuple[tuple[str, Path], ...] = ()
    alarm: bool = False
    note: str = ""
    never_retry: bool = False


@dataclass(frozen=True, slots=True)
class SlowDown:
    """An answer that proves "not carried out, try later"."""

    when: Test
    wait_header: str | None = None
    wait_as: str = "seconds"
    wait_else_ms: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one exchange. A route's own override its destination's."""

    at_once: int = 64
    timeout_ms: int = 30_000
    connect_ms: int = 10_000
    settle_ms: int = 5_000
    body_max_bytes: int = 64 * 1024 * 1024
    barrier_wait_ms: int = 10_000
    max_attempts: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route of a destination. `key` None takes the key from the header; `covers` None is
    destination + path without query."""

    name: str
    match: Match
    does: Does
    line: int = 0
    when: Test | None = None
    because: str = ""
    note: str = ""
    key: Template | None = None
    on_duplicate: OnDuplicate = OnDuplicate.REPLAY
    guard: Guard = Guard.NONE
    covers: Template | None = None
    results: tuple[Rule, ...] = ()
    ignore_in_fingerprint: tuple[Path, ...] = ()
    native_key: NativeKey | None = None
    stamp: Stamp | None = None
    send_as: SendAs | None = None
    version: Version | None = None
    look: Look | None = None
    repeat_is_harmless: bool = False
    limits: Limits = Limits()

    reads_request_body: bool = field(init=False)
    """Whether the decision reads the request's body, so that it must be unambiguous."""
    reads_answer: bool = field(init=False)
    """Whether the meaning of an answer depends on its body."""
    uses_values: bool = field(init=False)
    """Whether any template speaks of the request's values."""
    uses_mark: bool = field(init=False)
    """Whether any template speaks of the effect's mark."""
    dresses: bool = field(init=False)
    """Whether something else is sent than what came (see dress.py)."""
    edits_body: bool = field(init=False)
    """Whether the body is changed on its way, so that it has to be in memory."""

    def __post_init__(self) -> None:
        """Work out once what would otherwise be asked of every request."""
        templates = [template for template in (self.key, self.covers) if template is not None]
        templates += sent_templates(self.native_key, self.stamp, self.send_as, self.version)
        templates += [template for test in self.answer_tests for _, template in test.same]
        asked = [*templates, *(self.look.templates if self.look is not None else ())]
        asks_body = self.when is not None and self.when.reads_body
        reads = asks_body or any("body" in template.sources for template in asked)
        answer = any(rule.take for rule in self.results)
        answer = answer or any(test.reads_body for test in self.answer_tests)
        dresses = any((self.native_key, self.stamp, self.send_as, self.version))
        object.__setattr__(self, "reads_request_body", reads)
        object.__setattr__(self, "reads_answer", answer)
        object.__setattr__(self, "uses_values", bool(templates))
        object.__setattr__(self, "uses_mark", any("effect" in t.sources for t in templates))
        object.__setattr__(self, "dresses", dresses)
        object.__setattr__(self, "edits_body", self._edits_body())

    def _edits_body(self) -> bool:
        in_key = self.native_key is not None and self.native_key.body is not None
        drops = self.send_as is not None and bool(self.send_as.drop)
        return self.stamp is not None or in_key or drops

    @property
    def needs_request(self) -> bool:
        """Whether the request may be asked about or sent again, so that it has to be kept."""
        return self.guard is not Guard.NONE

    @property
    def resends_if_missing(self) -> bool:
        """Whether what is proven missing is sent again, and not left to a person."""
        if self.look is not None and self.look.if_still_missing is not None:
            return self.look.if_still_missing == "resend"
        return self.guard in (Guard.UNIQUE_FIELD, Guard.VERSION)

    @property
    def answer_tests(self) -> list[Test]:
        """What is asked of the answer to a write."""
        tests = [rule.when for rule in self.results]
        tests += self.native_key.tests if self.native_key is not None else []
        tests += [self.version.lost_when] if self.version is not None else []
        return tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One destination's policy. `digest` is that of its file: effects are pinned to it."""

    name: str
    scheme: str
    host: str
    port: int
    prefix: str
    digest: str
    file: str = ""
    text: str = field(default="", repr=False)
    boundary: str = "enforced"  # or: partial
    checked: str | None = None
    login: Login | None = None
    limits: Limits = Limits()
    slow_down: tuple[SlowDown, ...] = ()
    functions: frozenset[str] | None = None
    mode: Mode = Mode.ENFORCE
    connections: Connections = Connections.REUSE
    setup: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    reads_answer: bool = field(init=False)
    """Whether `slow_down` depends on the body of an answer."""

    def __post_init__(self) -> None:
        reads = any(slow.when.reads_body for slow in self.slow_down)
        object.__setattr__(self, "reads_answer", reads)

    @property
    def base_url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}{self.prefix}"

    def candidates(self, method: str, raw_path: str) -> list[tuple[Route, dict[str, str]]]:
        """Return the routes whose method and path fit, in order, up to the first without a
        test of its own on the request (which then decides)."""
        segments = split_path(raw_path)
        fitting: list[tuple[Route, dict[str, str]]] = []
        for route in self.routes:
            parts = route.match.parts_of(method, segments)
            if parts is not None:
                fitting.append((route, parts))
                if route.when is None:
                    break
        return fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One exclusive function's policy. `lease` is None where terms come from outside."""

    name: str
    rules: FunctionRules = field(default_factory=FunctionRules)
    per_unit: bool = False  # leadership: unit
    lease: LeaseRules | None = None
    eligible: Eligibility = field(default_factory=Eligibility)
    exceptions_owner: str = ""
    exceptions_deadline_ms: int = 0
    digest: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Everything loaded at one moment; replaced whole, never changed."""

    destinations: Mapping[str, Destination] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    digest: str = ""

    @property
    def longest_timeout_ms(self) -> int:
        """The longest that any exchange may take: how long a drain has to wait."""
        limits = [
            limits
            for destination in self.destinations.values()
            for limits in (destination.limits, *(route.limits for route in destination.routes))
        ]
        return max((each.timeout_ms for each in limits), default=0)


DEFAULT_MEANING: Final[Mapping[int, Outcome]] = (
    dict.fromkeys([*range(200, 300), 303], Outcome.CONFIRMED)
    | dict.fromkeys(
        {400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 423, 424}
        | {426, 428, 431, 451, 307, 308},
        Outcome.REJECTED,
    )
    | dict.fromkeys([401, 403, 407, 421, 425, 429], Outcome.NO_EFFECT)
)
"""What a status proves about a write where no rule says otherwise.
A status that is not here proves nothing: 408, other 3xx, every 5xx."""
