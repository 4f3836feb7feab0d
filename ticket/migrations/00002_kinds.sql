-- Slots and courses beside seats and stock, and seats that are sold in a way of
-- their own. A check cannot be changed everywhere, so that the table of catalogues,
-- which is small, is made anew.
CREATE TABLE catalogues_kinds (
    event           TEXT    NOT NULL PRIMARY KEY,
    kind            TEXT    NOT NULL CHECK (kind IN ('seats', 'stock', 'slots', 'courses')),
    price_cents     BIGINT  NOT NULL CHECK (price_cents >= 0),
    currency        TEXT    NOT NULL,
    per_user        BIGINT  NOT NULL CHECK (per_user > 0),
    hold_ms         BIGINT  NOT NULL CHECK (hold_ms > 0),
    locking         TEXT    NOT NULL CHECK (locking IN ('optimistic', 'pessimistic')),
    on_breaker_open TEXT    NOT NULL CHECK (on_breaker_open IN ('wait', 'cancel')),
    version         BIGINT  NOT NULL,
    -- An event that was removed and made again has another time here.
    created_ms      BIGINT  NOT NULL DEFAULT 0,
    -- 1 when the places came from a file: settings change only the terms then.
    imported        BIGINT  NOT NULL DEFAULT 0
);
INSERT INTO catalogues_kinds
    (event, kind, price_cents, currency, per_user, hold_ms, locking, on_breaker_open, version)
    SELECT event, kind, price_cents, currency, per_user, hold_ms, locking, on_breaker_open, version FROM catalogues;
DROP TABLE catalogues;
ALTER TABLE catalogues_kinds RENAME TO catalogues;

-- A slot has a time, a course has meetings (the texts of its timetable, as JSON).
-- A price below 0 is the catalogue's.
ALTER TABLE items ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE items ADD COLUMN price_cents BIGINT NOT NULL DEFAULT -1;
ALTER TABLE items ADD COLUMN starts_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN ends_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN meetings TEXT NOT NULL DEFAULT '';

-- A companion's seat names the wheelchair place that it belongs to.
ALTER TABLE seats ADD COLUMN kind TEXT NOT NULL DEFAULT '' CHECK (kind IN ('', 'wheelchair', 'companion'));
ALTER TABLE seats ADD COLUMN companion_of TEXT NOT NULL DEFAULT '';

-- version grows with each reservation of slots or courses, so that one who read a
-- person's bookings notices another.
ALTER TABLE shares ADD COLUMN version BIGINT NOT NULL DEFAULT 0;

-- Who holds or owns which slots and courses: each once.
CREATE TABLE bookings (
    event       TEXT NOT NULL,
    person      TEXT NOT NULL,
    item        TEXT NOT NULL,
    reservation TEXT NOT NULL,
    PRIMARY KEY (event, person, item)
) {keyed};
