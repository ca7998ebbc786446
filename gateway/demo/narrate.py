"""How the demo speaks: who did what, then a table, then what was off."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

WIDTH: Final = 110
WHO_WIDTH: Final = 27
NAME_WIDTH: Final = 42


@dataclass(slots=True)
class Narrator:
    """Tells the story line by line."""

    say: Callable[[str], None] = print
    began_s: float = field(default_factory=time.monotonic)

    def heading(self, text: str) -> None:
        self.say("")
        self.say(f"-- {text} ".ljust(WIDTH, "-"))

    def tell(self, who: str, what: str) -> None:
        """Say who did what, and when."""
        seconds = f"{time.monotonic() - self.began_s:4.1f} s"
        first, *rest = textwrap.wrap(what, WIDTH - WHO_WIDTH - 9) or [""]
        self.say(f"{seconds}  {who:<{WHO_WIDTH}} {first}".rstrip())
        for line in rest:
            self.say(f"{'':<{WHO_WIDTH + 8}} {line}")

    def sentence(self, language: str, text: str) -> None:
        """Say what the gateway says of the handover, in its own words."""
        for n, line in enumerate(textwrap.wrap(f"{text}.", WIDTH - 9)):
            self.say(f"{language if not n else '':>6} | {line}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The numbers of the closing table, which the gateway and the CRM gave."""

    items: int
    done: int
    kept: int
    intended: int
    effects: int
    duplicates: int
    reports: int
    from_old_leader: int
    refused: Sequence[str]
    leaders: Sequence[str]
    settled: Mapping[str, int]
    unknown_left: int
    exceptions: int


def closing_table(account: Account) -> list[str]:
    """Write the closing table."""
    again = account.items - account.kept
    rows: list[tuple[str, str]] = [
        ("items confirmed", f"{account.done} of {account.items}"),
        ("kept from the old leader, handed out again", f"{account.kept}, {again}"),
        ("effects at the CRM", f"{account.effects} of {account.intended} intended"),
        ("duplicates at the CRM", str(account.duplicates)),
        ("reports published", str(account.reports)),
        ("written by the old leader after its term", str(account.from_old_leader)),
    ]
    refused = Counter(account.refused)
    rows += [(f"refused: {why}", str(count)) for why, count in sorted(refused.items())]
    settled = ", ".join(f"{count} by {who}" for who, count in sorted(account.settled.items()))
    rows += [
        ("leaders", ", then ".join(account.leaders)),
        ("unknown, and settled", settled or "none"),
        ("unknown, still open", str(account.unknown_left)),
        ("exceptions for a person", str(account.exceptions)),
    ]
    return [f"   {name:<{NAME_WIDTH}} {value}" for name, value in rows]


def verdict_lines(faults: Sequence[str], seconds: float) -> list[str]:
    """Write the last words: the promise held, or what was off."""
    if not faults:
        return [
            f"PROMISE KEPT ({seconds:.1f} s): the CRM's own record has every intended effect once,",
            "none twice, and nothing that the old leader sent after its term was over.",
        ]
    return [f"PROMISE BROKEN, or the demo is: {len(faults)} matters are off", *map(_bullet, faults)]


def _bullet(text: str) -> str:
    return f"   !! {text}"
