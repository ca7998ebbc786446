"""How often a proof is repeated, and the dice that it throws.

A normal run takes the small count, `FENCEGATE_PROVE=1` the full one. The seed is printed, and
`FENCEGATE_SEED` throws the same dice again.
"""

from __future__ import annotations

import os
import random
import secrets


def count(*, small: int, full: int) -> int:
    return full if os.environ.get("FENCEGATE_PROVE") == "1" else small


def dice(name: str) -> random.Random:
    seed = os.environ.get("FENCEGATE_SEED") or str(secrets.randbits(32))
    print(f"\n{name}: FENCEGATE_SEED={seed}")
    return random.Random(f"{name} {seed}")
