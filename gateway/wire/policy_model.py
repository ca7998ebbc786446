"""The words of a policy file as pydantic models: what may stand where, and in which form.

The published JSON Schema is made from these, so a word's description is its documentation.
Words that are known but not built are refused with a way out, never accepted and ignored:
each of them would change what is sent, or which requests a route is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from gateway.core.jsonpath import Path
from gateway.core.match import Match
from gateway.core.policy import Expect
from gateway.core.template import Template
from gateway.wire import policy_forms as forms
from gateway.wire import policy_paths as paths
from gateway.wire.policy_forms import Form, OneOf

_TEXT: Final = {"type": "string", "minLength": 1}
_DURATION: Final = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"}
_STATUS: Final = {"type": "integer", "minimum": 100, "maximum": 599}
_SCALAR: Final = {"type": ["string", "number", "boolean", "null"]}
_EXPECT_WORDS: Final = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": {
        "present": {"const": True},
        "absent": {"const": True},
        "any": {"const": True},
        "matches": _TEXT,
    },
}


def _one_or_list(one: Mapping[str, Any], *more: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(one), {"type": "array", "minItems": 1, "items": dict(one)}, *more]}


Text = Annotated[str, Form(forms.text, _TEXT)]
SecretText = Annotated[str, Form(forms.secret_text, _TEXT)]
Flag = Annotated[bool, Form(forms.flag, {"type": "boolean"})]
Count = Annotated[int, Form(forms.count, {"type": "integer", "minimum": 1})]
DurationMs = Annotated[int, Form(forms.duration, _DURATION)]
SomeDurationMs = Annotated[int, Form(forms.some_duration, _DURATION)]
SizeBytes = Annotated[int, Form(forms.size, {"type": ["string", "integer"]})]
Day = Annotated[date, Form(forms.iso_date, {"type": "string", "format": "date"})]
Name = Annotated[str, Form(forms.name, _TEXT)]
DestinationName = Annotated[str, Form(forms.destination_name, _TEXT)]
Statuses = Annotated[frozenset[int], Form(forms.statuses, _one_or_list(_STATUS))]
JsonPath = Annotated[Path, Form(forms.json_path, _TEXT)]
IgnoredPath = Annotated[Path, Form(forms.ignored_path, {"type": "string", "pattern": r"^body\."})]
HeaderName = Annotated[str, Form(forms.header_name, _TEXT)]
OwnHeaderName = Annotated[str, Form(forms.login_header_name, _TEXT)]
Expected = Annotated[Expect, Form(forms.expect, _one_or_list(_SCALAR, _EXPECT_WORDS))]
ExpectedText = Annotated[Expect, Form(forms.header_expect, _one_or_list(_TEXT, _EXPECT_WORDS))]
Pattern = Annotated[
    Match, Form(paths.match, {"type": "string", "pattern": r"^[A-Z|]+ /", "minLength": 1})
]
Templated = Annotated[Template, Form(paths.template, _TEXT, in_route=True)]
Request = Annotated[paths.LookRequest, Form(paths.look_request, _TEXT, in_route=True)]
Body = Annotated[Any, Form(paths.look_body, {}, in_route=True)]


class Words(BaseModel):
    """A set of words. `later` holds those that are known but not built, with the way out."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
    later: ClassVar[Mapping[str, str]] = {}


class RequestTest(Words):
    """A test on a request. All parts given must hold; a path that is not there is false."""

    later: ClassVar[Mapping[str, str]] = {
        "status": "a request has no status; test header or json, or move it into result",
        "same": "a request is not compared with itself; test header or json",
    }
    header: dict[HeaderName, ExpectedText] = Field(
        {}, description="Header name to exact text, list of texts, or {present: true}."
    )
    json_: dict[JsonPath, Expected] = Field(
        {}, alias="json", description="Path to value, list of values, or {present: true}."
    )


class SlowTest(RequestTest):
    """A test on an answer, for every route of the destination."""

    later: ClassVar[Mapping[str, str]] = {
        "same": "slow_down belongs to no single request; test status, header or json"
    }
    status: Statuses | None = Field(None, description="A status, or a list of them.")


class AnswerTest(SlowTest):
    """A test on an answer. All parts given must hold; a path that is not there is false."""

    later: ClassVar[Mapping[str, str]] = {}
    same: dict[JsonPath, Templated] = Field(
        {}, description="Path to a template whose rendered value must stand there."
    )


