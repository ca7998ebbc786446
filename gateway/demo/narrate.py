"""How the demo speaks: one line per step, then a table, then what was off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.demo.agents import Reply

WIDTH = 110
WHAT_WIDTH = 43
COMPARED = ("status", "verdict", "reason", "outcome", "after_dispatch")
LINE = "{n:>2} {who:<6} {what:<43} {status:>4} {verdict:<30} {outcome:<9} {got:>3} {did:>3}"
HEADER = LINE.format(
    n="",
    who="who",
    what="what was sent",
    status="",
    verdict="verdict",
    outcome="outcome",
    got="got",
    did="did",
)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a step should give. None means that the step does not say.

    `got` and `did` are the requests that the CRM received because of the step, and the changes
    that it made.
    """

    status: int | None
    verdict: str | None = None
    reason: str | None = None
    outcome: str | None = None
    after_dispatch: str | None = None
    got: int = 0
    did: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step as it was played. `reply` is None while the call is still on the wire."""

    n: int
    who: str
    what: str
    expected: Expected
    reply: Reply | None
    got: int
    did: int

    def faults(self) -> list[str]:
        """Say in what the step differs from what was expected."""
        wanted, found = self.expected, self.reply
        pairs: list[tuple[str, object, object]] = [
            ("the CRM got", wanted.got, self.got),
            ("the CRM did", wanted.did, self.did),
        ]
        if found is not None:
            pairs += [(name, getattr(wanted, name), getattr(found, name)) for name in COMPARED]
            if found.status == 503:  # SDKs retry it by themselves, so it must say when
                pairs.append(("Retry-After is there", True, bool(found.retry_after)))
        return [
            f"step {self.n} ({self.what}): {name} is {actual!r}, expected {expected!r}"
            for name, expected, actual in pairs
            if expected is not None and expected != actual
        ]


def line_of(step: Step) -> str:
    """Write `step` in one line of at most WIDTH columns."""
    reply = step.reply
    line = LINE.format(
        n=step.n,
        who=step.who,
        what=shorten(step.what, WHAT_WIDTH),
        status="..." if reply is None else reply.status,
        verdict=shorten("on the wire" if reply is None else _verdict(reply), 30),
        outcome="" if reply is None else _outcome(reply),
        got=_signed(step.got),
        did=_signed(step.did),
    )
    return f"{line.rstrip()} !!" if step.faults() else line.rstrip()


def _verdict(reply: Reply) -> str:
    verdict = reply.verdict or "(not the gateway)"
    if reply.reason:
        verdict += f": {reply.reason}"
    if reply.after_dispatch:
        verdict += f", {reply.after_dispatch}"
    return verdict


def _outcome(reply: Reply) -> str:
    return reply.outcome or (f"retry {reply.retry_after}s" if reply.retry_after else "")


def _signed(number: int) -> str:
    return f"+{number}" if number else "."


def shorten(text: str, width: int) -> str:
    """Cut `text` to `width` columns."""
    return text if len(text) <= width else text[: width - 2] + ".."


@dataclass(slots=True)
class Narrator:
    """Tells the story line by line and remembers it for the table."""

    say: Callable[[str], None] = print
    steps: list[Step] = field(default_factory=list)

    def header(self) -> None:
        self.say("a/184: replica a under term 184; got and did: requests that the CRM received in")
        self.say("this step, and effects that it carried out")
        self.say(HEADER.rstrip())

    def heading(self, text: str) -> None:
        self.say("")
        self.say(f"-- {text} ".ljust(WIDTH, "-"))

    def step(self, step: Step) -> None:
        self.steps.append(step)
        self.say(line_of(step))

    def faults(self) -> list[str]:
        return [fault for step in self.steps for fault in step.faults()]

    def replayed(self) -> int:
        return sum(_said(step, "replayed") for step in self.steps)

    def refused(self) -> Counter[str]:
        """Count what was refused, by reason."""
        return Counter(step.reply.reason for step in self.steps if step.reply and _refused(step))

    def unknown(self) -> int:
        """Count the calls that ended without a trustworthy answer."""
        replies = [step.reply for step in self.steps if step.reply is not None]
        return sum((it.verdict, it.outcome) == ("forwarded", "unknown") for it in replies)


def _said(step: Step, verdict: str) -> bool:
    return step.reply is not None and step.reply.verdict == verdict


def _refused(step: Step) -> bool:
    return _said(step, "refused")


@dataclass(frozen=True, slots=True)
class Account:
    """The numbers of the closing table that the CRM and the ledger gave."""

    expected_effects: int
    effects: int
    requests: int
    duplicates: int
    from_stale_leader: int
    unknown_left: int


def closing_table(narrator: Narrator, account: Account) -> list[str]:
    """Write the closing table."""
    rows: list[tuple[str, str]] = [
        ("requests that the CRM received", str(account.requests)),
        ("effects at the CRM", f"{account.effects} of {account.expected_effects} intended"),
        ("duplicates at the CRM", str(account.duplicates)),
        ("sent by the old leader after the takeover", str(account.from_stale_leader)),
        ("replayed by the gateway", str(narrator.replayed())),
    ]
    rows += [(f"refused: {why}", str(count)) for why, count in sorted(narrator.refused().items())]
    rows += [("unknown", f"{narrator.unknown()}, still open: {account.unknown_left}")]
    return [f"   {name:<42} {value}" for name, value in rows]


def verdict_lines(faults: Sequence[str], seconds: float) -> list[str]:
    """Write the last words: the promise held, or what was off."""
    if not faults:
        return [
            f"PROMISE KEPT ({seconds:.1f} s): the CRM's own record has every intended effect once,",
            "none twice, and nothing that the old leader sent after the takeover.",
        ]
    return [f"PROMISE BROKEN, or the demo is: {len(faults)} matters are off", *map(_bullet, faults)]


def _bullet(text: str) -> str:
    return f"   !! {text}"
