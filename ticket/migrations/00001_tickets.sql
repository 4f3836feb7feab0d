-- The whole schema, for PostgreSQL and SQLite alike. What differs stands in
-- braces and is filled in by dialect.go: {serial} is a key that counts up,
-- {keyed} and {hot} say how a table is stored.
-- Every time is in milliseconds since 1970 by the database's clock.

-- What an event sells. version grows with every change, so that nodes notice.
CREATE TABLE catalogues (
    event           TEXT    NOT NULL PRIMARY KEY,
    kind            TEXT    NOT NULL CHECK (kind IN ('seats', 'stock')),
    price_cents     BIGINT  NOT NULL CHECK (price_cents >= 0),
    currency        TEXT    NOT NULL,
    per_user        BIGINT  NOT NULL CHECK (per_user > 0),
    hold_ms         BIGINT  NOT NULL CHECK (hold_ms > 0),
    locking         TEXT    NOT NULL CHECK (locking IN ('optimistic', 'pessimistic')),
    on_breaker_open TEXT    NOT NULL CHECK (on_breaker_open IN ('wait', 'cancel')),
    version         BIGINT  NOT NULL
);

CREATE TABLE sections (
    event       TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    price_cents BIGINT NOT NULL CHECK (price_cents >= 0),
    ord         BIGINT NOT NULL,
    PRIMARY KEY (event, id)
);

-- A seat is sold by UPDATE … WHERE version = … AND status = 'free'; the rows
-- affected decide. No changing column is indexed.
CREATE TABLE seats (
    event       TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    section     TEXT   NOT NULL,
    row_name    TEXT   NOT NULL,
    number      BIGINT NOT NULL,
    ord         BIGINT NOT NULL,
    status      TEXT   NOT NULL CHECK (status IN ('free', 'held', 'sold', 'blocked')),
    version     BIGINT NOT NULL,
    reservation TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (event, id)
) {hot};

CREATE TABLE items (
    event TEXT   NOT NULL,
    id    TEXT   NOT NULL,
    total BIGINT NOT NULL,
    free  BIGINT NOT NULL CHECK (free >= 0 AND free <= total),
    ord   BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (event, id)
) {hot};

-- How many seats one person holds and owns.
CREATE TABLE shares (
    event  TEXT   NOT NULL,
    person TEXT   NOT NULL,
    n      BIGINT NOT NULL CHECK (n >= 0),
    PRIMARY KEY (event, person)
) {hot};

-- ends_ms is the end of the hold, and of the lease while a payment runs.
CREATE TABLE reservations (
    id           TEXT   NOT NULL PRIMARY KEY,
    event        TEXT   NOT NULL,
    person       TEXT   NOT NULL,
    jti          TEXT   NOT NULL,
    status       TEXT   NOT NULL CHECK (status IN ('held', 'payment_pending', 'paid', 'cancelled', 'expired', 'payment_failed', 'refunded')),
    reason       TEXT   NOT NULL,
    seats        TEXT   NOT NULL,
    n            BIGINT NOT NULL CHECK (n > 0),
    amount_cents BIGINT NOT NULL,
    currency     TEXT   NOT NULL,
    created_ms   BIGINT NOT NULL,
    ends_ms      BIGINT NOT NULL
) {keyed};

-- A token is spent by a reservation that lives; the end of a hold frees it.
CREATE UNIQUE INDEX reservations_token ON reservations (event, jti)
    WHERE status IN ('held', 'payment_pending', 'paid');
CREATE INDEX reservations_due ON reservations (event, ends_ms)
    WHERE status IN ('held', 'payment_pending');

-- The stored answers of deeds with an idempotency key.
CREATE TABLE answers (
    key        BYTEA  NOT NULL PRIMARY KEY,
    body_hash  BYTEA  NOT NULL,
    status     BIGINT NOT NULL,
    body       BYTEA  NOT NULL,
    created_ms BIGINT NOT NULL
) {keyed};
CREATE INDEX answers_created ON answers (created_ms);

-- A payment is known to the provider by its id. A claim lasts until lease_ms.
CREATE TABLE payments (
    id           TEXT   NOT NULL PRIMARY KEY,
    event        TEXT   NOT NULL,
    reservation  TEXT   NOT NULL UNIQUE,
    person       TEXT   NOT NULL,
    amount_cents BIGINT NOT NULL,
    currency     TEXT   NOT NULL,
    method       TEXT   NOT NULL,
    state        TEXT   NOT NULL CHECK (state IN ('requested', 'unknown', 'captured', 'declined', 'cancelled', 'refund_due', 'refunded')),
    attempts     BIGINT NOT NULL,
    lease_ms     BIGINT NOT NULL,
    created_ms   BIGINT NOT NULL,
    changed_ms   BIGINT NOT NULL
) {keyed};
CREATE INDEX payments_open ON payments (lease_ms)
    WHERE state IN ('requested', 'unknown', 'refund_due');

-- Written in the transaction of the deed. state: 0 waiting, 1 published, 2 parked.
CREATE TABLE outbox (
    id           {serial},
    event        TEXT   NOT NULL,
    topic        TEXT   NOT NULL,
    key          TEXT   NOT NULL,
    payload      BYTEA  NOT NULL,
    state        BIGINT NOT NULL DEFAULT 0,
    attempts     BIGINT NOT NULL DEFAULT 0,
    next_ms      BIGINT NOT NULL DEFAULT 0,
    cause        TEXT   NOT NULL DEFAULT '',
    created_ms   BIGINT NOT NULL,
    published_ms BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX outbox_waiting ON outbox (id) WHERE state = 0;
CREATE INDEX outbox_unpublished ON outbox (key, id) WHERE state <> 1;
CREATE INDEX outbox_published ON outbox (published_ms) WHERE state = 1;
