"""`fencegate reconcile`: how far the gateway has come with what nobody knows.

The gateway reconciles by itself; this looks on.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.cli.columns import columns
from gateway.cli.options import (
    JsonOption,
    LedgerAt,
    LedgerOption,
    PasswordOption,
    TokenFileOption,
    UrlOption,
)
from gateway.cli.remote import answered, remote
from gateway.clock import SystemClock

PAGE: Final = 500
Look = Callable[[], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Standing:
    """The unknown effects at one moment: what the gateway looks for, and what a person has."""

    looked_for: dict[str, dict[str, Any]]
    with_a_person: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, effects: list[dict[str, Any]]) -> Standing:
        mine = {one["id"]: one for one in effects if one["exception_id"] is None}
        theirs = {one["id"]: one for one in effects if one["exception_id"] is not None}
        return cls(mine, theirs)

    def oldest_s(self) -> float:
        """Return for how long the oldest has been unknown, in seconds; 0 without any."""
        now_s = SystemClock().wall_ms() / 1000
        began_s = [datetime.fromisoformat(one["created_at"]).timestamp() for one in self.every]
        return max((now_s - at_s for at_s in began_s), default=0.0)

    @property
    def every(self) -> list[dict[str, Any]]:
        return [*self.looked_for.values(), *self.with_a_person.values()]


@dataclass(slots=True)
class Progressed:
    """What has become of the effects that were unknown since somebody began to look."""

    seen: set[str] = field(default_factory=set)
    standing: Standing = field(default_factory=lambda: Standing({}, {}))

    def take(self, effects: list[dict[str, Any]]) -> None:
        self.standing = Standing.of(effects)
        self.seen |= {one["id"] for one in effects}

    @property
    def settled(self) -> int:
        return len(self.seen) - len(self.standing.every)

    @property
    def done(self) -> int:
        """How many the gateway is through with: settled, or in a person's hands."""
        return len(self.seen) - len(self.standing.looked_for)

    def to_json(self) -> dict[str, Any]:
        return {
            "seen": len(self.seen),
            "settled": self.settled,
            "looked_for": len(self.standing.looked_for),
            "with_a_person": len(self.standing.with_a_person),
            "oldest_unknown_s": round(self.standing.oldest_s(), 1),
        }

    def __str__(self) -> str:
        told = self.to_json()
        return (
            f"{told['settled']} settled, {told['looked_for']} looked for, "
            f"{told['with_a_person']} with a person"
        )


def reconcile(
    watch: Annotated[
        bool, typer.Option("--watch", help="Look on until nothing is left to look for.")
    ] = False,
    every_s: Annotated[
        float, typer.Option("--every", min=0.1, help="Seconds between two looks.")
    ] = 1.0,
    function: Annotated[str | None, typer.Option(help="Only this function.")] = None,
    destination: Annotated[str | None, typer.Option(help="Only this destination.")] = None,
    ledger: LedgerOption = None,
    ledger_password_file: PasswordOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which effects are unknown, who has them, and since when.

    The gateway settles them by itself; with --watch, see how far it has come. What is left to a
    person is in 'fencegate exceptions ls'.
    """
    look = _looking(
        {"function": function, "destination": destination}, url, token_file,
        LedgerAt(ledger, ledger_password_file),
    )  # fmt: skip
    progressed = Progressed()
    progressed.take(look())
    if watch:
        _watch(progressed, look, every_s, as_json)
    elif as_json:
        print(json.dumps(progressed.to_json()))
    else:
        for line in summary(progressed.standing):
            print(line)


def _looking(filters: dict[str, Any], url: Any, token_file: Any, place: LedgerAt) -> Look:
    """Return how to read every unknown effect, page by page."""
    gateway = remote(url, place.url, token_file)

    def page(query: dict[str, Any]) -> dict[str, Any]:
        if gateway is not None:
            return answered(lambda: gateway.get("/v1/effects", query, member="items"))
        from gateway.cli import at_rest

        return at_rest.list_effects(place, query)

    def look() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {
                "unit": None, "term": None, **filters,
                "outcome": "unknown", "limit": PAGE, "cursor": cursor,
            }  # fmt: skip
            said = page(query)
            found += said["items"]
            cursor = said["next"]
            if cursor is None:
                return found

    return look


def summary(standing: Standing) -> list[str]:
    """Return what is unknown, by function and destination."""
    if not standing.every:
        return ["nothing is unknown"]
    oldest_s = standing.oldest_s()
    lines = [
        f"{len(standing.every)} unknown: {len(standing.looked_for)} looked for by the gateway, "
        f"{len(standing.with_a_person)} with a person; the oldest for {oldest_s:.0f} s"
    ]
    mine = Counter((one["function"], one["destination"]) for one in standing.looked_for.values())
    theirs = Counter(
        (one["function"], one["destination"]) for one in standing.with_a_person.values()
    )
    rows = [("FUNCTION", "DESTINATION", "LOOKED FOR", "WITH A PERSON")]
    every = sorted(mine.keys() | theirs.keys())
    rows.extend((*of, str(mine[of]), str(theirs[of])) for of in every)
    return lines + columns(rows)


def _watch(progressed: Progressed, look: Look, every_s: float, as_json: bool) -> None:
    """Show how it goes on until the gateway has nothing left to look for."""
    with _shown(as_json) as show:
        show(progressed)
        while progressed.standing.looked_for:
            time.sleep(every_s)
            progressed.take(look())
            show(progressed)
    if not as_json:
        print(f"nothing is left to look for: {progressed}")
        if progressed.standing.with_a_person:
            print("what a person has to settle: fencegate exceptions ls")


@contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[Progressed], None]]:
    """Give what shows progress: a bar to people, else a line for each change."""
    if not as_json and sys.stdout.isatty():
        with Progress(
            TextColumn("reconciled"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
        ) as bar:
            task = bar.add_task("", total=None)

            def draw(progressed: Progressed) -> None:
                bar.update(
                    task, completed=progressed.done, total=len(progressed.seen),
                    description=str(progressed),
                )  # fmt: skip

            yield draw
        return
    last = ""

    def line(progressed: Progressed) -> None:
        nonlocal last
        told = str(progressed)
        if told != last:
            print(json.dumps(progressed.to_json()) if as_json else told, flush=True)
        last = told

    yield line
