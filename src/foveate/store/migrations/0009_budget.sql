-- Whether somebody chose the session's budget; otherwise it follows the settings and the model's window.
ALTER TABLE sessions ADD COLUMN budget_chosen BIGINT NOT NULL DEFAULT 1;

-- Until now a budget that equals the default counted as not chosen.
UPDATE sessions SET budget_chosen = 0 WHERE budget_tokens = 100000;
