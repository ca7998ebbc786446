"""Policies that tests write, and how they load them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from gateway.wire.policy_file import Loaded, load_policies

TODAY = date(2026, 11, 30)
HEAD = "destination: crm\nbase_url: https://crm.example.com\nchecked: 2026-11-01\n"


def load(folder: Path, env: dict[str, str] | None = None, **files: str) -> Loaded:
    for stem, text in files.items():
        (folder / f"{stem}.yaml").write_text(text)
    return load_policies(folder, env=env or {}, today=TODAY)


def good(folder: Path, text: str, env: dict[str, str] | None = None):
    loaded = load(folder, env, crm=text)
    assert loaded.policies is not None, [str(one) for one in loaded.complaints]
    return loaded.policies.destinations["crm"]


def said(loaded: Loaded) -> list[str]:
    return [f"{one.line}:{one.column} {one.severity} {one.message}" for one in loaded.complaints]


FULL = """\
fence_policy: 1
destination: crm
base_url: https://${env:SUBDOMAIN}.crm.example.com:8443/api/v2/
boundary: partial
checked: 2026-11-01
login: {kind: bearer, token: "${env:CRM_TOKEN}"}
limits: {at_once: 8, timeout: 20s, connect: 2s, settle: 500ms, body_max: 256KiB,
         barrier_wait: 0s, max_attempts: 3}
connections: fresh
mode: observe
functions: [sweep]
setup: ["Create the field external_id."]
slow_down:
  - when: {status: [429, 503], json: {"errors[*].code": [RATE, 7]}}
    wait: {header: X-Reset, as: unix_ms, else: 2s}
routes:
  - name: create
    match: POST /{kind:contacts|notes}
    when: {json: {type: {present: true}}, header: {X-Api: "2"}}
    does: write
    note: a second POST with the mark is merged
    key: "{unit}/{body.email | lower}"
    on_duplicate: reject
    guard: native_key
    covers: "{kind}/new/{effect}"
    repeat_is_harmless: true
    ignore_in_fingerprint: [body.sent_at]
    stamp: {external_id: "{effect | text 64}", fence.term: "{term}"}
    send_as:
      request: PUT /{kind}/upsert/{effect | text 64}
      query: {by: "{kind}"}
      header: {Prefer: merge}
      drop: [id]
    native_key: {header: Idempotency-Key, value: "{effect}", window: 24h, at_once: 1,
                 repeat_returns: everything, replayed_when: {header: {Replayed: "true"}},
                 busy_when: {status: 409}, misuse_when: {status: 422},
                 supported_when: {header: {Result: {present: true}}}}
    version: {send: If-Match, from: worker, exact: true, lost_when: {status: 412}}
    limits: {timeout: 5s}
    result:
      - {when: {status: 201}, is: confirmed, take: {id: data.id}}
      - {when: {status: 409, same: {"data.email": "{body.email}"}}, is: look}
      - {when: {status: 500, json: {code: {matches: "^dup"}}}, is: no-effect, note: "vouched"}
      - {when: {json: {gone: {absent: true}, ok: false, nil: null}}, is: unknown, alarm: true,
         retry: never}
    look:
      request: GET /{kind}?external_id={effect | text 64}
      reads: index
      settle: 2m
      each: items
      found: {status: 200, same: {external_id: "{effect | text 64}"}}
      missing: {status: 200, json: {items: {present: true}}}
      take: {id: id}
      if_still_missing: park
  - {match: "GET|HEAD /{rest*}", does: read}
"""
