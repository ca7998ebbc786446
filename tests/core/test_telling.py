"""A handover in one sentence, in both languages."""

from __future__ import annotations

import pytest

from gateway.core.telling import Passage, in_english, in_portuguese

REASONS = {
    "expired": ("the leader of f lost its renewal", "o líder de f perdeu a renovação"),
    "released": ("the leader of f gave its lease back", "o líder de f devolveu a liderança"),
    "drained": ("the leader of f stepped down", "o líder de f encerrou seu mandato"),
    "handed-off": ("the leader of f handed off", "o líder de f passou a liderança"),
    "superseded": ("the leader of f was started again", "o líder de f foi reiniciado"),
    None: ("the leadership of f changed", "a liderança de f mudou"),
    "a word of tomorrow": ("the leadership of f changed", "a liderança de f mudou"),
}


@pytest.mark.parametrize(("reason", "begin"), REASONS.items())
def test_each_end_of_a_leadership_has_its_words(reason: str | None, begin: tuple[str, str]):
    passage = Passage(function="f", reason=reason, led_now=True)

    assert in_english(passage) == (
        f"{begin[0]}; a new leader commands; no effect is left unfinished"
    )
    assert in_portuguese(passage) == (
        f"{begin[1]}; um novo líder comanda; nenhum efeito ficou pendente"
    )


def test_a_report_that_is_half_done_is_told_with_what_is_left():
    passage = Passage(
        function="relatorio-comercial-diario", reason="expired", led_now=False,
        unit="relatorio:2026-10-02", items=31, done=18,
    )  # fmt: skip

    assert in_english(passage) == (
        "the leader of relatorio-comercial-diario lost its renewal; no new unit will be admitted "
        "until a new leader commands; 18 of 31 items of relatorio:2026-10-02 are confirmed; the "
        "new leader must reconcile 13"
    )
    assert in_portuguese(passage) == (
        "o líder de relatorio-comercial-diario perdeu a renovação; nenhum ciclo novo será admitido "
        "até que um novo líder assuma; 18 de 31 itens de relatorio:2026-10-02 estão confirmados; o "
        "novo líder deve reconciliar 13"
    )


def test_a_unit_of_which_everything_is_done_leaves_nothing_to_reconcile():
    passage = Passage(function="f", reason="released", led_now=True, unit="u-1", items=3, done=3)

    assert in_english(passage).endswith("; all 3 items of u-1 are confirmed")
    assert in_portuguese(passage).endswith("; os 3 itens de u-1 estão confirmados")


@pytest.mark.parametrize(
    ("unfinished", "en", "pt"),
    [
        (1, "1 effect of earlier terms must be reconciled", "1 efeito de mandatos anteriores"),
        (2, "2 effects of earlier terms must be reconciled", "2 efeitos de mandatos anteriores"),
    ],
)
def test_without_a_unit_effects_are_told(unfinished: int, en: str, pt: str):
    passage = Passage(function="f", reason="expired", led_now=True, unfinished=unfinished)

    assert in_english(passage).endswith(f"; {en}")
    assert in_portuguese(passage).endswith(f"; {pt} a reconciliar")
