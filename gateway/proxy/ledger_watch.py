"""Tells metrics and readiness how the ledger fares."""

from __future__ import annotations

from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from gateway.proxy.house import State
from gateway.web.metrics import Metrics


class LedgerWatch:
    """The ledger's observer, called on the event loop."""

    def __init__(self, metrics: Metrics, state: State, log: FilteringBoundLogger) -> None:
        self._metrics = metrics
        self._state = state
        self._log = log
        metrics.ledger_up.set(1)

    def batch_done(self, operations: int, transaction_s: float, waited_s: float) -> None:
        self._metrics.ledger_batch_size.observe(operations)
        self._metrics.ledger_transaction_s.observe(transaction_s)
        self._metrics.ledger_lock_wait_s.observe(waited_s)

    def ledger_is(self, up: bool, error: str | None) -> None:
        if (error is None) == (self._state.ledger_error is None):
            return
        self._state.ledger_error = error
        self._metrics.ledger_up.set(1 if up else 0)
        if error is None:
            self._log.warning("ledger-back")
        else:
            self._log.error("ledger-down", error=error)

    def ledger_is_newer(self, migrations: Sequence[int]) -> None:
        self._log.warning(
            "ledger-newer",
            migrations=list(migrations),
            text="a newer version has migrated the ledger; this one works beside it until the "
            "upgrade is finished",
        )
