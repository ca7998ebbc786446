"""Each fault word: whether the effect happened (the journal) and what the peer saw of it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.sandbox.faults import KNOWN, BadFault, parse_fault

BODY = b'{"text":"hello","external_id":"e1"}'
RECORD = b'{"text":"hello","external_id":"e1","id":"note-1"}'

# word, did it have its effect, does the answer start so, does it end so
SEEN = [
    ("delay:1ms", True, b"HTTP/1.1 201 ", RECORD),
    ("delay-after:1ms", True, b"HTTP/1.1 201 ", RECORD),
    ("500-before", False, b"HTTP/1.1 500 ", b"}"),
    ("503-before", False, b"HTTP/1.1 503 ", b"}"),
    ("500-after", True, b"HTTP/1.1 500 ", b"}"),
    ("599-after", True, b"HTTP/1.1 599 ", b"}"),
    ("close-before", False, b"", b""),
    ("close-after", True, b"", b""),
    ("truncate", True, b"HTTP/1.1 201 ", RECORD[: len(RECORD) // 2]),
    ("429", False, b"HTTP/1.1 429 ", b"}"),
    ("422", False, b"HTTP/1.1 422 ", b"}"),
    ("401", False, b"HTTP/1.1 401 ", b"}"),
    ("drip:1ms", True, b"HTTP/1.1 201 ", RECORD),
    ("garbage", True, b"\x16\x03", b"\r\n\r\n"),
    ("sse", True, b"HTTP/1.1 200 ", b"0\r\n\r\n"),
]
ELSEWHERE = {"reset-after", "hang", "hold:NAME", "hold-after:NAME"}


def test_every_word_is_tested_here_or_below():
    here = {word.partition(":")[0] for word, *_ in SEEN}
    assert {word.partition(":")[0] for word in KNOWN.keys() - ELSEWHERE} <= here


@pytest.mark.parametrize(("word", "applied", "starts", "ends"), SEEN)
async def test_a_fault_decides_the_effect_and_what_the_peer_sees(crm, word, applied, starts, ends):
    reader, writer = await crm.dial("POST", "/notes", BODY, X_Sandbox_Fault=word)
    seen = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert seen.startswith(starts)
    assert seen.endswith(ends)
    assert bool(seen) == bool(starts)
    [entry] = await crm.journal()
    assert (entry["fault"], entry["applied"]) == (word, applied)
    assert entry["effect"] == ("notes/note-1@1" if applied else None)
    assert len((await crm.ask("GET", "/notes"))[1]["items"]) == int(applied)


async def test_a_truncated_answer_announces_its_full_length(crm):
    reader, writer = await crm.dial("POST", "/notes", BODY, X_Sandbox_Fault="truncate")
    seen = await reader.read()
    assert f"Content-Length: {len(RECORD)}\r\n".encode() in seen
    assert b"Location: /notes/note-1\r\n" in seen
    writer.close()
    await writer.wait_closed()


async def test_a_reset_comes_as_a_reset_after_the_effect(crm):
    reader, writer = await crm.dial("POST", "/notes", BODY, X_Sandbox_Fault="reset-after")
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    assert [entry["applied"] for entry in await crm.journal()] == [True]


async def test_a_hanging_request_has_its_effect_and_never_an_answer(crm):
    reader, writer = await crm.dial("POST", "/notes", BODY, X_Sandbox_Fault="hang")
    [entry] = await crm.journal("applied=true&wait=10s")
    assert entry["effect"] == "notes/note-1@1"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.2)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("word", "wait"), [("429", "1"), ("429:2s", "2"), ("429:1500ms", "2"), ("503-before:5s", "5")]
)
async def test_a_slow_down_says_for_how_long(crm, word, wait):
    _, _, headers = await crm.ask("POST", "/notes", {"text": "t"}, X_Sandbox_Fault=word)
    assert headers["Retry-After"] == wait


async def test_an_event_stream_carries_the_record(crm):
    _, body, headers = await crm.ask("POST", "/notes", {"text": "t"}, X_Sandbox_Fault="sse")
    assert headers["Content-Type"] == "text/event-stream"
    assert b'event: result\ndata: {"text":"t","id":"note-1"}\n\n' in body


@pytest.mark.parametrize(
    "word", ["", "explode", "delay", "delay:soon", "hold", "hold:", "600-after", "hang:2s", "ok"]
)
async def test_an_unknown_word_is_refused_and_the_known_are_listed(crm, word):
    status, answer, _ = await crm.ask("POST", "/notes", {"text": "t"}, X_Sandbox_Fault=word)
    assert status == 400
    assert repr(word) in answer["error"]
    assert all(known in answer["error"] for known in KNOWN)
    assert [(entry["fault"], entry["applied"]) for entry in await crm.journal()] == [(word, False)]
    with pytest.raises(BadFault):
        parse_fault(word)


async def test_a_fault_does_not_make_a_rejected_request_apply(crm):
    status, answer, _ = await crm.ask("POST", "/notes", {}, X_Sandbox_Fault="delay-after:1ms")
    assert (status, answer) == (422, {"error": "text is required"})
    assert (await crm.summary())["applied"] == 0


async def test_a_scripted_fault_meets_the_next_matching_requests_only(crm):
    match = {"method": "POST", "path_prefix": "/notes", "intent": "i1"}
    scripted = {"match": match, "fault": "503-before", "times": 2}
    assert (await crm.ask("POST", "/_sandbox/faults", scripted))[0] == 201
    assert (await crm.ask("GET", "/_sandbox/faults"))[1] == {"faults": [scripted], "chaos": None}
    calls = [
        ("/contacts", "i1"),
        ("/notes", "i2"),
        ("/notes", "i1"),
        ("/notes", "i1"),
        ("/notes", "i1"),
    ]
    statuses = [
        (await crm.ask("POST", path, {"text": "t"}, X_Sandbox_Intent=intent))[0]
        for path, intent in calls
    ]
    assert statuses == [201, 201, 503, 503, 201]
    assert (await crm.ask("GET", "/_sandbox/faults"))[1]["faults"] == []
    faults = [entry["fault"] for entry in await crm.journal()]
    assert faults == [None, None, "503-before", "503-before", None]


async def test_a_script_can_be_cleared(crm):
    await crm.ask("POST", "/_sandbox/faults", {"fault": "429", "times": 9})
    assert (await crm.ask("GET", "/contacts"))[0] == 429
    assert (await crm.ask("DELETE", "/_sandbox/faults"))[0] == 204
    assert (await crm.ask("GET", "/contacts"))[0] == 200


BAD_SCRIPTS = [
    ("faults", {"fault": "explode"}, "explode"),
    ("faults", {}, "None"),
    ("faults", [], "object"),
    ("faults", {"fault": "429", "times": 0}, "0"),
    ("faults", {"fault": "429", "match": {"path": "/notes"}}, "path"),
    ("faults", {"fault": "429", "tmies": 2}, "tmies"),
    ("chaos", {"weights": {}}, "{}"),
    ("chaos", {"weights": {"ok": 0}}, "above 0"),
    ("chaos", {"weights": {"explode": 1}}, "explode"),
    ("chaos", {"weights": {"ok": -1}}, "-1"),
    ("chaos", {"seed": "x", "weights": {"ok": 1}}, "'x'"),
]


@pytest.mark.parametrize(("path", "content", "shown"), BAD_SCRIPTS)
async def test_a_script_that_cannot_be_followed_is_refused_with_its_reason(
    crm, path, content, shown
):
    status, answer, _ = await crm.ask("POST", f"/_sandbox/{path}", content)
    assert status == 400
    assert shown in answer["error"]
    assert (await crm.ask("GET", "/_sandbox/faults"))[1] == {"faults": [], "chaos": None}


async def test_chaos_is_the_same_for_the_same_seed_and_leaves_reads_alone(crm):
    runs = []
    for _ in range(2):
        chaos = {"seed": 7, "weights": {"ok": 1, "500-after": 1, "429": 1}}
        await crm.ask("POST", "/_sandbox/chaos", chaos)
        runs.append([(await crm.ask("POST", "/contacts", {}))[0] for _ in range(20)])
    assert runs[0] == runs[1]
    assert set(runs[0]) == {201, 500, 429}
    assert {(await crm.ask("GET", "/contacts"))[0] for _ in range(20)} == {200}
    applied = (await crm.summary())["applied"]
    assert applied == sum(status != 429 for run in runs for status in run)
    await crm.ask("DELETE", "/_sandbox/chaos")
    assert (await crm.ask("GET", "/_sandbox/faults"))[1]["chaos"] is None


async def test_the_header_goes_before_the_script_and_the_script_before_chaos(crm):
    await crm.ask("POST", "/_sandbox/chaos", {"weights": {"500-before": 1}})
    await crm.ask("POST", "/_sandbox/faults", {"fault": "429"})
    assert (await crm.ask("POST", "/contacts", {}, X_Sandbox_Fault="422"))[0] == 422
    assert [(await crm.ask("POST", "/contacts", {}))[0] for _ in range(2)] == [429, 500]


async def test_the_sandbox_own_paths_are_not_journalled(crm):
    assert (await crm.ask("GET", "/_sandbox/health"))[:2] == (200, {"status": "ok"})
    assert (await crm.ask("POST", "/_sandbox/nothing"))[0] == 404
    assert (await crm.ask("POST", "/_sandbox/health"))[0] == 404
    assert await crm.journal() == []
