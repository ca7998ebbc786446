"""One preset and the recorded shapes of its destination, asked what it makes of them.

`shapes/NAME.json` holds what workers send and what the destination answers, with a mark for where
each answer is known from: official text (O), official text quoted elsewhere (Q), public code or
threads (C), or that any server may answer so (any). In it `@mark@` is the effect's mark, and
`@mark32@` the same in base32hex.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway.core import reconcile
from gateway.core.classify import CONDITION_LOST, KEY_BUSY, KEY_MISUSED, Meaning, Reply, classify
from gateway.core.dress import Dressed, dress
from gateway.core.effect import Outcome
from gateway.core.facts import Facts
from gateway.core.match import split_path
from gateway.core.policy import Destination, Route
from gateway.core.probe import Finding, Found, ProbeRequest, Verdict, read_probe, render_look
from gateway.core.reconcile import Case, Probed, Try, next_step
from gateway.core.template import RequestValues, Template
from gateway.wire.policy_file import Loaded, load_policies

PRESETS: Final = Path(__file__).parents[2] / "policies" / "presets"
SHAPES: Final = Path(__file__).parent / "shapes"
TODAY: Final = date(2026, 11, 30)
MARK: Final = "0123456789abcdef" * 2
MARK32: Final = Template.parse("{effect | base32hex}").render(RequestValues({}, effect=MARK))
TERM: Final = 7
FIRST_SENT_S: Final = 1_790_000_000
NAMED: Final = frozenset({"slow-down", KEY_BUSY, KEY_MISUSED, CONDITION_LOST})


def load_presets(folder: Path = PRESETS) -> Loaded:
    """Load the presets as `fencegate policy check` does: no secret is looked up."""
    return load_policies(folder, env={}, resolve_secrets=False, today=TODAY)


def shapes_of(vendor: str) -> dict[str, Any]:
    text = (SHAPES / f"{vendor}.json").read_text("utf-8")
    shapes: dict[str, Any] = json.loads(text.replace("@mark@", MARK).replace("@mark32@", MARK32))
    return shapes


@dataclass
class Asked:
    """A worker's request, with the route that takes it (None: it is refused as unlisted)."""

    destination: Destination
    shapes: dict[str, Any]
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes | None
    values: RequestValues
    route: Route

    @property
    def covers(self) -> str:
        assert self.route.covers is not None
        return self.route.covers.render(self.values)

    def sent(self) -> Dressed:
        return dress(
            self.route,
            method=self.method,
            target=self.target,
            headers=self.headers,
            body=self.body,
            values=self.values,
        )

    def meaning(self, answer: str, *, tried_before: bool = False) -> Meaning:
        reply = self._reply(answer)
        return classify(reply, self.route, self.destination, self.values, tried_before=tried_before)

    def question(self) -> ProbeRequest:
        assert self.route.look is not None
        return render_look(
            self.route.look, self.values, first_sent_ms=FIRST_SENT_S * 1000, probe="p-1"
        )

    def finding(self, answer: str) -> Finding:
        assert self.route.look is not None
        return read_probe(
            self.route.look,
            self._reply(answer),
            self.values,
            slow_down=self.destination.slow_down,
            version=self.route.version,
            condition=self.sent().condition,
        )

    def _reply(self, name: str) -> Reply:
        shape = self.shapes["answers"][name]
        headers = {field.lower(): [value] for field, value in shape.get("headers", {}).items()}

        def body() -> Any:
            if "body" not in shape:
                raise ValueError("no JSON")
            return shape["body"]

        return Reply(shape["status"], headers, body)


