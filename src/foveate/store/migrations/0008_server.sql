-- A session belongs to a tenant; the local owner's is empty.
ALTER TABLE sessions ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

CREATE INDEX sessions_tenant ON sessions (tenant);

-- Keys of the server, by the hash of their secret.
CREATE TABLE access_keys (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    digest {blob} NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    rights TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    revoked_us BIGINT
);

-- The gateway finds a client's history by the keys of its messages, which are hashes of everything up to them.
CREATE INDEX messages_by_key ON messages (key) WHERE key IS NOT NULL;

-- Answers by the hash of their prompt and themselves: how a history whose beginning was cut off is found.
CREATE TABLE answer_tails (
    hash TEXT NOT NULL,
    session BIGINT NOT NULL REFERENCES sessions (number),
    turn BIGINT NOT NULL,
    PRIMARY KEY (hash, session, turn)
);

CREATE INDEX answer_tails_session ON answer_tails (session);

-- Responses by the id that the client was given, for `previous_response_id` and for reading them again.
CREATE TABLE responses (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    session BIGINT NOT NULL REFERENCES sessions (number),
    turn BIGINT NOT NULL,
    chain TEXT NOT NULL,
    data {blob} NOT NULL,
    created_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX responses_session ON responses (session);
