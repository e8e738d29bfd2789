-- What past conversations teach. An item is never edited: a new version supersedes the one before.
CREATE TABLE knowledge (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    version BIGINT NOT NULL,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    data TEXT NOT NULL,
    maker TEXT NOT NULL,
    prompt_version TEXT NOT NULL,
    first_seen_us BIGINT NOT NULL,
    last_seen_us BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    superseded_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (tenant, id, version)
);

CREATE INDEX knowledge_scope ON knowledge (tenant, scope, superseded_by);

-- The turns that a version of an item was learned from.
CREATE TABLE knowledge_sources (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    version BIGINT NOT NULL,
    session BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    PRIMARY KEY (tenant, id, version, session, turn)
);

CREATE INDEX knowledge_sources_session ON knowledge_sources (session, turn);

-- How often an item was shown in a context, and how often the answer used it.
CREATE TABLE knowledge_uses (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    uses BIGINT NOT NULL,
    helped BIGINT NOT NULL,
    last_used_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- The topics of each turn; a topic is an item.
CREATE TABLE turn_topics (
    session BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    topic TEXT NOT NULL,
    weight DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (session, turn, topic)
);

CREATE INDEX turn_topics_topic ON turn_topics (topic, session, turn);

-- Runs that learn, one at a time for each scope, and the results of their steps.
CREATE TABLE learn_runs (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    watermark TEXT NOT NULL,
    prompt_version TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    until_us BIGINT NOT NULL,
    started_us BIGINT NOT NULL,
    ended_us BIGINT,
    report TEXT NOT NULL
);

CREATE INDEX learn_runs_scope ON learn_runs (tenant, scope, started_us);

CREATE TABLE learn_steps (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    data {blob} NOT NULL,
    digest {blob} NOT NULL,
    PRIMARY KEY (run, name)
);

-- The scope whose knowledge and past sessions a session may recall; empty for none.
ALTER TABLE sessions ADD COLUMN scope TEXT NOT NULL DEFAULT '';
