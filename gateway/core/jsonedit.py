"""Setting and dropping members of a JSON text, with every other byte left as it was.

The text is cut and joined, never parsed and written again: 1.0 stays 1.0, long numbers keep
their digits, members their order and strings their escapes.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from gateway.core.errors import Malformed
from gateway.core.fingerprint import AmbiguousJson, strict_json
from gateway.core.jsonpath import Path

_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Values are skipped, not read: numbers stay text, however long they are.
_SKIP: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_KINDS: Final = {"[": "a list", '"': "a text", "t": "true", "f": "false", "n": "null"}


class _Member(NamedTuple):
    """Where one member of an object stands; an element of a list has no name."""

    name: Any
    start: int
    value: int
    end: int


class JsonEdit:
    """A JSON object that is changed in places. Raises Malformed if the body is none."""

    def __init__(self, body: bytes | None) -> None:
        try:
            document = strict_json(body or b"")
        except AmbiguousJson as error:
            raise Malformed(
                f"in the JSON body {error}; something is set in this body on its way, so it must "
                "be unambiguous"
            ) from None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise Malformed(
                "the body is no JSON object, and something has to be set in it on its way; send "
                "one (UTF-8, uncoded)"
            )
        self._document: Any = document  # what the text says; they change together
        self._text = (body or b"").decode("utf-8")

    @property
    def body(self) -> bytes:
        return self._text.encode("utf-8")

    def set(self, path: Path, value: str) -> None:
        """Put the text `value` at `path`, over a scalar that is there or as a new member.

        Raises Malformed where something else is in the way.
        """
        text, around, node = self._text, self._document, self._document
        at = _space(text, 0)
        quoted = json.dumps(value, ensure_ascii=False)
        for depth, step in enumerate(path.steps):
            _check_kind(text, at, path, step)
            if isinstance(step, int) and step >= len(node):
                raise Malformed(
                    f"the body has no element {step} where {path.text} has to be set; send it"
                )
            if isinstance(step, str) and step not in node:
                new, node[step] = _nested(path, depth, quoted, value)
                # Right behind what is last in it: its end is found without going through it.
                cut = _after(text, at) - 1
                while text[cut - 1] in " \t\n\r":
                    cut -= 1
                comma = "," if len(node) > 1 else ""
                self._text = f"{text[:cut]}{comma}{new}{text[cut:]}"
                return
            at = _place(text, at, step)
            around, node = node, node[step]
        if text[at] in "{[":
            raise Malformed(
                f"{path.text} is set on its way, and the body has {_kind(text, at)} there; "
                "leave it out"
            )
        around[path.steps[-1]] = value
        self._text = text[:at] + quoted + text[_after(text, at) :]

    def drop(self, path: Path) -> None:
        """Take out the member at `path`, if it is there."""
        text = self._text
        at = _space(text, 0)
        for step in path.steps[:-1]:
            if text[at] != ("{" if isinstance(step, str) else "["):
                return
            members = list(_members(text, at))
            found = next((one for n, one in enumerate(members) if step in (one.name, n)), None)
            if found is None:
                return
            at = found.value
        if text[at] != "{":
            return
        members = list(_members(text, at))
        n = next((n for n, one in enumerate(members) if one.name == path.steps[-1]), None)
        if n is None:
            return
        if n > 0:
            start, end = members[n - 1].end, members[n].end
        else:
            start = members[0].start
            end = members[1].start if len(members) > 1 else members[0].end
        self._text = text[:start] + text[end:]
        around = self._document
        for step in path.steps[:-1]:
            around = around[step]
        del around[path.steps[-1]]


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _after(text: str, at: int) -> int:
    return _SKIP.raw_decode(text, at)[1]


def _members(text: str, at: int) -> Iterator[_Member]:
    """Yield what stands in the object or list that begins at `at`."""
    named = text[at] == "{"
    at = _space(text, at + 1)
    while text[at] not in "}]":
        start, name = at, None
        if named:
            name, at = _SKIP.raw_decode(text, at)
            at = _space(text, _space(text, at) + 1)  # over the colon
        end = _after(text, at)
        yield _Member(name, start, at, end)
        at = _space(text, end)
        if text[at] == ",":
            at = _space(text, at + 1)


def _place(text: str, at: int, step: object) -> int:
    """Return where the value of a member that is there begins; what follows is not read."""
    for n in itertools.count():
        at = _space(text, at + 1)  # over the brace or the comma
        name: Any = n
        if isinstance(step, str):
            name, at = _SKIP.raw_decode(text, at)
            at = _space(text, _space(text, at) + 1)  # over the colon
        if name == step:
            break
        at = _space(text, _after(text, at))
    return at


def _check_kind(text: str, at: int, path: Path, step: object) -> None:
    wanted, word = ("[", "a list") if isinstance(step, int) else ("{", "an object")
    if text[at] != wanted:
        raise Malformed(
            f"{path.text} cannot be set in the body: {word} is wanted on the way there, and this "
            f"is {_kind(text, at)}; leave it out, or send {word}"
        )


def _kind(text: str, at: int) -> str:
    return "an object" if text[at] == "{" else _KINDS.get(text[at], "a number")


def _nested(path: Path, depth: int, quoted: str, value: str) -> tuple[str, Any]:
    """Return the member for `path` from `depth` on, with the objects that are missing: as text,
    and what it holds."""
    rest = path.steps[depth:]
    if any(isinstance(step, int) for step in rest):
        raise Malformed(f"the body has no list where {path.text} has to be set; send it")
    names = [json.dumps(name, ensure_ascii=False) for name in rest]
    held: Any = value
    for name in reversed(rest[1:]):
        held = {name: held}
    opened = "".join(f"{name}:{{" for name in names[:-1])
    return f"{opened}{names[-1]}:{quoted}{'}' * (len(names) - 1)}", held
