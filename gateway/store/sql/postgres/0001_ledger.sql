-- The ledger on PostgreSQL, first version: what the embedded store has after its third. Instants
-- are Unix milliseconds of the store's clock; truth is 0 or 1, as there, so that one set of
-- statements serves both. Text is ordered by its bytes, as SQLite orders it.

CREATE FUNCTION hex(bytes bytea) RETURNS text LANGUAGE sql IMMUTABLE
    AS 'SELECT upper(encode(bytes, ''hex''))';

CREATE TABLE ledger_meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- One row: the store's time never goes back. It is this server's clock and `offset_ms`, which
-- takes the clock's steps back; boot_id and boot_ms are for a clock that is handed in.
CREATE TABLE store_clock (
    id      bigint PRIMARY KEY CHECK (id = 1),
    now_ms  bigint NOT NULL,
    boot_id text COLLATE "C" NOT NULL,
    boot_ms bigint NOT NULL,
    offset_ms bigint NOT NULL DEFAULT 0
);

CREATE TABLE instance (
    id              text COLLATE "C" PRIMARY KEY,
    version         text COLLATE "C" NOT NULL,
    started_at_ms   bigint NOT NULL,
    heartbeat_at_ms bigint NOT NULL,
    stopped_at_ms   bigint
);

-- Never deleted: a term that is forgotten can be given out twice.
CREATE TABLE scope (
    function     text COLLATE "C" NOT NULL,
    unit         text COLLATE "C" NOT NULL,
    highest_term bigint NOT NULL,
    last_term    bigint NOT NULL,
    holder       text COLLATE "C",
    raised_at_ms bigint NOT NULL,
    PRIMARY KEY (function, unit)
);

CREATE TABLE handover (
    function        text COLLATE "C" NOT NULL,
    unit            text COLLATE "C" NOT NULL,
    term            bigint NOT NULL,
    holder          text COLLATE "C" NOT NULL,
    previous_term   bigint NOT NULL,
    previous_holder text COLLATE "C",
    at_ms           bigint NOT NULL,
    effects         text COLLATE "C" NOT NULL,
    PRIMARY KEY (function, unit, term)
);

-- Narrow on purpose: bodies live elsewhere. `key` is NULL for what observe mode let through.
CREATE TABLE effect (
    id            text COLLATE "C" PRIMARY KEY,
    destination   text COLLATE "C" NOT NULL,
    function      text COLLATE "C" NOT NULL,
    unit          text COLLATE "C" NOT NULL,
    key           text COLLATE "C",
    scope_unit    text COLLATE "C" NOT NULL,
    item          text COLLATE "C",
    covers        text COLLATE "C" NOT NULL,
    principal     text COLLATE "C" NOT NULL,
    outcome       text COLLATE "C",
    abandoned     bigint NOT NULL DEFAULT 0,
    resolved_by   text COLLATE "C",
    attempts      bigint NOT NULL,
    rejected      bigint NOT NULL DEFAULT 0,
    version       bigint NOT NULL DEFAULT 1,
    resource      text COLLATE "C",
    observed      text COLLATE "C",
    created_at_ms bigint NOT NULL,
    settled_at_ms bigint,
    superseded    bigint NOT NULL DEFAULT 0
);

-- By locality, never by a hash of the key: the hot part of the index is the unit at work.
CREATE UNIQUE INDEX effect_by_key ON effect (function, unit, destination, key);

CREATE TABLE attempt (
    effect_id      text COLLATE "C" NOT NULL,
    n              bigint NOT NULL,
    function       text COLLATE "C" NOT NULL,
    scope_unit     text COLLATE "C" NOT NULL,
    destination    text COLLATE "C" NOT NULL,
    covers         text COLLATE "C" NOT NULL,
    term           bigint NOT NULL,
    holder         text COLLATE "C" NOT NULL,
    principal      text COLLATE "C" NOT NULL,
    instance       text COLLATE "C" NOT NULL,
    method         text COLLATE "C" NOT NULL,
    target         text COLLATE "C" NOT NULL,
    fp_version     bigint NOT NULL,
    fp_raw         bytea NOT NULL,
    fp_canonical   bytea,
    policy_digest  text COLLATE "C" NOT NULL,
    created_at_ms  bigint NOT NULL,
    deadline_at_ms bigint NOT NULL,
    seal_at_ms     bigint NOT NULL,
    ended_at_ms    bigint,
    outcome        text COLLATE "C",
    reason         text COLLATE "C",
    status         bigint,
    open           bigint NOT NULL DEFAULT 1,
    decided        bigint NOT NULL DEFAULT 0,
    request_head   text COLLATE "C",
    request_body   bytea,
    request_file   text COLLATE "C",
    answer_seq     bigint,
    item           text COLLATE "C",
    route          text COLLATE "C",
    sent_method    text COLLATE "C",
    sent_target    text COLLATE "C",
    sent_head      text COLLATE "C",
    sent_body      bytea,
    PRIMARY KEY (effect_id, n)
);

