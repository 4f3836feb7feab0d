// Package load brings a crowd to a running service and judges what it saw.
//
// It knows the service only from outside: the contract over HTTP and WebSockets.
// It imports none of the service's packages, so that an error there cannot hide
// itself here; but for challenge.Solve, which is the client's side of a puzzle and is
// held against ALTCHA's own where it stands.
//
// # What exists
//
//   - crowd: the people of one run, each a user with a number, a moment of arrival
//     and habits (buys or not, chooses seats or takes what comes, and what Habits
//     lists), all decided by the seed.
//   - lane: the line within the event that a user chooses, where it has some to choose
//     from; order and cap are judged in each by itself, and the cap over all as well.
//   - deed: what a user does of its own will while it waits: lose the network, load
//     the page again, open a second tab, give the place up.
//   - bot: a number of the crowd that is no person, and is in no figure of people.
//   - user: one person on the way; a goroutine with a small stack and one socket.
//   - crew: a bounded set of goroutines with deep stacks that make every HTTP call
//     and every handshake for the users of one worker.
//   - worker: a process that holds at most 15,000 users, because a process may hold
//     only so many files. It speaks to its parent in JSON lines: the spec comes in,
//     progress, facts and the result go out.
//   - parent: starts the workers, watches the event, gathers the facts, judges.
//   - fact: what is known of one user at the end: when the join was sent and
//     answered, the entry token's claims, the seats.
//   - tally: how often a promise was checked and broken, with examples.
//   - report: what one run found; reports of several machines can be merged.
//
// # A user's way
//
//	arrive ─▶ join ─▶ socket, hello ─▶ positions ─▶ admitted ─▶ hold ─▶ buy ──▶ outcome, stays
//	            │        ▲      │ bye, lost                        └──▶ leave
//	            │        └──────┘ backoff, asks by GET meanwhile
//	            ├─▶ challenge, solved, join again
//	            └─▶ refused (closed, blocked)
//
// # Habits, and what breaks a promise
//
//	habit     a correct service may                       it may not
//	reload    answer 200 with the same entry, in any      give another entry, or a place further
//	          state, admitted meanwhile included          back than was shown (promise 2)
//	tab       close it with a bye or a code that asks     show more than the first tab showed
//	          to come back                                before (2); leave it untold of the turn (4)
//	leave     have admitted meanwhile                     answer 204 and know the place 2 s later (7)
//	poll      answer 304, or be a moment behind           say "waiting" 5 s after the promotion (4);
//	                                                      leave out Retry-After (a server error)
//	deaf      cut it at any time                          hold it for longer than Patience
//	bot       refuse it, or give it a place               tell it of a place without a token (2);
//	                                                      fail more than 1 of 100 people meanwhile
//
// # What is measured, and from where
//
// Arrivals are an open model: a user arrives by schedule, whatever became of those
// before. Join latency runs from the scheduled moment to the answer, retries and
// the wait for a free connection included, so a stall shows in full.
//
//   - join: from the scheduled arrival to the answer that gave a place, less the time
//     from a puzzle in hand to its solution: that is this tool's.
//   - challenge: working a puzzle out, without the wait for a core. A worker works out no
//     more at a time than its share of the cores, so cores bound how many such people come
//     in a second, whatever the ramp says.
//   - connect: from the wish for a socket to its hello.
//   - reconnect: from the end of a socket that ended without a word to the hello of
//     the next; the people's own appointments, nearest to the front first, are in it.
//   - first_position: from the hello to the first position (or to admitted).
//   - position_age: how old the newest position on a screen had become when the
//     next one came, admitted came, or the user stopped looking; position_age_front
//     is the same for positions up to 1,000. Who asks instead of listening is in
//     position_age_polled, and in admission_to_token_polled: Retry-After rules there.
//   - admission_to_token: from the promotion by the store's clock to the token in
//     hand, where the service tells the promotion's milliseconds (admitted_at beside
//     the entry token) and they lie in the token's iat. Who was away by choice is
//     left out. For a target that is not on this machine, the clocks' difference is
//     estimated from the event's now, and the report states it.
//   - admission_to_token_at_most, admission_to_token_at_least: token in hand less
//     iat, and a second less than that: the promotion came in between, so these are
//     true bounds where the milliseconds are not told.
//   - seats, reservation, payment, payment_outcome: each from the wish to the
//     definite answer, retries included; the outcome from the wish to pay.
//   - own_lag: how late this tool's own timers ran. If it is large, the figures are
//     the tool's, not the server's.
//
// # What it promises
//
//  1. A promise of the contract that the crowd saw broken is counted, with an
//     example, and the run is not OK.
//  2. Nothing is called broken that a correct service could have shown: each check
//     uses only what must have happened before what.
//  3. A check that could not be made says so; it never counts as kept.
//  4. The tool's own troubles (no files, no ports, its own delays) are never booked
//     as the server's.
//  5. A stall of the server shows in full in the latencies of those who came in it.
//  6. A retry comes after exponential backoff with jitter, has an upper limit, is
//     never before Retry-After and carries X-Attempt.
//  7. Two runs with one seed bring the same crowd.
//  8. When the run is cancelled, every worker ends, and what was seen is reported.
//  9. What bots do is counted apart, and takes no connection of the tool's people.
//  10. With an operator's token, a run in which people buy ends with the service's own
//     recount (GET /v1/ops/events/{event}/books), and a sum that fails, fails the run.
package load