class WaitWords(Words):
    """How long to wait before the next try."""

    header: HeaderName | None = Field(None, description="The header that says how long.")
    else_: DurationMs = Field(
        1000, alias="else", description="The wait where the header is absent."
    )
    as_: Annotated[str, OneOf("seconds", "unix", "unix_ms")] = Field(
        "seconds", alias="as", description="How to read the header's number."
    )


class SlowDownWords(Words):
    """An answer that proves "not carried out, try later"."""

    when: SlowTest = Field(description="The answer to recognise.")
    wait: WaitWords = Field(WaitWords.model_construct(), description="How long to wait.")


class LimitsWords(Words):
    """Bounds on one exchange."""

    at_once: Count | None = Field(None, description="Requests under way at one time.")
    timeout: SomeDurationMs | None = Field(None, description="For the whole exchange.")
    connect: SomeDurationMs | None = Field(None, description="For the connection alone.")
    settle: DurationMs | None = Field(
        None, description="How long after its deadline a request may still take effect."
    )
    body_max: SizeBytes | None = Field(None, description="The largest request body.")
    barrier_wait: DurationMs | None = Field(
        None, description="How long to wait for a predecessor's write to the same thing."
    )
    max_attempts: Count | None = Field(
        None, description="Rejected attempts under one key before a person is asked."
    )


class RuleWords(Words):
    """What one answer means. The first rule that matches counts."""

    when: AnswerTest = Field(
        AnswerTest.model_construct(), description="The answer; empty matches every answer."
    )
    is_: Annotated[
        str,
        OneOf("confirmed", "rejected", "no-effect", "unknown", "look", "confirmed-if-tried-before"),
    ] = Field(alias="is", description="What the answer proves.")
    take: dict[Text, JsonPath] = Field({}, description="What to keep of the answer: name to path.")
    alarm: Flag = Field(False, description="Whether this is a fault in the set-up.")
    note: Text = Field("", description="Why, for whoever reads this later.")
    retry: Annotated[str | None, OneOf("never")] = Field(
        None, description="never: not to be sent again, whatever the guard allows."
    )


class LookWords(Words):
    """How to find out whether an effect happened."""

    request: Request = Field(description="What to ask: GET /path?query.")
    body: Body = Field(None, description="The question's body, for a POST that only reads.")
    reads: Annotated[str, OneOf("record", "index")] = Field(
        "record", description="record: sees a write at once; index: may lag behind."
    )
    settle: DurationMs = Field(
        description="How long a write may stay invisible to this question, such as 5s."
    )
    each: JsonPath | None = Field(None, description="The list whose items found is about.")
    found: AnswerTest = Field(description="The answer that proves that our effect is there.")
    missing: AnswerTest = Field(description="The answer that proves that it is not there.")
    take: dict[Text, JsonPath] = Field({}, description="What to keep of the answer.")
    if_still_missing: Annotated[str | None, OneOf("resend", "park")] = Field(
        None, description="What to do when it is still missing after settle."
    )


_BODY_TEST: Final = "remove it and test the body: when: {json: {…}}"
_GUARDS: Final = "use guard: look_first, repeat or none"


def not_yet(word: str, way_out: str) -> str:
    return f"{word} is not available in this version: {way_out}"


def _guard_later(guard: str, parts: str) -> str:
    return f"guard {guard} needs {parts}, which this version does not have yet; {_GUARDS}"


class RouteWords(Words):
    """One route. The first route that matches a request counts."""

    later: ClassVar[Mapping[str, str]] = {
        "native_key": not_yet("native_key", f"remove it and {_GUARDS}"),
        "stamp": not_yet("stamp", f"remove it and {_GUARDS}"),
        "stamp_form": not_yet("stamp_form", f"remove it and {_GUARDS}"),
        "send_as": not_yet("send_as", "remove it and let the worker send the safer form"),
        "version": not_yet("version", f"remove it and {_GUARDS}"),
        "graphql": not_yet("graphql", _BODY_TEST),
        "jsonrpc": not_yet("jsonrpc", _BODY_TEST),
        "batch": not_yet("batch", "remove it and send the effects one by one"),
        "follow": not_yet("follow", "remove it and refuse the route with does: refuse"),
        "also_match": not_yet("also_match", "remove it and write a second route"),
    }
    name: Text = Field("", description="Shown to people; the match if left out.")
    match: Pattern = Field(description="METHOD|METHOD /path/{part}/{rest*}.")
    when: RequestTest | None = Field(None, description="A further test on the request.")
    does: Annotated[str, OneOf("read", "write", "refuse")] = Field(
        description="Whether it changes anything, or is not let through."
    )
    because: Text = Field("", description="Why it is refused.")
    note: Text = Field("", description="Why, for whoever reads this later.")
    key: Templated | None = Field(
        None, description="Where the key comes from; the Idempotency-Key header if left out."
    )
    on_duplicate: Annotated[str, OneOf("replay", "reject")] = Field(
        "replay", description="What a repetition of a confirmed effect gets."
    )
    guard: Annotated[
        str,
        OneOf(
            "repeat",
            "look_first",
            "none",
            later={
                "native_key": _guard_later("native_key", "native_key"),
                "unique_field": _guard_later("unique_field", "stamp or send_as"),
                "version": _guard_later("version", "version"),
            },
        ),
    ] = Field("none", description="What may happen after an unknown outcome.")
    covers: Templated | None = Field(
        None, description="Which thing it touches; destination and path if left out."
    )
    result: list[RuleWords] = Field([], description="What answers mean; first match counts.")
    ignore_in_fingerprint: list[IgnoredPath] = Field(
        [], description="Places in the body that differ between tries, such as body.sent_at."
    )
    look: LookWords | None = Field(None, description="How to find out what happened.")
    repeat_is_harmless: Flag = Field(
        False, description="true only if the same bytes twice leave the same state."
    )
    limits: LimitsWords = Field(
        LimitsWords.model_construct(), description="Overrides the destination's."
    )


