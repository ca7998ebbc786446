"""A holder that asks the lease verbs over HTTP by itself, and the functions that it asks for.

No client library: what these tests look at is what the gateway says to anybody.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.house import Got
from tests.scenarios.caller import Leader, ask
from tests.scenarios.stage import Stage, until

LEASED = """
function: %(function)s
authority: lease
leadership: function
lease: {ttl: %(ttl)s, renew_every: %(renew_every)s, margin: %(margin)s}
exceptions: {owner: ops-comercial, deadline: 4h}
"""


def leased(function: str, *, ttl: str, renew_every: str, margin: str, more: str = "") -> str:
    """Return the policy of a function whose terms the gateway grants."""
    words = {"function": function, "ttl": ttl, "renew_every": renew_every, "margin": margin}
    return LEASED % words + more


@dataclass
class Holder:
    """One incarnation of a worker, and the term that it was granted last."""

    stage: Stage
    name: str
    function: str = "relatorio"
    term: int = 0

    async def ask(self, verb: str, **more: Any) -> Got:
        """Ask for one verb; a grant to this holder is taken note of."""
        content: dict[str, Any] = {"holder": self.name, **more}
        if verb != "acquire":
            content.setdefault("term", self.term)
        got = await ask(
            self.stage.port,
            "POST",
            f"/v1/leases/{self.function}/{verb}",
            headers={"Content-Type": "application/json"},
            body=json.dumps(content).encode(),
        )
        if verb == "acquire" and got.status in (200, 201):
            self.term = got.json["term"]
        return got

    async def report(self, **more: Any) -> Got:
        """Report as a candidate."""
        return await ask(
            self.stage.port,
            "PUT",
            f"/v1/candidates/{self.function}/{self.name.replace('#', '%23')}",
            headers={"Content-Type": "application/json"},
            body=json.dumps({"version": "", "region": "", "ready": True, **more}).encode(),
        )

    async def look(self) -> dict[str, Any]:
        """Read the lease, whoever holds it."""
        got = await ask(self.stage.port, "GET", f"/v1/leases/{self.function}")
        assert got.status == 200, got
        lease: dict[str, Any] = got.json
        return lease

    async def acquire_once_free(self) -> Got:
        """Ask again and again until the answer is another than that it is not our turn."""

        async def answered() -> Got | None:
            got = await self.ask("acquire")
            return None if got.problem in ("lease-held", "not-preferred") else got

        answer: Got = await until(answered, "lease that is free")
        return answer

    @property
    def leader(self) -> Leader:
        """Return who sends effects under this holder's term."""
        return Leader(self.stage.port, self.term, self.name)
