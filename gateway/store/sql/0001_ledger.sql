-- The ledger, first version. Instants are Unix milliseconds of the store's clock.

CREATE TABLE ledger_meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: the store's time never goes back, not across restarts either. boot_id and boot_ms
-- let a restart on the same boot measure the time that passed without asking the wall clock.
CREATE TABLE store_clock (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    now_ms  INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    boot_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE instance (
    id              TEXT PRIMARY KEY,
    version         TEXT NOT NULL,
    started_at_ms   INTEGER NOT NULL,
    heartbeat_at_ms INTEGER NOT NULL,
    stopped_at_ms   INTEGER
) STRICT, WITHOUT ROWID;

-- Never deleted: a term that is forgotten can be given out twice.
CREATE TABLE scope (
    function     TEXT NOT NULL,
    unit         TEXT NOT NULL,
    highest_term INTEGER NOT NULL,
    last_term    INTEGER NOT NULL,
    holder       TEXT,
    raised_at_ms INTEGER NOT NULL,
    PRIMARY KEY (function, unit)
) STRICT, WITHOUT ROWID;

CREATE TABLE handover (
    function        TEXT NOT NULL,
    unit            TEXT NOT NULL,
    term            INTEGER NOT NULL,
    holder          TEXT NOT NULL,
    previous_term   INTEGER NOT NULL,
    previous_holder TEXT,
    at_ms           INTEGER NOT NULL,
    effects         TEXT NOT NULL,
    PRIMARY KEY (function, unit, term)
) STRICT, WITHOUT ROWID;

-- Narrow on purpose: bodies live elsewhere. `key` is NULL for what observe mode let through.
CREATE TABLE effect (
    id            TEXT PRIMARY KEY,
    destination   TEXT NOT NULL,
    function      TEXT NOT NULL,
    unit          TEXT NOT NULL,
    key           TEXT,
    scope_unit    TEXT NOT NULL,
    item          TEXT,
    covers        TEXT NOT NULL,
    principal     TEXT NOT NULL,
    outcome       TEXT,
    abandoned     INTEGER NOT NULL DEFAULT 0,
    resolved_by   TEXT,
    attempts      INTEGER NOT NULL,
    rejected      INTEGER NOT NULL DEFAULT 0,
    version       INTEGER NOT NULL DEFAULT 1,
    resource      TEXT,
    observed      TEXT,
    created_at_ms INTEGER NOT NULL,
    settled_at_ms INTEGER
) STRICT, WITHOUT ROWID;

-- By locality, never by a hash of the key: the hot part of the index is the unit at work.
CREATE UNIQUE INDEX effect_by_key ON effect (function, unit, destination, key);

CREATE TABLE attempt (
    effect_id      TEXT NOT NULL,
    n              INTEGER NOT NULL,
    function       TEXT NOT NULL,
    scope_unit     TEXT NOT NULL,
    destination    TEXT NOT NULL,
    covers         TEXT NOT NULL,
    term           INTEGER NOT NULL,
    holder         TEXT NOT NULL,
    principal      TEXT NOT NULL,
    instance       TEXT NOT NULL,
    method         TEXT NOT NULL,
    target         TEXT NOT NULL,
    fp_version     INTEGER NOT NULL,
    fp_raw         BLOB NOT NULL,
    fp_canonical   BLOB,
    policy_digest  TEXT NOT NULL,
    created_at_ms  INTEGER NOT NULL,
    deadline_at_ms INTEGER NOT NULL,
    seal_at_ms     INTEGER NOT NULL,
    ended_at_ms    INTEGER,
    outcome        TEXT,
    reason         TEXT,
    status         INTEGER,
    open           INTEGER NOT NULL DEFAULT 1,
    by_operator    INTEGER NOT NULL DEFAULT 0,
    request_head   TEXT,
    request_body   BLOB,
    request_file   TEXT,
    answer_seq     INTEGER,
    PRIMARY KEY (effect_id, n)
) STRICT, WITHOUT ROWID;

-- Open: without an answer of its own. The barrier, the handover and recovery look only here.
CREATE INDEX attempt_open ON attempt (function, scope_unit, destination, covers, term)
    WHERE open = 1;

-- Found through attempt.answer_seq: an index of its own would be one more page for every write.
CREATE TABLE answer (
    seq         INTEGER PRIMARY KEY,
    effect_id   TEXT NOT NULL,
    n           INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    headers     TEXT NOT NULL,
    body        BLOB,
    body_sha256 BLOB,
    body_bytes  INTEGER NOT NULL,
    state       TEXT NOT NULL,
    at_ms       INTEGER NOT NULL
) STRICT;


CREATE TABLE refusal (
    function    TEXT NOT NULL,
    unit        TEXT NOT NULL,
    destination TEXT NOT NULL,
    principal   TEXT NOT NULL,
    holder      TEXT NOT NULL,
    term        INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    count       INTEGER NOT NULL,
    first_at_ms INTEGER NOT NULL,
    last_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (function, unit, destination, principal, holder, term, reason)
) STRICT, WITHOUT ROWID;

CREATE TABLE transition (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms     INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    function  TEXT NOT NULL,
    unit      TEXT NOT NULL,
    term      INTEGER,
    holder    TEXT,
    effect_id TEXT,
    principal TEXT,
    reason    TEXT,
    detail    TEXT
) STRICT;

CREATE TABLE policy (
    digest           TEXT PRIMARY KEY,
    name             TEXT NOT NULL,
    first_seen_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What decides identity; changed only while nothing that it touches is open.
CREATE TABLE policy_identity (
    kind          TEXT NOT NULL,
    name          TEXT NOT NULL,
    identity      TEXT NOT NULL,
    version       INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
