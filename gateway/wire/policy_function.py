"""The words of a function's file, the rules between them, and what the house makes of them.

The rules see to it that the times of a lease fit each other: times that do not would not fail
when they are written, but at the first slow renewal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from gateway.core.candidates import LOSSES_KEPT_MS, CoolOff, Eligibility, Upgrades, VersionRange
from gateway.core.fence import Authority, Callers, FunctionRules
from gateway.core.lease import LeaseRules
from gateway.core.measures import show_duration
from gateway.core.policy import Function
from gateway.wire import policy_forms as forms
from gateway.wire.policy_complaint import Sheet
from gateway.wire.policy_forms import Form, OneOf
from gateway.wire.policy_shape import shape
from gateway.wire.policy_types import Count, Name, SomeDurationMs, Text, Words

_TEXT: Final = {"type": "string", "minLength": 1}
Range = Annotated[VersionRange, Form(forms.version_range, _TEXT)]
Region = Annotated[str, Form(forms.region, _TEXT)]
Worker = Annotated[str, Form(forms.worker_name, {"type": "string", "pattern": "^[^#]+$"})]

DEFAULT_TTL_MS: Final = 20_000
SHORTEST_TTL_MS: Final = 1_000
LONGEST_TTL_MS: Final = 86_400_000
SHORTEST_RENEWAL_MS: Final = 100
MOST_LOSSES: Final = 20


class LeaseWords(Words):
    """The times of a lease."""

    ttl: SomeDurationMs = Field(
        DEFAULT_TTL_MS, description="How long a grant or a renewal lasts; 20s if left out."
    )
    renew_every: SomeDurationMs | None = Field(
        None, description="How often the leader renews; a quarter of ttl if left out."
    )
    margin: SomeDurationMs | None = Field(
        None,
        description="How long before the expiry a leader without a renewal stops; "
        "3/20 of ttl if left out.",
    )


class CoolOffWords(Words):
    """When a worker that keeps losing leases has to stand back."""

    losses: Count = Field(description="After how many leases that expired under a worker.")
    within: SomeDurationMs = Field(description="Within which time they expired, such as 10m.")
    lasts: SomeDurationMs = Field(description="How long the worker then ranks last, such as 5m.")


class EligibleWords(Words):
    """Which candidates may lead, and which of them should."""

    versions: Range | None = Field(
        None, description='The versions that may lead, such as ">=2026.10,<2027"; all if left out.'
    )
    regions: list[Region] | None = Field(
        None, description="The regions that may lead; all if left out."
    )
    preferred: Worker | None = Field(
        None, description="The worker that leads while it is ready and reports; without #."
    )
    upgrades: Annotated[str, OneOf(*Upgrades)] = Field(
        "oldest-first", description="Which version leads while a new one is rolled out."
    )
    cool_off: CoolOffWords | None = Field(
        None, description="When a worker that keeps losing leases ranks last."
    )


class ExceptionsWords(Words):
    """Who gets what only a person can settle."""

    owner: Text = Field(description="The person or team.")
    deadline: SomeDurationMs = Field(description="By when, such as 4h.")


class FunctionWords(Words):
    """One exclusive function: who grants its terms, and who may act under them."""

    later: ClassVar[Mapping[str, str]] = {}
    fence_policy: Annotated[int, Form(forms.language_version, {"const": 1})] = Field(
        1, description="The version of this language."
    )
    function: Name = Field(description="Its name, as in Fence-Function.")
    authority: Annotated[str, OneOf(*Authority)] = Field(
        description="Who grants terms: lease, this gateway; external, an authority of your own."
    )
    leadership: Annotated[str, OneOf("function", "unit")] = Field(
        "function", description="Whether one leads the function, or each unit has its own."
    )
    lease: LeaseWords | None = Field(
        None, description="The times of a lease, with authority: lease."
    )
    eligible: EligibleWords | None = Field(
        None, description="Who may lead, with authority: lease; all ready candidates if left out."
    )
    max_term_jump: Count | None = Field(
        None,
        description="How far a new term may lie above the highest, with authority: external; "
        "unlimited if left out.",
    )
    callers: Annotated[str, OneOf(*Callers)] = Field(
        "leader",
        description="Who may send effects under a term; leader-or-claimant: also a worker, for an "
        "item that it has claimed.",
    )
    units: Annotated[str, OneOf("free", "registered")] = Field(
        "free",
        description="free: any unit's name is taken as it comes; registered: only effects of a "
        "unit that was created, with its manifest.",
    )
    exceptions: ExceptionsWords | None = Field(None, description="Who gets the exceptions.")


def build_function(data: Any, sheet: Sheet, file: str, digest: str) -> Function | None:
    """Return the function that the words describe, or None after complaining about them."""
    words = shape(FunctionWords, data, sheet, ())
    if words is None:
        return None
    authority = Authority(words.authority)
    lease = None
    if authority is Authority.LEASE:
        lease = lease_rules(words.lease or LeaseWords.model_construct())
        _lint_leased(sheet, words, lease)
    else:
        _refuse_words_of_a_lease(sheet, words)
    if sheet.failed:
        return None
    exceptions = words.exceptions
    return Function(
        name=words.function,
        rules=FunctionRules(
            authority=authority,
            callers=Callers(words.callers),
            max_term_jump=words.max_term_jump,
            registered_units=words.units == "registered",
        ),
        per_unit=words.leadership == "unit",
        lease=lease,
        eligible=_eligibility(words.eligible) if words.eligible else Eligibility(),
        exceptions_owner=exceptions.owner if exceptions else "",
        exceptions_deadline_ms=exceptions.deadline if exceptions else 0,
        digest=digest,
        file=file,
    )


def lease_rules(words: LeaseWords) -> LeaseRules:
    """Return all times of the lease. Two renewals may be missed before a report is stale."""
    renew_every = words.ttl // 4 if words.renew_every is None else words.renew_every
    margin = words.ttl * 3 // 20 if words.margin is None else words.margin
    return LeaseRules(
        ttl_ms=words.ttl,
        renew_every_ms=renew_every,
        margin_ms=margin,
        prefer_for_ms=renew_every,
        fresh_for_ms=2 * renew_every + margin,
    )


def _eligibility(words: EligibleWords) -> Eligibility:
    cool_off = words.cool_off
    return Eligibility(
        versions=words.versions,
        regions=None if words.regions is None else frozenset(words.regions),
        preferred=words.preferred,
        upgrades=Upgrades(words.upgrades),
        cool_off=None
        if cool_off is None
        else CoolOff(losses=cool_off.losses, within_ms=cool_off.within, lasts_ms=cool_off.lasts),
    )


def _refuse_words_of_a_lease(sheet: Sheet, words: FunctionWords) -> None:
    for word in ("lease", "eligible"):
        if getattr(words, word) is not None:
            sheet.error(
                (word,),
                f"{word}: the authority is external, so the gateway chooses no leader here; "
                f"remove {word}, or write authority: lease",
                at_key=True,
            )


def _lint_leased(sheet: Sheet, words: FunctionWords, lease: LeaseRules) -> None:
    if words.max_term_jump is not None:
        sheet.error(
            ("max_term_jump",),
            f"max_term_jump: {words.max_term_jump} means nothing with authority: lease, where the "
            "gateway counts the terms itself; remove it",
            at_key=True,
        )
    complaint = _unfit(lease)
    if complaint is not None:
        word, sentence = complaint
        sheet.error(("lease", word), f"lease: {sentence}")
    if words.eligible is not None:
        _lint_eligible(sheet, words, words.eligible, lease)


def _unfit(lease: LeaseRules) -> tuple[str, str] | None:
    """Return the first thing that is wrong with the times: at which word, and a sentence."""
    ttl, every, margin = (
        show_duration(each) for each in (lease.ttl_ms, lease.renew_every_ms, lease.margin_ms)
    )
    if lease.ttl_ms < SHORTEST_TTL_MS:
        return "ttl", f"ttl {ttl} would end in any pause of a healthy worker; write at least 1s"
    if lease.ttl_ms > LONGEST_TTL_MS:
        return "ttl", f"ttl {ttl} is how long nobody could take over; write 1d or less"
    if lease.renew_every_ms < SHORTEST_RENEWAL_MS:
        least = show_duration(SHORTEST_RENEWAL_MS)
        return "renew_every", f"renew_every {every} keeps the gateway busy; write at least {least}"
    if lease.renew_every_ms >= lease.ttl_ms:
        return "renew_every", f"renew_every {every} is not under ttl {ttl}; write a quarter of ttl"
    if lease.margin_ms >= lease.ttl_ms:
        return "margin", f"margin {margin} is not under ttl {ttl}, so nobody could lead; write less"
    tenths = 22 * lease.renew_every_ms + 10 * lease.margin_ms
    if 10 * lease.ttl_ms > tenths:
        return None
    whole_seconds = show_duration((tenths // 10_000 + 1) * 1_000)
    return "ttl", (
        f"ttl {ttl} has to be more than 2 * 1.1 * renew_every {every} + margin {margin} = "
        f"{show_duration(-(-tenths // 10))} (0.1 is jitter), so that one renewal may fail; "
        f"write ttl: {whole_seconds} or renew more often"
    )


def _lint_eligible(
    sheet: Sheet, words: FunctionWords, eligible: EligibleWords, lease: LeaseRules
) -> None:
    if not eligible.model_fields_set:
        sheet.error(("eligible",), "eligible is empty and asks for nothing; remove it")
    regions = eligible.regions
    if regions == []:
        sheet.error(
            ("eligible", "regions"),
            "regions: [] is an empty list, which nobody is in; list a region, or remove it",
        )
    for at, region in enumerate(regions or ()):
        if region in (regions or ())[:at]:
            sheet.error(
                ("eligible", "regions", at), f"regions: {region!r} is listed twice; remove one"
            )
    if eligible.cool_off is not None:
        _lint_cool_off(sheet, words, eligible.cool_off, lease)


def _lint_cool_off(
    sheet: Sheet, words: FunctionWords, cool_off: CoolOffWords, lease: LeaseRules
) -> None:
    losses = cool_off.losses
    if losses > MOST_LOSSES:
        sheet.error(
            ("eligible", "cool_off", "losses"),
            f"losses: {losses} are more than are counted; write at most {MOST_LOSSES}",
        )
        return
    if cool_off.within + cool_off.lasts > LOSSES_KEPT_MS:
        sheet.error(
            ("eligible", "cool_off", "within"),
            f"cool_off: within {show_duration(cool_off.within)} and lasts "
            f"{show_duration(cool_off.lasts)} are more than the {show_duration(LOSSES_KEPT_MS)} "
            "for which losses are kept; write less",
        )
        return
    shortest_ms = (losses - 1) * lease.ttl_ms
    if words.leadership == "function" and shortest_ms > cool_off.within:
        sheet.error(
            ("eligible", "cool_off", "within"),
            f"cool_off: {losses} losses take at least {losses - 1} * ttl "
            f"{show_duration(lease.ttl_ms)} = {show_duration(shortest_ms)}, and never come within "
            f"{show_duration(cool_off.within)}; write more, or fewer losses",
        )
