"""What every run promises, and how it is seen on record that it was kept."""

from __future__ import annotations

from collections import Counter

from gateway.demo.record import NOTES, Record, Row, at_ms


def intended(record: Record) -> set[str]:
    """Return what the CRM should have: a note for each item, and one report for each unit."""
    names = [one["item"] for one in record.items] + [one["unit"] for one in record.units]
    return {f"POST {NOTES} {name}" for name in names}


def broken_promises(record: Record) -> list[str]:
    """Say what every scenario promises and this one did not keep."""
    broken: list[str] = []
    if record.duplicates:
        broken.append(f"the CRM counts {record.duplicates} duplicates")
    applied = Counter(one.intent for one in record.applied)
    wanted = intended(record)
    broken += [
        f"{intent!r} is in the CRM {applied[intent]} times, intended {intent in wanted:d}"
        for intent in sorted(wanted | applied.keys())
        if applied[intent] != (intent in wanted)
    ]
    broken += [f"{one.effect} went past the gateway" for one in record.applied if not one.term]
    broken += [f"the CRM saw the header {name}" for name in record.leaked]
    broken += [f"the unit {one['unit']} is {one['state']}" for one in _unfinished(record)]
    broken += [
        f"effect {one['id']} is {one['outcome'] or 'in flight'}, and in nobody's hands"
        for one in record.open_effects
    ]
    return broken + _unrecorded(record) + _overtaken(record)


def _unfinished(record: Record) -> list[Row]:
    return [one for one in record.units if one["state"] != "unit-completed"]


def _unrecorded(record: Record) -> list[str]:
    """Every term has a grant on record, and each but the last an end."""
    terms = [one["term"] for one in record.acquired]
    last = record.lease["term"]
    missing = [term for term in range(1, last + 1) if term not in terms]
    endless = [term for term in range(1, last) if record.lost(term) is None]
    broken = [f"the grant of term {term} is not in the journal" for term in missing]
    broken += [f"the end of term {term} is not in the journal" for term in endless]
    if terms != sorted(set(terms)):
        broken.append(f"terms were granted in the order {terms}")
    return broken


def _overtaken(record: Record) -> list[str]:
    """Nothing was admitted under a term once a newer one was granted."""
    granted_ms = {one["term"]: at_ms(one["at"]) for one in record.acquired}
    return [
        f"effect {effect['id']} was admitted under term {attempt['term']} after the grant of "
        f"term {newer}"
        for effect in record.effects
        for attempt in effect["attempts"]
        for newer, at in granted_ms.items()
        if newer > attempt["term"] and at_ms(attempt["created_at"]) > at
    ]
