-- What strategies had made of turns; can be thrown away and made again.
CREATE TABLE artefacts (
    session BIGINT NOT NULL REFERENCES sessions (number),
    strategy TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    first_turn BIGINT NOT NULL,
    last_turn BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    data {blob} NOT NULL,
    made_us BIGINT NOT NULL,
    PRIMARY KEY (session, strategy, name)
);

-- What the user gave, which nothing else can make: goals, and documents such as an epic and its tasks.
CREATE TABLE goals (
    session BIGINT NOT NULL REFERENCES sessions (number),
    number BIGINT NOT NULL,
    data {blob} NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (session, number)
);

CREATE TABLE documents (
    session BIGINT NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (session, name)
);

-- How many tool results a message carries; NULL where it was recorded before this was counted.
ALTER TABLE messages ADD COLUMN tool_results BIGINT;
