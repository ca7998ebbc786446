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

-- What was really sent, where the policy dressed the request up; and by which of its routes.
ALTER TABLE attempt ADD COLUMN route TEXT;
ALTER TABLE attempt ADD COLUMN sent_method TEXT;
ALTER TABLE attempt ADD COLUMN sent_target TEXT;
ALTER TABLE attempt ADD COLUMN sent_head TEXT;
ALTER TABLE attempt ADD COLUMN sent_body BLOB;

-- Decided by somebody else than the attempt's own answer: an operator, or a probe.
ALTER TABLE attempt RENAME COLUMN by_operator TO decided;

-- The text that a digest stands for: an effect is reconciled by the policy of its intent.
ALTER TABLE policy ADD COLUMN text TEXT;

-- Each question to a destination, opened before it is asked. One that was never closed says
-- nothing about the effect.
CREATE TABLE probe (
    effect_id     TEXT NOT NULL,
    n             INTEGER NOT NULL,
    term          INTEGER NOT NULL,
    instance      TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    ended_at_ms   INTEGER,
    verdict       TEXT,
    status        INTEGER,
    moved         INTEGER,
    evidence      TEXT,
    PRIMARY KEY (effect_id, n)
) STRICT, WITHOUT ROWID;

CREATE INDEX probe_open ON probe (effect_id) WHERE ended_at_ms IS NULL;

-- When an unknown effect is looked at next.
CREATE TABLE reconciliation (
    effect_id  TEXT PRIMARY KEY,
    next_at_ms INTEGER NOT NULL,
    failures   INTEGER NOT NULL,
    from_probe INTEGER NOT NULL DEFAULT 0, -- what was found before counts no more
    note       TEXT
) STRICT, WITHOUT ROWID;

-- A matter that a person must settle. Never deleted.
CREATE TABLE exception_case (
    id              TEXT PRIMARY KEY,
    effect_id       TEXT,
    function        TEXT NOT NULL,
    unit            TEXT NOT NULL,
    item            TEXT,
    destination     TEXT NOT NULL,
    term            INTEGER,
    reason          TEXT NOT NULL,
    detail          TEXT NOT NULL,
    owner           TEXT NOT NULL,
    deadline_at_ms  INTEGER NOT NULL,
    opened_at_ms    INTEGER NOT NULL,
    acknowledged_by TEXT,
    escalated_at_ms INTEGER,
    closed_at_ms    INTEGER,
    closed_by       TEXT,
    decision        TEXT,
    evidence        TEXT NOT NULL,
    version         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX exception_case_open ON exception_case (opened_at_ms) WHERE closed_at_ms IS NULL;
CREATE UNIQUE INDEX exception_case_of_effect ON exception_case (effect_id)
    WHERE closed_at_ms IS NULL;

-- Sentences on their way to people: at least once, in order of birth, under one id for ever.
CREATE TABLE alert (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    kind            TEXT NOT NULL,
    body            TEXT NOT NULL,
    made_at_ms      INTEGER NOT NULL,
    tries           INTEGER NOT NULL,
    next_at_ms      INTEGER NOT NULL,
    delivered_at_ms INTEGER,
    last_error      TEXT
) STRICT;

CREATE INDEX alert_waiting ON alert (next_at_ms) WHERE delivered_at_ms IS NULL;

-- Whether another write to the same thing was admitted since the effect's first attempt: its
-- mark may have been overwritten, so that not finding it proves nothing.
ALTER TABLE effect ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;
