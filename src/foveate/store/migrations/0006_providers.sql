-- Whose limits a call counts against; empty for calls of before.
ALTER TABLE calls ADD COLUMN provider TEXT NOT NULL DEFAULT '';
