"""A destination that can be asked, and that has carried everything out two times."""

from __future__ import annotations

import json
from typing import Any

from tests.control.office import Office
from tests.house import FUNCTION
from tests.proxy.setting import READ, destination
from tests.raw_destination import Received, Wire, answer


async def twice(request: Received, wire: Wire) -> None:
    """Answer a search as a destination does that has carried a request out two times."""
    mark = request.target.partition("ref=")[2]
    body = json.dumps({"items": [{"ref": mark}, {"ref": mark}]}).encode()
    await answer(200, body, [("Content-Type", "application/json")])(request, wire)


async def looking_office(open_office: Any) -> Office:
    """Open an office whose destination is asked, and says that it did it twice."""
    write = """match: "POST /{rest*}"
    does: write
    guard: look_first
    send_as: {header: {X-Ref: "{effect}"}}
    look:
      request: GET /search?ref={effect}
      each: items
      settle: 1s
      found: {same: {ref: "{effect}"}}
      missing: {status: 404}"""
    office: Office = await open_office(
        lambda crm: {"crm": destination(crm, READ, write), "relatorio": FUNCTION}
    )
    office.crm.on("/search", twice)
    return office
