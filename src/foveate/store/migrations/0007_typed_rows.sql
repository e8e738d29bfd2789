-- Caches that can be made again, by strategy, each with the SHA-256 of its data: a damaged one is made again.
CREATE TABLE plans (
    session BIGINT NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    data {blob} NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (session, name)
);

CREATE TABLE offers (
    session BIGINT NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    data {blob} NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (session, name)
);

CREATE TABLE recalled (
    session BIGINT NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    data {blob} NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (session, name)
);

-- Records of what people did, never dropped: manual seals, checkpoint counts and shrink choices by strategy; boards.
CREATE TABLE states (
    session BIGINT NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    data {blob} NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (session, name)
);

CREATE TABLE boards (
    session BIGINT NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    data {blob} NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (session, name)
);

-- What models were asked for: how often an artefact, up to which place the eras of a level, how many calls failed.
CREATE TABLE requests (
    session BIGINT NOT NULL REFERENCES sessions (number),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (session, kind, name)
);

-- When turns were pruned last.
ALTER TABLE sessions ADD COLUMN pruned_us BIGINT;

-- NULL where a row was stored before it was hashed.
ALTER TABLE renditions ADD COLUMN digest {blob};

ALTER TABLE renditions ADD COLUMN tiny_digest {blob};

ALTER TABLE eras ADD COLUMN digest {blob};

ALTER TABLE artefacts ADD COLUMN digest {blob};

ALTER TABLE passages ADD COLUMN digest {blob};

ALTER TABLE passages ADD COLUMN texts_digest {blob};

INSERT INTO plans (session, name, data, digest)
    SELECT session, CASE WHEN name = 'plan' THEN 'gradient' ELSE substr(name, 6) END, data, sha256(data)
    FROM keepsakes WHERE name = 'plan' OR name LIKE 'plan:%';

INSERT INTO offers (session, name, data, digest)
    SELECT session, substr(name, 8), data, sha256(data) FROM keepsakes WHERE name LIKE 'wanted:%';

INSERT INTO recalled (session, name, data, digest)
    SELECT session, 'layer', data, sha256(data) FROM keepsakes WHERE name = 'recalled';

INSERT INTO states (session, name, data, digest)
    SELECT session, substr(name, 7), data, sha256(data) FROM keepsakes WHERE name LIKE 'state:%';

INSERT INTO boards (session, name, data, digest)
    SELECT session, 'board', data, sha256(data) FROM keepsakes WHERE name = 'board';

INSERT INTO requests (session, kind, name, count)
    SELECT session, 'artefact', substr(name, 7), CASE WHEN length(data) > 0 THEN 1 ELSE 0 END
    FROM keepsakes WHERE name LIKE 'asked:%';
