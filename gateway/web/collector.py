"""How often the process looks for garbage in cycles."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """Leave what was built at the start out of garbage collection, and look less often.

    What a request leaves behind is freed by counting references; looking for cycles among it
    cost an eighth of all time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
