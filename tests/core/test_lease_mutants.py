"""A table that lets a broken lease machine pass is no guard: each break below must fail a row."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from gateway.core import lease
from tests.core.lease_edges import EDGES, misshown
from tests.core.lease_table import CROSSED, mistakes

# (what is broken, the text in the source, what stands there instead)
LEASE = [
    ("nothing expires", "if now_ms >= lease.expires_at_ms:\n        return lease.end",
     "if False:\n        return lease.end"),
    ("a lease lives on at its expiry",
     "if now_ms >= lease.expires_at_ms:\n        return lease.end",
     "if now_ms > lease.expires_at_ms:\n        return lease.end"),
    ("an expiry is dated when it is met", "lease.end(Ended.EXPIRED, lease.expires_at_ms)",
     "lease.end(Ended.EXPIRED, now_ms)"),
    ("draining never ends", "if lease.drain_until_ms is not None:\n        done_ms",
     "if False:\n        done_ms"),
    ("draining waits for its whole time", "        if in_flight == 0:\n            done_ms",
     "        if False:\n            done_ms"),
    ("draining waits for nothing", "        if in_flight == 0:\n            done_ms",
     "        if True:\n            done_ms"),
    ("draining that is met late ends late", "done_ms = min(done_ms, now_ms)", "done_ms = now_ms"),
    ("draining is over a moment late", "if done_ms <= now_ms and", "if done_ms < now_ms and"),
    ("what expired while draining has drained", " and done_ms < lease.expires_at_ms:", ":"),
    ("drained at its expiry", "done_ms < lease.expires_at_ms", "done_ms <= lease.expires_at_ms"),
    ("an ended lease is ended again",
     "    if lease.ended is not None:\n        return lease\n    if",
     "    if"),
    ("the fence believes in a released lease",
     "    if self.ended_at_ms is not None:\n            until",
     "    if False:\n            until"),
    ("the fence is not told of the draining", "Grant(self.holder, until_ms, self.draining",
     "Grant(self.holder, until_ms, False"),
    ("the margin begins late", "now_ms >= lease.expires_at_ms - margin_ms",
     "now_ms > lease.expires_at_ms - margin_ms"),
    ("no lease is late", "now_ms >= lease.expires_at_ms - margin_ms", "False"),
    ("an expired lease is shown live", "lease.ended is not None or now_ms >= lease.expires_at_ms:",
     "lease.ended is not None:"),
    ("a renewed lease is shown as new", "lease.renewed_at_ms > lease.acquired_at_ms", "False"),
    ("a live lease is taken", "            return _held(lease, now_ms)", "            pass"),
    ("the holder's own question is refused", "if lease.holder == ask.holder and same_principal:",
     "if False:"),
    ("another principal gets the holder's grant",
     "if lease.holder == ask.holder and same_principal:", "if lease.holder == ask.holder:"),
    ("a next incarnation gets the old grant",
     "if lease.holder == ask.holder and same_principal:",
     "if worker_name(lease.holder) == worker_name(ask.holder) and same_principal:"),
    ("nobody supersedes", "if not (supersede and again):", "if True:"),
    ("a next incarnation supersedes unasked", "if not (supersede and again):", "if not again:"),
    ("anybody supersedes", "if not (supersede and again):", "if not supersede:"),
    ("another principal supersedes", "worker_name(ask.holder) and same_principal",
     "worker_name(ask.holder)"),
    ("superseding keeps the term", "        before = lease.end(Ended.SUPERSEDED, now_ms)\n",
     "        return Changed(replace(lease, holder=ask.holder))\n"),
    ("the superseded lease is not ended", "before = lease.end(Ended.SUPERSEDED, now_ms)",
     "before = None"),
    ("another principal's report counts", "if me.principal != ask.principal:", "if False:"),
    ("anyone may lead", "    if why is not None:\n        return Turned(LeaseRefusal.NOT_ELIGIBLE",
     "    if False:\n        return Turned(LeaseRefusal.NOT_ELIGIBLE"),
    ("nobody is waited for", "        if polite is not None:", "        if False:"),
    ("superseding waits for the preferred",
     "    if lease is None or lease.ended is not None:\n        polite",
     "    if True:\n        polite"),
    ("a preferred one is waited for without end",
     "    if left_ms <= 0:\n        return None\n", ""),
    ("a preferred one is waited for a moment longer", "if left_ms <= 0:", "if left_ms < 0:"),
    ("the preference counts from the end alone", "free_since_ms = view.asking_since_ms",
     "free_since_ms = 0"),
    ("the preference counts from the report alone",
     "free_since_ms = max(free_since_ms, view.lease.ended_at_ms)", "pass"),
    ("the first in rank waits for itself",
     "if not ranked or ranked[0].holder == me.holder:", "if not ranked:"),
    ("it is not told how long the lease lasts", "        retry_ms=left_ms,\n    )\n\n\ndef _polite",
     "    )\n\n\ndef _polite"),
    ("it is not told who leads", "        rival=lease.holder,\n        retry_ms",
     "        retry_ms"),
    ("a grant repeats the term", "term=view.last_term + 1", "term=max(view.last_term, 1)"),
    ("a grant counts from the lease", "term=view.last_term + 1",
     "term=(view.lease.term if view.lease else 0) + 1"),
    ("a grant skips a term", "term=view.last_term + 1", "term=view.last_term + 2"),
    ("a grant lasts for ever", "expires_at_ms=view.now_ms + rules.ttl_ms,\n        duration",
     "expires_at_ms=view.now_ms + 2**40,\n        duration"),
    ("any holder is the holder", "lease.holder != ask.holder or lease.term", "lease.term"),
    ("any term is the term", " or lease.term != ask.term:", ":"),
    ("an older term is the term", "lease.term != ask.term", "lease.term < ask.term"),
    ("a newer term is the term", "lease.term != ask.term", "lease.term > ask.term"),
    ("any principal is the holder's", "return ask.operator or lease.principal == ask.principal",
     "return True"),
    ("operators end nothing", "return ask.operator or lease.principal", "return lease.principal"),
    ("an operator renews", "_holds(replace(ask, operator=False), lease)", "_holds(ask, lease)"),
    ("an ended lease is renewed", "lease is None or lease.ended is not None or not _holds(replace",
     "lease is None or not _holds(replace"),
    ("anybody renews", " or not _holds(replace(ask, operator=False), lease):", ":"),
    ("a renewal shortens", "max(lease.expires_at_ms, view.now_ms + rules.ttl_ms)",
     "view.now_ms + rules.ttl_ms"),
    ("a renewal adds to what is left", "max(lease.expires_at_ms, view.now_ms + rules.ttl_ms)",
     "lease.expires_at_ms + rules.ttl_ms"),
    ("a renewal extends nothing", "max(lease.expires_at_ms, view.now_ms + rules.ttl_ms)",
     "lease.expires_at_ms"),
    ("a renewal is not dated", "            renewed_at_ms=view.now_ms,\n            # Never",
     "            # Never"),
    ("a renewal ends the draining", "            duration_ms=rules.ttl_ms,\n        )\n    )",
     "            duration_ms=rules.ttl_ms,\n            drain_until_ms=None,\n        )\n    )"),
    ("anybody releases",
     "    if lease is None or not _holds(ask, lease):\n"
     "        return _not(LeaseRefusal.NOT_HOLDER, ask, view)\n    if lease.ended in (",
     "    if lease is None:\n"
     "        return _not(LeaseRefusal.NOT_HOLDER, ask, view)\n    if lease.ended in ("),
    ("a release is not given again", "(Ended.RELEASED, Ended.DRAINED)", "(Ended.DRAINED,)"),
    ("an expired lease is released", "(Ended.RELEASED, Ended.DRAINED)",
     "(Ended.RELEASED, Ended.DRAINED, Ended.EXPIRED)"),
    ("a release ends nothing", "Changed(lease.end(Ended.RELEASED, view.now_ms))", "Kept(lease)"),
    ("a release is dated at the expiry", "lease.end(Ended.RELEASED, view.now_ms)",
     "lease.end(Ended.RELEASED, lease.expires_at_ms)"),
    ("anybody steps down",
     "    if lease is None or not _holds(ask, lease):\n"
     "        return _not(LeaseRefusal.NOT_HOLDER, ask, view)\n"
     "    if lease.ended is Ended.DRAINED",
     "    if lease is None:\n"
     "        return _not(LeaseRefusal.NOT_HOLDER, ask, view)\n"
     "    if lease.ended is Ended.DRAINED"),
    ("stepping down again drains for longer", " or (lease.ended is None and lease.draining):", ":"),
    ("what has drained cannot be asked for again", "if lease.ended is Ended.DRAINED or (",
     "if ("),
    ("stepping down takes effect at once", "drain_until_ms=view.now_ms + drain_ms",
     "drain_until_ms=view.now_ms"),
    ("stepping down idly still drains", "Changed(lapse(draining, view.now_ms, view.in_flight))",
     "Changed(draining)"),
    ("a hand-off is not given again",
     "if lease is not None and lease.handed_by == _handing(ask) and _names(to, lease.holder):",
     "if False:"),
    ("a hand-off to another is answered with the first",
     "lease.handed_by == _handing(ask) and _names(to, lease.holder)",
     "lease.handed_by == _handing(ask)"),
    ("another principal is given the hand-off", "{ask.holder}/{ask.term}/{ask.principal}",
     "{ask.holder}/{ask.term}"),
    ("any term is given the hand-off", "{ask.holder}/{ask.term}/{ask.principal}",
     "{ask.holder}/{ask.principal}"),
    ("anybody hands off", "if lease is None or not _holds(ask, lease) or lease.ended not in",
     "if lease is None or lease.ended not in"),
    ("what is over is handed off", " or lease.ended not in (None, Ended.DRAINED):", ":"),
    ("what has drained is not handed off", "lease.ended not in (None, Ended.DRAINED)",
     "lease.ended is not None"),
    ("what is handed off is not ended",
     "before = lease.end(Ended.HANDED_OFF, view.now_ms) if lease.ended is None else None",
     "before = None"),
    ("handed off to oneself", "and c.holder != besides]", "]"),
    ("handed off to the asker", "_grant(view, target.holder, target.principal",
     "_grant(view, ask.holder, ask.principal"),
    ("handed off to anybody", "if _names(to, c.holder) and c.holder", "if c.holder"),
    ("a worker's name names nobody", "return to in (holder, worker_name(holder))",
     "return to == holder"),
    ("a worker's name alone counts", "return to in (holder, worker_name(holder))",
     "return worker_name(to) == worker_name(holder)"),
    ("handed off to whoever is named", "    for candidate in rank(named, eligible",
     "    for candidate in named or rank(named, eligible"),
    ("it is not told who leads instead", "but {found}.\", rival=rival)", "but {found}.\")"),
]  # fmt: skip


def broken(old: str, new: str) -> ModuleType:
    source = Path(str(lease.__file__)).read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in the source"
    made = ModuleType(lease.__name__)  # dataclasses look their module up by its name
    exec(compile(source.replace(old, new), "<broken>", "exec"), made.__dict__)
    return made


@pytest.mark.parametrize(
    ("old", "new"),
    [pytest.param(*rest, id=name) for name, *rest in LEASE],
)
def test_a_break_of_the_machine_fails_a_row(old: str, new: str, request: pytest.FixtureRequest):
    module = broken(old, new)

    killed_by = mistakes(module, [*EDGES, *CROSSED]) + misshown(module)

    print(f"{request.node.callspec.id}: {len(killed_by)} rows, the first {killed_by[:1]}")
    assert killed_by


def test_no_two_breaks_have_one_name():
    names = [name for name, _, _ in LEASE]

    assert len(set(names)) == len(names)
