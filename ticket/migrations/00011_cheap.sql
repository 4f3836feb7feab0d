-- What a reservation leaves in indexes, measured by its share of the insert.
--
-- Instances may be at work: tables come in the order in which they write them, so that
-- nobody waits for this and is waited for by it.

-- A group sells seats that lie side by side, all in one transaction, whose old versions
-- are in the way until it ends: a page has room for the new version of every seat in it,
-- since two thirds of them went to another page and into the index again, a third of
-- each sale. Halls that are there already keep their pages.
{roomy}

-- Who looks for holds that have ended looks at those only, whatever their event. Without
-- it the entries of a group are one: a fifth of each reservation.
DROP INDEX reservations_due;
CREATE INDEX reservations_due ON reservations (ends_ms) WHERE status IN ('held', 'payment_pending');

-- The relay walks along the keys of what is not published yet, which begin with the
-- time: an index of what waits, by number, took a fifth of each message.
DROP INDEX outbox_waiting;