_LOGIN_LATER: Final = {
    "expired_when": not_yet("expired_when", "remove it and use a credential that does not expire")
}
_SCHEME: Final = "The word in front of the credential."


class BearerLogin(Words):
    """Authorization: Bearer and a token."""

    later: ClassVar[Mapping[str, str]] = _LOGIN_LATER
    kind: Annotated[str, OneOf("bearer")] = Field(description="bearer")
    token: SecretText = Field(description="The token: ${env:NAME} or ${file:path}.")
    scheme: Text = Field("Bearer", description=_SCHEME)


class HeaderLogin(Words):
    """A header of the destination's own."""

    later: ClassVar[Mapping[str, str]] = _LOGIN_LATER
    kind: Annotated[str, OneOf("header")] = Field(description="header")
    name: OwnHeaderName = Field(description="The header's name.")
    value: SecretText = Field(description="Its value: ${env:NAME} or ${file:path}.")
    scheme: Text = Field("", description=_SCHEME)


class BasicLogin(Words):
    """Authorization: Basic. Either of the two may be the secret."""

    later: ClassVar[Mapping[str, str]] = _LOGIN_LATER
    kind: Annotated[str, OneOf("basic")] = Field(description="basic")
    user: SecretText = Field(description="The user: text, ${env:NAME} or ${file:path}.")
    password: SecretText = Field(description="The password: ${env:NAME} or ${file:path}.")
    scheme: Text = Field("Basic", description=_SCHEME)


AnyLogin = BearerLogin | HeaderLogin | BasicLogin
LOGINS: Final[Mapping[str, type[BearerLogin | HeaderLogin | BasicLogin]]] = {
    "bearer": BearerLogin,
    "header": HeaderLogin,
    "basic": BasicLogin,
}
LOGINS_LATER: Final = (
    "query",
    "path",
    "oauth2_refresh",
    "oauth2_client",
    "hmac",
    "aws_sigv4",
)


class DestinationWords(Words):
    """One destination: where it is, how to log in, and what each request means."""

    fence_policy: Annotated[int, Form(forms.language_version, {"const": 1})] = Field(
        1, description="The version of this language."
    )
    destination: DestinationName = Field(description="Its name, as in /d/NAME/.")
    base_url: Text = Field(description="Its origin, and a path in front of every path.")
    boundary: Annotated[str, OneOf("enforced", "partial")] = Field(
        "enforced", description="partial: somebody else holds credentials too."
    )
    checked: Day | None = Field(None, description="When the facts here were last checked.")
    login: AnyLogin | None = Field(None, description="The credential to inject.")
    limits: LimitsWords = Field(LimitsWords.model_construct(), description="Bounds.")
    connections: Annotated[str, OneOf("reuse", "fresh")] = Field(
        "reuse", description="fresh: a connection of its own for every write."
    )
    slow_down: list[SlowDownWords] = Field(
        [], description='Answers that prove "not carried out, try later".'
    )
    functions: list[Name] | None = Field(None, description="Who may use it; all if left out.")
    mode: Annotated[str, OneOf("enforce", "observe")] = Field(
        "enforce", description="observe: everything is forwarded, and only noted."
    )
    setup: list[Text] = Field([], description="What to set up at the destination first.")
    routes: list[RouteWords] = Field(
        [], description="First match counts; a request that none matches is refused."
    )
