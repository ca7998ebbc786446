"""From plain data to the models of policy_model, with every defect where it stands."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.wire.policy_complaint import Loc, Sheet, kind_of, show, word_at
from gateway.wire.policy_model import LOGINS, LOGINS_LATER, AnyLogin
from gateway.wire.policy_paths import RouteContext
from gateway.wire.policy_types import Words
from gateway.wire.policy_yaml import SPOILT

W = TypeVar("W", bound=Words)


def shape(
    model: type[W], data: Any, sheet: Sheet, loc: Loc, context: RouteContext | None = None
) -> W | None:
    """Return the words at `loc`, or None after complaining about each that is wrong."""
    try:
        return model.model_validate(data, context=context)
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            _complain(model, error, sheet, loc)
        return None


def shape_login(data: Any, sheet: Sheet, loc: Loc) -> AnyLogin | None:
    """Return the login's words. Its values are never shown, whatever is wrong with them."""
    if not isinstance(data, dict):
        if data is not SPOILT:
            sheet.error(loc, 'login wants words of its own: {kind: bearer, token: "${env:NAME}"}')
        return None
    kind = data.get("kind")
    known = ", ".join(LOGINS)
    if kind is SPOILT:
        return None
    if kind is None:
        sheet.error(loc, f"login: the word kind is missing; write one of {known}")
        return None
    if kind in LOGINS_LATER:
        sheet.error(
            (*loc, "kind"),
            f"login of kind {kind} is not available in this version; use one of {known}",
        )
        return None
    if not isinstance(kind, str) or kind not in LOGINS:
        sheet.error(
            (*loc, "kind"), f"login: the kind {show(kind)} is not known; use one of {known}"
        )
        return None
    return shape(LOGINS[kind], data, sheet, loc)


def refuse_unknown(model: type[Words], word: str, sheet: Sheet, loc: Loc) -> None:
    """Complain about a word that `model` does not have."""
    if word in model.later:
        sheet.error(loc, model.later[word], at_key=True)
        return
    known = known_words(model)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    way_out = f"did you mean {close[0]}?" if close else f"known here are {', '.join(known)}"
    sheet.error(loc, f"the word {show(word)} is not known here; {way_out}", at_key=True)


def known_words(model: type[Words]) -> list[str]:
    """Return the words of `model` as a file spells them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _complain(model: type[Words], error: ErrorDetails, sheet: Sheet, base: Loc) -> None:
    inner = tuple(error["loc"])
    value = error["input"]
    if value is SPOILT and error["type"] != "extra_forbidden":
        return
    at_key = inner[-1:] == ("[key]",)
    loc = (*base, *(inner[:-1] if at_key else inner))
    match error["type"]:
        case "extra_forbidden":
            around = _model_at(model, inner[:-1])
            refuse_unknown(around, str(inner[-1]), sheet, loc)
        case "missing":
            around = _model_at(model, inner[:-1])
            sheet.error(loc, _missing(around, str(inner[-1]), base, inner))
        case "value_error":
            if not _is_spoilt(value):
                reason = str(error.get("ctx", {}).get("error", error["msg"]))
                said = reason.startswith((f"{word_at(loc)} ", f"{word_at(loc)}:"))
                sheet.error(loc, reason if said else f"{word_at(loc)}: {reason}", at_key=at_key)
        case "list_type":
            sheet.error(loc, f"{word_at(loc)}: {_shown(loc, value)}, and a list is wanted: [a, b]")
        case _:
            sheet.error(
                loc, f"{word_at(loc)}: {_shown(loc, value)}, and words are wanted: {{word: value}}"
            )


def _shown(loc: Loc, value: Any) -> str:
    if loc[:1] == ("login",):
        return "the value (not shown)"
    return f"{show(value)} is {kind_of(value)}"


def _missing(model: type[Words], word: str, base: Loc, inner: Loc) -> str:
    around = word_at((*base, *inner[:-1]))
    field = next(f for name, f in model.model_fields.items() if (f.alias or name) == word)
    return f"{around}: the word {word} is missing; add it. {field.description}"


def _is_spoilt(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_spoilt(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_is_spoilt(inner) for inner in value)
    return value is SPOILT


def _model_at(model: type[Words], inner: Loc) -> type[Words]:
    """Return the model whose words stand at `inner`, going down from `model`."""
    for step in inner:
        for name, field in model.model_fields.items():
            if (field.alias or name) == step:
                model = next(_models_in(field.annotation), model)
    return model


def _models_in(annotation: Any) -> Iterator[type[Words]]:
    if isinstance(annotation, type) and issubclass(annotation, Words):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
