"""Each guard against a destination of its kind: what is sent after an unknown outcome, counted
where it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.house import FUNCTION, House, running_house
from tests.proxy.setting import effects
from tests.raw_destination import RawDestination
from tests.standins import kinds

WITHIN_S: Final = 20.0
HEAD: Final = """
destination: {name}
base_url: {url}
checked: 2026-11-30
limits: {{timeout: 600ms, connect: 500ms, settle: 300ms}}
connections: fresh
routes:
  - match: "{match}"
    does: write
    covers: "{covers}"
"""
KEY: Final = """    guard: native_key
    native_key:
      header: Idempotency-Key
      value: "{effect | uuid4}"
      window: %s
      repeat_returns: success_only
      replayed_when: {header: {Idempotent-Replayed: "true"}}
      misuse_when: {status: 422}
"""
MARK: Final = """    guard: unique_field
    stamp: {mark: "{effect}"}
    look:
      request: GET /records/{effect}
      settle: 100ms
      found: {status: 200, same: {mark: "{effect}"}}
      missing: {status: 404}
"""
VERSION: Final = """    guard: version
    version: {send: If-Match, from: worker, exact: true, lost_when: {status: 412}}
"""
SEARCH: Final = """    guard: look_first
    stamp: {mark: "{effect}"}
    look:
      request: GET /search?mark={effect}
      reads: index
      settle: 1600ms
      each: results
      found: {status: 200, same: {mark: "{effect}"}}
      missing: {status: 200, json: {total: 0}}
      if_still_missing: %s
"""


class Case(NamedTuple):
    """What is lost of the first write, and what has to come of it."""

    destination: str
    lost: str
    sent: int
    done: int
    end: str


CASES: Final = [
    Case("key", "answer", 2, 1, "confirmed by native-replay"),
    Case("key", "request", 2, 1, "confirmed by native-replay"),
    Case("key", "failed", 2, 1, "confirmed by native-replay"),  # its 500 was not kept
    Case("key-for-a-second", "answer", 1, 1, "exception window-over"),
    Case("key-for-who-knows", "answer", 1, 1, "exception window-unknown"),
    Case("key-of-another", "none", 1, 0, "exception key-misused"),
    Case("unique", "answer", 1, 1, "confirmed by probe"),
    Case("unique", "request", 2, 1, "confirmed by answer"),
    Case("version", "answer", 2, 1, "exception condition-lost"),
    Case("version", "request", 2, 1, "confirmed by answer"),
    Case("search", "answer", 1, 1, "confirmed by probe"),
    Case("search", "request", 2, 1, "confirmed by answer"),
    Case("search-and-park", "request", 1, 0, "exception still-missing"),
    Case("mail", "answer", 1, 1, "exception no-guard"),
    Case("mail", "request", 1, 0, "exception no-guard"),
]
NEW: Final = ("POST /records", "{effect}")
DESTINATIONS: Final[Mapping[str, tuple[kinds.Kind, tuple[str, str], str]]] = {
    "key": (kinds.Keyed(), NEW, KEY % "1h"),
    "key-for-a-second": (kinds.Keyed(window_s=1), NEW, KEY % "1s"),
    "key-for-who-knows": (kinds.Keyed(), NEW, KEY % "unknown"),
    "key-of-another": (kinds.Forgetful(), NEW, KEY % "1h"),
    "unique": (kinds.Unique(), NEW, MARK),
    "version": (kinds.Versioned(), ("PUT /records/{id}", "{id}"), VERSION),
    "search": (kinds.Lagging(), NEW, SEARCH % "resend"),
    "search-and-park": (kinds.Lagging(), NEW, SEARCH % "park"),
    "mail": (kinds.Mail(), NEW, "    guard: none\n"),
}


async def ended(house: House, key: str) -> str:
    """Wait until an effect is settled or in a person's hands; say how it ended."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            shown = {one["key"]: one for one in await effects(house)}[key]
            if shown["state"] == "exception":
                cases = (await house.get("/v1/exceptions")).json["items"]
                (reason,) = [one["reason"] for one in cases if one["effect_id"] == shown["id"]]
                return f"exception {reason}"
            if shown["outcome"] not in (None, "unknown"):
                return f"{shown['outcome']} by {shown['resolved_by']}"
            house.gateway.house.unsettled.set()  # or it looks once a second only
            await asyncio.sleep(0.05)  # the gateway has no event for it


async def play(house: House, case: Case) -> str:
    """Let a write lose what its case says; return how its effect ended."""
    name, key = case.destination, f"{case.destination}-{case.lost}"
    DESTINATIONS[name][0].fates[key] = [case.lost] if case.lost != "none" else []
    worker = house.worker(destination=name)
    body: dict[str, Any] = {"case": key}
    if name == "version":
        got = await worker.send("PUT", f"/records/{key}", key=key, body=body, If_Match='"0"')
    else:
        got = await worker.post("/records", key, body)
    assert got.problem == "outcome-unknown", got
    return await ended(house, key)


async def test_after_an_unknown_outcome_each_guard_sends_what_its_destination_can_bear(
    tmp_path: Path,
):
    async with AsyncExitStack() as stack:
        policies = {"relatorio": FUNCTION}
        for name, (kind, (match, covers), guard) in DESTINATIONS.items():
            at = await stack.enter_async_context(RawDestination())
            at.default = kind
            policies[name] = HEAD.format(name=name, url=at.url, match=match, covers=covers) + guard
        house = await stack.enter_async_context(running_house(tmp_path, policies))

        ends = await asyncio.gather(*(play(house, case) for case in CASES))

        print()
        came = []
        for case, end in zip(CASES, ends, strict=True):
            kind, key = DESTINATIONS[case.destination][0], f"{case.destination}-{case.lost}"
            came.append(case._replace(sent=kind.sent[key], done=kind.done[key], end=end))
            print(f"{key:28} sent {kind.sent[key]}, done {kind.done[key]}: {end}")
    assert came == CASES
