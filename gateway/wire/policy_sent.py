"""The words of a route about what is sent beside the worker's request, and what is asked after."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.wire.policy_forms import Form, OneOf, just_one
from gateway.wire.policy_types import (
    AnswerTest,
    Body,
    DurationMs,
    Flag,
    JsonPath,
    Question,
    Rewrite,
    SentHeader,
    StampPath,
    Templated,
    Text,
    VersionFrom,
    WindowMs,
    Words,
)


class NativeKeyWords(Words):
    """The destination's own idempotency key: where it goes, and what is done with it."""

    header: SentHeader | None = Field(None, description="The header that carries it.")
    body: StampPath | None = Field(None, description="Its place in the JSON body.")
    query: Text | None = Field(None, description="The query field that carries it.")
    value: Templated = Field(description="The key, with {effect} in it.")
    window: WindowMs = Field(
        description="How long the destination keeps it, such as 24h, or unknown."
    )
    repeat_returns: Annotated[str, OneOf("everything", "success_only")] = Field(
        "success_only", description="everything: an error is kept too; success_only: it runs again."
    )
    at_once: Annotated[int | None, Form(just_one, {"const": 1})] = Field(
        None, description="1 if two at the same time may both run."
    )
    replayed_when: AnswerTest | None = Field(
        None, description="The answer is that of the first request under the key."
    )
    busy_when: AnswerTest | None = Field(None, description="The first request is still running.")
    misuse_when: AnswerTest | None = Field(
        None, description="The key is known from another request."
    )
    supported_when: AnswerTest | None = Field(
        None, description="The answer shows that the destination knows keys at all."
    )


class SendAsWords(Words):
    """A safer form of the same effect."""

    request: Rewrite | None = Field(None, description="METHOD /path: what is sent instead.")
    query: dict[Text, Templated] = Field({}, description="Query fields to set.")
    header: dict[SentHeader, Templated] = Field({}, description="Headers to set.")
    drop: list[StampPath] = Field([], description="Members to take out of the JSON body.")


class VersionWords(Words):
    """The condition under which a write counts, and what a lost condition looks like."""

    send: SentHeader | None = Field(None, description="The header with the version: If-Match.")
    send_query: dict[Text, Templated] = Field(
        {}, description="Query fields that make the condition."
    )
    from_: VersionFrom = Field(
        None,
        alias="from",
        description="worker: it sends the header. Else the version's place in the look's answer.",
    )
    exact: Flag = Field(
        False,
        description="Whether any change at all makes another version: no dates, no weak tags.",
    )
    lost_when: AnswerTest = Field(
        description="The answer that says that the condition did not hold."
    )


class LookWords(Words):
    """How to find out whether an effect happened."""

    request: Question = Field(description="What to ask: GET /path?query.")
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
