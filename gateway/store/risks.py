"""What a database may lose although it has committed it: crashes, and the standby that takes over.

An intent or a grant that dies with the primary can happen twice. The primary is asked, for it
alone knows who copies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

NOT_WAITING: Final = ("off", "local")
"""Values of synchronous_commit with which no commit waits for a standby."""

# What only archives the log, or takes parts of it to other tables, cannot be promoted. A slot
# without anybody at it belongs to a standby that is away, and it can be promoted too.
LOOK: Final = (
    "WITH copy AS (SELECT r.state, r.sync_state FROM pg_stat_replication r "
    "LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid "
    "WHERE coalesce(s.slot_type, '') <> 'logical' "
    "AND coalesce(r.application_name, '') <> 'pg_receivewal') "
    "SELECT current_setting('fsync'), current_setting('full_page_writes'), "
    "current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), "
    "(SELECT count(*) FROM copy WHERE state IN ('streaming', 'catchup')), "
    "(SELECT count(*) FROM copy WHERE state IS NULL), "
    "(SELECT count(*) FROM copy WHERE sync_state IN ('sync', 'quorum')), "
    "(SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' "
    "AND NOT temporary AND NOT active), CAST(current_user AS text)"
)


class RiskKind(StrEnum):
    """Where it would be lost."""

    CRASH = "crash"
    STANDBY = "standby"


@dataclass(frozen=True, slots=True)
class Risk:
    """A way in which what was committed may be lost, as a sentence that says what to do."""

    kind: RiskKind
    text: str


def judge(row: Sequence[Any]) -> list[Risk]:
    """Return the risks of a database that answers `LOOK` with `row`."""
    fsync, full_page_writes, commit, names, streaming, unseen, synchronous, away, role = row
    found = [
        Risk(
            RiskKind.CRASH,
            f"the database runs with {name} = off: what was committed, a term included, may be "
            f"gone after a crash and be given out twice; turn {name} on",
        )
        for name, value in (
            ("fsync", fsync),
            ("full_page_writes", full_page_writes),
            ("synchronous_commit", commit),
        )
        if value == "off"
    ]
    text = _standby(commit, names, (streaming, unseen, synchronous, away), role)
    return found if text is None else [*found, Risk(RiskKind.STANDBY, text)]


def _standby(commit: str, names: str, counts: tuple[int, int, int, int], role: str) -> str | None:
    """Return what is wrong with the standbys, if one can be promoted that lacks commits."""
    streaming, unseen, synchronous, away = counts
    if not streaming + unseen + away:
        return None
    lost = "an intent or a term that dies with the primary can be used twice"
    if commit in NOT_WAITING:
        return (
            f"a standby can be promoted, and with synchronous_commit = {commit} no commit waits "
            f"for it: {lost}; set synchronous_commit = on"
        )
    if not names and unseen and not streaming + away:
        return (
            f"the role {role!r} may not see what copies the database, and "
            f"synchronous_standby_names is empty: if that is a standby, {lost}; "
            f"GRANT pg_monitor TO {role} to have it looked at, or name a synchronous standby"
        )
    if not names:
        return (
            "a standby can be promoted and none is synchronous (synchronous_standby_names is "
            f"empty): {lost}; set synchronous_standby_names, or synchronous_mode in Patroni"
        )
    if streaming and not unseen and not synchronous:
        return (
            f"synchronous_standby_names = {names!r} names none of the standbys that are connected: "
            "commits wait for one that is not there; name one that is"
        )
    return None
