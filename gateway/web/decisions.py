"""The one line that every request to a destination gets.

Never in it: bodies, tokens, query strings, raw idempotency keys. As JSON it is written without
the log's chain of steps: it comes with every request, and the chain costs twice the line.
"""

from __future__ import annotations

import logging
from typing import Final

from structlog.typing import FilteringBoundLogger

from gateway.clock import Clock
from gateway.web.log import Lines, Stamp, dump, key_hash

_OPTIONAL: Final = (
    "principal", "destination", "route", "function", "unit", "item", "term", "holder", "key_hash",
    "reason", "outcome", "effect_id", "attempt", "destination_status", "overhead_ms",
)  # fmt: skip


class Decisions:
    """Writes decision lines: into `lines` as JSON where they are given, else through `log`."""

    def __init__(self, log: FilteringBoundLogger, clock: Clock, lines: Lines | None = None) -> None:
        self._log = log
        self._lines = lines
        self._stamp = Stamp(clock)
        self._heard = log.is_enabled_for(logging.INFO)

    def line(
        self,
        *,
        request_id: str,
        method: str,
        target: str,
        decision: str,
        status: int,
        total_ms: float,
        overhead_ms: float | None = None,
        principal: str | None = None,
        destination: str | None = None,
        route: str | None = None,
        function: str | None = None,
        unit: str | None = None,
        item: str | None = None,
        term: int | None = None,
        holder: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        outcome: str | None = None,
        effect_id: str | None = None,
        attempt: int | None = None,
        destination_status: int | None = None,
    ) -> None:
        """Write one line.

        `target` is the raw target; only its path is written. `key` is the raw key; only its
        hash is written. What is None is left out.
        """
        if not self._heard:
            return
        said: dict[str, object] = {
            "request_id": request_id,
            "principal": principal,
            "destination": destination,
            "route": route,
            "method": method,
            "path": target.partition("?")[0],
            "function": function,
            "unit": unit,
            "item": item,
            "term": term,
            "holder": holder,
            "key_hash": None if key is None else key_hash(key),
            "decision": decision,
            "reason": reason,
            "outcome": outcome,
            "effect_id": effect_id,
            "attempt": attempt,
            "status": status,
            "destination_status": destination_status,
            "overhead_ms": None if overhead_ms is None else round(overhead_ms, 3),
            "total_ms": round(total_ms, 3),
        }
        self._write(said)

    def _write(self, said: dict[str, object]) -> None:
        for name in _OPTIONAL:
            if said[name] is None:
                del said[name]
        if self._lines is None:
            self._log.info("decision", **said)
        else:
            said["level"], said["at"], said["msg"] = "info", self._stamp(), "decision"
            self._lines.write(dump(said) + b"\n")
