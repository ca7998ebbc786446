"""Keys made from the work alone, and the headers that go with them."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client.context import (
    Fence,
    StepCounter,
    business_key,
    current,
    entered,
    fence_headers,
    quoted,
    unquoted,
)
from gateway.client.errors import FencegateError, FenceMissing, LeadershipLost, Malformed
from gateway.core.ids import parse_key

DONE = {"Fence-Verdict": "forwarded", "Fence-Outcome": "confirmed"}
NAMES = st.from_regex(r"\A[A-Za-z0-9._:@#~-]{1,200}\Z")


class Proven:
    """A leadership that is in force until told otherwise."""

    url, token = "http://gateway", "t-1"

    def __init__(self) -> None:
        self.over: FencegateError | None = None

    def check(self) -> None:
        if self.over is not None:
            raise LeadershipLost(message=str(self.over))

    def refuted(self, error: FencegateError) -> None:
        self.over = error


def fence(unit: str = "u", item: str | None = "i", holder: str = "ana#1", term: int = 7) -> Fence:
    counter = StepCounter("f", unit, item or "")
    return Fence("f", unit, term, holder, Proven(), counter, item=item)


def within(one: Fence) -> AbstractContextManager[Fence]:
    return entered(one)


def take(one: Fence, key: str | None, headers: dict[str, str]) -> FencegateError | None:
    return one.take_answer("POST", "crm", "/contacts", key, 201, headers)


def test_the_headers_say_who_commands_under_which_term_and_key():
    with within(fence()):
        assert fence_headers("POST", "crm", "/contacts?x=1") == {
            "Fence-Function": "f",
            "Fence-Unit": "u",
            "Fence-Term": "7",
            "Fence-Holder": "ana#1",
            "Fence-Item": "i",
            "Fence-Authorization": "Bearer t-1",
            "Idempotency-Key": '"f/u/i/POST:crm:/contacts#1"',
        }


def test_a_read_needs_no_key():
    with within(fence(unit="", item=None)):
        assert "Idempotency-Key" not in fence_headers("get", "crm", "/contacts")


def test_without_current_proof_there_are_no_headers():
    one = fence()
    one.leadership.refuted(LeadershipLost(message="gone"))

    with within(one), pytest.raises(LeadershipLost, match="gone"):
        fence_headers("POST", "crm", "/contacts")


def test_outside_of_a_leadership_there_are_no_headers():
    with pytest.raises(LeadershipLost, match="crm:/contacts"):
        fence_headers("POST", "crm", "/contacts")


def test_a_successor_makes_the_same_key():
    before, after = fence(holder="ana#1", term=7), fence(holder="bo#9", term=8)

    assert before.key_for("POST", "crm", "/c") == after.key_for("POST", "crm", "/c")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Fence-Verdict": "forwarded", "Fence-Outcome": "rejected"},
        {"Fence-Verdict": "forwarded", "Fence-Outcome": "no-effect"},
        {"Fence-Verdict": "refused; reason=outcome-unknown", "Fence-Outcome": "unknown"},
        # of another request under the same key: a next number would send this one twice
        {"Fence-Verdict": "refused; reason=key-reused", "Fence-Outcome": "confirmed"},
        {"Fence-Verdict": "refused; reason=in-flight"},
    ],
)
def test_what_is_not_confirmed_keeps_its_key(headers: dict[str, str]):
    one = fence()
    key = quoted(one.key_for("POST", "crm", "/contacts"))

    take(one, key, headers)

    assert one.key_for("POST", "crm", "/contacts") == unquoted(key)


@pytest.mark.parametrize(
    "headers",
    [
        DONE,
        {"fence-verdict": "replayed", "fence-outcome": "confirmed"},
        {"Fence-Verdict": "refused; reason=duplicate", "Fence-Outcome": "confirmed"},
        {"Fence-Verdict": "refused; reason=result-unavailable", "Fence-Outcome": "confirmed"},
    ],
)
def test_the_next_write_of_a_step_has_the_next_number(headers: dict[str, str]):
    one = fence()

    take(one, '"f/u/i/POST:crm:/contacts#1"', headers)

    assert one.key_for("POST", "crm", "/contacts") == "f/u/i/POST:crm:/contacts#2"
    assert one.key_for("POST", "crm", "/notes") == "f/u/i/POST:crm:/notes#1"


def test_two_answers_to_one_key_count_once():
    one = fence()

    take(one, '"f/u/i/POST:crm:/contacts#1"', DONE)
    take(one, '"f/u/i/POST:crm:/contacts#1"', DONE)

    assert one.key_for("POST", "crm", "/contacts").endswith("#2")


def test_an_item_that_is_entered_again_begins_at_one():
    one = fence()
    take(one, '"f/u/i/POST:crm:/contacts#1"', DONE)

    assert fence().key_for("POST", "crm", "/contacts").endswith("#1")


def test_query_and_fragment_are_no_part_of_a_step():
    one = fence()

    assert one.step_for("post", "crm", "/c?b=2#x") == one.step_for("POST", "crm", "/c?b=1")


def test_a_named_step_stands_for_method_and_path():
    one = replace(fence(), step="create-contact")

    assert one.key_for("POST", "crm", "/a") == "f/u/i/create-contact#1"
    assert one.key_for("PUT", "crm", "/b") == "f/u/i/create-contact#1"


def test_work_that_has_no_name_gets_no_key():
    with within(fence(unit="", item=None)), pytest.raises(FenceMissing, match="enter `with"):
        fence_headers("POST", "crm", "/contacts")


@given(NAMES, NAMES, NAMES, st.text(min_size=1, max_size=400))
def test_every_key_has_its_form(function: str, unit: str, item: str, step: str):
    key = StepCounter(function, unit, item).key(step)

    assert parse_key(quoted(key)) == key
    assert key.endswith("#1")


@given(st.text(min_size=240, max_size=400), st.text(min_size=240, max_size=400))
def test_long_steps_that_differ_have_keys_that_differ(one: str, other: str):
    counter = StepCounter("f", "u", "i")

    assert (counter.key(one) == counter.key(other)) is (one == other)


@given(NAMES, st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=4))
def test_a_key_of_the_business_has_its_form_and_is_no_numbered_one(unit: str, parts: list[str]):
    key = business_key("f", unit, tuple(parts))

    assert parse_key(quoted(key)) == key
    assert key != StepCounter("f", unit, "").key("/".join(parts))


def test_the_parts_of_a_key_do_not_run_into_each_other():
    assert business_key("f", "", ("a/b", "c")) != business_key("f", "", ("a", "b/c"))
    assert business_key("f", "", ("refund", 17)) == "f///refund/17"
    with pytest.raises(Malformed, match="none of them empty"):
        business_key("f", "", ("refund", ""))


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1))
def test_a_quoted_key_is_read_back_as_it_was(key: str):
    assert unquoted(quoted(key)) == key


async def test_tasks_have_the_fence_under_which_they_were_started():
    async def seen() -> str | None:
        await asyncio.sleep(0)
        here = current()
        return here.item if here else None

    with within(fence(item="one")):
        first = asyncio.ensure_future(seen())
    with within(fence(item="two")):
        second = asyncio.ensure_future(seen())

    assert await asyncio.gather(first, second, seen()) == ["one", "two", None]


def test_an_answer_that_is_nobody_of_ours_leaves_the_outcome_open():
    one = fence()

    error = one.take_answer("POST", "crm", "/contacts", '"k"', 502, {"Server": "lb"}, b"<html>")

    assert error is not None
    assert (error.effect, error.safe_to_retry_same_key) == ("unknown", True)
