"""What is kept of a request and of the destination's answer, and what the caller gets of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gateway.core.classify import Meaning, Silence
from gateway.core.effect import Outcome
from gateway.core.policy import Login
from gateway.outbound.headers import stored_headers
from gateway.outbound.incoming import Incoming
from gateway.outbound.login import holds_login, without_login
from gateway.proxy import respond
from gateway.proxy.answer import Answer
from gateway.proxy.call import Call
from gateway.store.records import AnswerState, Ruling, StoredAnswer


def keeps_request(call: Call) -> bool:
    """Whether the request is written down too. What nobody can ask about or send again is not:
    it would be other people's data, kept for nothing."""
    return call.route is not None and call.route.needs_request


def kept_head(call: Call, headers: list[tuple[str, str]]) -> str:
    """Return the fields as the ledger keeps them: it never sees the destination's credential."""
    login = call.destination.login
    if login is not None:
        headers = [field for field in headers if field[0] != login.header_name]
    return orjson.dumps(headers).decode()


def json_of(got: Incoming, body: bytes) -> Any:
    coded = got.facts_headers.get("content-encoding")
    if not body or coded or not got.complete:
        return None
    return lambda: orjson.loads(body)


def kept_answer(
    got: Incoming, body: bytes, meaning: Meaning, cap_bytes: int, evidence: bytes
) -> StoredAnswer | None:
    """Return what of the answer is recorded: for a replay, or as evidence."""
    headers = tuple(stored_headers(got.headers))
    match meaning.outcome:
        case Outcome.UNKNOWN:
            state = AnswerState.EVIDENCE
            return StoredAnswer(got.status, headers, evidence, None, len(body), state)
        case Outcome.CONFIRMED:
            # A body that ends with its connection looks whole even where it was cut.
            if got.complete and got.delimited and len(body) <= cap_bytes:
                return StoredAnswer(
                    got.status, headers, body, None, len(body), AnswerState.COMPLETE
                )
            state = _unkept_state(got, body, cap_bytes)
            return StoredAnswer(got.status, headers, None, None, len(body), state)
        case _:
            return None


def excerpt(got: Incoming, body: bytes, login: Login | None) -> bytes:
    """Return the beginning of an answer that proves nothing, without the credential.

    Of a coded body nothing: what it holds cannot be seen.
    """
    if got.facts_headers.get("content-encoding"):
        return b""
    return without_login(body, login)[: respond.EXCERPT_BYTES]


TAKE_MAX_BYTES: Final = 4096


def taken(take: Mapping[str, Any], login: Login | None) -> dict[str, Any]:
    """Return what the policy takes of an answer, but for what holds the credential, is too
    large, or too deep to be written down: a success must not fail over it."""
    kept: dict[str, Any] = {}
    for name, value in take.items():
        try:
            text = orjson.dumps(value)
        except (TypeError, ValueError):
            continue
        if len(text) <= TAKE_MAX_BYTES and not holds_login(text, login):
            kept[name] = value
    return kept


def without_credential(kept: StoredAnswer, login: Login | None) -> StoredAnswer:
    """Keep no answer that echoes the destination's credential: the ledger is no place for it."""
    if login is None:
        return kept
    if holds_login("\n".join([value for _, value in kept.headers]).encode(), login):
        kept.headers = tuple(
            (name, value) for name, value in kept.headers if not holds_login(value.encode(), login)
        )
    if kept.body is not None and holds_login(kept.body, login):
        kept.body, kept.state = None, AnswerState.REDACTED
    return kept


def _unkept_state(got: Incoming, body: bytes, cap_bytes: int) -> AnswerState:
    if got.broken is not None:
        return AnswerState.INCOMPLETE
    if len(body) > cap_bytes or (got.length_bytes or 0) > cap_bytes:
        return AnswerState.OVER_CAP
    return AnswerState.STREAMED


def silent(ruling: Ruling, silence: Silence) -> Answer:
    if silence.sent:
        return respond.outcome_unknown(ruling.effect_id, silence.reason, status=None, excerpt=b"")
    return respond.unreachable(ruling.effect_id, silence.reason)


def answered(
    ruling: Ruling, n: int, got: Incoming, body: bytes, meaning: Meaning, evidence: bytes
) -> Answer:
    """Return the destination's own answer, unless it proves nothing: then a problem that says
    so, since callers and SDKs would read more into a 5xx than there is."""
    is_redirect = 300 <= got.status < 400
    if meaning.outcome is Outcome.UNKNOWN and ruling.observed is None and not is_redirect:
        got.abort()
        return respond.outcome_unknown(
            ruling.effect_id,
            meaning.reason,
            status=got.status,
            excerpt=evidence,
        )
    answer = respond.relayed(got, body)
    if answer.rest is not None and meaning.outcome is Outcome.CONFIRMED:
        answer.stream_id = (ruling.effect_id, n)
    return answer