-- Open: without an answer of its own. The barrier, the handover and recovery look only here.
-- `covers` may be longer than what a b-tree takes, and open attempts are few.
CREATE INDEX attempt_open ON attempt (function, scope_unit, term) WHERE open = 1;
CREATE INDEX attempt_open_thing ON attempt USING hash (covers) WHERE open = 1;

-- Found through attempt.answer_seq: an index of its own would be one more page for every write.
CREATE TABLE answer (
    seq         bigint PRIMARY KEY,
    effect_id   text COLLATE "C" NOT NULL,
    n           bigint NOT NULL,
    status      bigint NOT NULL,
    headers     text COLLATE "C" NOT NULL,
    body        bytea,
    body_sha256 bytea,
    body_bytes  bigint NOT NULL,
    state       text COLLATE "C" NOT NULL,
    at_ms       bigint NOT NULL
);

CREATE SEQUENCE answer_number;

CREATE TABLE refusal (
    function    text COLLATE "C" NOT NULL,
    unit        text COLLATE "C" NOT NULL,
    destination text COLLATE "C" NOT NULL,
    principal   text COLLATE "C" NOT NULL,
    holder      text COLLATE "C" NOT NULL,
    term        bigint NOT NULL,
    reason      text COLLATE "C" NOT NULL,
    count       bigint NOT NULL,
    first_at_ms bigint NOT NULL,
    last_at_ms  bigint NOT NULL,
    PRIMARY KEY (function, unit, destination, principal, holder, term, reason)
);

CREATE TABLE transition (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms     bigint NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    function  text COLLATE "C" NOT NULL,
    unit      text COLLATE "C" NOT NULL,
    term      bigint,
    holder    text COLLATE "C",
    effect_id text COLLATE "C",
    principal text COLLATE "C",
    reason    text COLLATE "C",
    detail    text COLLATE "C",
    lease_version bigint,
    checkpoint text COLLATE "C",
    uncertain bigint,
    next_action text COLLATE "C",
    responsible text COLLATE "C"
);

CREATE TABLE policy (
    digest           text COLLATE "C" PRIMARY KEY,
    name             text COLLATE "C" NOT NULL,
    first_seen_at_ms bigint NOT NULL,
    text text COLLATE "C"
);

