// Package pay turns a payment that was asked for into money, once.
//
// The buyer's request only writes a payment and an outbox row (package ticket).
// Here, a worker takes the payment, charges it at a provider outside any
// transaction, and settles it. The payment's id is the provider's key: however
// often a charge is sent, it counts once.
//
//	             claim             charge
//	requested ───────────▶ in hand ───────▶ captured ─▶ settled: paid
//	                        │  ▲   │        declined ─▶ settled: payment failed
//	                        │  │   │ no answer, or one that says nothing
//	     breaker open:      │  │   ▼
//	     wait, or cancel ◀──┘  └─ unknown ──ask by the same key──▶ captured, declined
//	                           ▲            │ nothing there: charge, same key
//	                           └────────────┘
//	refund_due (money for seats that were gone) ──refund──▶ refunded
//
// # Words
//
//   - provider: who moves the money. It keeps an answer by key, and gives the same
//     one to the same key.
//   - charge, refund: what a provider did. A decline is an answer, not a failure.
//   - unknown: a charge may have happened. Only asking (find) ends it.
//   - guard: a provider behind a timeout and a breaker.
//   - fault: a failure of the provider itself. A refusal, a charge that is not
//     there and a caller who went away are none.
//   - breaker: closed (calls pass), open (none passes), half-open (a few trials).
//   - settle: write what was found out, in one transaction of package ticket.
//   - sandbox: a provider to test against, with its own books. With a journal, a file,
//     it knows after a kill what it has charged, so that who asks hears the truth.
//
// # Promises, each with a test that names it
//
//  1. A payment is charged once, whatever is repeated, lost or killed.
//  2. A call without an answer is unknown: it is asked about with the same key,
//     never reported as failed.
//  3. The breaker opens at half of the calls failed, or four fifths slower than
//     2 s, of the last 100 and at least 50, and lets trials through after 30 s.
//  4. Refusals and callers who went away never open it.
//  5. While it is open, jobs wait, and each one's buyer is told so once, or reservations
//     are cancelled with the reason payment_unavailable, as the event says; what may have
//     been charged is never cancelled for it.
//  6. Money for seats that were gone goes back once.
//  7. A lost message or a killed worker loses nothing: the sweep finds the payment.
//  8. Captured less refunded is the price of what was sold.
//  9. A payment that nobody waits for is asked about until no charge can be on its
//     way any more; one that comes meanwhile goes back once.
//  10. A webhook counts once, in any order, only with a good signature of now, and
//     never for another sum than was asked for.
package pay
