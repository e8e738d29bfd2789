-- Claims of a turn in a row that were neither finished nor released: their workers died.
ALTER TABLE leases ADD COLUMN attempts BIGINT NOT NULL DEFAULT 1;

CREATE INDEX leases_owner ON leases (owner);

-- Why no more attempts are made for a turn; empty if they are, or if none is needed.
ALTER TABLE renditions ADD COLUMN parked TEXT NOT NULL DEFAULT '';

CREATE INDEX renditions_parked ON renditions (session, turn) WHERE parked <> '';

-- When a worker should look at the session; 0 after something was recorded, NULL when nothing is left to do.
ALTER TABLE sessions ADD COLUMN work_us BIGINT DEFAULT 0;

CREATE INDEX sessions_work ON sessions (work_us, number) WHERE work_us IS NOT NULL;

-- Sessions that 'foveate copy' has brought here or is bringing: the hash of the source's rows, empty until it is verified.
CREATE TABLE copies (
    session BIGINT NOT NULL PRIMARY KEY,
    digest TEXT NOT NULL,
    copied_us BIGINT NOT NULL
);