-- What decides identity; changed only while nothing that it touches is open.
CREATE TABLE policy_identity (
    kind          text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    identity      text COLLATE "C" NOT NULL,
    version       bigint NOT NULL,
    changed_at_ms bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

-- One row per scope: its latest lease, alive or ended. Apart from `scope`, which holds the term
-- and is written by grants only: a renewal touches nothing that an admission has to lock.
CREATE TABLE lease (
    function        text COLLATE "C" NOT NULL,
    unit            text COLLATE "C" NOT NULL,
    term            bigint NOT NULL,
    holder          text COLLATE "C" NOT NULL,
    principal       text COLLATE "C" NOT NULL,
    acquired_at_ms  bigint NOT NULL,
    renewed_at_ms   bigint NOT NULL,
    expires_at_ms   bigint NOT NULL,
    duration_ms     bigint NOT NULL,
    drain_until_ms  bigint,
    uncertain_at_ms bigint,
    ended           text COLLATE "C",
    ended_at_ms     bigint,
    handed_by       text COLLATE "C",
    version         bigint NOT NULL,
    transitions     bigint NOT NULL,
    PRIMARY KEY (function, unit)
);

CREATE INDEX lease_live ON lease (expires_at_ms) WHERE ended IS NULL;

CREATE TABLE candidate (
    function       text COLLATE "C" NOT NULL,
    holder         text COLLATE "C" NOT NULL,
    principal      text COLLATE "C" NOT NULL,
    version        text COLLATE "C" NOT NULL,
    region         text COLLATE "C" NOT NULL,
    ready          bigint NOT NULL,
    priority       bigint NOT NULL,
    since_ms       bigint NOT NULL,
    reported_at_ms bigint NOT NULL,
    following_term bigint NOT NULL,
    PRIMARY KEY (function, holder)
);

-- When a worker let a lease expire: one that does so again and again is not the first choice.
CREATE TABLE lease_loss (
    function text COLLATE "C" NOT NULL,
    worker   text COLLATE "C" NOT NULL,
    at_ms    bigint NOT NULL,
    PRIMARY KEY (function, worker, at_ms)
);

CREATE INDEX transition_of_scope ON transition (function, unit, id);

-- Never deleted: a unit's key is used once.
CREATE TABLE unit (
    unit            text COLLATE "C" PRIMARY KEY,
    function        text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    period_start    text COLLATE "C",
    period_end      text COLLATE "C",
    policy_version  text COLLATE "C",
    manifest        text COLLATE "C" NOT NULL,
    manifest_digest text COLLATE "C" NOT NULL,
    created_term    bigint NOT NULL,
    created_by      text COLLATE "C" NOT NULL,
    created_at_ms   bigint NOT NULL,
    started_at_ms   bigint,
    closed_at_ms    bigint,
    closed_term     bigint,
    closed_reason   text COLLATE "C",
    result          text COLLATE "C",
    checkpoint      text COLLATE "C",
    version         bigint NOT NULL
);

CREATE INDEX unit_of_function ON unit (function, created_at_ms);

CREATE TABLE unit_item (
    unit               text COLLATE "C" NOT NULL,
    ordinal            bigint NOT NULL,
    item               text COLLATE "C" NOT NULL,
    data               text COLLATE "C",
    state              text COLLATE "C" NOT NULL,
    attempt            bigint NOT NULL,
    worker             text COLLATE "C",
    term               bigint NOT NULL,
    claimed_at_ms      bigint,
    expires_at_ms      bigint NOT NULL,
    checkpoint         text COLLATE "C",
    checkpoint_version bigint NOT NULL,
    result             text COLLATE "C",
    reason             text COLLATE "C",
    changed_at_ms      bigint NOT NULL,
    PRIMARY KEY (unit, item)
);

CREATE INDEX unit_item_by_state ON unit_item (unit, state, ordinal);

-- Each question to a destination, opened before it is asked. One that was never closed says
-- nothing about the effect.
CREATE TABLE probe (
    effect_id     text COLLATE "C" NOT NULL,
    n             bigint NOT NULL,
    term          bigint NOT NULL,
    instance      text COLLATE "C" NOT NULL,
    started_at_ms bigint NOT NULL,
    ended_at_ms   bigint,
    verdict       text COLLATE "C",
    status        bigint,
    moved         bigint,
    evidence      text COLLATE "C",
    PRIMARY KEY (effect_id, n)
);

CREATE INDEX probe_open ON probe (effect_id) WHERE ended_at_ms IS NULL;

-- When an unknown effect is looked at next.
CREATE TABLE reconciliation (
    effect_id  text COLLATE "C" PRIMARY KEY,
    next_at_ms bigint NOT NULL,
    failures   bigint NOT NULL,
    from_probe bigint NOT NULL DEFAULT 0, -- what was found before counts no more
    note       text COLLATE "C"
);

-- A matter that a person must settle. Never deleted.
CREATE TABLE exception_case (
    id              text COLLATE "C" PRIMARY KEY,
    effect_id       text COLLATE "C",
    function        text COLLATE "C" NOT NULL,
    unit            text COLLATE "C" NOT NULL,
    item            text COLLATE "C",
    destination     text COLLATE "C" NOT NULL,
    term            bigint,
    reason          text COLLATE "C" NOT NULL,
    detail          text COLLATE "C" NOT NULL,
    owner           text COLLATE "C" NOT NULL,
    deadline_at_ms  bigint NOT NULL,
    opened_at_ms    bigint NOT NULL,
    acknowledged_by text COLLATE "C",
    escalated_at_ms bigint,
    closed_at_ms    bigint,
    closed_by       text COLLATE "C",
    decision        text COLLATE "C",
    evidence        text COLLATE "C" NOT NULL,
    version         bigint NOT NULL
);

CREATE INDEX exception_case_open ON exception_case (opened_at_ms) WHERE closed_at_ms IS NULL;
CREATE UNIQUE INDEX exception_case_of_effect ON exception_case (effect_id)
    WHERE closed_at_ms IS NULL;

-- Sentences on their way to people: at least once, in order of birth, under one id for ever.
CREATE TABLE alert (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              text COLLATE "C" NOT NULL UNIQUE,
    kind            text COLLATE "C" NOT NULL,
    body            text COLLATE "C" NOT NULL,
    made_at_ms      bigint NOT NULL,
    tries           bigint NOT NULL,
    next_at_ms      bigint NOT NULL,
    delivered_at_ms bigint,
    last_error      text COLLATE "C"
);

CREATE INDEX alert_waiting ON alert (next_at_ms) WHERE delivered_at_ms IS NULL;
