"""`/v1/destinations` and `/v1/openapi.json`: the policy as loaded, and the paths as described."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.wire.control import DestinationOut, DestinationPage
from tests.control.leading import GOOD, Leader, send
from tests.control.office import SEAL_S, Office
from tests.house import FUNCTION, Got
from tests.proxy.setting import destination
from tests.raw_destination import RawDestination

SECRET = "s3cr3t-of-the-crm"
LOGIN = '{kind: header, name: X-Api-Key, value: "${env:CRM_KEY}"}'
ROUTES = (
    '{name: look, match: "GET|HEAD /{rest*}", does: read}',
    '{name: wipe, match: "DELETE /{rest*}", does: refuse, because: "nobody wipes a CRM"}',
    '{name: note, match: "POST /notes", does: write, guard: none, on_duplicate: reject, '
    'covers: "notes/{body.contact}", key: "{unit}/{body.contact}"}',
)


def policies(crm: RawDestination) -> dict[str, str]:
    return {"crm": destination(crm, *ROUTES, login=LOGIN), "relatorio": FUNCTION}


async def test_a_destination_is_shown_as_loaded_with_the_guarantee_of_each_route(
    open_office: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_KEY", SECRET)
    office: Office = await open_office(policies)

    listed = await office.house.get("/v1/destinations")
    alone = await office.house.get("/v1/destinations/crm")

    shown = DestinationOut.model_validate(alone.json)
    assert DestinationPage.model_validate(listed.json).items == [shown]
    assert (shown.base_url, shown.boundary, shown.mode) == (office.crm.url, "enforced", "enforce")
    assert shown.digest == office.panel.policies().destinations["crm"].digest
    assert (shown.limits["timeout_ms"], shown.limits["settle_ms"]) == (5000, 1000)
    told = {route.name: route for route in shown.routes}
    assert list(told) == ["look", "wipe", "note"]
    assert told["look"].guarantee == "nothing is changed"
    assert told["wipe"].because == "nobody wipes a CRM"
    assert told["note"].guarantee == "at most once, then a person"
    assert (told["note"].covers, told["note"].key, told["note"].on_duplicate) == (
        "notes/{body.contact}", "{unit}/{body.contact}", "reject",
    )  # fmt: skip


async def test_a_login_is_named_and_never_shown(
    open_office: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_KEY", SECRET)
    office: Office = await open_office(policies)

    for path in ("/v1/destinations", "/v1/destinations/crm", "/readyz", "/metrics"):
        got = await office.house.get(path)
        assert SECRET not in got.body.decode()
    login = (await office.house.get("/v1/destinations/crm")).json["login"]
    assert "X-Api-Key" in login


@pytest.mark.parametrize("name", ["none", "%FF", "crm%20", "CRM"])
async def test_a_destination_of_another_name_is_not_there(office: Office, name: str) -> None:
    got = await office.house.get(f"/v1/destinations/{name}")

    assert (got.status, got.problem) == (404, "destination-unknown")


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in a document."""
    if isinstance(value, dict):
        yield from (ref for key, ref in value.items() if key == "$ref")
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


async def test_the_description_is_openapi_3_1_and_whole(office: Office) -> None:
    document = (await office.house.get("/v1/openapi.json")).json

    assert re.match(r"3\.1\.\d+\Z", document["openapi"])
    assert document["info"]["title"]
    assert document["info"]["version"]
    schemes = document["components"]["securitySchemes"]
    assert all(name in schemes for need in document["security"] for name in need)
    for reference in references(document):
        assert reference.startswith("#/components/schemas/")
        assert reference.rpartition("/")[2] in document["components"]["schemas"]
    ids = []
    for path, item in document["paths"].items():
        for operation in item.values():
            ids.append(operation["operationId"])
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
            assert all(p["required"] for p in operation["parameters"] if p["in"] == "path")
            assert {"200", "204"} & set(operation["responses"])
            assert "default" in operation["responses"]
            assert all(answer["description"] for answer in operation["responses"].values())
    assert len(ids) == len(set(ids))


async def test_every_path_of_the_description_answers(leased: Office) -> None:
    names = {
        "{id}": await leased.unknown(), "{destination}": "crm", "{function}": "ronda",
        "{holder}": "bo%231",
    }  # fmt: skip
    document = (await leased.house.get("/v1/openapi.json")).json
    asked = 0

    for path, item in document["paths"].items():
        if path.endswith("/probe-again"):
            continue  # not for an effect whose route has no look: test_cases.py asks for it
        if path.startswith("/v1/units/"):
            continue  # each needs a leader and its unit: test_units.py goes through them
        real = path
        for name, value in names.items():
            real = real.replace(name, value)
        for method, operation in item.items():
            if path.startswith("/v1/exceptions/{id}"):
                got = await _about_an_exception(leased, method.upper(), path)
            elif path.startswith("/v1/leases/") and method == "post":
                got = await _verb(Leader(leased, f"ana#{asked}"), path.rpartition("/")[2])
            else:
                got = await send(leased, method.upper(), real, _body(operation), "")
            asked += 1
            assert str(got.status) in operation["responses"], (method, path, got.body)
            if got.status == 204:
                continue
            content = operation["responses"][str(got.status)]["content"]
            schema = content["application/json"]["schema"]
            model = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert set(got.json) == set(model["properties"]) == set(model["required"])

    assert asked >= 17


def _body(operation: Any) -> Any:
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return {
        "#/components/schemas/ResolveIn": {"as": "confirmed", "reason": "seen"},
        "#/components/schemas/CandidateIn": GOOD,
    }.get(schema.get("schema", {}).get("$ref"))


async def _about_an_exception(office: Office, method: str, path: str) -> Got:
    """Look at an exception of its own, or decide it once nothing forbids that."""
    action = path.rpartition("/")[2]
    case = await office.exception(await office.unknown(f"k-{action.strip('{}')}"))
    office.clock.advance(seconds=SEAL_S)
    body: dict[str, Any] | None = None
    if method == "POST":
        body = {"reason": "seen", "version": case["version"]}
        body |= {"assign": {"owner": "bo"}, "extend": {"deadline": "4h"}}.get(action, {})
    return await send(office, method, path.replace("{id}", case["id"]), body, "")


async def _verb(leader: Leader, verb: str) -> Got:
    """Carry a verb out on a lease of its own, and leave nobody leading."""
    got = await leader.acquire()
    if verb == "hand-off":
        heir = Leader(leader.office, "bo#1")
        await heir.report()
        got = await leader.named(verb, to="bo#1")
        await heir.ask("release", term=got.json["term"])
        await heir.withdraw()
    elif verb != "acquire":
        got = await leader.named(verb)
    await leader.named("release")
    await leader.withdraw()  # or it would still be preferred to the next one
    return got


async def test_the_filters_of_the_description_are_those_that_are_taken(office: Office) -> None:
    document = (await office.house.get("/v1/openapi.json")).json
    described = [p["name"] for p in document["paths"]["/v1/effects"]["get"]["parameters"]]
    known = (await office.house.get("/v1/effects?none=1")).json["detail"]

    assert described
    assert all(repr(name) in known for name in described)
    assert known.count("'") == 2 * len(described) + 2
