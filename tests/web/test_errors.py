"""Problems over a real connection, and incidents."""

import io
import json
import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway.clock import ManualClock
from gateway.web.errors import incident, problem_response
from gateway.web.log import configure
from gateway.wire.problem import render


@pytest.fixture
def log_and_stream():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.BytesIO()
    yield configure("info", json=True, stream=stream, clock=ManualClock()), stream
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_a_problem_arrives_as_it_was_rendered():
    async def refuse(_request):
        extra = [("Fence-Verdict", "refused; reason=in-flight"), ("Fence-Term", "7")]
        return problem_response(render("in-flight", retry_after_s=3), extra)

    app = web.Application()
    app.router.add_get("/", refuse)
    async with TestClient(TestServer(app)) as caller:
        answer = await caller.get("/")
        body = json.loads(await answer.read())

    assert answer.status == 409
    assert answer.headers.getall("Content-Type") == ["application/problem+json"]
    assert answer.headers["Retry-After"] == "3"
    assert answer.headers["Fence-Verdict"] == "refused; reason=in-flight"
    assert answer.headers["Fence-Term"] == "7"
    assert body["type"] == "/problems/in-flight"


def test_an_incident_tells_the_log_everything_and_the_caller_an_id(log_and_stream):
    log, stream = log_and_stream
    try:
        raise RuntimeError("password is hunter2")
    except RuntimeError as error:
        rendered = incident(error, log, destination="crm")

    body = json.loads(rendered.body)
    (line,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert rendered.status == 500
    assert b"hunter2" not in rendered.body
    assert (body["effect"], body["safe_to_retry_same_key"]) == ("unknown", False)
    assert line["incident"] == body["incident"]
    assert line["destination"] == "crm"
    assert "RuntimeError" in line["exception"]


def test_an_incident_before_anything_was_sent_says_so(log_and_stream):
    log, _ = log_and_stream

    body = json.loads(incident(RuntimeError("x"), log, effect="none").body)

    assert (body["effect"], body["safe_to_retry_same_key"]) == ("none", True)
    assert body["detail"].startswith("Nothing was sent")
