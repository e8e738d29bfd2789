-- The brief form of each turn, a length between its levels, and its tokens; NULL: there is none, or made before this version.
ALTER TABLE renditions ADD COLUMN brief {blob};

ALTER TABLE renditions ADD COLUMN brief_tokens BIGINT;