@dataclass
class Vendor:
    """A preset by the name of its file."""

    name: str
    shapes: dict[str, Any] = field(init=False)
    destination: Destination = field(init=False)

    def __post_init__(self) -> None:
        policies = load_presets().policies
        assert policies is not None
        self.shapes = shapes_of(self.name)
        self.destination = policies.destinations[self.name]

    def route(self, name: str) -> Route:
        return next(route for route in self.destination.routes if route.name == name)

    def finds(self, name: str) -> str | None:
        """Return the name of the route that takes a request of the shapes; None: refused."""
        found = self._find(name)
        return found.route.name if found else None

    def asked(self, name: str) -> Asked:
        found = self._find(name)
        assert found is not None, f"no route takes {name!r}"
        return found

    def _find(self, name: str) -> Asked | None:
        shape = self.shapes["requests"][name]
        path, _, query = shape["target"].partition("?")
        headers = list(shape.get("headers", {}).items())
        document, body = shape.get("body"), None
        if document is not None:
            body = json.dumps(document).encode()
            headers.append(("Content-Type", "application/json"))
        elif "form" in shape:
            body = shape["form"].encode()
            headers.append(("Content-Type", "application/x-www-form-urlencoded"))
        values = RequestValues(
            parts={},
            query=dict(parse_qsl(query)),
            query_string=query,
            headers={field.lower(): value for field, value in headers},
            body=document,
            term=TERM,
            effect=MARK,
            first_sent_s=FIRST_SENT_S,
        )
        facts = Facts(None, {field.lower(): [value] for field, value in headers}, document)
        for route, parts in self.destination.candidates(shape["method"], path):
            if route.when is None or route.when.holds(facts, values):
                assert route.match.parts_of(shape["method"], split_path(path)) == parts
                values.parts = parts
                return Asked(
                    self.destination,
                    self.shapes,
                    shape["method"],
                    shape["target"],
                    headers,
                    body,
                    values,
                    route,
                )
        return None


def follows(
    route: Route,
    *verdicts: str,
    early: bool = False,
    age_ms: int | None = None,
    reason: str = "",
) -> str:
    """Return in words what comes after an unknown first attempt and these probes.

    The probes are far enough apart, and late enough to count unless `early`. `age_ms` is how
    long ago the attempt began, if nothing was probed (else: just past its seal).
    """
    timeout_ms = route.limits.timeout_ms
    seal_ms = timeout_ms + route.limits.settle_ms
    settle_ms = route.look.settle_ms if route.look is not None else 0
    first_ms = 1_000 if early else seal_ms + settle_ms
    spacing_ms = 1 if early else max(reconcile.SPACING_MIN_MS, settle_ms)
    probes = [
        Probed(
            n=n,
            term=TERM,
            started_at_ms=first_ms + (n - 1) * spacing_ms,
            verdict=Verdict(verdict),
        )
        for n, verdict in enumerate(verdicts, start=1)
    ]
    now_ms = probes[-1].started_at_ms + 1 if probes else age_ms or seal_ms
    tried = Try(
        n=1,
        term=TERM,
        began_at_ms=0,
        deadline_at_ms=timeout_ms,
        seal_at_ms=seal_ms,
        outcome=Outcome.UNKNOWN,
        ended_at_ms=500,
        sent=True,
        reason=reason,
    )
    case = Case(route=route, tries=[tried], term=TERM, now_ms=now_ms, probes=probes, live_term=TERM)
    match next_step(case):
        case reconcile.Probe(at_ms):
            return "look" if at_ms <= now_ms else "look later"
        case reconcile.Resend(same_as):
            return "send again" if same_as is None else "send the same bytes again"
        case reconcile.WaitUntil():
            return "wait"
        case reconcile.Settle(outcome=Outcome.CONFIRMED):
            return "confirmed"
        case reconcile.Settle(resend=resend):
            return "not there, so send again" if resend else "not there"
        case reconcile.OpenException(why):
            return f"a person: {why.value}"


def told(meaning: Meaning) -> str:
    """Return in words what an answer proved: `confirmed id=7`, `unknown, look, alarm`."""
    kept = "".join(f" {name}={value}" for name, value in meaning.take.items())
    marks = {"look": meaning.look, "alarm": meaning.alarm, "replayed": meaning.replayed}
    also = "".join(f", {word}" for word, is_so in marks.items() if is_so)
    named = f", {meaning.reason}" if meaning.reason in NAMED else ""
    return f"{meaning.outcome.value}{kept}{named}{also}"


def seen(finding: Finding) -> str:
    """Return in words what a probe's answer proved: `found id=7`, `missing`, `many`, …"""
    take = finding.take if isinstance(finding, Found) else {}
    return finding.verdict.value + "".join(f" {name}={value}" for name, value in take.items())
