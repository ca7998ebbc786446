"""How long and by what chance the long proofs run: FENCEGATE_PROVE and FENCEGATE_SEED."""

from __future__ import annotations

import os
import secrets
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

PROVE = os.environ.get("FENCEGATE_PROVE") == "1"


def pick_seed() -> int:
    """Return the given seed, a fresh one for a proof, or the same one every day."""
    given = os.environ.get("FENCEGATE_SEED")
    if given is not None:
        return int(given)
    return secrets.randbits(32) if PROVE else 20261130


SEED = pick_seed()


def seeded(test: Any) -> Any:
    """Make a hypothesis test or state machine run by the seed."""
    return seed(SEED)(test)


def count(normal: int, prove: int) -> int:
    return prove if PROVE else normal


def long_run(examples: int, **more: Any) -> settings:
    """Settings for examples that each keep a real ledger: slow by nature, never cut short."""
    more.setdefault("phases", (Phase.generate, Phase.shrink))
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        **more,
    )


ONLY_FIND = (Phase.generate,)
"""For runs that must fail: nobody reads the smallest example."""
