"""The log says what was decided, and no secret."""

import io
import json
import logging

import pytest

from gateway.clock import ManualClock
from gateway.web.decisions import Decisions
from gateway.web.log import Lines, configure, key_hash

KEY = "relatorio:2026-10-02:cliente-joao"


@pytest.fixture(autouse=True)
def quiet_root():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream():
    return io.BytesIO()


@pytest.fixture
def clock():
    return ManualClock()


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def decide(log, clock, lines=None, **more):
    said = {
        "request_id": "r1",
        "method": "POST",
        "target": "/d/crm/contacts?api_key=hunter2",
        "decision": "forwarded",
        "status": 201,
        "total_ms": 12.34567,
        "key": KEY,
        **more,
    }
    Decisions(log, clock, lines).line(**said)


@pytest.mark.parametrize("direct", [True, False])
def test_a_decision_is_one_line_without_query_key_or_gaps(stream, clock, direct):
    log = configure("info", json=True, stream=stream, clock=clock)

    decide(log, clock, Lines(stream) if direct else None, term=42, effect_id="01h")

    assert lines(stream) == [
        {
            "at": "2026-09-21T14:13:20.000Z",
            "level": "info",
            "msg": "decision",
            "request_id": "r1",
            "method": "POST",
            "path": "/d/crm/contacts",
            "decision": "forwarded",
            "status": 201,
            "total_ms": 12.346,
            "key_hash": key_hash(KEY),
            "term": 42,
            "effect_id": "01h",
        }
    ]
    assert b"hunter2" not in stream.getvalue()
    assert b"joao" not in stream.getvalue()


@pytest.mark.parametrize("json_lines", [True, False])
def test_neither_form_shows_the_key_or_the_query(stream, clock, json_lines):
    log = configure("info", json=json_lines, stream=stream, clock=clock)

    decide(log, clock)

    said = stream.getvalue()
    assert key_hash(KEY).encode() in said
    assert b"hunter2" not in said
    assert b"joao" not in said


def test_the_time_is_the_handed_in_clocks(stream, clock):
    log = configure("info", json=True, stream=stream, clock=clock)

    log.info("a")
    clock.advance(ms=1)
    log.info("b")
    clock.advance(seconds=61)
    log.info("c")

    assert [line["at"] for line in lines(stream)] == [
        "2026-09-21T14:13:20.000Z",
        "2026-09-21T14:13:20.001Z",
        "2026-09-21T14:14:21.001Z",
    ]


def test_below_its_level_nothing_is_said(stream, clock):
    log = configure("warning", json=True, stream=stream, clock=clock)

    decide(log, clock)
    log.warning("loud")

    assert [line["msg"] for line in lines(stream)] == ["loud"]


@pytest.mark.parametrize("json_lines", [True, False])
def test_an_error_is_told_with_its_traceback_but_no_variables(stream, clock, json_lines):
    log = configure("info", json=json_lines, stream=stream, clock=clock)

    def fails(_token):
        raise RuntimeError("boom")

    try:
        fails("fg_very" + "secret")
    except RuntimeError as error:
        log.error("incident", exc_info=error)

    said = stream.getvalue().decode()
    assert "RuntimeError: boom" in said
    assert "Traceback" in said
    assert "verysecret" not in said


def test_what_cannot_be_encoded_is_still_told(stream, clock):
    log = configure("info", json=True, stream=stream, clock=clock)

    log.info("odd", value="\udcff", number=2**80)

    assert lines(stream)[0]["number"] == 2**80


def test_libraries_speak_in_the_same_form(stream, clock):
    configure("info", json=True, stream=stream, clock=clock)
    configure("info", json=True, stream=stream, clock=clock)

    logging.getLogger("asyncio").error("lost %s", "a task")
    logging.getLogger("asyncio").info("chatter")

    assert [(line["level"], line["logger"], line["text"]) for line in lines(stream)] == [
        ("error", "asyncio", "lost a task")
    ]
