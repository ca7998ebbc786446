"""The one table of problems: every way in which the gateway says no, and what to do then.

SDKs and agent frameworks retry 409, 429 and 5xx by themselves. So what must not be repeated is
412, 422, 423 or 428, or says `X-Should-Retry: false`; and 503 is used only when nothing was
sent. A slug never changes once it is published. `detail` is read by models: it says what to do
next, and what not to do.
"""

from __future__ import annotations

from typing import Final

from gateway.wire.problem_form import EffectWord, Problem
from gateway.wire.problem_leadership import LEADERSHIP
from gateway.wire.problem_work import WORK

__all__ = ["PROBLEMS", "EffectWord", "Problem"]

_INTAKE: Final[dict[str, Problem]] = {
    "malformed": Problem(
        status=400,
        title="A header, key or value does not have its form",
        detail="Nothing was sent. Correct the value that is named and send the request again "
        "with the same key.",
        page="A header of the gateway is repeated or not in its form, or a value that the policy "
        "needs is missing. Names match [A-Za-z0-9._:@#~-]{1,200}; a term is 1 to 9007199254740991 "
        "in plain decimal digits; a key is 1 to 255 printable ASCII characters.",
        same_key=True,
    ),
    "bad-target": Problem(
        status=400,
        title="The path cannot be forwarded as it stands",
        detail="Nothing was sent. Write the path without dot segments, backslashes, control "
        "characters or encoded slashes that change its meaning, and send the request again.",
        page="Path and query reach the destination byte for byte. A path that the gateway and "
        "the destination could read differently would be matched against one route and carried "
        "out as another, so it is refused.",
        same_key=True,
    ),
    "unauthenticated": Problem(
        status=401,
        title="The gateway does not know who is calling",
        detail="Nothing was sent. Send a gateway token in Fence-Authorization: Bearer, or in "
        "place of the destination's API key. Do not send the destination's own credentials.",
        page="Every call carries a gateway token, made with 'fencegate token new'. It goes into "
        "Fence-Authorization, or into Authorization as Bearer or as user or password of Basic. "
        "The destination's own credentials are the gateway's and are added by it.",
        same_key=True,
        headers=(("WWW-Authenticate", 'Bearer realm="fencegate"'),),
    ),
    "forbidden": Problem(
        status=403,
        title="This principal may not do that",
        detail="Nothing was sent. Do not retry. Ask the operator to give the principal the "
        "function, destination or role that is named, or use the token that has it.",
        page="A principal is given its role, functions and destinations in the principals file. "
        "Leadership gives no permission: function and destination are checked for every call.",
    ),
    "function-unknown": Problem(
        status=403,
        title="No policy declares this function",
        detail="Nothing was sent. Do not retry. Check the spelling of Fence-Function; otherwise "
        "ask the operator to declare the function.",
        page="A function is declared in a policy file of its own, and this one is in none.",
    ),
    "route-refused": Problem(
        status=403,
        title="The destination's policy does not let this request through",
        detail="Nothing was sent. Do not retry and do not look for another way to the same "
        "effect. Use an operation that the policy allows, or ask the operator for a route.",
        page="The first route that matches method and path decides; a request that matches none "
        "is refused, and so is one whose route says 'does: refuse'.",
    ),
    "destination-unknown": Problem(
        status=404,
        title="There is no such destination",
        detail="Nothing was sent. Check the name after /d/ in the URL: it is the 'destination' "
        "of a policy file.",
        page="The data plane is /d/{destination}/{path}. No loaded policy file describes a "
        "destination of this name. GET /v1/destinations lists those that there are.",
        same_key=True,
    ),
    "not-found": Problem(
        status=404,
        title="There is nothing here",
        detail="Check the path and the name in it. The control plane is described in "
        "/v1/openapi.json; destinations are under /d/{destination}/.",
        page="No resource of the gateway has this path, or none of this name is on record.",
    ),
    "method-unsupported": Problem(
        status=405,
        title="This method is not supported here",
        detail="Nothing was sent. Do not retry. Use one of the methods in the Allow header.",
        page="CONNECT and TRACE are not forwarded; each control plane path has its own methods.",
    ),
    "body-too-large": Problem(
        status=413,
        title="The body is larger than this route takes",
        detail="Nothing was sent. Send less at once: the limit is 'body_max' of the destination.",
        page="A body is read in full before anything is sent, because the intent with its "
        "fingerprint must be durable first. 'body_max' in the policy file bounds it.",
        same_key=True,
    ),
    "expectation-failed": Problem(
        status=417,
        title="The Expect header asks for something unknown",
        detail="Nothing was sent. Send the request again without Expect, or with 100-continue.",
        page="The only expectation in HTTP is 100-continue (RFC 9110, section 10.1.1).",
        same_key=True,
    ),
    "early-data": Problem(
        status=425,
        title="A write came in TLS early data",
        detail="Nothing was sent. Send the same request again, with the same key, once the TLS "
        "handshake is complete.",
        page="Early data can be replayed by anybody on the path (RFC 8470), so no write is taken "
        "from it.",
        same_key=True,
        retry=True,
    ),
    "fence-missing": Problem(
        status=428,
        title="A write must say who commands, under which term, and what it is",
        detail="Nothing was sent. Send Fence-Function, Fence-Term, Fence-Holder and "
        "Idempotency-Key with every write. Take term and holder from your lease; derive the key "
        "from the work itself, so that a retry of the same effect has the same key.",
        page="Function, term, holder and key are what the fence decides on. A write that lacks "
        "one of them cannot be fenced, so it is not sent.",
        same_key=True,
    ),
    "not-implemented": Problem(
        status=501,
        title="The gateway does not do this",
        detail="Nothing was sent. Do not retry. Use plain HTTP requests without Upgrade.",
        page="Connections that are upgraded (WebSocket, h2c) cannot be fenced command by command.",
    ),
    "http-version-unsupported": Problem(
        status=505,
        title="This version of HTTP is not supported",
        detail="Nothing was sent. Do not retry as it is. Send the request as HTTP/1.1.",
        page="The gateway speaks HTTP/1.1.",
    ),
}

