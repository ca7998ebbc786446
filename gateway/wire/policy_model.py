"""The words of a policy file as pydantic models: what may stand where, and in which form.

The published JSON Schema is made from these, so a word's description is its documentation.
Words that are known but not built are refused with a way out, never accepted and ignored:
each of them would change what is sent, or which requests a route is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Field

from gateway.wire import policy_forms as forms
from gateway.wire.policy_forms import Form, OneOf
from gateway.wire.policy_sent import LookWords, NativeKeyWords, SendAsWords, VersionWords
from gateway.wire.policy_types import (
    AnswerTest,
    Count,
    Day,
    DestinationName,
    DurationMs,
    Flag,
    HeaderName,
    IgnoredPath,
    JsonPath,
    Name,
    OwnHeaderName,
    Pattern,
    RequestTest,
    SecretText,
    SizeBytes,
    SlowTest,
    SomeDurationMs,
    StampPath,
    Templated,
    Text,
    Words,
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


_BODY_TEST: Final = "remove it and test the body: when: {json: {…}}"


def not_yet(word: str, way_out: str) -> str:
    return f"{word} is not available in this version: {way_out}"


class RouteWords(Words):
    """One route. The first route that matches a request counts."""

    later: ClassVar[Mapping[str, str]] = {
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
        str, OneOf("native_key", "unique_field", "version", "repeat", "look_first", "none")
    ] = Field("none", description="What may happen after an unknown outcome.")
    covers: Templated | None = Field(
        None, description="Which thing it touches; destination and path if left out."
    )
    result: list[RuleWords] = Field([], description="What answers mean; first match counts.")
    ignore_in_fingerprint: list[IgnoredPath] = Field(
        [], description="Places in the body that differ between tries, such as body.sent_at."
    )
    stamp: dict[StampPath, Templated] = Field(
        {}, description="Members to set in the JSON body: our mark, the term."
    )
    stamp_form: dict[Text, Templated] = Field({}, description="Fields to set in a form body.")
    send_as: SendAsWords | None = Field(None, description="A safer form of the same effect.")
    native_key: NativeKeyWords | None = Field(
        None, description="The destination's own idempotency key."
    )
    version: VersionWords | None = Field(
        None, description="The condition under which the write counts."
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
