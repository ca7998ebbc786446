"""The JSON Schema of policy files, made from the models that check them."""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from gateway.wire.policy_function import FunctionWords
from gateway.wire.policy_model import DestinationWords

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def policy_schema() -> dict[str, Any]:
    """Return the schema of one policy file: a destination or a function.

    It knows words and forms. What words make of each other only `fencegate policy check` knows.
    """
    _, inner = models_json_schema(
        [(DestinationWords, "validation"), (FunctionWords, "validation")],
        ref_template="#/$defs/{model}",
    )
    definitions = {name: _bare(body) for name, body in inner["$defs"].items()}
    destination = definitions["DestinationWords"]
    destination["required"] = [*destination["required"], "routes"]
    destination["properties"]["routes"]["minItems"] = 1
    return {
        "$schema": DIALECT,
        "title": "Fencegate policy file",
        "description": "One destination or one function.",
        "oneOf": [{"$ref": "#/$defs/DestinationWords"}, {"$ref": "#/$defs/FunctionWords"}],
        "$defs": definitions,
    }


def _bare(schema: Any) -> Any:
    """Return `schema` without what pydantic adds for its own sake: titles, Python defaults."""
    if isinstance(schema, list):
        return [_bare(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    if "anyOf" in schema:  # null stands for "left out" in Python; in a file it is refused
        kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
        rest = {word: value for word, value in schema.items() if word != "anyOf"}
        schema = {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, "anyOf": kinds}
    return {
        word: {name: _bare(inner) for name, inner in value.items()}
        if word == "properties"
        else _bare(value)
        for word, value in schema.items()
        if word not in {"title", "default"}
    }
