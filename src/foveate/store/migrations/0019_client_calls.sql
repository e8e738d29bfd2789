-- Calls of the gateway's clients are accounted like those of Foveate's own models, with what the provider reported.
ALTER TABLE calls ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

ALTER TABLE calls ADD COLUMN key_id TEXT NOT NULL DEFAULT '';

ALTER TABLE calls ADD COLUMN client TEXT NOT NULL DEFAULT '';

ALTER TABLE calls ADD COLUMN request_id TEXT NOT NULL DEFAULT '';

ALTER TABLE calls ADD COLUMN status BIGINT NOT NULL DEFAULT 0;

ALTER TABLE calls ADD COLUMN first_byte_us BIGINT NOT NULL DEFAULT 0;

ALTER TABLE calls ADD COLUMN written_tokens BIGINT NOT NULL DEFAULT 0;

ALTER TABLE calls ADD COLUMN thinking_tokens BIGINT NOT NULL DEFAULT 0;

-- NULL where there is no prediction.
ALTER TABLE calls ADD COLUMN predicted_tokens BIGINT;

-- Input and cost of the whole conversation, had it been sent; NULL if unknown.
ALTER TABLE calls ADD COLUMN whole_tokens BIGINT;

ALTER TABLE calls ADD COLUMN whole_nano_usd BIGINT;

UPDATE calls SET tenant = coalesce((SELECT s.tenant FROM sessions s WHERE s.number = calls.session), '');

CREATE INDEX calls_key ON calls (key_id, at_us) WHERE key_id <> '';

-- The daily limit and the state of providers read Foveate's own calls only.
CREATE INDEX calls_own ON calls (at_us) WHERE purpose <> 'gateway';

-- Budgets of keys; NULL: none.
ALTER TABLE access_keys ADD COLUMN budget_nano_usd BIGINT;

ALTER TABLE access_keys ADD COLUMN soft_nano_usd BIGINT;

ALTER TABLE access_keys ADD COLUMN period TEXT NOT NULL DEFAULT 'month';

-- The newest requests of a session as they were sent to the provider, as differences from an earlier one (`base`).
CREATE TABLE sent_requests (
    session BIGINT NOT NULL REFERENCES sessions (number),
    number BIGINT NOT NULL,
    request_id TEXT NOT NULL,
    base TEXT NOT NULL,
    at_us BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    format TEXT NOT NULL,
    path TEXT NOT NULL,
    status BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    size BIGINT NOT NULL,
    kept_bytes BIGINT NOT NULL,
    digest {blob} NOT NULL,
    data {blob} NOT NULL,
    PRIMARY KEY (session, number)
);
