"""Alerts on their way to a receiver: signed, at least once, one after another, never lost."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.control import alerts
from gateway.control.alerts import AGAIN_MAX_MS, AlertSender, Receiver, again_in_ms
from gateway.core.errors import LedgerUnavailable, SettingsError
from gateway.settings import load_settings
from gateway.web.case_metrics import CaseMetrics
from gateway.web.metrics import Metrics
from tests.control.office import Office, policies_of
from tests.control.test_cases import act, counted
from tests.control.test_keepers import lines
from tests.house import running_house
from tests.proxy.setting import eventually
from tests.raw_destination import RawDestination, Received, Wire, answer, rst

SECRET = "hush-hush-hush-hush"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def told(receiver: RawDestination) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in receiver.received]


@pytest.fixture
async def receiver() -> AsyncIterator[RawDestination]:
    async with RawDestination() as receiver:
        yield receiver


@pytest.fixture
async def alerting(open_office: Any, receiver: RawDestination) -> Office:
    """An office whose alerts go to `receiver`."""
    opened: Office = await open_office(
        alert_webhook=f"{receiver.url}/hook?room=7", alert_webhook_secret=SECRET
    )
    return opened


def sender_of(office: Office, receiver: RawDestination | None) -> tuple[AlertSender, CaseMetrics]:
    """A sender to be turned by hand. The office's own must have no receiver, or there are two."""
    panel = office.panel
    settings = {}
    if receiver is not None:
        settings = {"alert_webhook": receiver.url, "alert_webhook_secret": SECRET}
    metrics = CaseMetrics(Metrics().registry)
    sender = AlertSender(
        panel.ledger, office.house.gateway.house.outbound, office.clock, metrics, panel.log,
        Receiver.of(load_settings(**settings)),
    )  # fmt: skip
    return sender, metrics


async def test_an_alert_says_what_happened_what_follows_who_acts_and_what_to_do(
    alerting: Office, receiver: RawDestination
) -> None:
    case = await alerting.exception(await alerting.unknown())
    await receiver.until_received(1)

    request = receiver.received[0]
    (said,) = told(receiver)
    assert (request.method, request.target) == ("POST", "/hook?room=7")
    assert request.header("Content-Type") == "application/json"
    assert request.header("Fence-Alert-Id") == said["id"]
    assert said["kind"] == "exception-opened"
    assert said["says"] == "An exception of relatorio needs a person: no-guard."
    assert "Nobody knows whether POST /k-1 took effect at crm" in said["consequence"]
    assert said["responsible"] == "ops-comercial"
    assert "look at crm, then confirm" in said["next_action"]
    assert said["about"]["exception_id"] == case["id"]
    assert said["links"] == {
        "exception": f"/v1/exceptions/{case['id']}",
        "effect": f"/v1/effects/{case['effect_id']}",
        "function": "/v1/functions/relatorio",
    }
    await eventually(lambda: counted(alerting, "alerts_delivered_total", 1))
    await eventually(lambda: counted(alerting, "alerts_waiting", 0))


async def test_the_receiver_can_tell_whose_it_is_and_how_old(
    alerting: Office, receiver: RawDestination
) -> None:
    await alerting.unknown()
    await receiver.until_received(1)

    (request,) = receiver.received
    at, _, mac = (request.header("Fence-Signature") or "").partition(",v1=")
    at_s = at.removeprefix("t=")
    expected = hmac.new(SECRET.encode(), f"{at_s}.".encode() + request.body, hashlib.sha256)
    assert mac == expected.hexdigest()
    assert int(at_s) == alerting.clock.wall_ms() // 1000


