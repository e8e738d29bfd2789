-- Models and routes that a key of the server may use, space-separated; empty: all.
ALTER TABLE access_keys ADD COLUMN models TEXT NOT NULL DEFAULT '';

ALTER TABLE access_keys ADD COLUMN routes TEXT NOT NULL DEFAULT '';
