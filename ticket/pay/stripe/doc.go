// Package stripe is a payment provider: Stripe's HTTP API, as far as a ticket
// needs it.
//
// A charge is a PaymentIntent that is made and confirmed in one call, with the
// payment's id as idempotency key and in its metadata, so that it can be found by
// that id. What Stripe tells by itself comes as webhooks, signed with a secret.
//
//	Charge ── POST /v1/payment_intents (confirm, Idempotency-Key) ──▶ succeeded: captured
//	Find   ── GET  /v1/payment_intents/search (metadata)              402: declined
//	Refund ── POST /v1/refunds (Idempotency-Key)                      processing: pending
//
// # Words
//
//   - answers that say nothing: time-outs, 409, 429, 5xx, and a key that was used
//     with other parameters. The payment is unknown then, and asked about.
//   - search lag: Stripe's search may be a minute behind. A charge that is not found
//     is sent again with the same key while it is wanted, and watched otherwise.
//
// # Promises, each with a test that names it
//
//  1. A charge and a refund carry their keys; the same key counts once.
//  2. A declined card is an answer; what says nothing is never taken for one.
//  3. The secret key is in no error.
//  4. A webhook counts with a good signature of the last five minutes only; unknown
//     kinds are passed over.
package stripe
