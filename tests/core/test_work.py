"""The rules of units of work, and that a broken one fails a row of their table."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import work
from tests.core.work_table import mistakes

# (what is broken, the text in the source, what stands there instead)
WORK = [
    ("a claim of any state is live", "item.state is ItemState.CLAIMED\n        and ", ""),
    ("anybody's claim is one's own", "        and item.worker == worker\n", ""),
    ("a claim outlives its term", "        and item.term == term\n", ""),
    ("a claim lives at its expiry", "and now_ms < item.expires_at_ms",
     "and now_ms <= item.expires_at_ms"),
    ("a claim never expires", "        and now_ms < item.expires_at_ms\n", ""),
    ("pending items are kept", "    if item.state is ItemState.PENDING:\n        return True",
     "    if item.state is ItemState.PENDING:\n        return False"),
    ("what is not claimed is handed out", "    if item.state is not ItemState.CLAIMED:\n",
     "    if False:\n"),
    ("claims of an older term are kept", "return item.term < term or ", "return "),
    ("claims of this term are taken away", "item.term < term", "item.term <= term"),
    ("expired claims are kept", "item.term < term or now_ms >= item.expires_at_ms",
     "item.term < term"),
    ("an expired claim is kept for a moment", "or now_ms >= item.expires_at_ms",
     "or now_ms > item.expires_at_ms"),
    ("a report on nothing is taken",
     "    if item is None:\n        return WorkRefusal.ITEM_UNKNOWN\n    if item.attempt",
     "    if item is None:\n        return None\n    if item.attempt"),
    ("any attempt may be reported", "if item.attempt != attempt:", "if False:"),
    ("nobody settles what is uncertain",
     "    if item.state is ItemState.UNCERTAIN and leads:\n        return None\n", ""),
    ("anybody settles what is uncertain", "ItemState.UNCERTAIN and leads:",
     "ItemState.UNCERTAIN:"),
    ("the leader settles everything", "item.state is ItemState.UNCERTAIN and leads:", "leads:"),
    ("anybody reports", "item.worker != worker or item.term != term:", "item.term != term:"),
    ("a report outlives its term", "item.worker != worker or item.term != term:",
     "item.worker != worker:"),
    ("claimed items are not reported on", "(ItemState.CLAIMED, ItemState.UNCERTAIN, state)",
     "(ItemState.UNCERTAIN, state)"),
    ("uncertain stays uncertain", "(ItemState.CLAIMED, ItemState.UNCERTAIN, state)",
     "(ItemState.CLAIMED, state)"),
    ("a report is not heard again", "(ItemState.CLAIMED, ItemState.UNCERTAIN, state)",
     "(ItemState.CLAIMED, ItemState.UNCERTAIN)"),
    ("what is final changes", "return WorkRefusal.NOT_CLAIMED  # what is final", "return None  #"),
    ("a checkpoint of nothing is taken",
     "        return WorkRefusal.ITEM_UNKNOWN\n    if not claim_is_live",
     "        return None\n    if not claim_is_live"),
    ("a checkpoint needs no claim", "if not claim_is_live(item, worker, term, now_ms):",
     "if False:"),
    ("checkpoints overwrite each other", "if item.checkpoint_version != expected_version:",
     "if False:"),
    ("checkpoints skip", "if item.checkpoint_version != expected_version:",
     "if item.checkpoint_version > expected_version:"),
    ("the manifest may change", "given_digest is not None and given_digest != recorded_digest",
     "False"),
    ("a digest must be named", "given_digest is not None and given_digest != recorded_digest",
     "given_digest != recorded_digest"),
    ("pending items are forgotten", "(ItemState.PENDING, ItemState.CLAIMED, ItemState.UNCERTAIN)",
     "(ItemState.CLAIMED, ItemState.UNCERTAIN)"),
    ("claimed items are forgotten", "(ItemState.PENDING, ItemState.CLAIMED, ItemState.UNCERTAIN)",
     "(ItemState.PENDING, ItemState.UNCERTAIN)"),
    ("uncertain items are forgotten",
     "(ItemState.PENDING, ItemState.CLAIMED, ItemState.UNCERTAIN)",
     "(ItemState.PENDING, ItemState.CLAIMED)"),
    ("effects in flight are forgotten", "    if tally.in_flight:\n", "    if False:\n"),
    ("unknown effects are forgotten", "    if tally.unknown:\n", "    if False:\n"),
    ("failed is not final", "frozenset({ItemState.DONE, ItemState.FAILED, ItemState.ABANDONED})",
     "frozenset({ItemState.DONE, ItemState.ABANDONED})"),
    ("a completed unit is shown open", "    if status is UnitStatus.COMPLETED:\n",
     "    if False:\n"),
    ("an abandoned unit is shown open", "    if status is UnitStatus.ABANDONED:\n",
     "    if False:\n"),
    ("uncertain effects are not shown", "tally.unknown or tally.items", "tally.items"),
    ("uncertain items are not shown", "tally.unknown or tally.items.get(ItemState.UNCERTAIN, 0)",
     "tally.unknown"),
    ("work that has begun is not shown", "    if tally.total > tally.items",
     "    if False and tally.items"),
    ("the digest goes by the order of members", "enumerate(sorted(manifest))",
     "enumerate(manifest)"),
    ("the digest goes by the order within", "json.dumps(value, sort_keys=True",
     "json.dumps(value, sort_keys=False"),
    ("the digest leaves the items out", "for n, part in enumerate(value)",
     "for n, part in enumerate(value[:1])"),
]  # fmt: skip


def broken(old: str, new: str) -> ModuleType:
    source = Path(str(work.__file__)).read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in the source"
    made = ModuleType(work.__name__)  # dataclasses look their module up by its name
    exec(compile(source.replace(old, new), "<broken>", "exec"), made.__dict__)
    return made


def test_the_rules_answer_every_row():
    assert mistakes(work) == []


@pytest.mark.parametrize(("old", "new"), [pytest.param(*rest, id=name) for name, *rest in WORK])
def test_a_break_of_the_rules_fails_a_row(old: str, new: str, request: pytest.FixtureRequest):
    try:
        killed_by = mistakes(broken(old, new))
    except (AttributeError, TypeError) as error:  # looks into what is not there
        killed_by = [str(error)]

    print(f"{request.node.callspec.id}: {len(killed_by)} rows, the first {killed_by[:1]}")
    assert killed_by


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_the_digest_is_that_of_the_whole_canonical_text(manifest: dict[str, object]):
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert work.manifest_digest(manifest) == sha256(text.encode()).hexdigest()
