-- Everything below is made from the raw log and can be thrown away and made again.

-- The last turn up to which all renditions are made; the worker looks beyond it only.
ALTER TABLE sessions ADD COLUMN settled BIGINT NOT NULL DEFAULT 0;

UPDATE sessions SET settled = fork_turn - 1 WHERE fork_turn > 0;

-- One row has all fidelities of a turn, as far as its first `messages` messages go. Its id is the index's too.
CREATE TABLE renditions (
    id {serial_once},
    session BIGINT NOT NULL REFERENCES sessions (number),
    turn BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    maker TEXT NOT NULL,
    version BIGINT NOT NULL,
    is_complete BIGINT NOT NULL,
    smoothed_tokens BIGINT NOT NULL,
    compressed_tokens BIGINT NOT NULL,
    tiny_tokens BIGINT NOT NULL,
    tiny TEXT NOT NULL,
    compressed {blob} NOT NULL,
    smoothed {blob} NOT NULL,
    units {blob} NOT NULL,
    refusals BIGINT NOT NULL,
    made_us BIGINT NOT NULL
);

CREATE UNIQUE INDEX renditions_turn ON renditions (session, turn, messages, maker, version);

-- Planning reads sizes from this index alone.
CREATE INDEX renditions_sizes ON renditions (session, turn, messages, id, smoothed_tokens, compressed_tokens, tiny_tokens);

-- A turn that a worker is making renditions of; after `until_us` another one may.
CREATE TABLE leases (
    session BIGINT NOT NULL REFERENCES sessions (number),
    turn BIGINT NOT NULL,
    owner TEXT NOT NULL,
    until_us BIGINT NOT NULL,
    PRIMARY KEY (session, turn)
);

-- The era of a level and index stands for `fanout**level` turns.
CREATE TABLE eras (
    session BIGINT NOT NULL REFERENCES sessions (number),
    level BIGINT NOT NULL,
    place BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    units {blob} NOT NULL,
    made_us BIGINT NOT NULL,
    PRIMARY KEY (session, level, place)
);

-- What a session was last shown, and its board, as JSON.
CREATE TABLE keepsakes (
    session BIGINT NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    data {blob} NOT NULL,
    PRIMARY KEY (session, name)
);
