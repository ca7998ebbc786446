"""Probes: the question that is asked, and what the answers prove."""

from __future__ import annotations

import json
from pathlib import Path as File
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import probe
from gateway.core.classify import Reply
from gateway.core.errors import Malformed
from gateway.core.guards import Look
from gateway.core.jsonpath import Path
from gateway.core.policy import Test
from gateway.core.probe import Found, Verdict, read_probe, render_look
from gateway.core.template import RequestValues, Template
from tests.core import probe_table
from tests.core.probe_table import ROWS, mistakes, verdict

PARTS = frozenset({"id", "rest"})
VALUES = RequestValues(
    parts={"id": "a/b", "rest": ""},
    headers={"x-api-version": "2026-10", "x-other": "1"},
    body={"channel": "C 1", "empty": "", "up": "../admin", "dots": ".."},
    effect="m-1",
)


def asked(target: str, body: Any = None, *, method: str = "GET") -> probe.ProbeRequest:
    look = Look(method, Template.parse(target, PARTS), Test(), Test(), 0, body=body)
    return render_look(look, VALUES, first_sent_ms=1_000_999, probe="p-1")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [pytest.param(changes, expected, id=name) for name, changes, expected in ROWS],
)
def test_an_answer_proves_what_the_table_says(changes: dict[str, Any], expected: str):
    assert verdict(probe, changes) == expected


def test_the_table_finds_no_mistake_in_probes():
    assert mistakes(probe) == []


def test_every_finding_has_its_word():
    found = [Found(), probe.Missing(), probe.Many(2), probe.Other("x"), probe.Failed("x")]

    assert [one.verdict for one in found] == [word for word in Verdict if word != Verdict.LOST]


def test_evidence_names_what_was_compared():
    look = Look("GET", Template.parse("/"), probe_table.asking(200, same="ref"), Test(), 0)

    found = read_probe(look, Reply(200, {}, lambda: {"ref": "m-1"}), VALUES)

    assert isinstance(found, Found)
    assert found.evidence == {"status": 200, "same": {"ref": "m-1"}}


def test_a_question_has_its_values_encoded_and_the_api_version():
    made = asked("/h/{id}?channel={body.channel}&oldest={first_sent | minus 60s | unix}")

    assert (made.method, made.body) == ("GET", None)
    assert made.target == "/h/a%2Fb?channel=C%201&oldest=940"
    assert ("x-api-version", "2026-10") in made.headers
    assert "x-other" not in dict(made.headers)
    assert dict(made.headers)["Accept-Encoding"] == "identity"


def test_a_question_with_a_body_is_filled_in_where_templates_stand():
    body = {"q": "query($id: ID!){x}", "v": [{"id": Template.parse("{effect}")}, 1, None]}
    body["id"] = Template.parse("{probe}")

    made = asked("/graphql", body, method="POST")

    filled = {"q": "query($id: ID!){x}", "v": [{"id": "m-1"}, 1, None], "id": "p-1"}
    assert json.loads(made.body or b"") == filled
    assert dict(made.headers)["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "target",
    ["/a/{body.gone}", "/a/{body.empty}", "/a/{rest}/b", "/a/{body.dots}", "/a/{body.up}/b"],
)
def test_a_question_that_would_lead_elsewhere_is_not_asked(target: str):
    with pytest.raises(Malformed):
        asked(target)


def test_an_empty_value_may_stand_in_the_query():
    assert asked("/a//b?x={body.empty}&y={body.dots}").target == "/a//b?x=&y=.."


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("m-1"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ref", "items", "next", "has_more", "x"]), inner)
    ),
    max_leaves=12,
)


@given(json_values, st.integers(100, 599), st.booleans())
@settings(max_examples=300, deadline=None, database=None)
def test_whatever_is_answered_our_mark_is_found_only_where_it_stands(
    body: Any, status: int, in_list: bool
):
    found = probe_table.asking(200, same="ref")
    each = Path.parse("items") if in_list else None
    look = Look("GET", Template.parse("/"), found, probe_table.asking(404), 0, each=each)

    read = read_probe(look, Reply(status, {}, lambda: body), VALUES)

    if isinstance(read, Found | probe.Many):
        assert status == 200
        assert "m-1" in json.dumps(body)
    if isinstance(read, probe.Missing):
        assert status == 404


