from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.core.errors import PolicyError
from gateway.wire.policy_reload import Reloader

TEXT = """\
destination: crm
base_url: https://crm.example.com
checked: 2026-11-01
login: {kind: bearer, token: "${file:secret/token}"}
routes:
  - {match: "GET /{rest*}", does: read}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("first")
    (tmp_path / "crm.yaml").write_text(TEXT)
    return tmp_path


def rewrite(path: Path, text: str) -> None:
    """Write and make sure that the time of change moves, however coarse the clock is."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def test_an_untouched_folder_is_not_read_again(folder):
    reloader = Reloader(folder, {})

    assert reloader.check() is None


def test_a_good_change_is_offered_and_adopted_by_the_caller(folder):
    reloader = Reloader(folder, {})
    before = reloader.current
    rewrite(folder / "crm.yaml", TEXT + "mode: observe\n")

    offered = reloader.check()

    assert offered is not None
    assert offered.digest != before.digest
    assert reloader.current is before
    reloader.adopt(offered)
    assert reloader.current is offered
    assert reloader.check() is None


def test_a_bad_change_keeps_the_last_good_set_until_it_is_mended(folder):
    reloader = Reloader(folder, {})
    good = reloader.current
    rewrite(folder / "crm.yaml", TEXT + "moed: observe\n")

    assert reloader.check() is None
    assert reloader.current is good
    assert "did you mean mode?" in str(reloader.complaints[0])
    assert reloader.check() is None

    rewrite(folder / "crm.yaml", TEXT)

    mended = reloader.check()
    assert mended is not None
    assert mended.digest == good.digest
    assert reloader.complaints == ()


def test_a_new_file_and_a_removed_one_are_seen(folder):
    reloader = Reloader(folder, {})
    (folder / "sweep.yaml").write_text("function: sweep\nauthority: external\n")

    added = reloader.check()
    (folder / "sweep.yaml").unlink()
    removed = reloader.check()

    assert added is not None
    assert set(added.functions) == {"sweep"}
    assert removed is not None
    assert removed.functions == {}


def test_a_rotated_secret_is_seen_under_the_same_digest(folder):
    reloader = Reloader(folder, {})
    rewrite(folder / "secret" / "token", "other")

    rotated = reloader.check()

    assert rotated is not None
    assert rotated.digest == reloader.current.digest
    assert rotated.destinations["crm"].login.header.value == "Bearer other"


def test_a_secret_that_comes_back_is_seen(folder):
    reloader = Reloader(folder, {})
    (folder / "secret" / "token").unlink()
    assert reloader.check() is None
    assert "cannot be read" in str(reloader.complaints[0])

    (folder / "secret" / "token").write_text("back")

    assert reloader.check() is not None


def test_a_folder_that_vanishes_keeps_the_last_good_set(folder, tmp_path):
    reloader = Reloader(folder, {})
    good = reloader.current
    moved = folder.rename(folder.with_name(folder.name + "-moved"))

    assert reloader.check() is None
    assert reloader.current is good
    assert "cannot be read" in str(reloader.complaints[0])

    moved.rename(folder)
    assert reloader.check() is not None


def test_force_loads_even_what_has_not_changed(folder):
    reloader = Reloader(folder, {})

    assert reloader.force() is not None


def test_a_folder_that_is_bad_from_the_start_is_refused_with_every_complaint(folder):
    (folder / "crm.yaml").write_text(TEXT + "moed: 1\nmdoe: 2\n")

    with pytest.raises(PolicyError, match=r"crm.yaml:7:1: error: .*\n.*crm.yaml:8:1: error: "):
        Reloader(folder, {})
