"""The demo: the daily sales report, made by real processes over real HTTP.

    report      the program: a coordinator and its workers, on `gateway.client`
    replica     one process of it, whose director may stop it in the middle
    company     the director
    relay       the network between a replica and the gateway, which can be cut
    processes   starting, watching and stopping `python -m gateway …`
    stage       the folder, policies and tokens that one gateway and one sandbox CRM need
    office      the stage of the report: leases, units, notes that can be looked for
    agents      asking over HTTP, and the reader of the CRM's journal
    watch       looking at a run from outside
    record      what the gateway and the CRM have on record
    promises    what every run promises
    story       the script of the demo
    narrate     one line per step, the closing table, and what was off
    stand       a gateway and a CRM left running, to be tried

Everything here is a caller: it speaks to the gateway through its ports alone.
"""

from __future__ import annotations
