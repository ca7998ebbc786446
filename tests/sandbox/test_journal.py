"""The journal holds what arrived, and knows what was done twice."""

from __future__ import annotations

import hashlib
import json

import pytest

from gateway.sandbox.journal import Tape


async def test_an_entry_says_what_arrived_byte_for_byte(crm):
    body = b'{ "name":"Jo\xc3\xa3o" }'
    await crm.ask("POST", "/contacts?a=%2F&b", data=body, X_Mark="m1")
    [entry] = await crm.journal()
    assert (entry["n"], entry["method"], entry["target"]) == (1, "POST", "/contacts?a=%2F&b")
    assert entry["body"] == body.decode()
    assert entry["body_sha256"] == hashlib.sha256(body).hexdigest()
    assert ["X-Mark", "m1"] in entry["headers"]
    assert entry["at_ms"] > 0
    assert (entry["intent"], entry["fault"]) == (None, None)


async def test_long_bodies_are_kept_in_part_and_digested_whole(crm):
    body = json.dumps({"text": "x" * 10_000}).encode()
    await crm.ask("POST", "/notes", data=body)
    [entry] = await crm.journal()
    assert entry["body"] == body[:4096].decode()
    assert entry["body_sha256"] == hashlib.sha256(body).hexdigest()


async def test_credentials_are_kept_as_digests_only(crm):
    await crm.ask("GET", "/contacts", Authorization="Bearer s3cret", Proxy_Authorization="s3cret")
    [entry] = await crm.journal()
    assert "s3cret" not in json.dumps(entry)
    digest = hashlib.sha256(b"Bearer s3cret").hexdigest()[:16]
    assert dict(entry["headers"])["Authorization"] == f"sha256:{digest}"


async def test_bytes_that_are_not_utf8_do_not_break_the_journal(crm):
    broken = {"X_Sandbox_Intent": "i\udcff", "X_Sandbox_Fault": "f\udcff"}
    reader, writer = await crm.dial("POST", "/contacts", b'{"a":"\xff"}', **broken)
    assert b" 400 " in await reader.readline()
    writer.close()
    await writer.wait_closed()
    [entry] = await crm.journal()
    assert entry["body"] == '{"a":"\ufffd"}'
    assert (entry["intent"], entry["fault"]) == ("i\ufffd", "f\ufffd")


async def test_a_request_cut_off_in_its_body_is_written_down_and_does_nothing(crm):
    _, writer = await crm.dial("POST", "/contacts", b'{"a"', Content_Length="50")
    await crm.ask("GET", "/contacts")  # a round trip: the first request is being read by now
    writer.transport.abort()
    entries = await crm.received(2)
    cut_off = entries[-1]
    assert (cut_off["method"], cut_off["fault"]) == ("POST", "incomplete-body")
    assert (await crm.summary())["applied"] == 0


async def test_readers_ask_for_what_is_new_and_for_what_applied(crm):
    await crm.ask("POST", "/contacts", {})
    await crm.ask("GET", "/contacts")
    await crm.ask("POST", "/contacts", {})
    assert [entry["n"] for entry in await crm.journal("since=1")] == [2, 3]
    assert [entry["n"] for entry in await crm.journal("applied=true")] == [1, 3]
    assert [entry["n"] for entry in await crm.journal("applied=false")] == [2]
    assert (await crm.ask("GET", "/_sandbox/requests?applied=maybe"))[0] == 400
    assert (await crm.ask("GET", "/_sandbox/requests?wait=soon"))[0] == 400


async def test_the_same_named_intent_applied_twice_is_a_duplicate(crm):
    for _ in range(2):
        await crm.ask("POST", "/contacts", {}, X_Sandbox_Intent="report:1")
    await crm.ask("POST", "/contacts", {}, X_Sandbox_Intent="report:2")
    assert await crm.summary() == {
        "requests": 3,
        "applied": 3,
        "duplicates": [{"intent": "report:1", "entries": [1, 2]}],
        "by_method": {"POST": 3},
    }


async def test_without_a_named_intent_the_external_id_tells(crm):
    for path in ("/contacts", "/opportunities", "/contacts?again"):
        await crm.ask("POST", path, {"external_id": "e1"})
    await crm.ask("POST", "/contacts", {"name": "no mark"})
    await crm.ask("POST", "/contacts", {"name": "no mark"})
    duplicates = (await crm.summary())["duplicates"]
    assert duplicates == [{"intent": "POST /contacts e1", "entries": [1, 3]}]


async def test_a_request_that_changed_nothing_is_no_duplicate(crm):
    mark = {"X_Sandbox_Intent": "once"}
    await crm.ask("POST", "/notes", {}, **mark)
    await crm.ask("POST", "/notes", {"text": "t"}, X_Sandbox_Fault="500-before", **mark)
    await crm.ask("POST", "/notes", {"text": "t"}, **mark)
    await crm.ask("GET", "/notes", **mark)
    summary = await crm.summary()
    assert (summary["requests"], summary["applied"], summary["duplicates"]) == (4, 1, [])
    assert summary["by_method"] == {"POST": 3, "GET": 1}


async def test_counts_and_duplicates_outlive_dropped_entries(start):
    crm = await start(journal_limit=2)
    for intent in ("a", "b", "c", "a"):
        await crm.ask("POST", "/contacts", {}, X_Sandbox_Intent=intent)
    assert [entry["n"] for entry in await crm.journal()] == [3, 4]
    summary = await crm.summary()
    assert (summary["requests"], summary["applied"]) == (4, 4)
    assert summary["duplicates"] == [{"intent": "a", "entries": [1, 4]}]


async def test_clearing_forgets_records_and_journal_but_not_the_numbering(crm):
    await crm.ask("POST", "/contacts", {})
    assert (await crm.ask("DELETE", "/_sandbox/requests"))[0] == 204
    assert (await crm.summary())["requests"] == 0
    assert (await crm.ask("POST", "/contacts", {}))[1]["id"] == "contact-1"
    assert [entry["n"] for entry in await crm.journal()] == [2]


async def test_a_held_request_that_outlives_a_clearing_is_written_down_anew(crm):
    _, writer = await crm.dial("POST", "/contacts", b"{}", X_Sandbox_Fault="hold:h")
    await crm.ask("GET", "/_sandbox/holds?name=h&wait=10s")
    await crm.ask("DELETE", "/_sandbox/requests")
    await crm.ask("POST", "/_sandbox/release/h")
    [entry] = await crm.journal("applied=true&wait=10s")
    assert (entry["n"], entry["effect"]) == (2, "contacts/contact-1@1")
    writer.close()
    await writer.wait_closed()


def test_a_half_written_last_line_is_cut_off(tmp_path):
    path = tmp_path / "crm.jsonl"
    path.write_bytes(b'{"cleared_through":3}\n{"entry":{"n":')
    tape = Tape(path)
    assert list(tape.lines()) == [{"cleared_through": 3}]
    tape.write({"cleared_through": 4})
    tape.close()
    assert path.read_bytes() == b'{"cleared_through":3}\n{"cleared_through":4}\n'


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "crm.jsonl"
    path.write_bytes(b"not json\n{}\n")
    tape = Tape(path)
    with pytest.raises(ValueError, match=r"crm\.jsonl:1 is not a journal line"):
        list(tape.lines())
    tape.close()


def test_a_second_sandbox_cannot_have_the_same_file(tmp_path):
    first = Tape(tmp_path / "crm.jsonl")
    with pytest.raises(OSError, match="in use by another sandbox"):
        Tape(tmp_path / "crm.jsonl")
    first.close()
