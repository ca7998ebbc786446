"""Names, terms, keys and ids: which forms come in, and what they are worth."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import Malformed
from gateway.core.ids import (
    MAX_TERM,
    EffectKey,
    effect_mark,
    new_effect_id,
    parse_key,
    parse_name,
    parse_term,
)


@pytest.mark.parametrize(
    ("text", "term"),
    [("1", 1), ("7", 7), ("10", 10), ("9007199254740991", 2**53 - 1)],
)
def test_a_term_is_plain_decimal_digits(text: str, term: int):
    assert parse_term(text) == term


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "00", "01", "007", "-1", "+1", "1.0", "1e3", "0x1", "1_000", " 1", "1 ", "1\n",
        "1,2", "9007199254740992", "9999999999999999", "10000000000000000", "1" * 5000,
        "\u0661", "\uff11", "1\u0660", "\u00b2", "one", '"1"',
    ],
)  # fmt: skip
def test_a_term_is_nothing_else_and_the_refusal_shows_it(text: str):
    with pytest.raises(Malformed) as refused:
        parse_term(text)

    assert repr(text[:40]) in str(refused.value)
    assert str(MAX_TERM) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("abc", "abc"),
        ('"abc"', "abc"),
        ('"a b"', "a b"),
        (r'"a\"b\\c"', r'a"b\c'),
        ('"abc";v=1', "abc"),
        ('"abc"; v=1; w', "abc"),
        ("relatorio:2026-10-02/item+7=x@y~z_.", "relatorio:2026-10-02/item+7=x@y~z_."),
        (":YWJj:", ":YWJj:"),  # as written: it is never decoded
        ('":YWJj:"', ":YWJj:"),
        ('"a, b"', "a, b"),
        ("1", "1"),
        ("a" * 255, "a" * 255),
        ('"' + "a" * 255 + '"', "a" * 255),
    ],
)
def test_a_key_may_be_quoted_or_bare(text: str, key: str):
    assert parse_key(text) == key


@pytest.mark.parametrize(
    "text",
    [
        "", " ", '""', '" "', '"', '"abc', 'abc"', '"a"b"', '"a"b', "a b", " abc", "abc ", "abc\n",
        '"a"\n', "abc,def", '"a";v=1, b', '"abc", "def"', '"abc","def"', "abc;v=1", '"abc";v="x"',
        "a'b", "a\\b", "a*b", r'"a\x"', '"a\tb"', '"a\x7fb"', '"caf\u00e9"', "caf\u00e9",
        "\uff41", "a\x00", "\ud83d", "a" * 256, '"' + "a" * 256 + '"', '"' + r"\"" * 256 + '"',
    ],
)  # fmt: skip
def test_a_key_of_another_form_is_refused_and_shown(text: str):
    with pytest.raises(Malformed) as refused:
        parse_key(text)

    assert repr(text[:80]) in str(refused.value)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=255))
@settings(max_examples=100, deadline=None, database=None)
def test_every_printable_key_survives_its_quotes(key: str):
    quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'

    if key.strip():
        assert parse_key(quoted) == key
    else:
        with pytest.raises(Malformed):
            parse_key(quoted)


@pytest.mark.parametrize(
    "text", ["a", "ana#4f2a", "relatorio-comercial:2026-10-02", "A.b_c@d~" * 25]
)
def test_a_name_comes_back_as_it_is(text: str):
    assert parse_name("Fence-Holder", text) == text


@pytest.mark.parametrize(
    "text", ["", "a b", "a/b", "\u00e1", "a\n", "a,b", '"a"', "a" * 201, "a%20"]
)
def test_a_name_of_another_form_is_refused_by_its_header(text: str):
    with pytest.raises(Malformed, match="Fence-Unit is "):
        parse_name("Fence-Unit", text)


def test_effect_ids_sort_by_their_birth():
    births = [0, 1, 1_759_300_000_000, 1_759_300_000_001, 2**48 - 1]

    ids = [new_effect_id(birth) for birth in births]

    assert ids == sorted(ids)
    assert {len(one) for one in ids} == {26}
    assert set("".join(ids)) <= set("0123456789abcdefghjkmnpqrstvwxyz")


def test_effects_of_one_millisecond_have_ids_of_their_own():
    assert len({new_effect_id(1) for _ in range(1000)}) == 1000


def test_a_mark_is_the_same_in_every_version():
    mark = effect_mark(EffectKey("crm", "report", "report:2026-10-02", "k-1"))

    assert mark == "7443e8bcd1bf23d7680d07edf1616208"


def test_each_part_of_the_key_counts_for_the_mark_and_in_its_own_place():
    keys = [
        EffectKey("crm", "report", "", "k-1"),
        EffectKey("erp", "report", "", "k-1"),
        EffectKey("crm", "sweep", "", "k-1"),
        EffectKey("crm", "report", "u", "k-1"),
        EffectKey("crm", "report", "", "k-2"),
        EffectKey("crm", "report", "k-1", ""),
        EffectKey("crm", "report", "k", "-1"),
        EffectKey("crmreport", "", "", "k-1"),
    ]

    marks = {effect_mark(key) for key in keys}

    assert len(marks) == len(keys)
    assert {len(mark) for mark in marks} == {32}


def test_a_key_knows_neither_holder_nor_term():
    # so that a successor meets the record, and the mark, of its predecessor
    assert set(EffectKey._fields) == {"destination", "function", "unit", "key"}
