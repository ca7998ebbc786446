"""A gateway of the next version: this one, with one more migration. For rolling upgrades.

python -m tests.scenarios.newer compatible|breaking serve …
"""

from __future__ import annotations

import sys
from typing import Final

from gateway.store import migrate

TEXTS: Final = {
    "compatible": "-- compatible: only the next version writes remarks.\n"
    "ALTER TABLE effect ADD COLUMN remark text;\n"
    "CREATE INDEX effect_remark ON effect (remark);\n"
    "CREATE TABLE remark (id bigint PRIMARY KEY, text text NOT NULL);\n",
    "breaking": "-- not compatible: whoever writes an effect has to write remarks.\n"
    "CREATE TABLE remark (id bigint PRIMARY KEY, text text NOT NULL);\n",
}


def next_step(kind: str, store: str = "postgres") -> migrate.Migration:
    return migrate.Migration(len(migrate.shipped(store)) + 1, "remarks", TEXTS[kind])


if __name__ == "__main__":
    step, steps = next_step(sys.argv.pop(1)), migrate.shipped("postgres")
    migrate.shipped = lambda _store="sqlite": [*steps, step]

    from gateway.cli.main import main

    main()