BREAKS = [
    ("silence proves something", "return Failed(answer.reason)", "return Missing()"),
    ("slow-down is an answer", "if any(slow.when.holds(facts, values) for slow in slow_down):",
     "if False:"),
    ("a page for people is an answer", "look.found.reads_body or page", "look.found.reads_body"),
    ("a body that is no JSON has no marks", "look.found.reads_body or page", "page"),
    ("a list that is no JSON is empty", "look.each is not None or look.found.reads_body or page",
     "look.found.reads_body or page"),
    ("every status is a success", "good = 200 <= answer.status < 300", "good = True"),
    ("a test without a status holds for all", "return good or test.status is not None",
     "return True"),
    ("a test with a status needs a success", "return good or test.status is not None",
     "return good"),
    ("several are one", "if n > 1:", "if False:"),
    ("one is several", "if n > 1:", "if n > 0:"),
    ("missing comes before found", "    ours, n = _ours(look, facts, values) if",
     "    if _asks(look.missing, good) and look.missing.holds(facts, values):\n"
     "        return Missing()\n    ours, n = _ours(look, facts, values) if"),
    ("no page goes on", 'doubt = _incomplete(look, facts)', "doubt = None"),
    ("what is odd failed", 'return Other(f"status', 'return Failed(f"status'),
    ("what failed is odd", 'return Failed(f"status {answer.status}")\n    return',
     'return Other(f"status {answer.status}")\n    return'),
    ("the state does not matter",
     "    if not look.found.holds_apart(facts):\n        return None, 0\n", ""),
    ("only the first entry counts", "for entry in one]", "for entry in one[:1]]"),
    ("every entry is ours", "entries = [entry for entry in entries if", "entries = [entry for "
     "entry in entries if True or"),
    ("what is no list is one", " if isinstance(found, list)]", "]"),
    ("any list's end is known", "if look.each is None or _asks_for_end(look):", "if True:"),
    ("no list's end is known", "if look.each is None or _asks_for_end(look):",
     "if look.each is None:"),
    ("no list is an empty one", "    if not lists:\n", "    if False:\n"),
    ("a page of others is the end", "    if any(lists):\n", "    if False:\n"),
    ("an empty page is the end",
     'more pages" if _goes_on(facts) else None', 'x" if False else None'),
    ("an empty page is never the end", 'more pages" if _goes_on(facts) else None', 'x"'),
    ("the list speaks of its end", " if path != look.each]", "]"),
    ("an absent list is no list", "return by_absence or any(", "return any("),
    ("every test speaks of the end", "_PAGING.search(name) or name ==", "True or name =="),
    ("no link speaks of the end", ' or name == "link" for', " for"),
    ("a link leads nowhere", "return True\n    if not isinstance(facts.body, dict):",
     "return False\n    if not isinstance(facts.body, dict):"),
    ("every link leads on", "'rel=\"next\"' in value", "value"),
    ("nothing is said around the list", "*(one for one in around if isinstance(one, dict))", ""),
    ("more may be false", "_MORE.match(name) and value is True", "_MORE.match(name)"),
    ("more is not known", "if _MORE.match(name) and value is True:", "if False:"),
    ("next is not known", "if _NEXT.match(name) and", "if False and"),
    ("next may be empty", 'value not in (None, "", False, {}, [])', "value is not None"),
    ("done is not known", 'if name.lower() == "done" and value is False:', "if False:"),
    ("done goes on", '"done" and value is False', '"done"'),
    ("nothing moves", "return seen[0].strip()", "return None and seen[0].strip()"),
    ("a weak tag is another one", '.removeprefix("W/") != condition.removeprefix("W/")',
     " != condition"),
    ("the first of two tags counts", "if len(seen) != 1:", "if not seen:"),
    ("no condition is a condition",
     "if version is None or not condition or", "if version is None or"),
    ("the tag counts for all", "if version.read is not None:", "if False:"),
    ("numbers are other versions",
     "return str(found[0]) != condition", "return found[0] != condition"),
]  # fmt: skip


def broken(old: str, new: str) -> ModuleType:
    source = File(str(probe.__file__)).read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times"
    made = ModuleType(probe.__name__)  # dataclasses look their module up by its name
    exec(compile(source.replace(old, new), "<broken>", "exec"), made.__dict__)
    return made


@pytest.mark.parametrize(("old", "new"), [pytest.param(*rest, id=name) for name, *rest in BREAKS])
def test_a_break_of_probes_fails_a_row(old: str, new: str, request: pytest.FixtureRequest):
    killed_by = mistakes(broken(old, new))

    print(f"{request.node.callspec.id}: {len(killed_by)} rows, the first {killed_by[:1]}")
    assert killed_by
