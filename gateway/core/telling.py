"""A handover in one sentence, for people who are woken at 7 a.m., in English and Portuguese."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What a sentence about a change of term has to know.

    `reason` is how the leadership before ended (None: unknown, or there was none). `items` and
    `done` are those of the unit in hand; without a unit, `unfinished` effects are told.
    """

    function: str
    reason: str | None
    led_now: bool
    unit: str | None = None
    items: int = 0
    done: int = 0
    unfinished: int = 0


_ENDED_EN: Final[Mapping[str | None, str]] = {
    "expired": "the leader of {f} lost its renewal",
    "released": "the leader of {f} gave its lease back",
    "drained": "the leader of {f} stepped down",
    "handed-off": "the leader of {f} handed off",
    "superseded": "the leader of {f} was started again",
    None: "the leadership of {f} changed",
}
_ENDED_PT: Final[Mapping[str | None, str]] = {
    "expired": "o líder de {f} perdeu a renovação",
    "released": "o líder de {f} devolveu a liderança",
    "drained": "o líder de {f} encerrou seu mandato",
    "handed-off": "o líder de {f} passou a liderança",
    "superseded": "o líder de {f} foi reiniciado",
    None: "a liderança de {f} mudou",
}


def in_english(passage: Passage) -> str:
    begin = _ENDED_EN.get(passage.reason, _ENDED_EN[None]).format(f=passage.function)
    admitted = (
        "a new leader commands"
        if passage.led_now
        else "no new unit will be admitted until a new leader commands"
    )
    if passage.unit is not None:
        left = passage.items - passage.done
        if not left:
            return f"{begin}; {admitted}; all {passage.items} items of {passage.unit} are confirmed"
        return (
            f"{begin}; {admitted}; {passage.done} of {passage.items} items of {passage.unit} are "
            f"confirmed; the new leader must reconcile {left}"
        )
    return f"{begin}; {admitted}; {_effects_en(passage.unfinished)}"


def in_portuguese(passage: Passage) -> str:
    begin = _ENDED_PT.get(passage.reason, _ENDED_PT[None]).format(f=passage.function)
    admitted = (
        "um novo líder comanda"
        if passage.led_now
        else "nenhum ciclo novo será admitido até que um novo líder assuma"
    )
    if passage.unit is not None:
        left = passage.items - passage.done
        if not left:
            return (
                f"{begin}; {admitted}; os {passage.items} itens de {passage.unit} estão confirmados"
            )
        return (
            f"{begin}; {admitted}; {passage.done} de {passage.items} itens de {passage.unit} "
            f"estão confirmados; o novo líder deve reconciliar {left}"
        )
    return f"{begin}; {admitted}; {_effects_pt(passage.unfinished)}"


def _effects_en(n: int) -> str:
    if not n:
        return "no effect is left unfinished"
    word = "effect" if n == 1 else "effects"
    return f"{n} {word} of earlier terms must be reconciled"


def _effects_pt(n: int) -> str:
    if not n:
        return "nenhum efeito ficou pendente"
    word = "efeito" if n == 1 else "efeitos"
    return f"{n} {word} de mandatos anteriores a reconciliar"