async def test_a_receiver_that_is_down_for_a_while_gets_it_later_under_the_same_id(
    open_office: Any,
) -> None:
    port = free_port()
    office: Office = await open_office(
        alert_webhook=f"http://127.0.0.1:{port}/hook", alert_webhook_secret=SECRET
    )
    case = await office.exception(await office.unknown())
    await eventually(lambda: counted(office, "alerts_failed_total", 1))
    assert await counted(office, "alerts_delivered_total", 0)
    assert (await act(office, case, "confirm")).status == 200  # nothing waits for the receiver

    receiver = RawDestination()
    receiver.port = port
    receiver.on("/hook", answer(503), answer(204))

    async def delivered_as_time_goes_by() -> bool:
        office.clock.advance(seconds=1)
        return await counted(office, "alerts_delivered_total", 1)

    async with receiver:
        await eventually(delivered_as_time_goes_by)
        office.clock.advance(seconds=600)
        await eventually(lambda: counted(office, "alerts_waiting", 0))

    assert len({request.body for request in receiver.received}) == 1
    ids = [request.header("Fence-Alert-Id") for request in receiver.received]
    assert ids == [told(receiver)[0]["id"]] * 2


async def test_what_was_not_delivered_is_delivered_after_a_restart(tmp_path: Path) -> None:
    async with RawDestination() as crm, RawDestination() as receiver:
        receiver.on("/", answer(500), answer(200))
        hook = {"alert_webhook": receiver.url, "alert_webhook_secret": SECRET}
        async with running_house(tmp_path, policies_of(crm), **hook) as house:
            crm.on("/k-1", rst)
            await house.worker().post("/k-1", "k-1")
            await receiver.until_received(1)
        async with running_house(tmp_path, policies_of(crm), **hook):
            await receiver.until_received(2)

    first, second = told(receiver)
    assert second == first


async def test_one_that_the_receiver_cannot_take_holds_up_no_other(
    office: Office, receiver: RawDestination
) -> None:
    first = ""

    async def picky(request: Received, wire: Wire) -> None:
        nonlocal first
        first = first or json.loads(request.body)["id"]
        stuck = json.loads(request.body)["id"] == first
        await (rst if stuck else answer(200))(request, wire)

    receiver.on("/", picky)
    await quiet(office)
    sender, metrics = sender_of(office, receiver)
    for n in range(3):
        await office.exception(await office.unknown(f"k-{n}"))
    for _ in range(2):
        await sender.turn()

    ids = [one["id"] for one in told(receiver)]
    assert ids == [first, *sorted(ids[1:])]
    assert len(set(ids)) == 3
    assert metrics.alerts_delivered._value.get() == 2


async def test_a_receiver_that_does_not_answer_is_asked_once_a_turn(
    office: Office, receiver: RawDestination
) -> None:
    receiver.on("/", rst)
    await quiet(office)
    sender, _ = sender_of(office, receiver)
    for n in range(3):
        await office.exception(await office.unknown(f"k-{n}"))

    await sender.turn()
    assert len(receiver.received) == 1
    await sender.turn()
    assert len({one["id"] for one in told(receiver)}) == 2


