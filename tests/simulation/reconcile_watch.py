"""The promises about unknown effects, checked against the ledger's tables and the truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.core.effect import FREE_AGAIN, Outcome
from gateway.store import case_queries
from gateway.store.case_records import UnknownEffect
from tests.simulation.destination import hold
from tests.simulation.reconcile_destination import LAG_MS, Destination
from tests.simulation.watch import Snapshot, Watch


class ReconcileWatch(Watch):
    """Looks at the ledger from beside it after every step."""

    def __init__(self, path: Path, destination: Destination) -> None:
        super().__init__(path, destination)  # type: ignore[arg-type]
        self._truth_of = destination
        self._checked = 0

    # -- reading

    async def rows(self, text: str, given: Sequence[Any]) -> list[Any]:
        return self.ask(text, *given)

    def ask(self, text: str, *given: Any) -> list[Any]:
        return self._db.execute(text, given).fetchall()

    async def unknown(self, effect_id: str) -> UnknownEffect | None:
        return await case_queries.unknown_effect(self.rows, effect_id)

    def open_cases(self) -> dict[str, str]:
        return dict(
            self.ask("SELECT effect_id, reason FROM exception_case WHERE closed_at_ms IS NULL")
        )

    # -- checking

    def _truth(self, now: Snapshot) -> None:
        for effect_id, (outcome, _) in now.effects.items():
            did = self._truth_of.did(effect_id)
            if outcome is Outcome.CONFIRMED:
                hold("I9", did, f"{effect_id} is confirmed, and was never carried out")
            elif outcome in FREE_AGAIN:
                hold("I9", not did, f"{effect_id} is {outcome}, and was carried out")
        for (effect_id, n), attempt in now.attempts.items():
            if attempt.outcome in FREE_AGAIN:
                did = self._truth_of.did_attempt(effect_id, n)
                hold("I9", not did, f"{effect_id}/{n} is {attempt.outcome}, and was carried out")
        self._probes()
        self._verdicts(now)

    def _probes(self) -> None:
        open_probes = self.ask(
            "SELECT effect_id, count(*) FROM probe WHERE ended_at_ms IS NULL AND instance = "
            "(SELECT id FROM instance ORDER BY started_at_ms DESC LIMIT 1) GROUP BY effect_id"
        )
        twice = [one for one in open_probes if one[1] > 1]
        hold("one probe at a time", not twice, f"{twice}")

    def _verdicts(self, now: Snapshot) -> None:
        """Each new verdict from negative probes rests on what it has to rest on."""
        new = self.ask(
            "SELECT id, effect_id, detail, at_ms FROM transition WHERE id > ? "
            "AND kind = 'effect-resolved' AND reason = 'missing' ORDER BY id",
            self._checked,
        )
        for at, effect_id, detail, _ in new:
            self._checked = at
            cited = json.loads(detail)["probes"]
            self._verdict(effect_id, cited, now.highest_term)

    def _verdict(self, effect_id: str, cited: list[int], highest_term: int) -> None:
        marks = ",".join("?" * len(cited))
        probes = self.ask(
            "SELECT n, term, started_at_ms, verdict FROM probe "
            f"WHERE effect_id = ? AND n IN ({marks}) ORDER BY n",
            effect_id, *cited,
        )  # fmt: skip
        (sealed_ms,) = self.ask(
            "SELECT max(seal_at_ms) FROM attempt "
            "WHERE effect_id = ? AND decided = 1 AND reason = 'probe'",
            effect_id,
        )[0]
        began = [one[2] for one in probes]
        hold("I11", len(probes) == len(cited) > 0, f"{effect_id} cites {cited}, there are {probes}")
        early = [at for at in began if at < sealed_ms + LAG_MS]
        hold("I11", not early, f"{effect_id}: asked at {early}, sealed at {sealed_ms}")
        hold("I11", all(one[3] == "missing" for one in probes), f"{effect_id} cites {probes}")
        apart = max(began) - min(began)
        hold("two negatives", apart >= LAG_MS, f"{effect_id}: {apart} ms apart")
        # A term raised by the very batch would have been refused there; none is younger.
        old = [one for one in probes if one[1] != highest_term]
        hold("term of a negative", not old, f"{effect_id}: {old} under {highest_term}")
        later = self.written_since(effect_id)
        hold("superseded", not later, f"{effect_id} is ruled out over {later}")

    def written_since(self, effect_id: str) -> list[Any]:
        """Return the writes to an effect's thing since its first attempt that may have arrived."""
        return self.ask(
            "SELECT b.effect_id, b.n FROM attempt b JOIN (SELECT destination, covers, "
            "min(created_at_ms) AS began_ms FROM attempt WHERE effect_id = ?1 "
            "AND (outcome = 'unknown' OR decided = 1)) a ON b.destination = a.destination "
            "AND b.covers = a.covers WHERE b.effect_id <> ?1 AND b.created_at_ms > a.began_ms",
            effect_id,
        )
