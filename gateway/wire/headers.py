"""The gateway's header fields: their names, and what a request says with them.

Only the hyphenated spellings count. `Fence_Term`, which some servers fold into `Fence-Term`,
is not ours and says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.core.errors import Malformed
from gateway.core.ids import parse_key, parse_name, parse_term

FENCE_FUNCTION: Final = "Fence-Function"
FENCE_UNIT: Final = "Fence-Unit"
FENCE_ITEM: Final = "Fence-Item"
FENCE_TERM: Final = "Fence-Term"
FENCE_HOLDER: Final = "Fence-Holder"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
FENCE_AUTHORIZATION: Final = "Fence-Authorization"
FENCE_REQUEST_ID: Final = "Fence-Request-Id"
PREFER: Final = "Prefer"

FENCE_VERDICT: Final = "Fence-Verdict"
FENCE_EFFECT: Final = "Fence-Effect"
FENCE_OUTCOME: Final = "Fence-Outcome"
FENCE_AFTER_DISPATCH: Final = "Fence-After-Dispatch"
FENCE_LEDGER: Final = "Fence-Ledger"
IDEMPOTENT_REPLAYED: Final = "Idempotent-Replayed"
PREFERENCE_APPLIED: Final = "Preference-Applied"
X_SHOULD_RETRY: Final = "X-Should-Retry"

MAX_WAIT_S: Final = 30

_SINGLE: Final = (
    FENCE_FUNCTION,
    FENCE_UNIT,
    FENCE_ITEM,
    FENCE_TERM,
    FENCE_HOLDER,
    IDEMPOTENCY_KEY,
    FENCE_REQUEST_ID,
)
_FUNCTION, _UNIT, _ITEM, _TERM, _HOLDER, _KEY, _REQUEST_ID = range(len(_SINGLE))
_X_REQUEST_ID, _PREFER, _EARLY_DATA, _OVERRIDE = range(len(_SINGLE), len(_SINGLE) + 4)
_SLOTS: Final[dict[bytes, int]] = {
    **{name.lower().encode(): at for at, name in enumerate(_SINGLE)},
    b"x-request-id": _X_REQUEST_ID,
    b"prefer": _PREFER,
    b"early-data": _EARLY_DATA,
}
_OVERRIDES: Final = frozenset(
    {
        b"x-http-method-override", b"x-http-method", b"x-method-override",
        b"x-original-method", b"x-original-url", b"x-original-uri", b"x-rewrite-url",
    }
)  # fmt: skip
"""They change what the destination carries out behind the route that was matched."""
_REQUEST_ID_FORM: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}\Z")
_PREFERENCE: Final = re.compile(
    rb'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*"?([0-9]{1,9})"?\s*)?\Z'
)


class FenceHeaders(NamedTuple):
    """What a request says to the gateway; None where it says nothing. A named tuple because
    one is made per request, and frozen dataclasses cost four times as much to make."""

    function: str | None = None
    unit: str | None = None
    item: str | None = None
    term: int | None = None
    holder: str | None = None
    key: str | None = None
    wait_s: int | None = None
    request_id: str | None = None
    early_data: bool = False


def parse_fence(raw_headers: Sequence[tuple[bytes, bytes]]) -> FenceHeaders:
    """Return what the gateway's own fields of a request say.

    Raises Malformed, naming the field, for one that is repeated or has not its form, and for
    a method override: the destination would perform another method than the route that was
    matched.
    """
    found: list[bytes | None] = [None] * (_X_REQUEST_ID + 1)
    wait_s: int | None = None
    early_data = False
    for name, value in raw_headers:
        lower = name.lower()
        slot = _SLOTS.get(lower)
        if slot is None:
            # Many servers read underscores as hyphens.
            if lower[:2] not in (b"x-", b"x_") or lower.replace(b"_", b"-") not in _OVERRIDES:
                continue
            slot = _OVERRIDE
        if slot < _X_REQUEST_ID:
            if found[slot] is not None:
                raise Malformed(f"{_SINGLE[slot]} is given more than once; send it once")
            found[slot] = value
        elif slot == _X_REQUEST_ID:
            found[slot] = value
        elif slot == _PREFER:
            if wait_s is None:  # the first one counts (RFC 7240, section 2)
                wait_s = _wait(value)
        elif slot == _EARLY_DATA:
            early_data = early_data or value.strip() == b"1"
        else:
            shown = name.decode("ascii", "replace")
            raise Malformed(
                f"{shown} changes method or path behind the route that was matched; send the "
                "request with those that it means"
            )
    function, unit, item, term, holder, key, own_id, other_id = found
    return FenceHeaders(
        None if function is None else parse_name(FENCE_FUNCTION, _text(_FUNCTION, function)),
        None if unit is None else parse_name(FENCE_UNIT, _text(_UNIT, unit)),
        None if item is None else parse_name(FENCE_ITEM, _text(_ITEM, item)),
        None if term is None else parse_term(_text(_TERM, term)),
        None if holder is None else parse_name(FENCE_HOLDER, _text(_HOLDER, holder)),
        None if key is None else parse_key(_text(_KEY, key)),
        wait_s,
        _request_id(own_id, other_id),
        early_data,
    )


def _text(slot: int, value: bytes) -> str:
    try:
        return value.decode("ascii").strip(" \t")
    except UnicodeDecodeError:
        raise Malformed(
            f"{_SINGLE[slot]} is {value[:80]!a}; send printable ASCII characters only"
        ) from None


def _request_id(own: bytes | None, other: bytes | None) -> str | None:
    """An id of another form is worth nothing to us, and no reason to turn anybody away."""
    if own is not None:
        _text(_REQUEST_ID, own)
    for value in (own, other):
        if value is not None and _REQUEST_ID_FORM.match(value):
            return value.decode("ascii")
    return None


def _wait(value: bytes) -> int | None:
    """Return the seconds that a Prefer field says, at most MAX_WAIT_S.

    Preferences that are not understood are passed over, as RFC 7240 wants it.
    """
    for preference in value.split(b","):
        found = _PREFERENCE.match(preference.partition(b";")[0])
        if found and found[1].lower() == b"wait" and found[2] is not None:
            return min(int(found[2]), MAX_WAIT_S)
    return None
