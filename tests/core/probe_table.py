"""The table of probes: what a destination answers, and what that proves.

`mistakes` runs the whole table against a probe module, so that the tests of probes and the tests
of the table itself (which break it on purpose) read the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from gateway.core.classify import Reply, Silence
from gateway.core.guards import Look, Version
from gateway.core.jsonpath import Path
from gateway.core.policy import Expect, SlowDown, Test
from gateway.core.template import RequestValues, Template

MARK = "m-1"
VALUES = RequestValues(parts={"id": "7"}, effect=MARK, probe="p-1")
NOT_JSON = object()
SLOW = (SlowDown(Test(json=((Path.parse("error"), Expect(values=("ratelimited",))),))),)


def asking(
    *status: int, same: str | None = None, header: dict[str, Expect] | None = None, **json: Any
) -> Test:
    """A test in short: `a__b=1` is about a.b, ABSENT and PRESENT about being there."""
    paths = {name.replace("__", "."): value for name, value in json.items()}
    expects = {n: v if isinstance(v, Expect) else Expect(values=(v,)) for n, v in paths.items()}
    return Test(
        status=frozenset(status) or None,
        header=tuple((header or {}).items()),
        json=tuple((Path.parse(name), expect) for name, expect in expects.items()),
        same=() if same is None else ((Path.parse(same), Template.parse("{effect}")),),
    )


PRESENT, ABSENT = Expect(present=True), Expect(absent=True)


@dataclass(frozen=True)
class Question:
    """One look and one answer to it, flat."""

    found: Test = field(default_factory=lambda: asking(200, same="ref"))
    missing: Test = field(default_factory=lambda: asking(404))
    each: str | None = None
    status: int = 200
    body: Any = NOT_JSON
    headers: dict[str, list[str]] = field(default_factory=dict)
    silent: bool = False
    version: Version | None = None
    condition: str = ""

    def asked(self, probe: ModuleType) -> Any:
        each = None if self.each is None else Path.parse(self.each)
        take = (("id", Path.parse("id")),)
        target = Template.parse("/a")
        look = Look("GET", target, self.found, self.missing, 0, each=each, take=take)
        answer = Reply(self.status, self.headers, self._json)
        return probe.read_probe(
            look,
            Silence(sent=True, reason="read-timeout") if self.silent else answer,
            VALUES,
            slow_down=SLOW,
            version=self.version,
            condition=self.condition,
        )

    def _json(self) -> Any:
        if self.body is NOT_JSON:
            raise ValueError("no JSON")
        return self.body


Row = tuple[str, dict[str, Any], str]

OURS = {"ref": MARK, "id": 1}
THEIRS = {"ref": "m-2", "id": 2}
EMPTY = asking(200)
LIST: dict[str, Any] = {"found": asking(200, same="ref"), "missing": asking(200), "each": "items"}
ENDS = LIST | {"missing": asking(200, has_more=False)}

RECORDS: list[Row] = [
    ("it is there", {"body": OURS}, "found 1"),
    ("it is there, without what is to be kept", {"body": {"ref": MARK}}, "found -"),
    ("another is there", {"body": THEIRS}, "other"),
    ("a number is no mark", {"body": {"ref": 1}}, "other"),
    ("it is not there", {"status": 404, "body": {"error": "gone"}}, "missing"),
    ("it is not there, in words that are no JSON", {"status": 404}, "missing"),
    ("found in an answer that is no success", {"status": 500, "body": OURS}, "failed status 500"),
    ("no answer", {"silent": True}, "failed read-timeout"),
    ("a login page", {"missing": EMPTY}, "failed status 200, and the body is no JSON"),
    ("a login page where nothing of the body is asked", {"found": asking(204), "missing": EMPTY},
     "missing"),
    ("a login page in front of a record", {"found": asking(200), "headers":
     {"content-type": ["text/html; charset=utf-8"]}}, "failed status 200, and the body is no JSON"),
    ("a record that is no JSON", {"found": asking(200), "headers": {"content-type": ["text/csv"]}},
     "found -"),
    ("a page that says that it is not there", {"status": 404, "headers":
     {"content-type": ["text/html"]}}, "missing"),
    ("a head alone", {"found": asking(200)}, "found -"),
    *((f"status {status}", {"status": status, "body": {}}, f"failed status {status}")
      for status in (301, 401, 403, 408, 410, 429, 500, 503)),
    ("slow down comes before all else",
     {"body": OURS | {"error": "ratelimited"}}, "failed slow-down"),
    ("slow down with a status that would be missing",
     {"status": 404, "body": {"error": "ratelimited"}}, "failed slow-down"),
    ("a test without a status asks for success: found", {"found": asking(same="ref"),
     "status": 500, "body": OURS}, "failed status 500"),
    ("a test without a status asks for success: missing", {"missing": asking(ref=ABSENT),
     "status": 500, "body": {}}, "failed status 500"),
    ("a test with a status may name any", {"found": asking(409, same="ref"), "status": 409,
     "body": OURS}, "found 1"),
    ("found comes before missing", {"body": OURS, "missing": EMPTY}, "found 1"),
    ("not ours is missing where the test says so", {"body": THEIRS, "missing": EMPTY}, "missing"),
    ("types matter", {"body": {"ok": "true"}, "missing": asking(200, ok=True)}, "other"),
    ("it is there, but in another state", {"found": asking(200, same="ref", state="open"),
     "body": OURS | {"state": "gone"}}, "other"),
    ("two of a list without each", {"found": asking(200, same="all[*].ref"),
     "body": {"all": [OURS, THEIRS, OURS]}}, "many 2"),
    ("one of a list without each", {"found": asking(200, same="all[*].ref"),
     "body": {"all": [OURS, THEIRS]}}, "found -"),
]  # fmt: skip

LISTS: list[Row] = [
    ("one entry", LIST | {"body": {"items": [THEIRS, OURS]}}, "found 1"),
    ("two entries", LIST | {"body": {"items": [OURS, THEIRS, OURS]}}, "many 2"),
    ("entries of other kinds", LIST | {"body": {"items": [None, 1, "m-1", OURS]}}, "found 1"),
    ("no entry at all", LIST | {"body": {"items": []}}, "missing"),
    ("others only: a page proves nothing", LIST | {"body": {"items": [THEIRS]}}, "other"),
    ("others only, and the test knows the end",
     ENDS | {"body": {"items": [THEIRS], "has_more": False}}, "missing"),
    ("others only, and more to come", ENDS | {"body": {"items": [THEIRS], "has_more": True}},
     "other"),
    ("others only, and no word of more", ENDS | {"body": {"items": [THEIRS]}}, "other"),
    ("others only, and a test that speaks of other things",
     LIST | {"missing": asking(200, ok=True), "body": {"items": [THEIRS], "ok": True}}, "other"),
    ("others only, and the test looks at the list alone",
     LIST | {"missing": asking(200, items=PRESENT), "body": {"items": [THEIRS]}}, "other"),
    ("others only, in a list whose name speaks of pages",
     LIST | {"each": "pages", "missing": asking(200, pages=PRESENT), "body": {"pages": [THEIRS]}},
     "other"),
    ("others only, and no link to more",
     LIST | {"missing": asking(200, header={"link": ABSENT}), "body": {"items": [THEIRS]}},
     "missing"),
    ("others only, and a header of another kind",
     LIST | {"missing": asking(200, header={"x-a": ABSENT}), "body": {"items": [THEIRS]}}, "other"),
    ("done", LIST | {"missing": asking(200, done=True), "body": {"items": [THEIRS], "done": True}},
     "missing"),
    *((f"an empty page, but {name}", LIST | {"body": {"items": []} | more}, "other")
      for name, more in (
          ("has_more", {"has_more": True}), ("hasMore", {"hasMore": True}),
          ("a cursor", {"response_metadata": {"next_cursor": "x"}}),
          ("a link", {"paging": {"next": {"after": "x"}}}), ("OData", {"@odata.nextLink": "/x"}),
          ("not done", {"done": False}), ("a token", {"nextPageToken": "x"}),
          ("truncated", {"IsTruncated": True}), ("Salesforce", {"nextRecordsUrl": "/x"}),
          ("hasNextPage", {"pageInfo": {"hasNextPage": True}}),
      )),
    *((f"an empty page, and {name}", LIST | {"body": {"items": []} | more}, "missing")
      for name, more in (
          ("no more", {"has_more": False}), ("an empty cursor", {"next_cursor": ""}),
          ("no link", {"next": None}), ("done", {"done": True}), ("a next step", {"next_step": 1}),
          ("more, but elsewhere", {"items2": {"next": "x"}}),
      )),
    ("an empty page, but a header leads on",
     LIST | {"body": {"items": []}, "headers": {"link": ['<https://x/?p=2>; rel="next"']}},
     "other"),
    ("an empty page, and a header leads back",
     LIST | {"body": {"items": []}, "headers": {"link": ['<https://x/?p=1>; rel="prev"']}},
     "missing"),
    ("no list", LIST | {"body": {"error": "x"}}, "other"),
    ("no list, and the test says that none is empty",
     LIST | {"missing": asking(200, items=ABSENT), "body": {}}, "missing"),
    ("something that is no list", LIST | {"body": {"items": {}}}, "other"),
    ("the answer is the list", LIST | {"each": "[*]", "body": [THEIRS, OURS]}, "found 1"),
    ("the answer is the list, with nothing in it", LIST | {"each": "[*]", "body": []}, "missing"),
    ("the answer should be the list", LIST | {"each": "[*]", "body": {"items": []}}, "other"),
    ("json is about the whole answer",
     LIST | {"found": asking(200, same="ref", ok=True), "body": {"items": [OURS], "ok": True}},
     "found 1"),
    ("json of the whole answer does not hold",
     ENDS | {"found": asking(200, same="ref", ok=True),
             "body": {"items": [OURS], "ok": False, "has_more": True}}, "other"),
    ("a list asked for by our mark: its entry is ours",
     LIST | {"found": asking(200), "body": {"items": [THEIRS]}}, "found 2"),
    ("a list asked for by our mark: several", LIST | {"found": asking(200),
     "body": {"items": [THEIRS, OURS]}}, "many 2"),
    ("a list asked for by our mark: none", LIST | {"found": asking(200), "body": {"items": []}},
     "missing"),
    ("a list that is no JSON", LIST | {"found": asking(200)},
     "failed status 200, and the body is no JSON"),
]  # fmt: skip


def under(header: str, read: str | None = None, **more: Any) -> dict[str, Any]:
    place = None if read is None else Path.parse(read)
    version = Version(lost_when=asking(412), header=header, read=place)
    return {"version": version, "missing": EMPTY, "body": THEIRS} | more


TAG = {"etag": ['"2"']}
VERSIONS: list[Row] = [
    ("the same tag", under("If-Match", condition='"2"', headers=TAG), "missing, as it was"),
    ("another tag", under("If-Match", condition='"1"', headers=TAG), "missing, moved"),
    ("the same tag, weakly", under("If-Match", condition='W/"2"', headers=TAG),
     "missing, as it was"),
    ("no tag", under("If-Match", condition='"1"'), "missing"),
    ("two tags", under("If-Match", condition='"1"', headers={"etag": ['"1"', '"2"']}), "missing"),
    ("no condition is known", under("If-Match", headers=TAG), "missing"),
    ("no version is asked for", {"missing": EMPTY, "body": THEIRS, "condition": "1",
                                 "headers": TAG}, "missing"),
    ("a date", under("If-Unmodified-Since", condition="Mon", headers={"last-modified": ["Tue"]}),
     "missing, moved"),
    ("the same date", under("If-Unmodified-Since", condition="Mon",
                            headers={"last-modified": ["Mon"]}), "missing, as it was"),
    ("a header of the destination's own", under("X-Version", condition="1", headers=TAG),
     "missing"),
    ("a version in the body", under("If-Match", "rev", condition="1", body={"rev": "2"}),
     "missing, moved"),
    ("a number in the body", under("If-Match", "rev", condition="2", body={"rev": 2}),
     "missing, as it was"),
    ("no version in the body", under("If-Match", "rev", condition="2", headers=TAG), "missing"),
    ("it is there, whatever the version", under("If-Match", condition='"1"', headers=TAG,
                                                body=OURS), "found 1"),
]  # fmt: skip

ROWS: list[Row] = [
    *((f"record: {name}", changes, said) for name, changes, said in RECORDS),
    *((f"list: {name}", changes, said) for name, changes, said in LISTS),
    *((f"version: {name}", changes, said) for name, changes, said in VERSIONS),
]


def verdict(probe: ModuleType, changes: dict[str, Any]) -> str:
    """Return what `probe` makes of the answer, in words."""
    found = Question(**changes).asked(probe)
    match type(found).__name__:
        case "Found":
            return f"found {found.take.get('id', '-')}"
        case "Missing":
            return "missing" + {None: "", True: ", moved", False: ", as it was"}[found.moved]
        case "Many":
            return f"many {found.n}"
        case "Other":
            return "other"
        case _:
            return f"failed {found.why}"


def mistakes(probe: ModuleType) -> list[str]:
    """Return a line for every row that `probe` reads otherwise than it must."""
    found = []
    for name, changes, expected in ROWS:
        try:
            said = verdict(probe, changes)
        except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
            said = f"{type(error).__name__}: {error}"  # a broken one may trip over its guard
        if said != expected:
            found.append(f"{name}: {said!r}, not {expected!r}")
    return found
