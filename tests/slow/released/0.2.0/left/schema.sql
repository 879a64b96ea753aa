-- The tables of income-client. They are looked for by the search_path of the connection, and
-- made in its first schema. The role of a poller needs these rights:
--   GRANT SELECT, INSERT, UPDATE ON income_checkpoints TO poller;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON income_dead_letters TO poller;
-- The role of a process that shares an access token needs these. A role that may read the
-- table has the token, so grant them to no other:
--   GRANT SELECT, INSERT, UPDATE ON income_tokens TO web;

CREATE TABLE IF NOT EXISTS income_checkpoints (
    name text PRIMARY KEY,
    checkpoint text NOT NULL,
    version bigint NOT NULL CHECK (version > 0)
);

CREATE TABLE IF NOT EXISTS income_dead_letters (
    name text NOT NULL,
    digest text NOT NULL,  -- of the dead letter's key, which may be too long for an index
    application_id text,
    window_after bigint NOT NULL,
    window_before bigint NOT NULL,
    reason text NOT NULL,
    attempts bigint NOT NULL,
    first_tried_at timestamp NOT NULL,  -- service time
    last_tried_at timestamp NOT NULL,
    PRIMARY KEY (name, digest)
);

CREATE TABLE IF NOT EXISTS income_tokens (
    key text PRIMARY KEY,
    access_token text,
    expires_at timestamptz,
    lifetime double precision,
    claimed_by text,
    claimed_at timestamptz
);
