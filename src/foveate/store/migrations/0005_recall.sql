-- The index of turns: one row has all passages of a turn, as far as its first `messages` messages go. Passage n of row
-- `id` is known to the full-text index as id * 4096 + n. All of it can be thrown away and made again.
CREATE TABLE passages (
    id {serial_once},
    session BIGINT NOT NULL REFERENCES sessions (number),
    turn BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    at_us BIGINT NOT NULL,
    maker TEXT NOT NULL,
    marks {blob} NOT NULL,
    texts {blob} NOT NULL,
    vectors {blob} NOT NULL
);

CREATE UNIQUE INDEX passages_turn ON passages (session, turn, messages);

CREATE INDEX passages_session ON passages (session, id);

-- Turns up to `unindexed` may lack passages, or have those of another maker; `index_epoch` grows when some are taken away.
ALTER TABLE sessions ADD COLUMN unindexed BIGINT NOT NULL DEFAULT 0;

ALTER TABLE sessions ADD COLUMN index_epoch BIGINT NOT NULL DEFAULT 0;

UPDATE sessions SET unindexed = last_turn;