async def test_what_was_delivered_and_could_not_be_noted_is_not_sent_again_and_again(
    office: Office, receiver: RawDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    await quiet(office)
    sender, _ = sender_of(office, receiver)
    await office.exception(await office.unknown())
    ledger = office.panel.ledger
    noted = ledger.alert_sent

    async def full(*_: object) -> None:
        raise LedgerUnavailable("the disk is full")

    monkeypatch.setattr(ledger, "alert_sent", full)
    for _ in range(3):
        with pytest.raises(LedgerUnavailable):
            await sender.turn()
    monkeypatch.setattr(ledger, "alert_sent", noted)
    await sender.turn()

    assert len(receiver.received) == 1
    reader = await ledger.reader()
    assert await reader.alerts_due(ledger.clock.now_ms() + 10**9, 10) == []


async def test_every_alert_is_in_the_log_though_the_receiver_is_down(
    open_office: Any, capfdbinary: Any
) -> None:
    office: Office = await open_office(
        log_level="warning",
        alert_webhook=f"http://127.0.0.1:{free_port()}/s3cr3t-path",
        alert_webhook_secret=SECRET,
    )
    for n in range(3):
        await office.exception(await office.unknown(f"k-{n}"))
    await eventually(lambda: counted(office, "alerts_failed_total", 1))
    await asyncio.sleep(0)

    out = capfdbinary.readouterr().out
    seen = lines(out, "alert")
    assert len({line["alert_id"] for line in seen}) == len(seen) >= 1
    failed = lines(out, "alert-not-delivered")[0]
    assert (failed["error"], failed["tries"]) == ("connect-refused", 1)
    assert b"s3cr3t" not in out
    assert SECRET.encode() not in out


async def test_a_redirect_is_not_followed(alerting: Office, receiver: RawDestination) -> None:
    receiver.on("/hook", answer(307, b"", [("Location", "/elsewhere")]), answer(200))
    await alerting.unknown()
    await eventually(lambda: counted(alerting, "alerts_failed_total", 1))

    assert [request.path for request in receiver.received] == ["/hook"]


async def quiet(office: Office) -> None:
    """Let the office's own keeper of alerts do nothing: the test turns one by hand."""
    for task in asyncio.all_tasks():
        if task.get_name() == "keeper-alerts":
            task.cancel()
    await asyncio.sleep(0)


def test_an_alert_waits_longer_each_time_and_never_longer_than_five_minutes():
    for tries in range(60):
        longest_ms = min(1000 * 2**tries, AGAIN_MAX_MS)
        waits = {again_in_ms(tries) for _ in range(50)}
        assert longest_ms / 2 <= min(waits) <= max(waits) <= longest_ms
        assert len(waits) > 1


def test_the_secret_is_not_shown_by_what_holds_it():
    settings = load_settings(alert_webhook="https://ops.example.com/x", alert_webhook_secret=SECRET)
    receiver = Receiver.of(settings)

    assert receiver is not None
    assert SECRET not in repr(settings) + repr(receiver) + str(replace(receiver))
    assert receiver.destination.name == alerts._LINE
    assert Receiver.of(load_settings()) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"alert_webhook": "http://ops.example.com/hook-s3cr3t"}, "in the clear"),
        ({"alert_webhook": "ftp://ops.example.com/hook-s3cr3t"}, "no place"),
        ({"alert_webhook": "https:///hook-s3cr3t"}, "no place"),
        ({"alert_webhook": "https://u:s3cr3t@ops.example.com/"}, "a user, a password"),
        ({"alert_webhook": "https://ops.example.com/a b-s3cr3t"}, "no place"),
        ({"alert_webhook": "https://ops.example.com:99999/s3cr3t"}, "no place"),
        ({"alert_webhook": "https://ops.example.com/s3cr3t"}, "without alert_webhook_secret"),
        ({"alert_webhook_secret": "s3cr3t"}, "has 6 characters"),
        ({"alert_webhook_secret": "${file:/nowhere/at/all}"}, "'/nowhere/at/all' cannot be read"),
        ({"alert_webhook_secret": 1234567890123456}, "a secret is text"),
    ],
)
def test_a_receiver_that_cannot_be_used_is_refused_without_its_secrets(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(dev=True, **given).check_serving()

    assert said in str(refused.value)
    assert "s3cr3t" not in str(refused.value)
    assert "1234567890123456" not in str(refused.value)


def test_the_secret_may_stand_in_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv("FENCEGATE_ALERT_WEBHOOK", "http://localhost:9/hook")

    for said in (f"${{file:{file}}}", SECRET):
        monkeypatch.setenv("FENCEGATE_ALERT_WEBHOOK_SECRET", said)
        settings = load_settings(dev=True)
        settings.check_serving()
        receiver = Receiver.of(settings)
        assert receiver is not None
        assert receiver.secret == SECRET.encode()
        assert (receiver.destination.host, receiver.destination.port) == ("localhost", 9)
