// Package number gives each person of an event a number, 1..N without a hole, and
// decides who wins.
//
//	ask ─▶ queue (202) ─▶ Numberer, one at a time ─▶ database: number, win, notice
//	                          │                           │ outbox ─▶ relay ─▶ broker
//	                          └─▶ told: the person's socket, and whoever asks
//
// The queue is read from its head in the order of arrival, and a request leaves it
// only when its number is committed and told. So a Numberer that dies anywhere
// leaves its work to the next, which finds in the database what was numbered
// already. The lease lets one work at a time; what makes a second harmless is its
// fence, which the counter's row remembers.
//
// The queue is a stream of the line's store or, with --queue, of NATS JetStream
// (natsbroker.Requests): the numbers are the same, and so are the promises.
//
// # Promises, each with a test that names it
//
//  1. Numbers have no hole, no person and no request has two, and every winner's
//     notice is committed with the number; wherever the Numberer dies
//     (package natsbroker's promise 7 says the same of its queue).
//  2. An old fence numbers nobody.
package number
