-- The numbers of events with mode buffered: 1..N without a hole, one for a person
-- and one for a request. counters.fence is the highest leadership seen; an older one
-- gives out nothing.
CREATE TABLE counters (
    event TEXT   NOT NULL PRIMARY KEY,
    last  BIGINT NOT NULL CHECK (last >= 0),
    fence BIGINT NOT NULL
) {hot};

CREATE TABLE numbers (
    event         TEXT   NOT NULL,
    seq           BIGINT NOT NULL CHECK (seq > 0),
    entry         TEXT   NOT NULL,
    request       TEXT   NOT NULL,
    person        TEXT   NOT NULL,
    winner        BIGINT NOT NULL CHECK (winner IN (0, 1)),
    determined_ms BIGINT NOT NULL,
    PRIMARY KEY (event, seq)
) {keyed};
CREATE UNIQUE INDEX numbers_entry ON numbers (event, entry);
CREATE UNIQUE INDEX numbers_request ON numbers (event, request);
