// Package ticket sells each seat once.
//
// SQL is the truth: PostgreSQL in production, SQLite embedded, the same schema,
// code and tests for both. A person with an entry token reserves seats of a hall
// or a quantity of a stock, pays, and owns them.
//
//	          reserve          pay                    captured
//	(free) ───────────▶ held ───────▶ payment_pending ───────────▶ paid
//	                     │                  │
//	       cancel, hold_ttl ends      declined, given up, lease ends
//	                     ▼                  ▼
//	        cancelled, expired       payment_failed, cancelled ──▶ refunded
//	                     │                  │             (money came too late)
//	                     └── seats, share and token free again ──┘
//
// # Words
//
//   - catalogue: what an event sells, and on which terms. Put makes it.
//   - seat, item: a seat of a hall has a version that grows with each change; an
//     item is a stock, a slot or a course, of which only the number left is known.
//   - booking: who holds or owns which slot or course; nobody has one twice.
//   - timetable: the meetings of a course, each every week or on a date. Two
//     courses clash when one of each's meetings overlap.
//   - companion: a seat that is sold only with its wheelchair place.
//   - sheet: the places of a catalogue in a file, one a line (CSV or JSON). An import
//     makes the event's places the sheet's, as a whole or not at all.
//   - hall: one node's memory of an event's seats and stock. It may be behind; it
//     only spares the database questions, and the database decides.
//   - delta: what changed on a hall's map between two moments, for pages that have it.
//   - hold: a reservation's right to its seats until expires_at, by the
//     database's clock. In payment it is a lease that ends with the payment's
//     outcome or at its cap.
//   - token (jti): the entry token's id. It is spent by a reservation that lives
//     (held, payment_pending, paid), not by an attempt.
//   - share: the number of seats that one person holds and owns.
//   - answer: the response to a deed with an idempotency key, stored with the
//     deed and replayed ever after.
//   - group: reservations in flight together, in one transaction. There is no
//     timer: whoever finds nobody at work leads a group of one.
//   - outbox: the messages of what was committed, written with it. Consumers may
//     see one twice; its deduplication id is always the same.
//   - outcome: a change of a reservation that its buyer is told, or that its payment
//     waits for a provider that is away.
//   - refund_due: money that came for seats that are gone.
//
// # How a reservation is made
//
// One transaction asks one question (answers, tokens, shares, stock, the clock),
// judges the group's requests one after the other in memory, and writes what
// follows in one round trip: seats by UPDATE … WHERE version = … AND status =
// 'free', the reservation against the unique token, the share with its limit, the
// stock while enough is left, outbox rows, answers. The rows affected decide. Who
// lost a row to another node tries the whole group again, up to three times with
// growing, jittered waits, the last time with row locks; a group that cannot be
// done is halved until a bad request stands and fails alone. With pessimistic
// locking the rows are locked from the first try on. All locks are taken in one
// order: seats, reservations, shares, bookings, items, outbox, answers, and by key
// in each.
//
// For slots and courses it also reads what the persons hold and own, with the
// version of each one's share; the share is written only while that version is the
// same. So of two devices that ask for courses which clash, on whatever nodes, one
// is judged after the other.
//
// What costs nothing goes the same way: it is held, and the call that would pay it
// makes it paid at once, without a payment. So a hold that nobody confirms ends,
// and a client need not know prices to take the right steps. A slot or a course
// that is named and has no place left is ErrSeatTaken while another one has, as a seat
// is, and ErrSoldOut when nothing is left of anything: so whoever hears "sold out" may
// go home. One that an operator has closed has none left. A quantity is ErrSoldOut
// also when fewer are left than it asks for.
//
// A group of seats or of stock is bold at first: it asks for the time only, supposes
// that all of it can be done, and lets the guards of its writes find out. If one of
// them says no, or somebody would be refused, nothing was written, and the group and
// the next few ask the question first. It supposes too that its people are new here, so
// that their shares are new rows; who returns costs their group one more try, and the
// next few look.
//
// # What a reservation costs
//
// `make bench BAR=reserve` on two cores with PostgreSQL 15 (fsync on) on the same two,
// 1,024 buyers at once, little beside it: 24,146 seats a second where the naive
// transaction does 2,225; the median over rounds of the ratio of neighbours, which is the
// bar's figure, was 11.5, 10.3, 10.6 and 11.0 in four runs (bar: 10); one hot stock row
// 27,102 a second, 60 times the optimistic loop (bar: 20). A lone reservation takes 0.99
// times the naive one's 0.89 ms (bar: 1.2; 0.92 to 0.99 in five runs).
//
// Payments and their outcomes are not gathered: each is a transaction of its own, since
// they come at the provider's pace, and one's fault must not touch another's money.
//
// By processor time, which other jobs disturb less, a reservation takes this process 16
// to 22 µs and PostgreSQL 30 to 40 (getrusage here, schedstat there; 25,000 reservations,
// in turns with what was there before: 24 to 31 and 38 to 54); the naive one takes 300
// and 540 in the same minutes. What won it:
//
//   - rows: a page of seats has room for the new version of each (two thirds of a
//     group's neighbours went to other pages and into the index again), a hold's end is
//     an index of its own, where a group's entries are one, messages that wait are found
//     by their keys, whose index the order needs anyway, and shares are new rows until
//     somebody returns. Two keys begin with what tells rows apart, ids grow in the order
//     of the tokens, and old answers are found without an index on their age;
//   - lists: packed once, into buffers of their size, and sent as they are; rows are
//     unnested beside each other;
//   - this process: a hall is a few pieces of memory, so that a collection is short, and
//     messages are written without reflection;
//   - groups: where the last one was of hundreds, its successor yields the processor once
//     before it begins, since the first to be back led a group of one.
//
// What is left is the rows. By pg_stat_statements, in such runs and beside another group,
// a row takes 9 µs in seats (14 before there was room), 8 in reservations (10 before a
// group's ends were one entry), 8 in the outbox, 7 in answers, 5 in shares. The seven index
// entries that a reservation leaves hold a constraint, a hold's end or the relay's order
// each.
//
// On SQLite (`make bench BAR=reserve-sqlite`: 9,925 a second, 6.1 times the naive
// transaction's 1,690; 5.8 to 6.5 in five runs; bar: 5) a connection keeps its
// prepared statements, lists go into statements as JSON that is not written as text in
// between, and a failure undoes the group, so that few pages are copied for less. By a
// profile a group's time is then a quarter in the B-trees of tables and indexes, a fifth in
// reading the lists, a fifth in the commit.
//
// # What it withstands
//
// `make chaos`: 20,000 buyers for 5,000 seats over two instances on PostgreSQL, while the
// relay, the provider (a process, with a journal), both instances and the database are
// killed and restarted three times each. On two cores that six other jobs shared: sold out
// after 4 min 49 s, 21 sums balance on both instances, the provider has the price of 5,000
// seats and no more. With a crowd that asks each second it did not end within ten minutes:
// 20,000 calls a second are more than two cores can even send, so the crowd waits by its
// size, as Retry-After has it.
//
// # Promises, each with a test that names it
//
//  1. A seat is sold once, its version grows by one, and one message tells of it.
//  2. Stock adds up and never goes below zero; each refusal is definite.
//  3. The server's own choice sells every seat, and none twice.
//  4. A token buys once, on however many nodes it is tried at once.
//  5. A key acts once; the same key, caller, route and body is answered byte for
//     byte, refusals too; another body is ErrIdempotencyMismatch.
//  6. A person never has more than per_user.
//  7. A bad call in a group spoils nobody else's.
//  8. Nobody fails for want of a lock or a connection, with one connection too.
//  9. Every order of holds, ends, payments, their results, cancellations and
//     refunds leaves the rightful owner, and late money goes back once.
//  10. An ended hold frees seats, share and token at once.
//  11. A hold in payment does not end before its outcome or its cap.
//  12. Every node hears each outcome, and its map follows the others'.
//  13. Messages of a reservation keep their order, past failures too, and are
//     given out until they are published.
//  14. What commits late is not skipped, by relay or nodes.
//  15. With the database away a call ends in time with ErrUnavailable and nothing
//     half done; when it is back, calls succeed without a restart.
//  16. Every statement on the way of a purchase finds its rows by an index.
//  17. The books balance: an audit counts everything twice in one moment (bookings,
//     numbers, wins and issued tokens, too, and those of events that sell nothing), and each
//     kind of corruption fails a sum of its own.
//  18. Nobody holds or owns a slot or a course twice, nor two courses that meet at
//     the same time.
//  19. Whatever ends without a sale carries its reason, on every way to its end.
//  20. A sheet is read as it was written, and what is wrong in it is told by line and
//     column, all at once; an import that would take or change what somebody has is
//     refused by its lines, and then nothing is done.
//  21. Seats that an operator holds back or puts on sale, and slots, courses and stock
//     that one closes and opens, are so on every node; nobody loses a seat by it.
//  22. Reading the map asks the database nothing, however many read it: 2,000 readers
//     of 5,000 seats, no statement. A read takes 10 µs on a busy machine while each
//     hundredth finds a seat changed (go test -bench 'Map$' ./ticket).
//  23. Deltas make the map: whoever begins with any map of the last seconds and takes in
//     what they are told has what is read then; what is too old or too much is one
//     instruction to read it.
package ticket
