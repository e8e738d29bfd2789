-- Processes that do background work. A row that is not renewed until `until_us` belongs to a process that has died.
CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    version TEXT NOT NULL,
    compresses BIGINT NOT NULL,
    started_us BIGINT NOT NULL,
    seen_us BIGINT NOT NULL,
    until_us BIGINT NOT NULL
);
