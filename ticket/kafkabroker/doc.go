// Package kafkabroker is a broker for the outbox on Kafka and what speaks its
// protocol.
//
// All messages go to one topic, keyed by reservation, so that those of one
// reservation share a partition and keep their order. Event, topic of the outbox
// and deduplication id stand in headers; consumers tell repetitions apart by the
// id, for Kafka itself does not.
//
//	Publisher ──▶ topic wr-tickets ──▶ Consumer (one of a group handles a message)
//	 key = reservation  │     │            │ fails N times
//	                    │     └──▶ Tail    ▼
//	                    └──▶ Log        topic wr-tickets-dead
//
// # Words
//
//   - topic: Kafka's one topic; one that an operator made beforehand (more
//     partitions, other retention) is used as it is.
//   - group: consumers that share the partitions. What a consumer polls at once it
//     handles at once; it commits what it has handled, and polls again.
//   - dead letter: a message that failed MaxTries times, with its last cause.
//
// # Promises, each with a test that names it
//
//  1. A message that was published without an error is in the topic at least once,
//     and the first of each key's messages are in order.
//  2. A broker that hangs or is away is relay.ErrAway by the deadline, and nothing
//     piles up meanwhile; what is too large is relay.ErrRefused, and only that.
//  3. A group handles each message at least once and commits it after that.
//  4. A message that fails again and again ends in the dead letters.
//  5. A tail sees every message from the moment it started.
//  6. An audit reads every message that the topic holds.
package kafkabroker
