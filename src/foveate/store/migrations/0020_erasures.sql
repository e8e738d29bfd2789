-- Erasures: who erased which turns of which session, and when; never what they said. Rows are never removed.
-- `swept_us` is when the pages and the journal that held the text were overwritten; NULL: not yet.
CREATE TABLE erasures (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    turns TEXT NOT NULL,
    actor TEXT NOT NULL,
    counts TEXT NOT NULL,
    at_us BIGINT NOT NULL,
    swept_us BIGINT
);

CREATE INDEX erasures_session ON erasures (session_id);

-- When a message, or a text in it, was erased.
ALTER TABLE messages ADD COLUMN erased_us BIGINT;