_KEYS: Final[dict[str, Problem]] = {
    "key-reused": Problem(
        status=422,
        title="This key names a different request",
        detail="Nothing was sent. Do not retry this request under this key. If it is meant to be "
        "the effect that the key was first used for, send exactly that request; only if it is "
        "another effect, give it a key of its own.",
        page="A key names one intended effect. Its first request differs from this one, for "
        "instance in method, path, query or body, so one of the two has the wrong key.",
    ),
    "outcome-unknown": Problem(
        status=423,
        title="We do not know whether it happened",
        detail="The effect may or may not have happened. Do not retry, and do not issue the same "
        "action under another key: it could happen twice. Report the effect id and go on with "
        "other work; the outcome will be settled by looking it up or by a person.",
        page="The request was sent, and no answer came that proves what became of it: a timeout, "
        "a broken connection, a server error. The gateway never repeats such a request blindly. "
        "It stays unknown until the destination is asked, a late answer comes, or a person "
        "decides.",
        effect="unknown",
    ),
    "in-flight": Problem(
        status=409,
        title="The first request with this key is not answered yet",
        detail="Nothing was sent a second time. Wait as Retry-After says, then send the same "
        "request with the same key; or add Prefer: wait=30 to be given the first one's answer.",
        page="Two requests with one key are one effect: the second waits for the first.",
        effect="unknown",
        same_key=True,
        retry=True,
        retry_after_s=2,
    ),
    "duplicate": Problem(
        status=409,
        title="It has been done already",
        detail="The effect under this key is confirmed and was not repeated. Do not retry. "
        "Count it as done and go on.",
        page="The route says 'on_duplicate: reject', so the recorded answer is not given again.",
        effect="confirmed",
    ),
    "result-unavailable": Problem(
        status=409,
        title="It has been done; the answer was not kept",
        detail="The effect under this key is confirmed and was not repeated. Do not retry, and "
        "do not issue it under another key. Read the result from the destination if you need it.",
        page="The answer was too large to keep, was cut off, has expired, or the effect was "
        "confirmed by looking it up. That it happened is certain.",
        effect="confirmed",
    ),
    "effect-abandoned": Problem(
        status=409,
        title="A person has given this effect up",
        detail="Do not retry, and do not issue the same action under another key. It is not "
        "certain that it did not happen. If it is still wanted, ask the operator.",
        page="An operator closed the matter without proof either way. The key stays spent.",
        effect="unknown",
    ),
    "attempts-exhausted": Problem(
        status=409,
        title="The destination has rejected this too often",
        detail="Nothing was sent. Do not retry, and do not issue it under another key. The "
        "destination rejected every attempt; report its last answer to the operator.",
        page="The route's 'max_attempts' is reached. An exception is open about it: an operator "
        "can extend it, so that it is tried anew, or raise 'max_attempts' in the policy.",
    ),
}


def _later(status: int, retry_after_s: int, title: str, page: str) -> Problem:
    """A refusal that says nothing about the request: the same one may do better later."""
    return Problem(
        status=status,
        title=title,
        detail="Nothing was sent. Wait as Retry-After says, then send the same request with the "
        "same key.",
        page=page,
        same_key=True,
        retry=True,
        retry_after_s=retry_after_s,
    )


_CAPACITY: Final[dict[str, Problem]] = {
    "predecessor-in-flight": _later(
        503,
        5,
        "An older leader's write to the same thing may still be under way",
        "A new leader's write never overtakes an older leader's write to the same thing. It is "
        "let through when that one has been answered, or its seal has passed.",
    ),
    "busy": _later(
        503,
        1,
        "The destination has all the requests that it may have at once",
        "'at_once' in the destination's policy bounds the requests under way. This one waited "
        "for its turn and did not get it in time.",
    ),
    "draining": _later(
        503,
        5,
        "The gateway is shutting down",
        "A gateway that is asked to stop settles what is under way and takes nothing new.",
    ),
    "ledger-unavailable": _later(
        503,
        5,
        "The decision could not be written down",
        "Without a durable intent nothing is sent. The ledger could not be written in time.",
    ),
    "destination-unreachable": _later(
        502,
        5,
        "No connection to the destination",
        "No byte of the request was sent: the destination's name did not resolve, it refused the "
        "connection, its certificate did not hold, or no connection stood in time.",
    ),
    "internal": Problem(
        status=500,
        title="Something in the gateway failed",
        detail="Treat the effect as unknown: do not retry blindly, and do not issue the same "
        "action under another key. Report the incident id to the operator.",
        page="This is a fault of the gateway. Its log has more under the incident id.",
        effect="unknown",
    ),
}

PROBLEMS: Final[dict[str, Problem]] = {**_INTAKE, **LEADERSHIP, **WORK, **_KEYS, **_CAPACITY}
