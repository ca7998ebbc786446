-- Units of work, reconciliation and exceptions. Instants as in the first version.

-- Never deleted: a unit's key is used once.
CREATE TABLE unit (
    unit            TEXT PRIMARY KEY,
    function        TEXT NOT NULL,
    status          TEXT NOT NULL,
    period_start    TEXT,
    period_end      TEXT,
    policy_version  TEXT,
    manifest        TEXT NOT NULL,
    manifest_digest TEXT NOT NULL,
    created_term    INTEGER NOT NULL,
    created_by      TEXT NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    started_at_ms   INTEGER,
    closed_at_ms    INTEGER,
    closed_term     INTEGER,
    closed_reason   TEXT,
    result          TEXT,
    checkpoint      TEXT,
    version         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX unit_of_function ON unit (function, created_at_ms);

CREATE TABLE unit_item (
    unit               TEXT NOT NULL,
    ordinal            INTEGER NOT NULL,
    item               TEXT NOT NULL,
    data               TEXT,
    state              TEXT NOT NULL,
    attempt            INTEGER NOT NULL,
    worker             TEXT,
    term               INTEGER NOT NULL,
    claimed_at_ms      INTEGER,
    expires_at_ms      INTEGER NOT NULL,
    checkpoint         TEXT,
    checkpoint_version INTEGER NOT NULL,
    result             TEXT,
    reason             TEXT,
    changed_at_ms      INTEGER NOT NULL,
    PRIMARY KEY (unit, item)
) STRICT, WITHOUT ROWID;

CREATE INDEX unit_item_by_state ON unit_item (unit, state, ordinal);

-- The item that an attempt is about: an earlier claimant's holds the next one back.
ALTER TABLE attempt ADD COLUMN item TEXT;
