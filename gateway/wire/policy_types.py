"""The forms that words of a policy take, and the tests: what the models of a policy are made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from gateway.core.facts import Expect
from gateway.core.jsonpath import Path
from gateway.core.match import Match
from gateway.core.template import Template
from gateway.wire import policy_forms as forms
from gateway.wire import policy_paths as paths
from gateway.wire.policy_forms import Form

_TEXT: Final = {"type": "string", "minLength": 1}
_DURATION: Final = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"}
_STATUS: Final = {"type": "integer", "minimum": 100, "maximum": 599}
_SCALAR: Final = {"type": ["string", "number", "boolean", "null"]}
_EXPECT_WORDS: Final = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": {
        "present": {"const": True},
        "absent": {"const": True},
        "any": {"const": True},
        "matches": _TEXT,
    },
}


def _one_or_list(one: Mapping[str, Any], *more: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(one), {"type": "array", "minItems": 1, "items": dict(one)}, *more]}


Text = Annotated[str, Form(forms.text, _TEXT)]
SecretText = Annotated[str, Form(forms.secret_text, _TEXT)]
Flag = Annotated[bool, Form(forms.flag, {"type": "boolean"})]
Count = Annotated[int, Form(forms.count, {"type": "integer", "minimum": 1})]
DurationMs = Annotated[int, Form(forms.duration, _DURATION)]
SomeDurationMs = Annotated[int, Form(forms.some_duration, _DURATION)]
SizeBytes = Annotated[int, Form(forms.size, {"type": ["string", "integer"]})]
Day = Annotated[date, Form(forms.iso_date, {"type": "string", "format": "date"})]
Name = Annotated[str, Form(forms.name, _TEXT)]
DestinationName = Annotated[str, Form(forms.destination_name, _TEXT)]
Statuses = Annotated[frozenset[int], Form(forms.statuses, _one_or_list(_STATUS))]
JsonPath = Annotated[Path, Form(forms.json_path, _TEXT)]
IgnoredPath = Annotated[Path, Form(forms.ignored_path, {"type": "string", "pattern": r"^body\."})]
HeaderName = Annotated[str, Form(forms.header_name, _TEXT)]
OwnHeaderName = Annotated[str, Form(forms.login_header_name, _TEXT)]
Expected = Annotated[Expect, Form(forms.expect, _one_or_list(_SCALAR, _EXPECT_WORDS))]
ExpectedText = Annotated[Expect, Form(forms.header_expect, _one_or_list(_TEXT, _EXPECT_WORDS))]
Pattern = Annotated[
    Match, Form(paths.match, {"type": "string", "pattern": r"^[A-Z|]+ /", "minLength": 1})
]
StampPath = Annotated[Path, Form(forms.stamp_path, _TEXT)]
SentHeader = Annotated[str, Form(forms.sent_header_name, _TEXT)]
WindowMs = Annotated[
    int | None, Form(forms.window, {"anyOf": [dict(_DURATION), {"const": "unknown"}]})
]
VersionFrom = Annotated[Path | None, Form(forms.version_from, _TEXT)]
Templated = Annotated[Template, Form(paths.template, _TEXT, in_route=True)]
Question = Annotated[paths.AskedRequest, Form(paths.look_request, _TEXT, in_route=True)]
Rewrite = Annotated[paths.AskedRequest, Form(paths.send_request, _TEXT, in_route=True)]
Body = Annotated[Any, Form(paths.look_body, {}, in_route=True)]


class Words(BaseModel):
    """A set of words. `later` holds those that are known but not built, with the way out."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
    later: ClassVar[Mapping[str, str]] = {}


class RequestTest(Words):
    """A test on a request. All parts given must hold; a path that is not there is false."""

    later: ClassVar[Mapping[str, str]] = {
        "status": "a request has no status; test header or json, or move it into result",
        "same": "a request is not compared with itself; test header or json",
    }
    header: dict[HeaderName, ExpectedText] = Field(
        {}, description="Header name to exact text, list of texts, or {present: true}."
    )
    json_: dict[JsonPath, Expected] = Field(
        {}, alias="json", description="Path to value, list of values, or {present: true}."
    )


class SlowTest(RequestTest):
    """A test on an answer, for every route of the destination."""

    later: ClassVar[Mapping[str, str]] = {
        "same": "slow_down belongs to no single request; test status, header or json"
    }
    status: Statuses | None = Field(None, description="A status, or a list of them.")


class AnswerTest(SlowTest):
    """A test on an answer. All parts given must hold; a path that is not there is false."""

    later: ClassVar[Mapping[str, str]] = {}
    same: dict[JsonPath, Templated] = Field(
        {}, description="Path to a template whose rendered value must stand there."
    )
