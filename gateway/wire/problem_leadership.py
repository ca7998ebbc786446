"""Problems of leadership: who may command, whose lease it is, and what has changed meanwhile."""

from __future__ import annotations

from typing import Final

from gateway.wire.problem_form import Problem

LEADERSHIP: Final[dict[str, Problem]] = {
    "stale-term": Problem(
        status=412,
        title="A newer leader has taken over",
        detail="Nothing was sent. You no longer lead this scope: stop all work on it now, do not "
        "retry, and do not issue the same action under another key. Your successor does the "
        "rest.",
        page="The fence keeps the highest term that it has accepted for the scope and refuses "
        "every command with a lower one. A worker that was paused, or lost its lease without "
        "noticing, meets this answer when it wakes up.",
    ),
    "term-never-issued": Problem(
        status=412,
        title="This term was never granted",
        detail="Nothing was sent. Do not retry and do not try other terms. Acquire the lease and "
        "use the term that it says; tell the operator, for this may be an attack or a ledger "
        "that was restored from an old copy.",
        page="The term is above the last one that the gateway granted. Terms come from a lease "
        "and are never made up. If nobody made it up, the ledger is older than the grants: see "
        "to that before anything else.",
    ),
    "not-holder": Problem(
        status=412,
        title="The lease belongs to another holder",
        detail="Nothing was sent. Do not retry. Only the holder that the term was granted to "
        "commands under it; if you restarted, acquire the lease as the new holder that you are.",
        page="A term is granted to one incarnation of a worker. Another one, even of the same "
        "name, does not command under it, unless the function's policy lets claimants call.",
        also=(409,),
    ),
    "lease-expired": Problem(
        status=412,
        title="The lease has expired",
        detail="Nothing was sent. Stop, and acquire the lease again. If it is granted, send the "
        "same request with the same key and the new term; if not, another leads: do not retry.",
        page="The gateway measures leases in its own time. One that has run out is not revived "
        "by a late renewal: it ends, and the next grant has a new term.",
        same_key=True,
    ),
    "leader-draining": Problem(
        status=412,
        title="This leader is stepping down",
        detail="Nothing was sent. Start nothing new under this term and do not retry. The next "
        "leader does what is left.",
        page="After a step-down, effects under way are settled and no new ones are admitted.",
    ),
    "term-contested": Problem(
        status=412,
        title="Two holders use the same term",
        detail="Nothing was sent. Do not retry. The term was first used by another holder: ask "
        "your authority for a term of your own, and tell the operator.",
        page="An authority outside the gateway must give each leadership a term of its own. The "
        "first holder that used the term keeps it.",
    ),
    "term-jump": Problem(
        status=412,
        title="The term is suspiciously far above the highest one",
        detail="Nothing was sent. Do not retry and do not try smaller terms. Tell the operator, "
        "who can raise 'max_term_jump' in the function's policy if this one is right.",
        page="The function's policy bounds by 'max_term_jump' how far a term may rise at once, so "
        "that one wrong number does not shut out every leader to come.",
    ),
    "unit-unknown": Problem(
        status=412,
        title="This unit of work is not registered",
        detail="Nothing was sent. Register the unit with PUT /v1/units/{unit}, then send the "
        "same request with the same key. Check Fence-Unit for spelling first.",
        page="The function's policy says 'units: registered': effects belong to a unit that "
        "exists, with its manifest.",
        same_key=True,
    ),
    "unit-closed": Problem(
        status=412,
        title="This unit of work is closed",
        detail="Nothing was sent. Do not retry, and do not move the action to another unit. The "
        "unit was completed or abandoned; anything that is left is the operator's to decide.",
        page="A completed or abandoned unit takes no more effects.",
    ),
    "lease-held": Problem(
        status=409,
        title="Another holder leads",
        detail="You do not lead. Do no exclusive work. Follow the lease, and ask again when it "
        "ends.",
        page="One holder leads at a time. GET /v1/leases/{function}?wait_s= tells of a change.",
        same_key=True,
    ),
    "lease-gone": Problem(
        status=410,
        title="The lease is no longer yours",
        detail="Stop all exclusive work now. Do not renew again: acquire a new lease, and go on "
        "only if it is granted.",
        page="Only a live lease is renewed, by its holder. Nothing brings an expired one back.",
    ),
    "not-eligible": Problem(
        status=409,
        title="The function's policy does not let this candidate lead",
        detail="You do not lead. Do no exclusive work, and do not ask again as you are: first "
        "change what is named (readiness, version, region), and report it as a candidate.",
        page="'eligible' in the function's policy says which versions and regions may lead, and "
        "a candidate that reports 'ready: false' may not. A lease is handed off only to a "
        "candidate that is eligible and has reported lately.",
    ),
    "not-preferred": Problem(
        status=409,
        title="A better candidate is given the first chance",
        detail="You do not lead. Do no exclusive work. Follow the lease, and ask again as "
        "Retry-After says if nobody leads by then.",
        page="When a scope is free, the best-ranked candidate has 'renew_every' of the "
        "function's policy to take it. After that whoever is eligible may.",
        same_key=True,
        retry=True,
        retry_after_s=5,
    ),
    "version-conflict": Problem(
        status=409,
        title="It has changed since you looked",
        detail="Nothing was changed. Read it again, and decide again on what it says now.",
        page="Decisions name the version that they were made on, so that nobody decides about "
        "something that has moved on meanwhile. A version in If-Match is answered with 412.",
        also=(412,),
    ),
    "too-early": Problem(
        status=409,
        title="The destination may still be carrying it out",
        detail="Nothing was changed. Wait until the seal has passed, look at the destination, and "
        "decide then.",
        page="Before its seal an attempt may still take effect. Nobody can know before then that "
        "it did not, so 'no-effect' and 'abandon' have to wait.",
    ),
}
