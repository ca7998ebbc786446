"""Every statement of the data plane finds its rows by an index, however many rows there are."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.core.effect import Outcome
from gateway.core.ids import Scope
from gateway.store import case_queries
from gateway.store.batch import Batch
from gateway.store.migrate import migrate
from gateway.store.operations import Admission
from gateway.store.records import AnswerState
from gateway.store.rows import read_answer
from gateway.store.settling import Settling, StreamEnd
from gateway.store.sqlite import SqliteDatabase
from gateway.store.upkeep import Kept, forget, strand
from gateway.store.wanted import Wanted
from tests.conformance.books import answer, proposal, settlement

NOW_MS = 1_790_000_000_000
# What is open is little, and is gone through once after a start.
OPEN_ONES = "USING INDEX attempt_open"
TABLES = re.compile(r"SCAN (?!\d+ CONSTANT|CONSTANT|[kv]\b)(?!.*(VIRTUAL|json_each))")


class Listener:
    """Passes statements on and keeps those that read or change rows."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.heard: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)

    def execute(self, text: str, parameters: Any = ()) -> sqlite3.Cursor:
        if text.startswith(("SELECT", "UPDATE", "DELETE")):
            self.heard[text] = parameters
        return self.db.execute(text, parameters)


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=SqliteDatabase)
    migrate(connection, NOW_MS)
    yield connection
    connection.close()


def run(db: Any, now_ms: int, *operations: Any) -> list[Any]:
    batch = Batch(db, now_ms, "instance")
    wanted = Wanted()
    for operation in operations:
        operation.wants(wanted)
    batch.load(wanted)
    results = [operation.run(batch) for operation in operations]
    batch.flush()
    return results


def play(db: Any, first: int) -> None:
    """Do everything that requests do: admit, raise a term, settle, replay, strand, stream."""
    ids = [f"e-{first + n}" for n in range(4)]
    now_ms = NOW_MS + first * 10_000

    def admissions(term: int) -> list[Admission]:
        return [Admission(proposal(one, f"k-{one}", term=term, covers=one)) for one in ids]

    run(db, now_ms, *admissions(2 * first + 1))
    run(db, now_ms, Settling(settlement(ids[0], Outcome.CONFIRMED, answer=answer())))
    run(
        db,
        now_ms,
        Settling(settlement(ids[1], Outcome.REJECTED)),
        Settling(settlement(ids[2], Outcome.UNKNOWN)),
        StreamEnd(ids[0], 1, AnswerState.COMPLETE, b"", 0),
    )
    run(db, now_ms + 9_000, *admissions(2 * first + 2))
    run(db, now_ms + 9_000, Settling(settlement(ids[1], Outcome.REJECTED, 1)))
    read_answer(db, ids[0])


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_statement_of_the_data_plane_scans_a_table(db: sqlite3.Connection, analyzed: bool):
    for first in range(0, 400, 4):
        play(db, first)
    if analyzed:
        db.execute("ANALYZE")
    listener = Listener(db)
    play(listener, 1000)
    assert db.execute("SELECT count(*) FROM handover").fetchone()[0] > 100

    plans = {
        text: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}", parameters)]
        for text, parameters in listener.heard.items()
    }

    assert {text.split()[0] for text in plans} == {"SELECT", "UPDATE"}
    assert len(plans) >= 9
    for text, plan in plans.items():
        scans = [step for step in plan if TABLES.match(step) and OPEN_ONES not in step]
        assert scans == [], text


def test_the_plan_of_each_hot_statement_names_its_index(db: sqlite3.Connection):
    listener = Listener(db)
    play(listener, 0)
    steps = {
        row[3]
        for text, parameters in listener.heard.items()
        for row in db.execute(f"EXPLAIN QUERY PLAN {text}", parameters)
        if row[3].startswith("SEARCH")
    }

    for step in (
        "SEARCH e USING INDEX effect_by_key (function=? AND unit=? AND destination=? AND key=?)",
        "SEARCH e USING PRIMARY KEY (id=?)",
        "SEARCH a USING PRIMARY KEY (effect_id=?)",
        "SEARCH a USING INDEX attempt_open (function=? AND scope_unit=? AND destination=? "
        "AND covers=? AND term<?)",
        "SEARCH attempt USING INDEX attempt_open (function=? AND scope_unit=?)",
        "SEARCH s USING PRIMARY KEY (function=? AND unit=?)",
        "SEARCH effect USING PRIMARY KEY (id=?)",
        "SEARCH attempt USING PRIMARY KEY (effect_id=? AND n=?)",
    ):
        assert step in steps


def test_a_planted_scan_is_found(db: sqlite3.Connection):
    plan = db.execute("EXPLAIN QUERY PLAN SELECT * FROM attempt WHERE holder = 'x'").fetchall()

    assert [row[3] for row in plan if TABLES.match(row[3])] == ["SCAN attempt"]


def test_scopes_without_a_row_have_accepted_nothing(db: sqlite3.Connection):
    batch = Batch(db, NOW_MS, "instance")
    batch.load(Wanted(scopes={Scope("report"), Scope("report", "u-1")}))

    assert {row.highest_term for row in batch.scopes.values()} == {0}


def test_what_looks_for_unfinished_effects_reads_open_attempts_alone(db: sqlite3.Connection):
    listener = Listener(db)
    strand(listener, NOW_MS, "instance")
    texts = [*listener.heard, case_queries.DUE_HERE]

    for text in texts:
        marks = [0] * (text.count("?"))
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}", marks)]
        assert [step for step in plan if step.startswith("SCAN attempt")] == [
            "SCAN attempt USING INDEX attempt_open"
        ], text


def test_retention_that_has_nothing_to_do_looks_at_one_span_of_answers(db: sqlite3.Connection):
    """Whatever is kept behind it is not gone through to find that all of it is young."""
    kept = Kept(bodies_ms=1000, limit=10)
    play(db, 0)
    young = db.execute("SELECT seq, effect_id, n, status, headers, body_bytes, state FROM answer")
    (first, *_) = young.fetchall()
    db.executemany(
        "INSERT INTO answer (seq, effect_id, n, status, headers, body_bytes, state, at_ms) "
        "VALUES (?, 'e', 1, 201, '[]', 0, 'complete', ?)",
        [(first[0] + n, NOW_MS + 20_000) for n in range(1, 5000)],
    )
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    db.set_progress_handler(step, 100)
    done = forget(db, NOW_MS + 20_000, kept)
    db.set_progress_handler(None, 0)

    assert (done.bodies, done.more) == (1, False)
    assert steps < 20
