"""The CRM behaves like an ordinary one, and its journal says what each call changed."""

from __future__ import annotations

import pytest


async def test_a_created_record_has_an_id_a_location_and_an_etag(crm):
    status, record, headers = await crm.ask("POST", "/contacts", {"name": "Ana"})
    assert (status, record) == (201, {"name": "Ana", "id": "contact-1"})
    assert (headers["Location"], headers["ETag"]) == ("/contacts/contact-1", '"1"')
    [entry] = await crm.journal()
    assert (entry["applied"], entry["effect"]) == (True, "contacts/contact-1@1")


async def test_ids_count_up_within_each_kind(crm):
    ids = [
        (await crm.ask("POST", path, {"text": "x"}))[1]["id"]
        for path in ("/contacts", "/contacts", "/notes", "/opportunities")
    ]
    assert ids == ["contact-1", "contact-2", "note-1", "opportunity-1"]


async def test_put_replaces_and_patch_merges(crm):
    await crm.ask("POST", "/contacts", {"name": "Ana", "city": "Recife"})
    assert (await crm.ask("PATCH", "/contacts/contact-1", {"city": "Olinda"}))[1] == {
        "name": "Ana", "city": "Olinda", "id": "contact-1",
    }  # fmt: skip
    status, record, headers = await crm.ask("PUT", "/contacts/contact-1", {"id": "x", "age": 3})
    assert (status, record, headers["ETag"]) == (200, {"age": 3, "id": "contact-1"}, '"3"')
    effects = [entry["effect"] for entry in await crm.journal()]
    assert effects == [f"contacts/contact-1@{version}" for version in (1, 2, 3)]


async def test_a_deleted_record_is_gone_and_its_id_is_not_used_again(crm):
    await crm.ask("POST", "/contacts", {"name": "Ana"})
    assert (await crm.ask("DELETE", "/contacts/contact-1"))[:2] == (204, b"")
    assert (await crm.ask("DELETE", "/contacts/contact-1"))[0] == 404
    assert (await crm.ask("GET", "/contacts/contact-1"))[0] == 404
    assert (await crm.ask("POST", "/contacts", {}))[1]["id"] == "contact-2"
    assert [entry["applied"] for entry in await crm.journal()] == [True, True, False, False, True]


async def test_head_tells_the_length_without_the_body(crm):
    _, _, created = await crm.ask("POST", "/contacts", {"name": "Ana"})
    status, body, headers = await crm.ask("HEAD", "/contacts/contact-1")
    assert (status, body) == (200, b"")
    assert headers["Content-Length"] == created["Content-Length"]


async def test_lists_filter_on_simple_fields(crm):
    for number in range(5):
        await crm.ask("POST", "/notes", {"text": "t", "external_id": f"e{number % 2}", "n": number})
    listed = [
        [note["n"] for note in (await crm.ask("GET", f"/notes?{query}"))[1]["items"]]
        for query in ("", "limit=2", "external_id=e1", "external_id=e0&n=4", "external_id=no")
    ]
    assert listed == [[0, 1, 2, 3, 4], [0, 1], [1, 3], [4], []]


async def test_a_changed_external_id_is_found_under_its_new_name_only(crm):
    await crm.ask("POST", "/contacts", {"external_id": "old"})
    await crm.ask("PATCH", "/contacts/contact-1", {"external_id": 7})
    assert (await crm.ask("GET", "/contacts?external_id=old"))[1]["items"] == []
    assert len((await crm.ask("GET", "/contacts?external_id=7"))[1]["items"]) == 1


REJECTED = [
    ("POST", "/nothing", b"{}", 404),
    ("GET", "/contacts/contact-9", b"", 404),
    ("PUT", "/contacts/contact-9", b"{}", 404),
    ("PUT", "/contacts", b"{}", 405),
    ("POST", "/contacts/contact-1", b"{}", 405),
    ("POST", "/contacts", b"{", 400),
    ("POST", "/contacts", b"", 400),
    ("POST", "/contacts", b"[1]", 422),
    ("POST", "/notes", b"{}", 422),
    ("GET", "/contacts?limit=some", b"", 400),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), REJECTED)
async def test_what_the_crm_rejects_changes_nothing(crm, method, path, body, status):
    got, answer, _ = await crm.ask(method, path, data=body)
    assert got == status
    assert answer["error"]
    [entry] = await crm.journal()
    assert (entry["method"], entry["target"]) == (method, path)
    assert (entry["applied"], entry["effect"]) == (False, None)


async def test_a_note_needs_text(crm):
    assert (await crm.ask("POST", "/notes", {"by": "Ana"}))[1] == {"error": "text is required"}


async def test_if_match_guards_a_write(crm):
    await crm.ask("POST", "/contacts", {"name": "Ana"})
    path, change = "/contacts/contact-1", {"name": "Bo"}
    assert (await crm.ask("PATCH", path, change, If_Match='"1"'))[0] == 200
    assert (await crm.ask("PATCH", path, change, If_Match='"1"'))[0] == 412
    assert [entry["applied"] for entry in await crm.journal()] == [True, True, False]


async def test_with_a_token_only_its_bearer_may_use_the_crm(start):
    crm = await start(token="crm-secret")
    status, _, headers = await crm.ask("POST", "/contacts", {})
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert (await crm.ask("POST", "/contacts", {}, Authorization="Bearer wrong"))[0] == 401
    assert (await crm.ask("POST", "/contacts", {}, Authorization="Bearer crm-secret"))[0] == 201
    assert (await crm.ask("GET", "/_sandbox/health"))[0] == 200
    assert [entry["applied"] for entry in await crm.journal()] == [False, False, True]
