"""The demo's lines, table and last words."""

from __future__ import annotations

import orjson

from gateway.core.fingerprint import canonical_json
from gateway.demo.agents import Reply, read_reply
from gateway.demo.narrate import (
    WIDTH,
    Account,
    Expected,
    Narrator,
    Step,
    closing_table,
    line_of,
    verdict_lines,
)
from gateway.demo.story import note, reordered

ACCOUNT = Account(
    expected_effects=2,
    effects=2,
    requests=3,
    duplicates=0,
    from_stale_leader=0,
    unknown_left=0,
)


def step(expected: Expected, reply: Reply | None, *, got: int = 0, did: int = 0) -> Step:
    return Step(7, "a/184", "POST notes note-acme", expected, reply, got, did)


def test_a_step_as_expected_is_one_line_without_complaint():
    expected = Expected(201, "forwarded", "", "confirmed", got=1, did=1)
    told = step(expected, Reply(201, "forwarded", outcome="confirmed"), got=1, did=1)

    line = line_of(told)

    assert told.faults() == []
    assert " ".join(line.split()) == "7 a/184 POST notes note-acme 201 forwarded confirmed +1 +1"


def test_a_change_at_the_crm_that_nobody_expected_is_a_fault():
    told = step(Expected(412, "refused", "stale-term"), Reply(412, "refused", "stale-term"), got=1)

    assert told.faults() == ["step 7 (POST notes note-acme): the CRM got is 1, expected 0"]
    assert line_of(told).endswith("!!")


def test_another_verdict_than_expected_is_a_fault():
    told = step(Expected(201, "replayed"), Reply(201, "forwarded"))

    assert told.faults() == [
        "step 7 (POST notes note-acme): verdict is 'forwarded', expected 'replayed'"
    ]


def test_a_503_must_say_when_to_come_back():
    expected = Expected(503, "refused", "predecessor-in-flight")

    silent = step(expected, Reply(503, "refused", "predecessor-in-flight"))
    honest = step(expected, Reply(503, "refused", "predecessor-in-flight", retry_after="1"))

    assert "Retry-After" in silent.faults()[0]
    assert honest.faults() == []
    assert "retry 1s" in line_of(honest)


def test_the_longest_line_fits_the_width():
    reply = Reply(503, "refused", "predecessor-in-flight-and-more-words", "no-effect")
    long = Step(88, "a/9007199254740991"[:6], "W" * 200, Expected(200), reply, 1, 1)

    assert len(line_of(long)) <= WIDTH


def test_a_call_on_the_wire_has_no_verdict_yet():
    assert "on the wire" in line_of(step(Expected(None, got=1), None, got=1))


def test_the_table_counts_refusals_by_reason_and_replays():
    said: list[str] = []
    narrator = Narrator(say=said.append)
    narrator.step(step(Expected(412), Reply(412, "refused", "stale-term")))
    narrator.step(step(Expected(412), Reply(412, "refused", "stale-term")))
    narrator.step(step(Expected(201), Reply(201, "replayed")))
    narrator.step(step(Expected(423), Reply(423, "forwarded", "outcome-unknown", "unknown")))

    rows = {
        line.strip()[:42].strip(): line.split()[-1] for line in closing_table(narrator, ACCOUNT)
    }

    assert len(said) == 4
    assert rows["refused: stale-term"] == "2"
    assert rows["replayed by the gateway"] == "1"
    assert rows["duplicates at the CRM"] == "0"
    assert any(line.split()[:2] == ["unknown", "1,"] for line in closing_table(narrator, ACCOUNT))


def test_the_last_words_name_everything_that_is_off():
    assert verdict_lines([], 3.0)[0].startswith("PROMISE KEPT")

    broken = verdict_lines(["note-duna: in the CRM 2 times, intended 1"], 3.0)

    assert broken[0].startswith("PROMISE BROKEN")
    assert "note-duna" in broken[1]


def test_a_reply_is_read_from_the_fence_headers():
    headers = {
        "Fence-Verdict": "refused; reason=key-reused",
        "Fence-Effect": "06e",
        "Content-Type": "application/problem+json",
    }

    reply = read_reply(422, headers, b'{"type":"/problems/key-reused"}')

    assert (reply.verdict, reply.reason, reply.effect_id) == ("refused", "key-reused", "06e")


def test_a_problem_names_the_reason_where_the_verdict_does_not():
    headers = {"Fence-Verdict": "refused", "Content-Type": "application/problem+json"}

    assert read_reply(401, headers, b'{"type":"/problems/forbidden"}').reason == "forbidden"


def test_an_answer_that_is_not_json_is_still_an_answer():
    assert read_reply(502, {}, b"<html>").content is None


def test_the_re_serialised_note_has_other_bytes_and_the_same_meaning():
    body = note("acme", 'a "quoted" text')

    again = reordered(body)

    assert again != body
    assert orjson.loads(again) == orjson.loads(body)
    assert canonical_json(again) == canonical_json(body)
