// Package redisbroker is a broker for the outbox on Redis streams.
//
// All messages of an installation go to one stream, the log, in the order in
// which they were published; so any consumer sees the messages of a reservation
// in their order, whatever their topics. Beside the log stand the dead-letter
// stream and a bounded memory of deduplication ids. The three keys share a hash
// tag, so that one script works on one cluster slot.
//
//	Publisher ──XADD──▶ log ──XREADGROUP──▶ Consumer (one of a group handles a message)
//	    │ seen ids       │                      │ fails N times
//	    ▼                │                      ▼
//	  counted once       └──XREAD──▶ Tail      dead letters
//	                       (every node sees every message)
//
// # Words
//
//   - log: the stream of all messages, bounded by MaxLen. What a group has not
//     read when it is trimmed away is gone from the broker; so a reader must be
//     able to find its work in the database as well (the payment worker sweeps it,
//     a buyer's page asks for its reservation).
//   - seen: the deduplication ids of the last SeenLen messages. A message that is
//     published again within them counts once; after that, consumers must cope, as
//     they always must.
//   - group: consumers that share the messages; each message is handled by one.
//   - pending: delivered to a consumer and not acknowledged. When a consumer is
//     silent for MinIdle, another takes its pending messages over.
//   - dead letter: a message that failed MaxDeliveries times, with its last cause.
//
// # Promises, each with a test that names it
//
//  1. A message that was published without an error is in the log once, however
//     often it was sent within the last SeenLen messages, also when the reply was
//     lost and the client sent the command again.
//  2. Messages keep the order in which they were published.
//  3. A group handles each message at least once; a consumer that died leaves its
//     messages to the others.
//  4. A message is acknowledged after it was handled, never before.
//  5. A message that fails again and again ends in the dead letters, with a
//     counter and an error in the log, and stops nobody.
//  6. A tail sees every message from the moment it started, also across a lost
//     connection, as long as the log still holds them.
//  7. Log, seen ids and dead letters are bounded.
//  8. An audit reads every record that the log holds, oldest first.
package redisbroker
