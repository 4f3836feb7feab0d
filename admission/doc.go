// Package admission decides how many people come in, and when, and says who may
// pass. It has two halves that meet in a grant: the loop that lets people in, and
// the entry tokens that they hold afterwards.
//
//	 sources                    law                   line (package waitroom)
//	pools of all ticket ──┐
//	nodes, through the    ├─▶ usage ─▶ Decide ─▶ n ─▶ promote(fence, n) ─▶ grants
//	store                 │              ▲                ▲                  │
//	the site's report ────┘              │ every tick     │ lease, fence     ▼
//	                                     └── leader ──────┘            entry token
//	                                         (one node)                (any node)
//
// # Words
//
//   - tick: 100 ms. Each event is decided on once a tick; a tick that was missed is gone.
//   - usage: how loaded the site is, 0 to 1. PoolStats.Usage says how it comes from
//     connections in use and callers that wait for one.
//   - source: whoever knows a usage. Its reading says how old it is.
//   - unknown: no usage that is fresh and makes sense; the rate is the event's floor.
//   - law: from usage and settings to a rate. Decide is the law, and it is pure.
//   - step: from its usage on it bounds the rate; it ends 0.05 below.
//   - target: the usage that law target keeps, although people load the site only some
//     time after they were let in; package law compares it with the laws that lost.
//   - bound: what the load allows. With law steps it falls at once and climbs back in
//     five seconds.
//   - lease, term, fence: the leader holds the lease for a term; each term has a
//     larger fence, which the promote script checks.
//   - stand by: what every other node does, one try a tick.
//   - pass through: everybody who joins is let in at the next tick, whatever the law says,
//     because the event's pass_through says so; the law goes on deciding, and what it would
//     have done stands in the log and on the console.
//   - pass: a verified entry token.
//   - leaf, head: what the admission log is made of; package ledger has its words. The
//     notary of the node that leads seals the logs.
//
// # What is decided how
//
// An event that sells here has the pools of all ticket nodes as a signal; one whose
// site has reported its load within a day has the report; the highest fresh figure
// counts. An event with neither, or with law none, goes by its own rate alone. A
// figure that failed (a database that does not answer, a source in error) or makes
// no sense (0 of 0, negative, no number) leaves the load unknown even beside a good
// one; one that is older than stale_after is left out, and leaves the load unknown
// when it was the only one. More than full counts as full.
//
// An event whose pass_through is set measures only. The loop then asks the line to let
// everybody in at each tick (PromoteRequest.Pass); the store agrees while the event's own
// setting says the same, so that switching it off works at once and on every instance,
// whatever a leader believes. The state comes before: paused, nobody passes. max_active
// binds. The law decides as ever and binds nobody, with the usage that those who pass make;
// so when the setting goes, law target begins at a rate below what it saw to be too much.
//
// An event whose starts is set passes everybody through in the same way until its site's
// load or its arrivals reach a threshold, and from then on people wait (Starting). More
// than the rate come in only in the tick that first sees it: at most what arrives in one.
// It ends with the calm: thresholds well undercut, and no line that would rush in, for
// starts.keep on end. Each start and end is logged with its figures, stands in the
// bulletin, from which a new leader goes on, and shows in the admission log, whose leaves
// are passed through or by the rate. The store's own cap then counts while the leader
// says so, since the event allows both.
//
// The leader never makes the line safe: rate, max_active and fence are checked in
// the promote script. So the loop may be late, doubled, paused or cut off at any
// point, and only slowness comes of it. Everything here that runs has one Run,
// which returns when its work has ended.
//
// # Promises, each with a test that names it
//
//  1. The same grant gives the same token, byte for byte, on every node with the
//     same keys.
//  2. A token that was minted verifies with the key that signed it and after one
//     rotation; past its end it still says whose it is.
//  3. Nothing else verifies: no other algorithm, key, issuer, form or time.
//  4. A signature is computed once a token, in bounded memory.
//  5. Over any run of ticks no more are asked for than the event's rate allows, one
//     person's rounding aside; a gap brings no more than one tick.
//  6. An unknown load brings the rate to the floor at the next tick, with a reason;
//     it climbs back step by step.
//  7. The usage is the whole installation's, not the leader's own.
//  8. Fences only grow, also when the store loses the last one.
//  9. After a planned stop another node leads within two ticks; after a kill, within
//     the lease and one tick.
//  10. A leader whose lease ran out, for whatever reason, promotes nobody from then
//     on by its own clock; one that cannot know it is refused by the fence and
//     steps down.
//  11. An event whose calls hang keeps no other one waiting.
//  12. Everybody who is let in stands in the admission log once, and its signed head
//     covers them within two seconds, whoever led and whatever crashed (package
//     ledger says how).
//  13. Law target meets its bars (package law) with a lag of 5 to 60 s that it is not
//     told, makes up for turns that nobody uses, and a new leader goes on where the
//     one before it was.
//  14. Where an event's pass_through is set, everybody is let in within a tick, in order,
//     outside the rate; the decision, the log's leaf and the metrics say so and what the
//     law would have done. A state in which nobody is let in wins.
//  15. Where an event's starts is set, everybody passes until a threshold is reached or
//     the load cannot be known, people wait from that tick on, and pass again only after
//     the calm.
//  16. Events and lanes that load the same database by law target come to let in as many
//     each, whoever opened first (law.TestEventsThatShareASiteShareItEvenly: within 10 %
//     in a quarter of an hour; without it the first one kept 60 of 76 a second for good).
//  17. The lanes of an event are decided on one after the other in each tick, in their
//     order, each by its own rate, law and load signal, on which a new leader goes on.
//  18. Keys that instances share through the store are rotated in steps, none of which is
//     taken while an instance that runs has not taken the one before (TestNextKeys; with
//     two real instances cmd/waitroom's TestSharedKeysAreRotated). Where the
//     store loses them, an instance may put those of the step before back, which every
//     other knows; the step is then taken once more.
package admission
