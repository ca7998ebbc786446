-- Leadership: leases, candidates, and what a transition says. Instants as in the first version.

-- One row per scope: its latest lease, alive or ended. Apart from `scope`, which holds the term
-- and is written by grants only: a renewal touches nothing that an admission has to lock.
CREATE TABLE lease (
    function        TEXT NOT NULL,
    unit            TEXT NOT NULL,
    term            INTEGER NOT NULL,
    holder          TEXT NOT NULL,
    principal       TEXT NOT NULL,
    acquired_at_ms  INTEGER NOT NULL,
    renewed_at_ms   INTEGER NOT NULL,
    expires_at_ms   INTEGER NOT NULL,
    duration_ms     INTEGER NOT NULL,
    drain_until_ms  INTEGER,
    uncertain_at_ms INTEGER,
    ended           TEXT,
    ended_at_ms     INTEGER,
    handed_by       TEXT,
    version         INTEGER NOT NULL,
    transitions     INTEGER NOT NULL,
    PRIMARY KEY (function, unit)
) STRICT, WITHOUT ROWID;

CREATE INDEX lease_live ON lease (expires_at_ms) WHERE ended IS NULL;

CREATE TABLE candidate (
    function       TEXT NOT NULL,
    holder         TEXT NOT NULL,
    principal      TEXT NOT NULL,
    version        TEXT NOT NULL,
    region         TEXT NOT NULL,
    ready          INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    since_ms       INTEGER NOT NULL,
    reported_at_ms INTEGER NOT NULL,
    following_term INTEGER NOT NULL,
    PRIMARY KEY (function, holder)
) STRICT, WITHOUT ROWID;

-- When a worker let a lease expire: one that does so again and again is not the first choice.
CREATE TABLE lease_loss (
    function TEXT NOT NULL,
    worker   TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    PRIMARY KEY (function, worker, at_ms)
) STRICT, WITHOUT ROWID;

ALTER TABLE transition ADD COLUMN lease_version INTEGER;
ALTER TABLE transition ADD COLUMN checkpoint TEXT;
ALTER TABLE transition ADD COLUMN uncertain INTEGER;
ALTER TABLE transition ADD COLUMN next_action TEXT;
ALTER TABLE transition ADD COLUMN responsible TEXT;

CREATE INDEX transition_of_scope ON transition (function, unit, id);
