"""The one way out of the gateway: requests to destinations, each sent at most once."""

from __future__ import annotations

from gateway.outbound.exchange import Outgoing
from gateway.outbound.incoming import Incoming
from gateway.outbound.send import Outbound
from gateway.outbound.startup import check_platform

__all__ = ["Incoming", "Outbound", "Outgoing", "check_platform"]
