-- What the contexts of a session showed each time its plan changed: the level of each range of turns.
CREATE TABLE pictures (
    session BIGINT NOT NULL,
    made_us BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    strategy TEXT NOT NULL,
    cause TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    budget_tokens BIGINT NOT NULL,
    strip TEXT NOT NULL,
    PRIMARY KEY (session, made_us)
);
