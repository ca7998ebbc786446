"""The drill: fifteen faults, each played with real processes, each confirmed by what is on record.

    play        one scenario's gateway, CRM and replicas, and what is done to them
    figures     the eight figures of a scenario
    starting, losing, dying, outages   the scenarios
    scenarios   all of them, in order
    run         one after the other, each in a folder of its own
    table       how it is told

The replicas are those of the demo, and so is what every run promises: `gateway.demo`.
"""

from __future__ import annotations
