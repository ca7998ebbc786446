"""The witness: what a gateway remembers of its ledger, outside of it.

A ledger that is restored from a backup, or that lost its last transactions in a failover, looks
whole. That it is older than it was can only be told by what stands elsewhere: here a small file for
each gateway, with the ledger's identity, the highest terms, and marks that only grow. A term is in
the file before anybody is told of it; the marks are written with each heartbeat, and kept in
memory with each commit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from gateway.core.errors import StoreError
from gateway.core.ids import Scope

FORMAT: Final = 1
SCOPES_MAX: Final = 10_000
"""Of more scopes those whose terms grew last are kept; of the others, their function's highest."""


@dataclass(slots=True)
class Seen:
    """What was seen of a ledger. `scopes` have highest and last term, those that grew last at the
    end; `rest` is the largest term of a function's scopes that are not among them.

    `transition` and `answer` are the largest numbers given; `attempt` the last one written by
    this gateway: its effect and its number.
    """

    identity: str = ""
    recoveries: int = 0
    scopes: dict[Scope, tuple[int, int]] = field(default_factory=dict)
    rest: dict[str, int] = field(default_factory=dict)
    transition: int = 0
    answer: int = 0
    attempt: tuple[str, int] | None = None
    at_ms: int = 0

    def raise_terms(self, raised: Mapping[Scope, tuple[int, int]]) -> bool:
        """Take note of terms; return whether any of them grew."""
        grew = False
        for scope, (highest, last) in raised.items():
            before = self.scopes.get(scope, (0, 0))
            now = (max(before[0], highest), max(before[1], last))
            if now != before:
                grew = True
                self.scopes.pop(scope, None)
                self.scopes[scope] = now
        while len(self.scopes) > SCOPES_MAX:
            oldest = next(iter(self.scopes))
            term = max(self.scopes.pop(oldest))
            self.rest[oldest.function] = max(self.rest.get(oldest.function, 0), term)
        return grew


class WitnessFile:
    """The file, which one gateway has to itself. `take` before use, `release` after."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Seen | None:
        """Return what the file says; None if there is none. Raises StoreError."""
        try:
            return _read(orjson.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"the witness {self.path} cannot be read: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"the witness {self.path} is damaged ({error}), so that nobody can tell whether "
                "the ledger is older than it was. If it was not restored, move the file away and "
                "start again; if it was, or may have been, run 'fencegate recover --force' with "
                "the other gateways' witnesses first"
            ) from error

    def save(self, seen: Seen) -> None:
        """Write it whole or not at all, and onto the disk. Raises OSError."""
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        waiting = self.path.with_name(self.path.name + ".new")
        handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.fchmod(handle, 0o600)
            left = memoryview(_text(seen))
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError:
            with suppress(OSError):
                waiting.unlink()
            raise
        finally:
            os.close(handle)
        waiting.replace(self.path)
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(at)
        finally:
            os.close(at)


def _text(seen: Seen) -> bytes:
    said: dict[str, Any] = {
        "format": FORMAT,
        "identity": seen.identity,
        "recoveries": seen.recoveries,
        "at_ms": seen.at_ms,
        "transition": seen.transition,
        "answer": seen.answer,
        "attempt": seen.attempt,
        "scopes": [[*scope, *terms] for scope, terms in seen.scopes.items()],
        "rest": seen.rest,
    }
    return orjson.dumps(said) + b"\n"


def _read(said: Any) -> Seen:
    if said["format"] != FORMAT:
        raise ValueError(f"its format is {said['format']!r}, this version reads {FORMAT}")
    attempt = said["attempt"]
    return Seen(
        identity=str(said["identity"]),
        recoveries=int(said["recoveries"]),
        scopes={
            Scope(str(function), str(unit)): (int(highest), int(last))
            for function, unit, highest, last in said["scopes"]
        },
        rest={str(function): int(term) for function, term in said["rest"].items()},
        transition=int(said["transition"]),
        answer=int(said["answer"]),
        attempt=None if attempt is None else (str(attempt[0]), int(attempt[1])),
        at_ms=int(said["at_ms"]),
    )
