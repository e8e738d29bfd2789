-- Sessions: one row a conversation. `last_turn`, `last_position` and `head` say where the next message goes.
CREATE TABLE sessions (
    number {serial},
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    platform TEXT,
    channel TEXT,
    strategy TEXT NOT NULL,
    settings TEXT NOT NULL,
    budget_tokens BIGINT NOT NULL,
    model TEXT,
    encoding TEXT NOT NULL,
    calibration DOUBLE PRECISION NOT NULL,
    parent BIGINT REFERENCES sessions (number),
    fork_turn BIGINT NOT NULL,
    fork_position BIGINT NOT NULL,
    last_turn BIGINT NOT NULL,
    last_position BIGINT NOT NULL,
    head TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL
);

CREATE INDEX sessions_parent ON sessions (parent);

CREATE INDEX sessions_place ON sessions (platform, channel);

-- Messages: where each stands and what it weighs. Rows are added, never changed, but for `pruned_us`.
CREATE TABLE messages (
    id {serial},
    session BIGINT NOT NULL REFERENCES sessions (number),
    turn BIGINT NOT NULL,
    position BIGINT NOT NULL,
    role TEXT NOT NULL,
    kind TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    at_us BIGINT NOT NULL,
    recorded_us BIGINT NOT NULL,
    size BIGINT NOT NULL,
    digest {blob} NOT NULL,
    key TEXT,
    pruned_us BIGINT
);

CREATE UNIQUE INDEX messages_place ON messages (session, turn, position);

CREATE UNIQUE INDEX messages_key ON messages (session, key) WHERE key IS NOT NULL;

-- Bodies: the messages themselves, compressed, apart from the rows that planning reads.
CREATE TABLE bodies (
    message {key} REFERENCES messages (id),
    data {blob} NOT NULL
);

CREATE TABLE pins (
    session BIGINT NOT NULL REFERENCES sessions (number),
    number BIGINT NOT NULL,
    text TEXT NOT NULL,
    locked BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    removed_us BIGINT,
    PRIMARY KEY (session, number)
);
