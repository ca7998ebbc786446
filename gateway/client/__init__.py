"""The worker's side: leadership, keys that a successor makes too, and typed errors.

Standard library only. The transports `gateway.client.httpx`, `gateway.client.requests` and
`gateway.client.aiohttp` import their library when they are imported.
"""

from __future__ import annotations

from gateway.client.context import current, fence_headers
from gateway.client.control import CandidateReport
from gateway.client.effects import DestinationSession, EffectAnswer
from gateway.client.elector import Elector
from gateway.client.errors import FencegateError, LeadershipLost, Refused, is_retryable
from gateway.client.leadership import Leadership
from gateway.client.sync import ThreadLeadership, lead
from gateway.client.unit import ClaimedItem, Result, Unit
from gateway.client.unit_worker import UnitWorker

__all__ = [
    "CandidateReport",
    "ClaimedItem",
    "DestinationSession",
    "EffectAnswer",
    "Elector",
    "FencegateError",
    "Leadership",
    "LeadershipLost",
    "Refused",
    "Result",
    "ThreadLeadership",
    "Unit",
    "UnitWorker",
    "current",
    "fence_headers",
    "is_retryable",
    "lead",
]
