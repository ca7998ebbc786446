"""Group commit: a batch decides and leaves behind what its operations would, one by one."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.effect import Outcome
from gateway.core.errors import InvariantError
from gateway.core.fence import OnDuplicate
from tests.conformance.books import LEASED, Books, answer, proposal, settlement, unfenced
from tests.simulation.chance import SEED, count, long_run, seeded

TABLES = {
    "scope": "*",
    "handover": "*",
    "effect": "*",
    "attempt": "effect_id, n, function, scope_unit, destination, covers, term, holder, "
    "fp_raw, created_at_ms, deadline_at_ms, seal_at_ms, ended_at_ms, outcome, reason, status, "
    "open, decided, request_head, request_body",
    "answer": "*",
    "refusal": "*",
    "transition": "*",
    "lease": "*",
    "candidate": "*",
    "lease_loss": "*",
}
Step = tuple[str, Any]

admissions = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["k-1", "k-2", "k-3"]),
        "term": st.integers(1, 4),
        "body": st.sampled_from(["one", "one", "two"]),
        "covers": st.sampled_from(["a", "b"]),
    },
    optional={
        "holder": st.just("impostor#1"),
        "observe": st.just(True),
        "claim": st.just(False),
        "function": st.just("sweep"),
        "on_duplicate": st.just(OnDuplicate.REJECT),
        "max_attempts": st.just(1),
    },
)
leaders = st.sampled_from(["ana#1", "ana#2", "bo#1"])
led = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["k-1", "k-2", "k-3"]),
        "term": st.integers(1, 3),
        "holder": leaders,
        "covers": st.sampled_from(["a", "b"]),
        "rules": st.just(LEASED),
    }
)
verbs = st.tuples(
    st.sampled_from(["acquire", "supersede", "renew", "release", "step_down", "hand_off"]),
    leaders,
    st.integers(1, 3),
)
settlements = st.tuples(
    st.integers(1, 12), st.integers(1, 2), st.sampled_from(list(Outcome)), st.booleans()
)
steps = st.one_of(
    st.tuples(st.just("admit"), admissions),
    st.tuples(st.just("admit"), admissions),
    st.tuples(st.just("settle"), settlements),
    st.tuples(st.just("unfenced"), st.none()),
)
lease_steps = st.one_of(
    st.tuples(st.just("lease"), verbs),
    st.tuples(st.just("lease"), verbs),
    st.tuples(st.just("admit"), led),
    st.tuples(st.just("admit"), led),
    st.tuples(st.just("settle"), settlements),
    st.tuples(st.just("report"), leaders),
    st.tuples(st.just("withdraw"), leaders),
)


@pytest.fixture(autouse=True, scope="module")
def seed_is_told() -> None:
    print(f"\nbatches by seed {SEED}")


def work(books: Books, at: int, step: Step) -> Any:
    """Return the coroutine of a step. Effects are named after the step that makes them."""
    what, how = step
    match what:
        case "admit":
            return books.ledger.admit(proposal(f"e-{at:02}", **how))
        case "unfenced":
            return books.ledger.admit(unfenced(f"e-{at:02}"))
        case "report":
            return books.report(how, priority=at % 2)
        case "withdraw":
            return books.ledger.withdraw("report", how, how.partition("#")[0])
        case "lease":
            return lead(books, *how)
        case _:
            which, n, outcome, streamed = how
            kept = answer(None if streamed else b"x", state="streamed" if streamed else "complete")
            return books.ledger.settle(settlement(f"e-{which:02}", outcome, n, answer=kept))


def lead(books: Books, verb: str, holder: str, term: int) -> Any:
    """Return the coroutine of a verb of leadership."""
    match verb:
        case "acquire" | "supersede":
            return books.acquire(holder, supersede=verb == "supersede")
        case "step_down":
            return books.step_down(holder, term, drain_ms=3_000)
        case "hand_off":
            return books.hand_off(holder, term, "bo")
        case _:
            return getattr(books, verb)(holder, term)


async def one_by_one(books: Books, todo: list[tuple[int, Step]]) -> list[Any]:
    results = []
    for at, step in todo:
        try:
            results.append(await work(books, at, step))
        except InvariantError as error:
            results.append(error)
    return results


def dump(books: Books) -> dict[str, list[Any]]:
    found = {}
    for table, columns in TABLES.items():
        found[table] = books.rows(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3")
    return found


async def play(history: list[Step], batch: list[Step], pause_ms: int) -> None:
    numbered = list(enumerate(history + batch, start=1))
    past, rest = numbered[: len(history)], numbered[len(history) :]
    with tempfile.TemporaryDirectory() as folder:
        single = await Books.open(Path(folder) / "single.db")
        grouped = await Books.open(Path(folder) / "grouped.db")
        try:
            for books in (single, grouped):
                await one_by_one(books, past)
                books.clock.advance(ms=pause_ms)
                await books.ledger.beat()
            expected = await one_by_one(single, rest)
            # what fails changes nothing, and would split the batch
            kept = [at for at, found in enumerate(expected) if not isinstance(found, Exception)]
            results = await grouped.together(*(work(grouped, *rest[at]) for at in kept))
            if len(kept) > 1:
                assert grouped.watcher.batches[-1] == len(kept)
            assert results == [expected[at] for at in kept]
            assert dump(grouped) == dump(single)
        finally:
            await single.close()
            await grouped.close()


@seeded
@given(
    st.lists(steps, max_size=8),
    st.lists(steps, min_size=2, max_size=16),
    st.sampled_from([0, 0, 4_999, 6_001, 7_000]),
)
@long_run(count(40, 1500))
def test_a_batch_does_what_its_operations_would_do_one_by_one(
    history: list[Step], batch: list[Step], pause_ms: int
):
    asyncio.run(play(history, batch, pause_ms))


@seeded
@given(
    st.lists(lease_steps, max_size=8),
    st.lists(lease_steps, min_size=2, max_size=16),
    st.sampled_from([0, 0, 3_000, 5_000, 19_999, 20_000, 33_000]),
)
@long_run(count(40, 1500))
def test_a_batch_leads_as_its_verbs_would_do_one_by_one(
    history: list[Step], batch: list[Step], pause_ms: int
):
    asyncio.run(play(history, batch, pause_ms))


async def test_a_value_that_no_store_can_hold_fails_alone(store: Books):
    results = await store.together(
        store.ask("k-1", covers="a"),
        store.ask("k-2", covers="\ud800"),
        store.ask("k-3", covers="c"),
    )

    assert (results[0], results[2]) == ("admit", "admit")
    assert isinstance(results[1], ValueError | TypeError)
    assert store.watcher.up[-1] == (True, None)


async def test_a_null_character_is_kept_as_it_is_or_refused_alone(store: Books):
    """Kept as something else, it would not be recognized: nobody would wait for this write."""
    results = await store.together(
        store.ask("k-1", covers="a\0b"), store.ask("k-2", covers="b"), store.ask("k-1", covers="c")
    )

    if isinstance(results[0], ValueError):  # PostgreSQL has no place for it in text
        assert results[1:] == ["admit", "admit"]
    else:
        assert results == ["admit", "admit", "in-flight"]
    assert store.watcher.up[-1] == (True, None)
