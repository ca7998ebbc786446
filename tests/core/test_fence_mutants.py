"""A table that lets a broken fence pass is no guard: each break below must fail a row."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from gateway.core import effect, fence
from tests.core import effect_table, fence_table

# (what is broken, the text in the source, what stands there instead)
FENCE = [
    ("equal terms are stale",
     "attempt.term < view.highest_term", "attempt.term <= view.highest_term"),
    ("no term is stale", "if attempt.term < view.highest_term:", "if False:"),
    ("no term is forged", "if attempt.term > view.last_term:", "if False:"),
    ("the last term is forged", "attempt.term > view.last_term", "attempt.term >= view.last_term"),
    ("anybody holds the grant",
     "if not (_is_holder(attempt, view) if named else _may_call(attempt, view)):", "if False:"),
    ("a name is enough", "return view.is_grantee or by_gateway", "return True or by_gateway"),
    ("a claim excuses the leader's name",
     "(_is_holder(attempt, view) if named else _may_call(attempt, view))",
     "((named and _is_holder(attempt, view)) or _may_call(attempt, view))"),
    ("the principal alone holds the grant", "named = view.grant is not None and",
     "named = view.is_grantee or view.grant is not None and"),
    ("the gateway may not send again", "isinstance(attempt, Attempt) and attempt.resend", "False"),
    ("the gateway may use any name", "named = view.grant is not None and",
     "named = getattr(attempt, 'resend', False) or view.grant is not None and"),
    ("nobody but the grantee uses its name", " or attempt.rules.callers is Callers.ANY", ""),
    ("the principal comes before the term",
     "if attempt.term < view.highest_term:\n        return Refusal.STALE_TERM",
     "if view.grant is not None and not view.is_grantee:\n"
     "        return Refusal.NOT_HOLDER\n"
     "    if attempt.term < view.highest_term:\n        return Refusal.STALE_TERM"),
    ("forged terms come before stale ones",
     "if attempt.term < view.highest_term:\n        return Refusal.STALE_TERM",
     "if attempt.term > view.last_term and attempt.rules.authority is Authority.LEASE:\n"
     "        return Refusal.TERM_NEVER_ISSUED\n"
     "    if attempt.term < view.highest_term:\n        return Refusal.STALE_TERM"),
    ("the holder comes before the term", "            if attempt.term > view.last_term:",
     "            if view.grant is not None and view.grant.holder != attempt.holder:\n"
     "                return Refusal.NOT_HOLDER\n"
     "            if attempt.term > view.last_term:"),
    ("a claim is not asked for", "return view.has_claim", "return True"),
    ("a claim does not count", "return view.has_claim", "return False"),
    ("a claim counts for leaders only", "case Callers.LEADER:\n            return False",
     "case Callers.LEADER:\n            return view.has_claim"),
    ("any is nobody", "case Callers.ANY:\n            return True",
     "case Callers.ANY:\n            return False"),
    ("jumps pass", "and jump > rules.max_term_jump", "and jump < 0"),
    ("the bound itself is a jump", "jump > rules.max_term_jump", "jump >= rules.max_term_jump"),
    ("the first term is a jump", "if view.highest_term and rules", "if rules"),
    ("contested terms pass", "if contested and not _may_call(attempt, view):", "if False:"),
    ("a higher term is contested",
     "contested = attempt.term == view", "contested = attempt.term >= view"),
    ("a term nobody holds is free", "attempt.holder != view.holder",
     "view.holder not in (None, attempt.holder)"),
    ("the fingerprint is not compared",
     "if not prior.fingerprint.same_request(attempt.fingerprint):", "if False:"),
    ("a corrected request is a reused key",
     "if prior.outcome in FREE_AGAIN and not prior.abandoned:",
     "if prior.fingerprint.same_request(attempt.fingerprint) and prior.outcome in FREE_AGAIN:"),
    ("in flight comes before the fingerprint",
     "    if not prior.fingerprint.same_request(attempt.fingerprint):",
     "    if prior.outcome is None:\n        return Refusal.IN_FLIGHT\n"
     "    if not prior.fingerprint.same_request(attempt.fingerprint):"),
    ("in flight is admitted again", "return Refusal.IN_FLIGHT", "return None"),
    ("unknown is admitted again", "else Refusal.OUTCOME_UNKNOWN", "else None"),
    ("abandoned is admitted again", "return Refusal.EFFECT_ABANDONED", "return None"),
    ("abandoned is unknown", "if prior.abandoned:", "if False:"),
    ("confirmed is admitted again", "attempt.on_duplicate is OnDuplicate.REJECT else prior",
     "attempt.on_duplicate is OnDuplicate.REJECT else None"),
    ("every duplicate is replayed", "if attempt.on_duplicate is OnDuplicate.REJECT", "if False"),
    ("attempts are never exhausted", "if prior.rejected >= attempt.max_attempts:", "if False:"),
    ("one attempt too many", "prior.rejected >= attempt", "prior.rejected > attempt"),
    ("all attempts are counted", "prior.rejected >= attempt", "prior.attempts >= attempt"),
    ("a lease lives on at its end", "view.now_ms >= view.grant", "view.now_ms > view.grant"),
    ("no lease expires", " or view.now_ms >= view.grant.expires_at_ms:", ":"),
    ("no lease is needed", "if view.grant is None or view.now_ms",
     "if view.grant is None:\n        return None\n    if view.now_ms"),
    ("external terms need a lease", "if attempt.rules.authority is not Authority.LEASE:",
     "if False:"),
    ("a draining leader starts new effects", "if view.grant.draining else None",
     "if False else None"),
    ("draining comes before expiry", "    if view.grant is None or view.now_ms",
     "    if view.grant is not None and view.grant.draining:\n"
     "        return Refusal.LEADER_DRAINING\n"
     "    if view.grant is None or view.now_ms"),
    ("unknown units pass", "if attempt.rules.registered_units and view.unit is None:", "if False:"),
    ("every unit must be registered", "attempt.rules.registered_units and ", ""),
    ("closed units pass", "if view.unit is UnitState.CLOSED:", "if False:"),
    ("the lease comes before the key", "spent = _spent_key(attempt, view.prior)",
     "spent = _liveness(attempt, view) or _spent_key(attempt, view.prior)"),
    ("the key comes before the term", "refusal = _authority(attempt, view)",
     "refusal = None if view.prior else _authority(attempt, view)"),
    ("the barrier comes before the lease", "refusal = _liveness(attempt, view)",
     "refusal = None if _predecessor(attempt, view) else _liveness(attempt, view)"),
    ("no barrier", "predecessor = _predecessor(attempt, view)", "predecessor = None"),
    ("the leader waits for itself",
     "if open_.term < attempt.term", "if open_.term <= attempt.term"),
    ("the barrier ignores the seal", "return unsealed(older, view.now_ms)",
     "return older[0] if older else None"),
    ("no term is raised", "raises = attempt.term > view.highest_term", "raises = False"),
    ("every term is raised", "raises = attempt.term > view.highest_term", "raises = True"),
    ("a key's refusal raises nothing", "Refuse(spent, raises, view.prior)",
     "Refuse(spent, False, view.prior)"),
    ("a replay raises nothing", "Replay(spent.effect_id, raises)", "Replay(spent.effect_id)"),
    ("a lease's refusal raises nothing", "Refuse(refusal, raises)", "Refuse(refusal)"),
    ("a wait raises nothing", "Wait(predecessor, raises)", "Wait(predecessor)"),
    ("an admission raises nothing", "if view.prior else 1, raises)", "if view.prior else 1)"),
    ("a refused term is raised", "        return Refuse(refusal)\n",
     "        return Refuse(refusal, attempt.term > view.highest_term)\n"),
    ("attempts are numbered by rejections", "view.prior.attempts + 1", "view.prior.rejected + 1"),
]  # fmt: skip

EFFECT = [
    ("an unknown key is free", "frozenset({Outcome.REJECTED, Outcome.NO_EFFECT})",
     "frozenset({Outcome.REJECTED, Outcome.NO_EFFECT, Outcome.UNKNOWN})"),
    ("a no-effect key is spent", "{Outcome.REJECTED, Outcome.NO_EFFECT}", "{Outcome.REJECTED}"),
    ("versions are not compared", "if self.version != other.version:", "if False:"),
    ("no canonical form equals no canonical form", "self.canonical is not None and ", ""),
    ("only raw bytes count", "self.raw == other.raw or (", "self.raw == other.raw and ("),
    ("a seal holds one moment longer", "if now_ms < attempt.seal_at_ms",
     "if now_ms <= attempt.seal_at_ms"),
    ("the deadline is the seal", "if now_ms < attempt.seal_at_ms",
     "if now_ms < attempt.deadline_at_ms"),
    ("the shortest is waited for", "return max(running", "return min(running"),
    ("the last attempt speaks for all", "if Outcome.CONFIRMED in seen:",
     "if last:\n        return last\n    if Outcome.CONFIRMED in seen:"),
    ("in flight beats confirmed", "    if Outcome.CONFIRMED in seen:",
     "    if None in seen:\n        return None\n    if Outcome.CONFIRMED in seen:"),
    ("unknown beats in flight", "    if None in seen:",
     "    if Outcome.UNKNOWN in seen:\n        return Outcome.UNKNOWN\n    if None in seen:"),
    ("unknown is forgotten", "Outcome.UNKNOWN if Outcome.UNKNOWN in seen else last", "last"),
    ("an unknown attempt keeps", "if known in (None, Outcome.UNKNOWN):", "if known is None:"),
    ("an operator's word is final", "if decided and", "if False and"),
    ("an answer is taken back", "if decided and", "if"),
    ("any late answer changes an operator's word", " and answer is Outcome.CONFIRMED:",
     ":\n        return answer\n    if False:"),
]  # fmt: skip


def broken(module: ModuleType, old: str, new: str) -> ModuleType:
    source = Path(str(module.__file__)).read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {module.__file__}"
    made = ModuleType(module.__name__)  # dataclasses look their module up by its name
    exec(compile(source.replace(old, new), "<broken>", "exec"), made.__dict__)
    return made


@pytest.mark.parametrize(("old", "new"), [pytest.param(*rest, id=name) for name, *rest in FENCE])
def test_a_break_of_the_fence_fails_a_row(old: str, new: str, request: pytest.FixtureRequest):
    killed_by = fence_table.mistakes(broken(fence, old, new))

    print(f"{request.node.callspec.id}: {len(killed_by)} rows, the first {killed_by[:1]}")
    assert killed_by


@pytest.mark.parametrize(("old", "new"), [pytest.param(*rest, id=name) for name, *rest in EFFECT])
def test_a_break_of_the_effects_fails_a_row(
    old: str, new: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    broken_effect = broken(effect, old, new)
    monkeypatch.setitem(sys.modules, "gateway.core.effect", broken_effect)
    fence_upon_it = broken(fence, "def decide(", "def decide(")

    killed_by = effect_table.mistakes(broken_effect) + fence_table.mistakes(fence_upon_it)

    print(f"{request.node.callspec.id}: {len(killed_by)} rows, the first {killed_by[:1]}")
    assert killed_by
