"""The sandbox CRM: a real HTTP server that plays the destination.

It knows nothing of functions, terms or leases, and it never tries to help. What it does well is
remember: every request it received, what that request changed, and which intents were carried
out twice. Demo, tests, drills and load tests send to it and believe its journal.

    records   contacts, notes and opportunities
    journal   what arrived, what it changed, what happened twice; the file behind both
    faults    the words for misbehaviour, and where the one for a request comes from
    acts      carrying a fault out
    admin     /_sandbox/*: reading the journal, scripting faults, releasing held requests
    server    the CRM's own paths, and the process

Standard library, aiohttp and orjson only; nothing from the rest of the gateway.
"""

from __future__ import annotations
