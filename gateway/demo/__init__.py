"""The demo: a short story about two leaders, played over real HTTP with real processes.

    processes   starting, watching and stopping `python -m gateway …`
    stage       the folder, policies and tokens that one gateway and one sandbox CRM need
    agents      the worker that calls through the gateway, and the reader of the CRM's journal
    story       the script
    narrate     one line per step, the closing table, and what was off

Everything here is a caller: it speaks to the gateway through its ports alone.
"""

from __future__ import annotations
