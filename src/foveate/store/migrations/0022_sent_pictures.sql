-- What a request shows of each turn, what changed since the one before, and what it cost; NULL: unknown.
ALTER TABLE sent_requests ADD COLUMN picture {blob};

ALTER TABLE sent_requests ADD COLUMN budget_tokens BIGINT NOT NULL DEFAULT 0;

-- Why the plan was made anew for it; empty: it was not.
ALTER TABLE sent_requests ADD COLUMN cause TEXT NOT NULL DEFAULT '';

ALTER TABLE sent_requests ADD COLUMN predicted_tokens BIGINT;

ALTER TABLE sent_requests ADD COLUMN nano_usd BIGINT NOT NULL DEFAULT 0;

ALTER TABLE sent_requests ADD COLUMN kept_tokens BIGINT;

ALTER TABLE sent_requests ADD COLUMN rewritten_tokens BIGINT;
