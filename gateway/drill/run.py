"""One drill: scenario after scenario, each in a folder of its own, judged by what is on record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gateway.core.errors import GatewayError
from gateway.demo.office import Office
from gateway.demo.promises import broken_promises
from gateway.drill.figures import Figures, figures_of
from gateway.drill.play import playing
from gateway.drill.scenarios import Scenario

LONGEST_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario as it went. Without figures it did not come to its end."""

    scenario: Scenario
    seconds: float
    figures: Figures | None
    faults: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.scenario.name,
            "says": self.scenario.says,
            "seconds": round(self.seconds, 2),
            "ok": not self.faults,
            "faults": self.faults,
            "figures": None if self.figures is None else self.figures.to_json(),
        }


def run_drill(
    scenarios: Iterable[Scenario], folder: Path, tell: Callable[[Played], None]
) -> list[Played]:
    """Play scenarios, and tell each as soon as it is judged."""
    played = []
    for scenario in scenarios:
        place = folder / scenario.name
        place.mkdir(parents=True, exist_ok=True)
        one = asyncio.run(play(scenario, place))
        tell(one)
        played.append(one)
    return played


async def play(scenario: Scenario, folder: Path) -> Played:
    """Play one scenario and judge it."""
    began_s = time.monotonic()
    figures: Figures | None = None
    faults: list[str] = []
    office = Office(folder, lease=scenario.lease, looks=scenario.looks)
    office.times = replace(office.times, timeout=scenario.timeout)
    try:
        async with asyncio.timeout(LONGEST_S):
            async with playing(folder, office) as stage:
                faults = stage.faults
                await stage.open()
                await scenario.plays(stage)
                record = await stage.record()
        figures = figures_of(record, stage.unled_since_ms)
        faults += broken_promises(record)
    except TimeoutError:
        faults.append(f"it was not over after {LONGEST_S:g} s")
    except GatewayError as error:
        faults.append(str(error))
    return Played(scenario, time.monotonic() - began_s, figures, faults)
