"""Which ledger this is, and whether it is as young as it should be: what `ledger_meta` says of it.

`identity` is given once. `recoveries` counts how often it was recovered. `restored` stands there
from the moment that some gateway finds the ledger older than it was until it is recovered: it stops
every gateway on it, those without a witness too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.core.doubt import Doubt
from gateway.store.database import Database

_NAMES: Final = ("identity", "recoveries", "restored", "doubt", "term_floor", "predecessors")
_READ: Final = "SELECT name, value FROM ledger_meta WHERE name IN (" + ",".join(
    f"'{name}'" for name in _NAMES
) + ")"  # fmt: skip
_PUT: Final = (
    "INSERT INTO ledger_meta (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


@dataclass(frozen=True, slots=True)
class Lineage:
    """`floor`: no term up to it is granted in any scope. `predecessors` are the identities of
    ledgers that this one took the place of. `restored` says why everything stands still."""

    identity: str = ""
    recoveries: int = 0
    restored: str | None = None
    doubt: Doubt | None = None
    floor: int = 0
    predecessors: frozenset[str] = frozenset()


def read_lineage(db: Database) -> Lineage:
    known: Mapping[str, str] = {row[0]: row[1] for row in db.execute(_READ)}
    return Lineage(
        identity=known.get("identity", ""),
        recoveries=int(known.get("recoveries", "0")),
        restored=known.get("restored"),
        doubt=_doubt(known.get("doubt")),
        floor=int(known.get("term_floor", "0")),
        predecessors=frozenset(orjson.loads(known.get("predecessors", "[]"))),
    )


def write_lineage(db: Database, lineage: Lineage) -> None:
    """Write all of it but the identity, which is given once."""
    doubt = lineage.doubt
    text: dict[str, Any] = {
        "recoveries": str(lineage.recoveries),
        "term_floor": str(lineage.floor),
        "predecessors": orjson.dumps(sorted(lineage.predecessors)).decode(),
    }
    if doubt is not None:
        said = {
            "from_ms": doubt.from_ms,
            "until_ms": doubt.until_ms,
            "trusted": sorted(doubt.trusted),
        }
        text["doubt"] = orjson.dumps(said).decode()
    for name, value in text.items():
        db.execute(_PUT, (name, value))
    if lineage.restored is None:
        db.execute("DELETE FROM ledger_meta WHERE name = 'restored'")
    else:
        db.execute(_PUT, ("restored", lineage.restored))


def _doubt(text: str | None) -> Doubt | None:
    if text is None:
        return None
    said = orjson.loads(text)
    return Doubt(said["from_ms"], said["until_ms"], frozenset(said["trusted"]))
