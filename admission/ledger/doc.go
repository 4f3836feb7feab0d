// Package ledger is the admission log as anybody can check it: what a leaf says,
// how leaves are chained, how a head is signed, and what a verifier looks for.
//
// # How a log comes to be
//
//	promote, admit ──▶ leaf ──▶ leaf ──▶ leaf ──▶ …      in the store, one list an event
//	(one script: the      │        │        │
//	 grants and the leaf) ▼        ▼        ▼
//	           start ──▶ H1 ──▶ H2 ──▶ H3 ──▶ …       SHA-256, by whoever leads
//	                                        │
//	                                        ▼
//	                            head: n, H, signature      published, kept by fans
//
// The script that gives the grants appends the leaf to the list. So there is a leaf
// for every batch of people, and never two, whatever crashes in between; its number
// is its place in the list, so that there are no gaps to explain. The leader walks
// the chain behind the list once a second and signs its end, the head. A head
// follows from the leaves alone: a leader that died before it signed loses nothing,
// and two that sign at once write the same bytes.
//
// # Words
//
//   - leaf: who was let in by one decision, as sequences, and why so many. It is one
//     line of text; Leaf names its parts. It holds nothing about a person.
//   - chain: the name of a log. An event that begins again in an empty store has
//     another one, and its leaves start anew.
//   - start: the hash before the first leaf; it covers event and chain.
//   - head: the hash behind leaf n, signed with the installation's Ed25519 key, the
//     same that signs entry tokens (kid). The signed text begins with a line of its
//     own, which no token can begin with.
//   - behind: how many sequences had been given out behind the last one of a leaf, by its
//     moment: so a log tells the demand too, and `waitroom simulate --log` replays it. The
//     leaves of earlier versions end before it, and verify the same.
//   - kept place: somebody who was put back by a receipt after people from behind had
//     been let in; the only ones by the rate who may come out of order, and marked.
//   - kind: by what somebody came in: r by the rate, h by hand (also by a make-good
//     credit), p passed through, while the event let everybody in and measured only. A
//     leaf of kind p says in rate, reason and asked what the law would have done; only how
//     many came is not held against it, their order is.
//   - lane: the part of the line that a leaf is of, as a word of a-z, 0-9, - and _; "-"
//     for an event without lanes, so that a log from before there were any reads the
//     same. Order, and who was put back, is looked at in each lane by itself, and nobody
//     may be in twice over all of them.
//   - bundle: a log, its head and the public keys in one JSON file.
//
// # Size
//
// A leaf has 110 bytes at most and 2 to 8 more for each gap among its sequences,
// at ten leaves a second at most. The store keeps the last 1,048,576 leaves of an
// event, 29 hours of people let in at every tick; when there are more, the oldest
// 65,536 go, and the log says how many are gone and the hash that it goes on from.
// Whoever kept them in a bundle can still join both.
//
// # What it cannot show
//
// A service that shows different logs to different people is found out when they
// compare heads, so the waiting page keeps the first head that its device saw and the
// newest three. Tokens of mode instant are in no leaf: nobody waited, so nobody can
// have been passed; each carries its rank, and the archive is the record of them.
// A store that lost its last writes has lost leaves too: a head that was kept shows
// it, and nothing tells it from a cut log but the operator's word. That people joined
// in the order of their sequences is the line's promise, and not to be seen here.
//
// # Promises, each with a test that names it
//
//  1. A leaf that was changed, removed, added or moved is found, up to the head.
//  2. A head that somebody kept is part of the log, or the check says so.
//  3. A person in twice is found, and one who came in before somebody ahead, unless
//     by hand, passed through, or with a kept place; those are counted.
//  4. Nothing but a head signs as a head: the text is separate from every other use
//     of the key.
//  5. Whatever a bundle holds, reading it ends with a report or an error.
package ledger
