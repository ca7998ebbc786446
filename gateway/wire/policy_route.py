"""From the words about what is sent and asked to core's guards."""

from __future__ import annotations

from gateway.core.facts import Test
from gateway.core.guards import Look, NativeKey, SendAs, Stamp, Version
from gateway.wire.policy_model import RouteWords
from gateway.wire.policy_sent import LookWords, NativeKeyWords, SendAsWords, VersionWords
from gateway.wire.policy_types import AnswerTest, RequestTest, SlowTest


def build_test(words: RequestTest) -> Test:
    return Test(
        status=words.status if isinstance(words, SlowTest) else None,
        header=tuple((name.lower(), expect) for name, expect in words.header.items()),
        json=tuple(words.json_.items()),
        same=tuple(words.same.items()) if isinstance(words, AnswerTest) else (),
    )


def _test(words: AnswerTest | None) -> Test | None:
    return None if words is None else build_test(words)


def build_key(words: NativeKeyWords) -> NativeKey:
    return NativeKey(
        value=words.value,
        window_ms=words.window,
        header=words.header,
        body=words.body,
        query=words.query,
        repeat_returns=words.repeat_returns,
        at_once=words.at_once,
        replayed_when=_test(words.replayed_when),
        busy_when=_test(words.busy_when),
        misuse_when=_test(words.misuse_when),
        supported_when=_test(words.supported_when),
    )


def build_stamp(words: RouteWords) -> Stamp | None:
    if not words.stamp and not words.stamp_form:
        return None
    return Stamp(tuple(words.stamp.items()), tuple(words.stamp_form.items()))


def build_send_as(words: SendAsWords) -> SendAs:
    return SendAs(
        method=None if words.request is None else words.request.method,
        target=None if words.request is None else words.request.target,
        query=tuple(words.query.items()),
        header=tuple(words.header.items()),
        drop=tuple(words.drop),
    )


def build_version(words: VersionWords) -> Version:
    return Version(
        lost_when=build_test(words.lost_when),
        header=words.send,
        query=tuple(words.send_query.items()),
        read=words.from_,
        exact=words.exact,
    )


def build_look(words: LookWords) -> Look:
    return Look(
        method=words.request.method,
        target=words.request.target,
        found=build_test(words.found),
        missing=build_test(words.missing),
        settle_ms=words.settle,
        reads=words.reads,
        each=words.each,
        body=words.body,
        take=tuple(words.take.items()),
        if_still_missing=words.if_still_missing,
    )
