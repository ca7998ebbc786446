"""What a gateway must not start with: it says why, once, in words, and ends with code 3."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.demo.processes import Child, python
from tests.house import FUNCTION, write_policies
from tests.scenarios.stage import Stage

CRM = """
destination: crm
base_url: http://127.0.0.1:9
routes:
  - {match: "GET|HEAD /{rest*}", does: read}
"""
BROKEN = """
destination: crm
base_url: http://127.0.0.1:9
rutes: []
"""


def started(stage: Stage, **changed: str | None) -> Child:
    """Start a gateway with usual options but for what is `changed`; None leaves one out."""
    write_policies(stage.folder / "good", {"crm": CRM, "relatorio": FUNCTION})
    options: dict[str, str | None] = {
        "--policies": str(stage.folder / "good"),
        "--ledger": f"sqlite:///{stage.ledger}",
        "--listen": "127.0.0.1:0",
        "--dev": "",
    }
    options |= {f"--{name.replace('_', '-')}": text for name, text in changed.items()}
    words = [
        word for name, text in options.items() if text is not None for word in (name, text) if word
    ]
    return stage.children.start("refused", python("-m", "gateway", "serve", *words))


async def assert_refused(child: Child, *said: str) -> None:
    """It ended with code 3 and one message that has all of `said` in it."""
    code = await asyncio.to_thread(child.process.wait, 15)
    text = child.tail(100)
    told = [line for line in text.splitlines() if not line.startswith("{")]  # not the log
    assert code == 3, text
    assert "Traceback" not in text
    assert told[0].startswith("fencegate: ")
    assert text.count("fencegate: ") == 1
    for words in said:
        assert words in "\n".join(told)


async def test_without_principals_nobody_could_call(stage):
    child = started(stage, dev=None)

    await assert_refused(child, "no principals file", "--principals", "--dev")


async def test_dev_is_for_loopback_only(stage):
    child = started(stage, listen="0.0.0.0:0")

    await assert_refused(child, "loopback only", "0.0.0.0:0", "127.0.0.1")


async def test_all_wrong_settings_are_told_at_once(stage):
    child = started(stage, listen="0.0.0.0:0", tls_cert="absent.pem")

    await assert_refused(child, "loopback only", "tls_cert is given without tls_key", "absent.pem")


async def test_a_broken_policy_file_is_named_with_its_place(stage):
    write_policies(stage.folder / "broken", {"crm": BROKEN})

    child = started(stage, policies=str(stage.folder / "broken"))

    await assert_refused(child, "crm.yaml:4:", "rutes")


async def test_a_folder_of_policies_that_is_not_there_is_refused(stage):
    child = started(stage, policies=str(stage.folder / "nowhere"))

    await assert_refused(child, "nowhere")


async def test_a_ledger_whose_folder_cannot_be_used_is_refused(stage):
    (stage.folder / "file").write_text("this is no folder")

    child = started(stage, ledger=f"sqlite:///{stage.folder / 'file' / 'ledger.db'}")

    await assert_refused(child, f"{stage.folder / 'file'}", "--ledger")


async def test_a_file_that_is_no_ledger_is_refused_and_left_alone(stage):
    stage.disk.mkdir()
    stage.ledger.write_text("these are somebody's notes, and no database\n" * 100)
    before = stage.ledger.read_bytes()

    child = started(stage)

    await assert_refused(child, "ledger.db", "not a database")
    assert stage.ledger.read_bytes() == before


async def test_a_port_in_use_is_refused_and_leaves_the_ledger_in_order(stage):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        child = started(stage, listen=address)

        await assert_refused(child, f"cannot listen on {address}")
    assert stage.ask_ledger("SELECT count(*) FROM instance WHERE stopped_at_ms IS NULL") == [(0,)]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ledger", "mysql://root:hunter2@db/x", "mysql://…"),
        ("listen", "everywhere", "'everywhere'"),
        ("drain_s", "-1", "-1"),
        ("log_level", "loud", "loud"),
        ("principals", "absent.yaml", "absent.yaml"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_shown_with_its_value(stage, name, text, said):
    child = started(stage, **{name: text})

    await assert_refused(child, said)
    assert "hunter2" not in child.tail(100)


async def test_principals_that_cannot_be_read_are_refused_with_their_place(stage):
    principals = stage.folder / "principals.yaml"
    principals.write_text("principals:\n  - {name: a, role: king}\n")

    child = started(stage, dev=None, principals=str(principals))

    await assert_refused(child, "principals.yaml:2:5", "token_sha256")
