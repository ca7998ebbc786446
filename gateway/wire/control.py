"""The control plane's words: what `/v1` takes and gives, as models."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

OutcomeWord = Literal["confirmed", "rejected", "no-effect", "unknown"]


def instant(at_ms: int) -> str:
    """Return Unix milliseconds as RFC 3339 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


class Wire(BaseModel):
    """Strict: a word that is not known is an error, not a wish that goes unheard."""

    model_config = ConfigDict(extra="forbid")


class AttemptOut(Wire):
    """One attempt of an effect. `status` is the destination's."""

    n: int
    term: int
    holder: str
    method: str
    target: str
    created_at: str
    deadline_at: str
    seal_at: str
    ended_at: str | None
    outcome: OutcomeWord | None
    reason: str | None
    status: int | None


class ResolutionOut(Wire):
    """Who decided what became of an unknown effect, when, and on what grounds."""

    at: str
    principal: str
    reason: str


class EffectOut(Wire):
    """One change to the outside world. `outcome` is null while it is in flight; `observed`
    says why it would have been refused, where it was only watched."""

    id: str
    destination: str
    function: str
    unit: str | None
    item: str | None
    key: str | None
    covers: str
    state: Literal["in-flight", "settled", "exception"]
    outcome: OutcomeWord | None
    resolved_by: Literal["answer", "probe", "operator", "native-replay"] | None
    principal: str
    version: int
    observed: str | None
    attempts: list[AttemptOut]
    resource: dict[str, Any] | None
    created_at: str
    settled_at: str | None
    resolution: ResolutionOut | None  # an operator's word; only where one effect is shown


class EffectPage(Wire):
    """Effects, newest first. `next` is the cursor of the page behind, or null."""

    items: list[EffectOut]
    next: str | None


class ResolveIn(Wire):
    """An operator's word on an unknown effect. `version` is the one that was looked at."""

    model_config = ConfigDict(extra="forbid", strict=True, str_strip_whitespace=True)

    as_: Literal["confirmed", "no-effect"] = Field(alias="as")
    reason: str = Field(min_length=1, max_length=2000)
    version: int | None = None


class RouteOut(Wire):
    """One route as loaded, with the guarantee that its guard gives."""

    name: str
    match: str
    does: Literal["read", "write", "refuse"]
    because: str | None
    key: str
    covers: str
    guard: str
    guarantee: str
    on_duplicate: str


class DestinationOut(Wire):
    """A destination's policy as loaded. The login is named, never shown."""

    name: str
    base_url: str
    boundary: Literal["enforced", "partial"]
    mode: Literal["enforce", "observe"]
    checked: str | None
    digest: str
    login: str | None
    limits: dict[str, int]
    functions: list[str] | None
    connections: Literal["reuse", "fresh"]
    setup: list[str]
    routes: list[RouteOut]


class DestinationPage(Wire):
    """All destinations, by name."""

    items: list[DestinationOut]
    next: str | None


class ProblemOut(BaseModel):
    """A problem (RFC 9457); further members are facts of the case."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    effect: Literal["none", "confirmed", "unknown"]
    safe_to_retry_same_key: bool


def openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of what exists under /v1."""
    models: list[type[BaseModel]] = [
        EffectOut, EffectPage, ResolveIn, DestinationOut, DestinationPage, ProblemOut
    ]  # fmt: skip
    schemas: dict[str, Any] = {}
    for model in models:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fencegate control plane", "version": version},
        "security": [{"gateway_token": []}],
        "paths": _paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"gateway_token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths() -> dict[str, Any]:
    filters = [
        _parameter("query", name, about)
        for name, about in (
            ("function", "only this function"),
            ("unit", "only this unit"),
            ("destination", "only this destination"),
            ("outcome", "confirmed, rejected, no-effect, unknown or in-flight"),
            ("term", "only effects with an attempt under this term"),
            ("cursor", "`next` of the page before"),
            ("limit", "how many, 1 to 500; 50 if absent"),
        )
    ]
    effect_id = _parameter("path", "id", "the effect's id")
    name = _parameter("path", "destination", "the destination's name")
    resolve_body = {
        "required": True,
        "content": {"application/json": {"schema": _ref("ResolveIn")}},
    }
    return {
        "/v1/effects": {"get": _operation("List effects", "EffectPage", filters)},
        "/v1/effects/{id}": {"get": _operation("Show one effect", "EffectOut", [effect_id])},
        "/v1/effects/{id}/resolve": {
            "post": _operation("Resolve an unknown effect (operator)", "EffectOut", [effect_id])
            | {"requestBody": resolve_body}
        },
        "/v1/destinations": {"get": _operation("List destinations", "DestinationPage", [])},
        "/v1/destinations/{destination}": {
            "get": _operation("Show one destination's policy", "DestinationOut", [name])
        },
    }


def _ref(name: str) -> Mapping[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(where: str, name: str, about: str) -> dict[str, Any]:
    schema = {"type": "string"}
    required = where == "path"
    return {
        "name": name, "in": where, "required": required, "description": about, "schema": schema
    }  # fmt: skip


def _operation(summary: str, model: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": _ref("ProblemOut")}}
    return {
        "summary": summary,
        "operationId": summary.split("(")[0].strip().lower().replace(" ", "-").replace("'s", ""),
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "as asked",
                "content": {"application/json": {"schema": _ref(model)}},
            },
            "default": {"description": "a problem", "content": problem},
        },
    }
