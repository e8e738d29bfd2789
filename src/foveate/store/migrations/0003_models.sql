-- Every call of a model, for the bill and for the daily cap.
CREATE TABLE calls (
    id {serial},
    session BIGINT REFERENCES sessions (number),
    at_us BIGINT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    turn BIGINT,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    nano_usd BIGINT NOT NULL,
    is_estimate BIGINT NOT NULL,
    latency_us BIGINT NOT NULL,
    outcome TEXT NOT NULL
);

CREATE INDEX calls_at ON calls (at_us);

CREATE INDEX calls_session ON calls (session, at_us);

-- When a model is to be asked for better renditions than these; NULL: never (again). `calls` is what it cost so far.
ALTER TABLE renditions ADD COLUMN due_us BIGINT;

ALTER TABLE renditions ADD COLUMN calls BIGINT NOT NULL DEFAULT 0;

CREATE INDEX renditions_due ON renditions (session, due_us) WHERE due_us IS NOT NULL;
