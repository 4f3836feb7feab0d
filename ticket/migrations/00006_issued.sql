-- The tokens that events with mode instant gave out, as the line told of them. A
-- token is filed once, however often it is told of.
CREATE TABLE issued (
    event      TEXT   NOT NULL,
    jti        TEXT   NOT NULL,
    rank       BIGINT NOT NULL CHECK (rank > 0),
    entry      TEXT   NOT NULL,
    person     TEXT   NOT NULL,
    issued_ms  BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    PRIMARY KEY (event, jti)
) {keyed};
