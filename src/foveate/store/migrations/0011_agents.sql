-- Agents: each has a session of its own, and works for a session or another agent.
CREATE TABLE agents (
    id TEXT NOT NULL PRIMARY KEY,
    session BIGINT NOT NULL UNIQUE REFERENCES sessions (number),
    parent TEXT,
    parent_session BIGINT REFERENCES sessions (number),
    tree TEXT NOT NULL,
    depth BIGINT NOT NULL,
    kind TEXT NOT NULL,
    task TEXT NOT NULL,
    spec TEXT NOT NULL,
    state TEXT NOT NULL,
    result TEXT,
    problem TEXT,
    waits TEXT NOT NULL,
    grants TEXT NOT NULL,
    decision TEXT NOT NULL,
    claims BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    owner TEXT NOT NULL,
    until_us BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    started_us BIGINT,
    ended_us BIGINT,
    read_us BIGINT
);

CREATE INDEX agents_state ON agents (state, created_us);

CREATE INDEX agents_tree ON agents (tree);

CREATE INDEX agents_parent ON agents (parent);

CREATE INDEX agents_parent_session ON agents (parent_session);

-- Which agents an agent waits for.
CREATE TABLE agent_waits (
    agent TEXT NOT NULL,
    child TEXT NOT NULL,
    PRIMARY KEY (agent, child)
);

CREATE INDEX agent_waits_child ON agent_waits (child);

-- Limits of a tree where they differ from the settings; NULL: as the settings have it.
CREATE TABLE agent_trees (
    tree TEXT NOT NULL PRIMARY KEY,
    max_depth BIGINT,
    max_agents BIGINT,
    max_tokens BIGINT,
    max_nano_usd BIGINT
);
