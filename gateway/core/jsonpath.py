"""Paths into JSON: `a.b[0].c`, `a[*].b` (any), `["x.y"]`, `"@odata.etag"`. Nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.errors import PolicyError

_STEP: Final = re.compile(
    r"""\[(?P<index>\d{1,9})\]          # [0]
      | \[(?P<any>\*)\]                 # [*]
      | \["(?P<bracketed>[^"\]]+)"\]    # ["x.y"]
      | \.?"(?P<quoted>[^"]+)"          # "@odata.etag"
      | \.?(?P<name>[A-Za-z_$@-][A-Za-z0-9_$@-]*)
    """,
    re.VERBOSE,
)


class _Any:
    """Stands for `[*]`."""


ANY: Final = _Any()


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path; `text` is how it was written."""

    text: str
    steps: tuple[str | int | _Any, ...]

    @classmethod
    def parse(cls, text: str) -> Path:
        steps: list[str | int | _Any] = []
        at = 0
        while at < len(text):
            found = _STEP.match(text, at)
            if found is None or (at == 0 and text.startswith(".")):
                raise PolicyError(
                    f"path {text!r} is not understood from {text[at:]!r}; "
                    'write a.b[0].c, a[*].b or ["x.y"]'
                )
            if found["index"] is not None:
                steps.append(int(found["index"]))
            elif found["any"] is not None:
                steps.append(ANY)
            else:
                steps.append(found["bracketed"] or found["quoted"] or found["name"])
            at = found.end()
        if not steps:
            raise PolicyError("an empty path points nowhere; write a.b[0].c")
        return cls(text, tuple(steps))

    @property
    def points(self) -> bool:
        """Whether it points at one place at most, so that something can be put there."""
        return not any(isinstance(step, _Any) for step in self.steps)

    @property
    def list_itself(self) -> Path:
        """The same without `[*]` at its end: `[*]` alone is a document that is a list."""
        return Path(self.text, self.steps[:-1]) if isinstance(self.steps[-1], _Any) else self

    def is_within(self, other: Path) -> bool:
        """Whether it is `other`, or lies inside what `other` points at."""
        return self.steps[: len(other.steps)] == other.steps

    def find(self, document: Any) -> list[Any]:
        """Return every value that the path points at; none if it is not there."""
        return list(_walk(document, self.steps))


def _walk(value: Any, steps: tuple[str | int | _Any, ...]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, _Any):
        if isinstance(value, list):
            for item in value:
                yield from _walk(item, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield from _walk(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _walk(value[step], rest)
