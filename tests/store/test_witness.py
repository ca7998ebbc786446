"""The witness: what is in the file and when, and what the ledger is held against."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from gateway.core.effect import Outcome
from gateway.core.errors import LedgerUnavailable, StoreError
from gateway.core.ids import Scope
from gateway.store import witness
from gateway.store.backup import back_up
from gateway.store.homes import FileHome
from gateway.store.ledger import Ledger
from gateway.store.witness import Seen, WitnessFile
from tests.conformance.books import BootClock, proposal, settlement

CLOCK = BootClock()


async def opened(folder: Path, ledger: str = "ledger.db") -> Ledger:
    return await Ledger.open_at(FileHome(folder / ledger), CLOCK, witness=folder / "witness")


def seen(folder: Path) -> Seen:
    found = WitnessFile(folder / "witness").load()
    assert found is not None
    return found


async def test_a_term_is_in_the_file_before_anybody_is_told_of_it(tmp_path: Path):
    ledger = await opened(tmp_path)

    await ledger.admit(proposal("e-1", term=7))

    assert seen(tmp_path).scopes == {Scope("report"): (7, 7)}
    await ledger.close()


async def test_under_the_same_term_nothing_is_written_to_the_file(tmp_path: Path):
    ledger = await opened(tmp_path)
    await ledger.admit(proposal("e-1", "k-1"))
    before = (tmp_path / "witness").stat().st_ino

    await ledger.admit(proposal("e-2", "k-2"))

    assert (tmp_path / "witness").stat().st_ino == before
    await ledger.close()


async def test_a_heartbeat_writes_how_far_the_ledger_has_come(tmp_path: Path):
    ledger = await opened(tmp_path)
    await ledger.admit(proposal("e-1"))

    await ledger.beat()

    assert seen(tmp_path).attempt == ("e-1", 1)
    assert seen(tmp_path).transition > 0
    await ledger.close()


async def test_only_its_user_may_read_it(tmp_path: Path):
    await (await opened(tmp_path)).close()

    assert stat.S_IMODE((tmp_path / "witness").stat().st_mode) == 0o600


async def test_a_ledger_that_went_on_is_taken_up_again(tmp_path: Path):
    ledger = await opened(tmp_path)
    await ledger.admit(proposal("e-1", term=7))
    await ledger.close()

    ledger = await opened(tmp_path)

    assert (await ledger.admit(proposal("e-2", "k-2", term=7))).n == 1
    await ledger.close()


async def test_a_ledger_that_lacks_an_attempt_takes_no_write(tmp_path: Path):
    """Its terms are all there: what is missing is one effect, admitted after the copy."""
    ledger = await opened(tmp_path)
    await ledger.admit(proposal("e-1", "k-1"))
    await ledger.settle(settlement("e-1", Outcome.CONFIRMED))
    back_up(tmp_path / "ledger.db", tmp_path / "copy.db")
    await ledger.admit(proposal("e-2", "k-2"))
    await ledger.beat()
    await ledger.close()

    ledger = await opened(tmp_path, "copy.db")

    with pytest.raises(LedgerUnavailable, match="attempt 1 of effect e-2 is not there"):
        await ledger.admit(proposal("e-3", "k-3"))
    await ledger.close()


async def test_what_was_found_older_stays_so_for_a_gateway_without_the_witness(tmp_path: Path):
    ledger = await opened(tmp_path)
    back_up(tmp_path / "ledger.db", tmp_path / "copy.db")
    await ledger.admit(proposal("e-1"))
    await ledger.close()
    await (await opened(tmp_path, "copy.db")).close()

    ledger = await Ledger.open_at(FileHome(tmp_path / "copy.db"), CLOCK)

    with pytest.raises(LedgerUnavailable, match="fencegate recover"):
        await ledger.admit(proposal("e-1"))
    await ledger.close()


async def test_another_ledger_in_its_place_is_noticed(tmp_path: Path):
    await (await opened(tmp_path)).close()

    ledger = await opened(tmp_path, "new.db")

    with pytest.raises(LedgerUnavailable, match="another ledger"):
        await ledger.admit(proposal("e-1"))
    await ledger.close()


@pytest.mark.parametrize("text", ["", "{", "{}", '{"format": 99}', "[1]", "\x00" * 100])
async def test_a_damaged_file_is_a_refusal_to_start_that_says_what_to_do(tmp_path: Path, text: str):
    (tmp_path / "witness").write_text(text)

    with pytest.raises(StoreError, match=r"damaged.*move the file away.*fencegate recover"):
        await opened(tmp_path)


async def test_two_gateways_do_not_share_a_file(tmp_path: Path):
    ledger = await opened(tmp_path)

    with pytest.raises(StoreError, match="a witness of its own"):
        await opened(tmp_path, "other.db")
    await ledger.close()


async def test_a_term_that_cannot_be_witnessed_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = await opened(tmp_path)
    monkeypatch.setattr(WitnessFile, "save", full)

    with pytest.raises(LedgerUnavailable, match="no room"):
        await ledger.admit(proposal("e-1"))

    monkeypatch.undo()
    assert (await ledger.admit(proposal("e-1"))).n == 1  # its own intent, found again
    assert seen(tmp_path).scopes == {Scope("report"): (7, 7)}
    await ledger.close()


def full(file: WitnessFile, seen: Seen) -> None:
    raise OSError(28, "no room")


def test_of_too_many_scopes_the_oldest_count_for_their_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(witness, "SCOPES_MAX", 2)
    seen = Seen()

    for n, term in enumerate((5, 9, 3, 1)):
        seen.raise_terms({Scope("f", f"u-{n}"): (term, term)})

    assert list(seen.scopes) == [Scope("f", "u-2"), Scope("f", "u-3")]
    assert seen.rest == {"f": 9}


def test_terms_in_the_file_only_grow():
    seen = Seen(scopes={Scope("f"): (5, 9)})

    assert not seen.raise_terms({Scope("f"): (4, 9)})
    assert seen.raise_terms({Scope("f"): (6, 6)})
    assert seen.scopes == {Scope("f"): (6, 9)}


def test_what_is_saved_is_read_back(tmp_path: Path):
    file = WitnessFile(tmp_path / "deep" / "witness")
    told = Seen("i", 2, {Scope("f", "u"): (1, 2)}, {"f": 4}, 10, 11, ("e-1", 3), 12)

    file.save(told)

    assert file.load() == told
    assert json.loads(file.path.read_text())["scopes"] == [["f", "u", 1, 2]]
    assert [one.name for one in file.path.parent.iterdir()] == ["witness"]
