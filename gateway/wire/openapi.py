"""The OpenAPI 3.1 description of what exists under `/v1`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from gateway.wire import cases, handover
from gateway.wire import leadership as words
from gateway.wire import units as work
from gateway.wire.control import (
    DestinationOut,
    DestinationPage,
    EffectOut,
    EffectPage,
    ProblemOut,
    ResolveIn,
)

_MODELS: Final[tuple[type[BaseModel], ...]] = (
    EffectOut, EffectPage, ResolveIn, DestinationOut, DestinationPage, ProblemOut,
    words.AcquireIn, words.RenewIn, words.ReleaseIn, words.StepDownIn, words.HandOffIn,
    words.CandidateIn, words.LeaseOut, words.LeasePage, words.CandidateOut, words.CandidatePage,
    words.FunctionOut, words.FunctionPage, words.FunctionDetailOut, words.TransitionOut,
    words.TransitionPage,
    work.PlanIn, work.ClaimIn, work.ReportIn, work.CompleteIn, work.AbandonIn, work.UnitOut,
    work.UnitPage, work.ItemPage, work.ClaimOut, work.CheckpointOut, work.ReportOut,
    handover.HandoverOut, cases.ActIn, cases.ExceptionOut, cases.ExceptionPage, cases.AlertOut,
)  # fmt: skip

_EFFECT_FILTERS: Final = (
    ("function", "only this function"),
    ("unit", "only this unit"),
    ("destination", "only this destination"),
    ("outcome", "confirmed, rejected, no-effect, unknown or in-flight"),
    ("term", "only effects with an attempt under this term"),
    ("cursor", "`next` of the page before"),
    ("limit", "how many, 1 to 500; 50 if absent"),
)
_CASE_FILTERS: Final = (
    ("function", "only this function"),
    ("unit", "only this unit"),
    ("closed", "true: those that are closed; else those that are open"),
    ("cursor", "`next` of the page before"),
    ("limit", "how many, 1 to 500; 100 if absent"),
)
_LEASE_FILTERS: Final = (
    ("function", "only this function"),
    ("cursor", "`next` of the page before"),
    ("limit", "how many, 1 to 500; 100 if absent"),
)
_LONG_POLL: Final = (
    ("unit", "the unit, where the function says `leadership: unit`"),
    ("wait_s", "wait so long for a change, 0 to 30 seconds; 0 if absent"),
    ("after_version", "the version that is known; absent: the one there is now"),
    ("holder", "who asks; `attempt_in_ms` is then said for this candidate"),
)
_HANDOVER_FILTERS: Final = (
    ("term", "the change to this term; the latest if absent"),
    ("unit", "of this unit's scope"),
)
_UNIT_FILTERS: Final = (
    ("function", "only this function"),
    ("state", "unit-open, unit-processing, unit-uncertain, unit-completed or unit-abandoned"),
    ("cursor", "`next` of the page before"),
    ("limit", "how many, 1 to 500; 50 if absent"),
)
_ITEM_FILTERS: Final = (
    ("state", "pending, claimed, done, failed, uncertain or abandoned"),
    ("after", "`next` of the page before"),
    ("limit", "how many, 1 to 500; 100 if absent"),
)
_FENCE: Final = (
    ("Fence-Function", "the function that the unit belongs to"),
    ("Fence-Term", "the term of its leader"),
    ("Fence-Holder", "who asks: the leader, or a worker that has claimed"),
)
_TRANSITION_FILTERS: Final = (
    ("function", "only this function"),
    ("unit", "only this unit"),
    ("after", "the id behind which to begin; of a stream, absent, what comes from now on"),
    ("limit", "how many in a page, 1 to 500; 100 if absent"),
)


def openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of what exists under /v1."""
    schemas: dict[str, Any] = {}
    for model in _MODELS:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fencegate control plane", "version": version},
        "security": [{"gateway_token": []}],
        "paths": _effects()
        | _exceptions()
        | _destinations()
        | _leases()
        | _candidates()
        | _functions()
        | _units(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"gateway_token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _effects() -> dict[str, Any]:
    effect_id = [_parameter("path", "id", "the effect's id")]
    filters = _query(_EFFECT_FILTERS)
    resolve = _operation("Resolve an unknown effect (operator)", "EffectOut", effect_id)
    return {
        "/v1/effects": {"get": _operation("List effects", "EffectPage", filters)},
        "/v1/effects/{id}": {"get": _operation("Show one effect", "EffectOut", effect_id)},
        "/v1/effects/{id}/resolve": {"post": resolve | _body("ResolveIn")},
    }


def _exceptions() -> dict[str, Any]:
    case_id = _parameter("path", "id", "the exception's id")
    page = _operation("List exceptions", "ExceptionPage", _query(_CASE_FILTERS))
    paths = {
        "/v1/exceptions": {"get": page},
        "/v1/exceptions/{id}": {"get": _operation("Show one exception", "ExceptionOut", [case_id])},
    }
    for action, summary in (
        ("probe-again", "Have the destination asked again"),
        ("confirm", "Say that it happened"),
        ("not-applied", "Say that it did not happen"),
        ("abandon", "Give an effect up"),
        ("assign", "Assign an exception"),
        ("extend", "Extend an exception"),
    ):
        operation = _operation(f"{summary} (operator)", "ExceptionOut", [case_id])
        paths[f"/v1/exceptions/{{id}}/{action}"] = {"post": operation | _body("ActIn")}
    return paths


def _destinations() -> dict[str, Any]:
    name = [_parameter("path", "destination", "the destination's name")]
    return {
        "/v1/destinations": {"get": _operation("List destinations", "DestinationPage", [])},
        "/v1/destinations/{destination}": {
            "get": _operation("Show one destination's policy", "DestinationOut", name)
        },
    }


def _leases() -> dict[str, Any]:
    function = _function()
    acquire = _operation("Acquire a lease", "LeaseOut", [function])
    granted = acquire["responses"]["200"] | {"description": "granted, with a new term"}
    acquire["responses"]["200"]["description"] = "held already: the same grant again"
    acquire["responses"]["201"] = granted
    verbs = {"acquire": acquire | _body("AcquireIn")}
    for verb, summary, model in (
        ("renew", "Renew a lease", "RenewIn"),
        ("release", "Release a lease", "ReleaseIn"),
        ("step-down", "Step down and drain", "StepDownIn"),
        ("hand-off", "Hand off to a candidate", "HandOffIn"),
    ):
        verbs[verb] = _operation(summary, "LeaseOut", [function]) | _body(model)
    follow = _operation("Show a lease or wait for a change", "LeaseOut", [
        function, *_query(_LONG_POLL)
    ])  # fmt: skip
    return {
        "/v1/leases": {"get": _operation("List leases", "LeasePage", _query(_LEASE_FILTERS))},
        "/v1/leases/{function}": {"get": follow},
        **{f"/v1/leases/{{function}}/{verb}": {"post": what} for verb, what in verbs.items()},
    }


def _candidates() -> dict[str, Any]:
    function = _function()
    holder = _parameter("path", "holder", "the candidate: `name#incarnation`, # written as %23")
    report = _operation("Report a candidate", "CandidateOut", [function, holder])
    withdraw = _operation("Withdraw a candidate", "", [function, holder])
    return {
        "/v1/candidates/{function}": {
            "get": _operation("List candidates", "CandidatePage", [function])
        },
        "/v1/candidates/{function}/{holder}": {
            "put": report | _body("CandidateIn"),
            "delete": withdraw,
        },
    }


def _functions() -> dict[str, Any]:
    resume = _parameter("header", "Last-Event-ID", "go on behind this id (event stream)")
    journal = _operation(
        "List transitions", "TransitionPage", [*_query(_TRANSITION_FILTERS), resume]
    )
    journal["responses"]["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return {
        "/v1/functions": {"get": _operation("List functions", "FunctionPage", [])},
        "/v1/functions/{function}": {
            "get": _operation("Show one function", "FunctionDetailOut", [_function()])
        },
        "/v1/functions/{function}/handover": {
            "get": _operation(
                "Tell what a change of term left behind",
                "HandoverOut",
                [_function(), *_query(_HANDOVER_FILTERS)],
            )
        },
        "/v1/transitions": {"get": journal},
    }


def _units() -> dict[str, Any]:
    unit = _parameter("path", "unit", "the unit's key")
    item = _parameter("path", "item", "the item's id")
    fence = [_parameter("header", name, about) for name, about in _FENCE]
    create = _operation("Create a unit", "UnitOut", [unit, *fence])
    made = create["responses"]["200"] | {"description": "created"}
    create["responses"]["200"]["description"] = "there already: as it stands"
    create["responses"]["201"] = made
    known = _parameter("header", "If-Match", 'the version that is known, as "3"')
    checkpoint = _operation("Write a checkpoint", "CheckpointOut", [unit, item, known, *fence])
    anything = {"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}}
    paths = {
        "/v1/units": {"get": _operation("List units", "UnitPage", _query(_UNIT_FILTERS))},
        "/v1/units/{unit}": {
            "get": _operation("Show a unit", "UnitOut", [unit]),
            "put": create | _body("PlanIn"),
        },
        "/v1/units/{unit}/items": {
            "get": _operation("List items", "ItemPage", [unit, *_query(_ITEM_FILTERS)])
        },
        "/v1/units/{unit}/items/{item}/checkpoint": {"put": checkpoint | anything},
    }
    for verb, summary, taken, given in (
        ("claim", "Claim items", "ClaimIn", "ClaimOut"),
        ("report", "Report on items", "ReportIn", "ReportOut"),
        ("complete", "Complete a unit", "CompleteIn", "UnitOut"),
        ("abandon", "Abandon a unit", "AbandonIn", "UnitOut"),
    ):
        operation = _operation(summary, given, [unit, *fence]) | _body(taken)
        paths[f"/v1/units/{{unit}}/{verb}"] = {"post": operation}
    return paths


def _function() -> dict[str, Any]:
    return _parameter("path", "function", "the function's name")


def _query(parameters: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [_parameter("query", name, about) for name, about in parameters]


def _ref(name: str) -> Mapping[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(model: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref(model)}}
    return {"requestBody": {"required": True, "content": content}}


def _parameter(where: str, name: str, about: str) -> dict[str, Any]:
    schema = {"type": "string"}
    required = where == "path"
    return {
        "name": name, "in": where, "required": required, "description": about, "schema": schema
    }  # fmt: skip


def _operation(summary: str, model: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an operation. Without a model its answer has no body."""
    problem = {"application/problem+json": {"schema": _ref("ProblemOut")}}
    done: dict[str, Any] = {"204": {"description": "done"}}
    if model:
        content = {"application/json": {"schema": _ref(model)}}
        done = {"200": {"description": "as asked", "content": content}}
    return {
        "summary": summary,
        "operationId": summary.split("(")[0].strip().lower().replace(" ", "-").replace("'s", ""),
        "parameters": parameters,
        "responses": done | {"default": {"description": "a problem", "content": problem}},
    }
