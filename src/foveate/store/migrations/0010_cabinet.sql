-- Whole results and fetched pages that a context shows in part, once per tenant, by their SHA-256.
CREATE TABLE contents (
    tenant TEXT NOT NULL,
    digest {blob} NOT NULL,
    size BIGINT NOT NULL,
    is_packed BIGINT NOT NULL,
    data {blob} NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- The turns of the log whose tools returned them: as long as one refers to a content, it is kept.
CREATE TABLE content_turns (
    session BIGINT NOT NULL REFERENCES sessions (number),
    turn BIGINT NOT NULL,
    tenant TEXT NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (session, turn, digest)
);

CREATE INDEX content_turns_digest ON content_turns (tenant, digest);

-- The file cabinet: keys to contents, for a time. An expired key stays as a note of when it expired.
CREATE TABLE cabinet (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    digest {blob} NOT NULL,
    size BIGINT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    source TEXT NOT NULL,
    session BIGINT REFERENCES sessions (number),
    turn BIGINT,
    created_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    removed_us BIGINT,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX cabinet_expires ON cabinet (expires_us) WHERE removed_us IS NULL;

CREATE INDEX cabinet_session ON cabinet (session);

-- Prompts by key; a change is a new version, and one without a text is the built-in prompt again.
CREATE TABLE prompts (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    version BIGINT NOT NULL,
    text TEXT,
    digest {blob} NOT NULL,
    created_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, key, version)
);

-- The mode of a session: the name of a stored prompt; empty for none.
ALTER TABLE sessions ADD COLUMN mode TEXT NOT NULL DEFAULT '';

-- The SHA-256 of the prompt that a model was sent, in hex; empty for calls of before.
ALTER TABLE calls ADD COLUMN prompt_hash TEXT NOT NULL DEFAULT '';
