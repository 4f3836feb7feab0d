// Package natsbroker is a broker for the outbox on NATS JetStream.
//
// All messages of an installation go to one stream, in the order in which they
// were published, each on the subject of its topic. Whoever wants only some topics
// filters by subject, and a filtered view keeps the stream's order.
//
//	Publisher ──▶ stream wr-tickets ──▶ Consumer (durable; one of a group handles a message)
//	  Nats-Msg-Id      │    │               │ fails N times
//	  counted once     │    └──▶ Tail       ▼
//	                   └──▶ Log         stream wr-tickets-dead
//
// # Words
//
//   - stream: the messages of all topics, bounded in number, oldest dropped. One
//     that an operator made beforehand (more replicas, other limits) is used as it is.
//   - subject: wr.tickets.{topic}; event and reservation stand in headers.
//   - duplicate window: how long the server remembers deduplication ids.
//   - group: consumers with one durable name; each message is handled by one.
//   - request: somebody's wish for a number, in a stream of its own (wr-requests, a
//     subject for each event) until package number has numbered it. One consumer an
//     event reads it; whoever takes over takes that consumer away and begins at the head.
//   - dead letter: a message that failed MaxDeliveries times, with its last cause.
//
// # Promises, each with a test that names it
//
//  1. A message that was published without an error is in the stream once, however
//     often it was sent within the duplicate window, and in order.
//  2. A server that hangs or is away is relay.ErrAway by the deadline; what is too
//     large is relay.ErrRefused, and only that.
//  3. A group handles each message at least once, acknowledges it after that, and
//     takes over from consumers that died.
//  4. A message that fails again and again ends in the dead letters, and stops nobody.
//  5. A tail sees every message from the moment it started, across lost connections
//     and restarts of the server.
//  6. An audit reads every message that the stream holds, oldest first.
//  7. A request that was put without an error waits in the order of arrival until it is
//     done, wherever the numberer or the server dies.
package natsbroker
