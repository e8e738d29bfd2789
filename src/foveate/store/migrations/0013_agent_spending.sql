-- What the agents of a tree spent whose sessions were deleted: it still counts against the tree's limits.
ALTER TABLE agent_trees ADD COLUMN spent_tokens BIGINT NOT NULL DEFAULT 0;

ALTER TABLE agent_trees ADD COLUMN spent_nano_usd BIGINT NOT NULL DEFAULT 0;
