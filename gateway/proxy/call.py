"""One request on its way through the house."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.core.dress import Dressed
from gateway.core.fence import Attempt
from gateway.core.policy import Destination, Does, Function, Mode, Route
from gateway.core.principals import Principal
from gateway.core.template import RequestValues
from gateway.proxy.body import Body
from gateway.proxy.target import Target
from gateway.web.errors import TurnedAway
from gateway.wire.headers import FenceHeaders


@dataclass(slots=True)
class Call:
    """One request on its way. Filled in as intake goes on; `observed` says why it would have
    been refused, where the destination is only watched."""

    target: Target
    method: str
    destination: Destination
    principal: Principal
    fence: FenceHeaders
    headers: list[tuple[str, str]]
    candidates: list[tuple[Route, dict[str, str]]]
    route: Route | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    function: Function | None = None
    observed: str | None = None
    body: Body | None = None
    values: RequestValues | None = None
    attempt: Attempt | None = None
    covers: str = ""
    dressed: Dressed | None = None

    @property
    def is_read(self) -> bool:
        return self.route is not None and self.route.does is Does.READ

    @property
    def limit_bytes(self) -> int:
        """The largest body that any route which may still match takes."""
        candidates = self.candidates
        if len(candidates) == 1:
            return candidates[0][0].limits.body_max_bytes
        return max(
            (route.limits.body_max_bytes for route, _ in candidates),
            default=self.destination.limits.body_max_bytes,
        )

    def turn_away(self, slug: str, detail: str | None = None, **facts: object) -> None:
        """Refuse; or, where the destination is only watched, note it and go on."""
        if self.destination.mode is not Mode.OBSERVE:
            raise TurnedAway(slug, detail, **facts)
        self.observed = self.observed or slug
