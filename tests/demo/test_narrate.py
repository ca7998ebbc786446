"""The demo's lines, table and last words."""

from __future__ import annotations

from gateway.demo.agents import Reply, read_reply
from gateway.demo.narrate import WIDTH, Account, Narrator, closing_table, verdict_lines

ACCOUNT = Account(
    items=31,
    done=31,
    kept=18,
    intended=32,
    effects=32,
    duplicates=0,
    reports=1,
    from_old_leader=0,
    refused=["412 stale-term", "412 stale-term"],
    leaders=["ana (term 1)", "bo (term 2)"],
    settled={"probe": 1},
    unknown_left=0,
    exceptions=0,
)


def test_long_lines_are_broken_to_the_width():
    said: list[str] = []
    narrator = Narrator(say=said.append)

    narrator.heading("07:00")
    narrator.tell("relatorio-a and relatorio-b", "word " * 60)
    narrator.sentence("pt-BR", "palavra " * 60)

    assert len(said) > 6
    assert max(len(line) for line in said) <= WIDTH


def test_the_table_has_the_numbers_and_counts_refusals():
    lines = closing_table(ACCOUNT)

    rows = {line.strip()[:42].strip(): line.strip()[42:].strip() for line in lines}
    assert rows["items confirmed"] == "31 of 31"
    assert rows["kept from the old leader, handed out again"] == "18, 13"
    assert rows["refused: 412 stale-term"] == "2"
    assert rows["leaders"] == "ana (term 1), then bo (term 2)"
    assert rows["unknown, and settled"] == "1 by probe"


def test_the_last_words_name_everything_that_is_off():
    assert verdict_lines([], 3.0)[0].startswith("PROMISE KEPT")

    broken = verdict_lines(["the CRM counts 1 duplicates"], 3.0)

    assert broken[0].startswith("PROMISE BROKEN")
    assert "1 duplicates" in broken[1]


def test_an_answer_that_is_not_json_is_still_an_answer():
    assert read_reply(502, b"<html>") == Reply(502)
    assert read_reply(201, b'{"id": "note-1"}').content == {"id": "note-1"}
