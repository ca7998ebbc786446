"""Sending alerts: each to the log at once, and to the webhook at least once under one id.

An alert that fails waits longer and longer, and the others go on without it. What was delivered
and could not be noted as such is noted first, not delivered again and again.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from dataclasses import dataclass, field
from typing import Final

from structlog.typing import FilteringBoundLogger

from gateway.clock import Clock
from gateway.control.case_views import alert_out
from gateway.core.classify import Silence
from gateway.core.policy import Connections, Destination, Limits
from gateway.outbound.exchange import Outgoing
from gateway.outbound.send import Outbound
from gateway.settings import Settings, parse_webhook
from gateway.store.case_records import AlertRecord
from gateway.store.ledger import Ledger
from gateway.web.case_metrics import CaseMetrics

ALERT_ID: Final = "Fence-Alert-Id"
SIGNATURE: Final = "Fence-Signature"
AGAIN_MIN_MS: Final = 1_000
AGAIN_MAX_MS: Final = 300_000
PAGE: Final = 50
_TIMEOUT_S: Final = 10.0
_CONNECT_MS: Final = 5_000
_ANSWER_MAX_BYTES: Final = 16 * 1024
_LINE: Final = "(alerts)"
"""No policy can have a destination of this name."""

_ERRORS: Final = frozenset({"exception-overdue", "no-eligible-candidate"})


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where alerts go, and the secret that proves whose they are."""

    destination: Destination
    target: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Receiver | None:
        """Return the receiver that the settings name, if they name one."""
        url, secret = settings.alert_webhook, settings.alert_webhook_secret
        if url is None or secret is None:
            return None
        at = parse_webhook(url)
        destination = Destination(
            name=_LINE,
            scheme=at.scheme,
            host=at.host,
            port=at.port,
            prefix="",
            digest="",
            limits=Limits(connect_ms=_CONNECT_MS),
            connections=Connections.FRESH,
        )
        return cls(destination, at.target, secret.get_secret_value().encode())

    def signature(self, body: bytes, at_s: int) -> str:
        """Return `t=<unix seconds>,v1=<hex HMAC-SHA-256 over "t.body">`."""
        mac = hmac.new(self.secret, b"%d." % at_s + body, hashlib.sha256)
        return f"t={at_s},v1={mac.hexdigest()}"


class AlertSender:
    """Takes alerts out of the ledger. Without a receiver they go to the log alone."""

    def __init__(
        self,
        ledger: Ledger,
        outbound: Outbound,
        clock: Clock,
        metrics: CaseMetrics,
        log: FilteringBoundLogger,
        receiver: Receiver | None,
    ) -> None:
        self._ledger = ledger
        self._outbound = outbound
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._receiver = receiver
        self._told_to = 0
        self._unnoted: dict[int, tuple[str | None, int]] = {}

    async def turn(self) -> None:
        """Tell what is new, then send what is due.

        A receiver that does not answer at all ends the turn: what failed waits now, so the next
        turn begins with another alert, and a dead receiver is asked once a turn.
        """
        if not self._ledger.is_keeper:
            return
        for seq in list(self._unnoted):
            await self._note(seq)
        await self._tell_new()
        if self._receiver is None:
            return
        reader = await self._ledger.reader()
        for alert in await reader.alerts_due(self._ledger.clock.now_ms(), PAGE):
            silent, error = await self._send(self._receiver, alert)
            self._unnoted[alert.seq] = (error, 0 if error is None else again_in_ms(alert.tries))
            if error is None:
                self._metrics.alerts_delivered.inc()
            else:
                self._metrics.alerts_failed.inc()
                self._log.warning(
                    "alert-not-delivered", alert_id=alert.id, tries=alert.tries + 1, error=error
                )
            await self._note(alert.seq)
            if silent:
                return

    async def _note(self, seq: int) -> None:
        error, in_ms = self._unnoted[seq]
        await self._ledger.alert_sent(seq, error, in_ms)
        del self._unnoted[seq]

    async def _tell_new(self) -> None:
        """Write what nobody was told of yet to the log. After a crash some of it comes twice."""
        reader = await self._ledger.reader()
        while alerts := await reader.alerts_new(self._told_to, PAGE):
            for alert in alerts:
                tell(self._log, alert)
                self._told_to = alert.seq
                if self._receiver is None:
                    self._unnoted[alert.seq] = (None, 0)
                    await self._note(alert.seq)

    async def _send(self, receiver: Receiver, alert: AlertRecord) -> tuple[bool, str | None]:
        """Return whether the receiver was silent, and what went wrong, if something did."""
        body = alert_out(alert).model_dump_json().encode()
        now_s = self._clock.boot_s()
        got = await self._outbound.send_once(
            receiver.destination,
            Outgoing(
                method="POST",
                target=receiver.target,
                headers=[
                    ("Content-Type", "application/json"),
                    (ALERT_ID, alert.id),
                    (SIGNATURE, receiver.signature(body, self._clock.wall_ms() // 1000)),
                ],
                deadline_s=now_s + _TIMEOUT_S,
                body=body,
                send_by_s=now_s + _TIMEOUT_S,
            ),
        )
        if isinstance(got, Silence):
            return True, got.reason
        await got.read(_ANSWER_MAX_BYTES)
        got.abort()
        return False, None if 200 <= got.status < 300 else f"status-{got.status}"


def again_in_ms(tries: int) -> int:
    """Return how long an alert waits after `tries` tries before and one more: twice as long each
    time, and not all of them the same."""
    longest_ms = min(AGAIN_MIN_MS << min(tries, 20), AGAIN_MAX_MS)
    return int(longest_ms * random.uniform(0.5, 1))


def tell(log: FilteringBoundLogger, alert: AlertRecord) -> None:
    """Log an alert: what has happened, what follows from it, what to do, and who does it."""
    said = alert.body
    say = log.error if alert.kind in _ERRORS else log.warning
    say(
        "alert",
        kind=alert.kind,
        alert_id=alert.id,
        text=f"{said['says']} {said['consequence']}",
        responsible=said["responsible"],
        next_action=said["next_action"],
        **{name: fact for name, fact in said["about"].items() if name not in ("kind", "text")},
    )
