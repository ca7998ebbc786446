"""The words of a policy file as pydantic models: what may stand where, and in which form.

The published JSON Schema is made from these, so a word's description is its documentation.
Words that are known but not built are refused with a way out, never accepted and ignored:
each of them would change what is sent, or which requests a route is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.core.jsonpath import Path
from gateway.core.match import Match
from gateway.core.policy import Expect
from gateway.core.template import Template
from gateway.wire import policy_forms as forms
from gateway.wire import policy_paths as paths
from gateway.wire.policy_forms import Form, OneOf

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
Templated = Annotated[Template, Form(paths.template, _TEXT, in_route=True)]
Request = Annotated[paths.LookRequest, Form(paths.look_request, _TEXT, in_route=True)]
Body = Annotated[Any, Form(paths.look_body, {}, in_route=True)]


class Words(BaseModel):
    """A set of words. `later` holds those that are known but not built, with the way out."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
    later: ClassVar[Mapping[str, str]] = {}


class WhenWords(Words):
    """A test. All parts given must hold; one on a path that is not there is false."""

    status: Statuses | None = Field(None, description="A status, or a list of them.")
    header: dict[HeaderName, ExpectedText] = Field(
        {}, description="Header name to exact text, list of texts, or {present: true}."
    )
    json_: dict[JsonPath, Expected] = Field(
        {}, alias="json", description="Path to value, list of values, or {present: true}."
    )
    same: dict[JsonPath, Templated] = Field(
        {}, description="Path to a template whose rendered value must stand there."
    )

    @property
    def is_empty(self) -> bool:
        return self.status is None and not (self.header or self.json_ or self.same)


class RequestWhenWords(WhenWords):
    """A test on the request."""

    later: ClassVar[Mapping[str, str]] = {
        "status": "a route's when tests the request, which has no status; move it into result"
    }
    status: ClassVar[None] = None  # type: ignore[misc, assignment]
