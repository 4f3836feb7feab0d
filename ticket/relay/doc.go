// Package relay carries what was committed to a broker.
//
// A deed of package ticket (a hold, a payment asked for, a sale) writes an
// outbox row in its own transaction. The relay claims such rows for a time,
// publishes them outside any transaction, and marks them. A crash between
// publishing and marking publishes a row again, never none: consumers see
// things twice and tell them apart by the deduplication id.
//
//	              claim                 publish               mark
//	committed ───────────▶ claimed ───────────────▶ published ─────▶ (swept)
//	    ▲                   │    │                      │
//	    │     lease is over │    │ the message itself   │ crash before the mark:
//	    └───────────────────┘    │ fails                │ claimed again, same
//	    ▲                        ▼                      │ deduplication id
//	    └──── later ──────── failed ────▶ parked        ▼
//	                             (after N it is parked; `waitroom event replay` puts it back)
//
// # Words
//
//   - row: a record in the outbox, written in the transaction of its deed.
//   - claim: a row is ours for a lease; nobody else publishes it meanwhile.
//   - key: the reservation's id. Rows of one key are published in their order.
//   - away: a whole call to the broker failed. That is the broker's fault; the
//     claimed rows are kept and tried again, and no row's attempts are burnt.
//   - poison: a message that the broker refused by name, or that failed in a call
//     in which others succeeded. Only it is counted as failed, and in the end parked.
//   - kick: a hint, after a commit in this process, that there is something to claim.
//
// # Promises, each with a test that names it
//
//  1. Delivered = committed: no row is skipped however late its transaction
//     commits, and none is published whose transaction rolled back.
//  2. Rows of one key are published in order; a failed row holds back only its key.
//  3. No database connection is held while the broker is called, however long it hangs.
//  4. A broker that is away burns no attempts, and what waited is published when
//     it is back.
//  5. A poison message never stops the others; it is reported and counted.
//  6. Several relays side by side publish each row at least once, and count once
//     by deduplication id.
//  7. A kick publishes at once; without one a row waits for the next poll at most.
//  8. Run returns after the marks of what was published are made (or their time is
//     up), and with every goroutine ended.
package relay
