// Package waitroom is the line itself: who waits, who is next, and who is in.
//
// An event has one line. A person joins it and becomes an entry; the entry's
// place is its sequence number from a counter, never a clock. An admission
// loop (package admission) promotes entries from the front; a promoted entry
// holds a grant, from which any node can mint the same entry token. The person
// enters with it (redeem), stays for a session, and completes.
//
//	          join                promote              enter
//	(nobody) ─────▶ waiting ────────────────▶ admitted ─────▶ entered
//	                 │   ▲                       │               │
//	           leave │   │ receipt           claim_ttl        complete,
//	           grace │   │ (store lost it)     ends           session_ttl ends
//	                 ▼   │                       ▼               ▼
//	         left, expired (and blocked)      expired        completed
//
// In mode instant nobody waits: whoever asks is issued a grant at once, or hears
// that none is left. Everything after the grant is the same.
//
//	         issue               enter
//	(nobody) ─────▶ admitted ─────────────▶ entered ─────▶ completed
//	    ▲               │ claim_ttl ends, given back, revoked
//	    └───────────────┘ back to the quota, for whoever asks next
//
// In mode buffered people are numbered, 1..N: each has one request in a queue, which
// whoever keeps the numbers empties in the order of arrival.
//
// # Words
//
//   - entry: one person in one event's line; its id says nothing about its place.
//   - sequence (seq): the number an entry got when it joined. Within an epoch
//     sequences are dense; a new epoch (the store began empty) starts above all
//     sequences of the epochs before it.
//   - place: where an entry stands now: its position (1 is the front) is one more
//     than the number of entries with a smaller sequence that still wait.
//   - receipt: the signed place token. It carries event, entry and sequence, so
//     that a store that lost the place can put its holder back, once.
//   - promote: move the first n entries from the line to the grants, in one script.
//   - grant: the right to come in: jti, the second of the admission, the end of
//     the claim time. It exists from the promotion on, whoever is there to see it.
//   - enter (redeem): the first use of a grant; from then on the session runs.
//   - claim: what a grant is until it is entered; it ends after claim_ttl.
//   - pass through: let everybody in who waits, outside the rate, since the event measures only.
//   - inside: admitted and entered entries together; promised turns count as load.
//   - away, here: here is an entry whose socket some node holds; everyone else who
//     waits is away and keeps the place until the grace ends.
//   - issue: give out a token, which is a grant without a line before it; its rank
//     is its number in the order of giving out.
//   - quota: how many tokens are held or used at any time, at most: stock × factor.
//     A token is used once its holder has entered; unused ones return.
//   - archive: the stream of tokens given out, until they are filed in a database.
//   - draw: what orders a lobby by lot (package waitroom/draw): its entrants are who
//     stands in the line when it closes, and their places the first sequences of a new
//     epoch. Whoever joins meanwhile has a sequence behind those.
//   - group: some of an event's people, by what their site says of them (claims) or by a
//     code; its window is when they may join.
//   - lane: a line of its own inside an event (see Lanes).
//   - party: friends who share one place of a draw; its entry is nobody's own. Its members
//     are people, each with a place token of their own; its buyer is the one of them who
//     is handed the entry token; its code brings friends in.
//   - fence: the number of a leadership; it only grows, and scripts refuse an old one.
//   - feed: an event's stream of departures and changes, which every node follows.
//   - view: what one node knows of the lines from their feeds, in memory.
//
// # Joins
//
// Whoever joins while a call is on its way goes with the next one: batches grow as far as
// the store is slow. A call of one question holds up nobody: two more may be on their way
// beside it, since two who come in one moment would wait one for the other (at 2,000 a
// second over HTTP, the median was 1.34 times that of three plain calls, and is 1.09).
// Most batches are people without a receipt, for an event without groups or lanes: they
// are dealt with by strangers.lua, which stands before join.lua in the same script and
// says what that would (TestStrangersJoinAsAnyoneDoes compares them); whatever else there
// is to look at goes on to join.lua. One or the other looks whether the call was here
// before, since a server that was frozen may read a call twice, in the wrong order.
//
// # Polls
//
// Whoever has no socket asks, and View.Place answers from memory as long as the view
// is level and the entry waits: a poll costs the store nothing. So that a grace runs
// on, the store hears of each person who polls four times in it, 256 people in one
// call. It is asked about everybody else: who was let in, who left, who is not known.
// What this process has just done to somebody is known at once, what another one did
// with the next look at the feed (50 ms). The position that is shown is the least so
// far: a node remembers it, and the answer's tag carries it from node to node.
//
// # Verdicts
//
// A gate asks about the same people again and again. The first pass of each is the
// store's to decide (View.Enter): it makes the entry entered, once, whoever asks at
// the same moment. From then on the view answers from memory as long as three things
// hold: the feed was read to its end without a gap in the last second, it has not
// told of the end of this grant, and the session's end is not reached by the latest
// that the store's clock can be. In any other case the store is asked, and while it
// is away nobody passes. So a revocation is felt at once in the process that made it,
// with the next look at the feed (50 ms) in the others, and within a second where the
// feed stands still. A sliding session is renewed in gathered writes, as of when its
// person came by; in its last five seconds the store is asked each time. A verdict
// takes 0.4 µs (BenchmarkViewEnter).
//
// # While the store is away
//
// With fail closed, the default, nobody passes. With fail open View.Enter lets pass
// whoever was let in before the store went: who has entered by this node, until the
// session's end as it was last known (a sliding one stands still), and who holds a
// signed token whose claim time runs. Nobody is let in anew meanwhile, so the site
// sees no more people than it did. What is given up: a revocation that this node had
// not heard of, who completed by another node, and single use. Each grant that passes
// so is logged once an outage, each pass marked, and the gate counts them
// (waitroom_gate_unchecked_total). The first answer of the store ends it: who passed
// meanwhile enters then, or hears that their time is over. Purchases stay closed.
//
// # Lost writes
//
// A replica that was promoted, or a server that restarts, may lack what was answered
// last. Nobody need have noticed: the server has no scripts yet, so the first join
// there asks it who it is, and begins a new epoch if another one wrote before; each
// view asks the same once a second, for servers that have the scripts from an
// earlier time as master. The epoch begins two million above all that is known to have
// been given out. Views read the line anew, and whoever is missing in it is asked for,
// by the hub or the next poll, and put back by the receipt.
//
// # Lost tokens
//
// A token of mode instant has no line to be put back into. What the store loses of
// them opens nothing any more; whoever lost one asks again and may be refused, and its
// rank is given out again, once. TestWhatACrashLosesOfTokens measures each row:
//
//	what happens                                   what was answered is lost
//	appendfsync always, process or machine dies    none
//	appendfsync everysec, the process dies         none: what was answered is with the kernel, but for
//	                                               up to two seconds behind a disk too slow for its
//	                                               syncs (INFO: aof_buffer_length)
//	appendfsync everysec, the machine dies         what is not on the disk: up to a second, two on a busy disk
//	no append-only file, the process dies          all
//	a replica takes over that had fallen behind    all that it had not received
//	a replica takes over that followed             what was on its way, in the last moment only
//	                                               (TestWhatAFailoverLosesOfTokens: 0 of 1,000 in most runs)
//	durable: true, a replica takes over            none (cmd/waitroom/issue_test.go, with sentinels)
//
// # Lanes
//
// An event may have up to 16 lanes: a region each, or members before the public. A lane
// is a line as any other: it has its own counter, its own bucket and window (where it has
// a rate), its own order statistics in each view. A person is an entry of the event, and
// an entry has one score in the one sorted set: so nobody stands in two lanes, and grants,
// sessions, max_active, feed and receipts know nothing of lanes. Which lane a place is
// in, its sequence tells: those of lane n lie n × 2^49 above those of the first. Which
// lanes there are is therefore settled when the event is made.
//
// Whoever has left, or has had their turn, and joins again chooses anew, or says their
// code or none: what they were before gives no right to a lane. Since of two places of an
// entry the later one has to be the higher, an entry goes to lanes behind its own only;
// for a lane further ahead its holder becomes another entry, as a stranger would, and
// takes the code for one person along. A person whom the site knows by name is one entry
// for good, and so stays in the lane where they were then, with their code unspent.
//
// The leader asks lane after lane, in the order of the settings, each with its own law and
// load signal; the promote script lets in what the lane's rate and the event's both
// allow. So there are two ways to divide the event's rate:
//
//   - by rates or shares: each lane has its part, and what one does not use stays unused;
//   - by order alone, without rates: the first lane has all it can use, and the next what
//     it leaves, which may be nothing for a while.
//
// In both the event's cap binds over all of them, whoever calls.
//
// The position that is shown is the place in one's own lane: one more than those of the
// lane before it that wait. Whoever joins a higher lane changes how fast a lower one
// moves, but no position in it: it stands still at worst, and the estimate says so. It
// is why a priority is a lane of its own and not a place ahead of others in one line,
// where each arrival would push everybody back.
//
// The order within a lane is that of joining: order draw is refused with lanes. What is
// published of a draw is one list of entrants, one root and one permutation; the page's
// check, verify, the kept draw and its batches of places all rest on there being one.
// Lanes would make each of these a set, with lists so short that they tell who came by
// which code. Two events with a draw each do the same today, but for the rate and
// max_active, which they cannot share.
//
// # Parties
//
// A party is one entry of the line, and so one leaf of the draw: draw, promotion, grants,
// positions and the feed know nothing of its members. Its entry is new, and takes the
// sequence of whoever makes the party. It is not the maker's own entry: with identity jwt
// that is computed from who they are, so that a maker who left could never stand alone
// again. Everybody has a person's id for good (their own entry's, anonymous or not), and in
// a party no entry beside it: joining one gives it up in the same script. A member's
// place token names the party's entry and the person; it and every older one of theirs
// lead to the party's place, and lead nowhere when they have left. With identity jwt the
// subject does, on any device. A member costs the store 410 bytes, with the feed's record and the
// mark that the place before is given up, where a person alone costs 224 (make bench
// BAR=redis-bytes), and each poll of a member a part of a call, since only the store knows
// who is in a party.
//
// Parties are made and joined while the lobby is open by the store's clock, and left at
// any time. Who leaves before the draw may join anew, alone or in another party: one
// chance. Who leaves afterwards stands at the end, as any latecomer. Who is in a party when
// it enters has had their turn, and joins no more: else three of four would buy again. An
// operator who blocks the party's entry blocks its members; who is blocked alone, by their
// own entry or subject, is put out of the party. Groups bind a friend who comes
// without a place of their own; who has one was let in by it.
//
// The buyer is at first who made the party; any member may take over until it has entered.
// The grant counts as the buyer's subject, where the site has names of its own, so that the
// limit per person is theirs, and else as the party's entry: one limit for all of them. A
// change of buyer makes a new jti, and revokes the old one in the same step, so that what
// the buyer before was handed opens nothing. Who leaves as the buyer of a party that has
// entered has no successor: what they bought is nobody else's to see or to give back.
//
// The code is 10 characters, of 31: parties.go says why no fewer. It is computed from the
// party's entry; the store has its keyed hash.
//
// A store that is lost has forgotten who was in which party. Each member's token brings
// back the party's place, and its holder into it, as long as there is room; the first of
// them buys. The code is good again as soon as a member has asked for it. Who had left
// before has by their last token of the party a part in it again, if there is room, or by a
// token of before or after it the place that this one names; whichever comes first counts,
// and the others lead there: one chance. Who had had their turn is as forgotten as whoever
// else completed; what was bought is in the database.
//
// # Bounds
//
//	what                              most             at the bound                        filled by
//	callers that wait for a call      Config.Queue     ErrBusy, nothing was done           TestBatcherRefusesWhenFull
//	calls of one question at a time   3                whoever comes waits for the next    TestBatcherGathersWhileACallIsOnItsWay
//	joins or polls in a call          Config.Batch     the rest is the next call           TestBatcherGathersWhileACallIsOnItsWay
//	asks for a token in a call       256              the rest is the next call           TestPromise10NoneOverNoneTwice
//	records of a feed                 10,000           trimmed; a view behind reads anew   TestFeedIsTrimmedAndMended
//	graces to be renewed              16,384           a poll asks the store itself        TestPollsDueAreBounded
//	people who poll, remembered       2 × 65,536       forgotten, renewed once more        TestPollsShowTheLeastPosition
//	moves that the feed has not told  16,384           all polls ask until it has          TestPollsMovedAreBounded
//	verdicts, remembered              2 × 65,536       forgotten, the store is asked       TestVerdictsEndedMeanwhile
//	sessions to be renewed            16,384           a pass asks the store itself        TestVerdictsEndedMeanwhile
//	grants of a call                  5,000            the rest of a burst is the next's   TestPromise9LargeBurstsAreBounded
//	ended by a sweep's script         500 of each kind the next script goes on             TestPromise9SweepsAreBounded
//	members of a party                8 (party.size)   ErrPartyFull                        TestPromise25EverybodyAtOnce
//	tokens that wait to be filed      1,000,000        nothing is issued until some are    issue_test.go
//
// # Promises, each with a test that names it
//
//  1. Order: if A's join was answered before B's was sent, A is never promoted
//     after B while A stays.
//  2. A place is kept: joining again gives the same sequence.
//  3. The cap holds, whoever calls promote and however often: in no window of one
//     second are more than rate_per_s (one tick's rounding and the opening's burst
//     aside) promoted, and never are more than max_active inside. A clock of the store
//     that leaps ahead brings 5 % of the rate more at most, however often, while one
//     leader goes on (PromoteRequest.Ran is the witness); together with a change of leader
//     150 ms of the rate, once. Without the witness two leaps a tick made 800 out of 200.
//  4. One grant for one place; a repeated or resent call has one effect.
//  5. An old fence promotes nobody.
//  6. A position from a level view equals rank + 1 in the sorted set.
//  7. A receipt reseats its holder at its sequence if the store lost it, and only
//     then; no sequence is given twice.
//  8. The inside count is the size of the set of grants, so it equals a recount.
//  9. No script walks the whole line; every batch has a bound.
//  10. In mode instant never are more tokens held or used than the quota; a person
//     has one, with the same rank whenever it is asked for; what returns is given
//     out again once, and no rank is ever given twice.
//  11. What was issued is in the archive until it is filed, also when its event is
//     deleted meanwhile.
//  12. In mode buffered a person has one request in the queue, in the order of
//     arrival, and hears one number whenever they ask. Whom a queue outside of the
//     store did not take is refused and does not wait.
//  13. Where the order is drawn, whoever joined before the opening stands as the
//     published draw says, and everybody else behind; nobody comes in before it. A store
//     that ends with its process takes no draw with it that was kept (KeepDraw).
//  14. When the last piece is paid, an event whose on_sold_out is close closes, in the
//     same script that hears of it; any other keeps its line for what comes back.
//     Every node is told of both, and when something has come back.
//  15. A credit lets its own holder in once more, when the turn that went wrong is
//     over: outside the rate, inside max_active, marked make_good in the admission
//     log and the audit trail. In mode instant it gives another token for the one that
//     bought nothing, inside the quota, and the trail says so.
//  16. A view says of a grant that was used what the store says, or asks it: one that
//     has ended in any way opens nothing, at the latest a second after, on any node.
//  17. Where an event's pass_through is set and the caller asks for it, everybody who
//     waits is let in, in order and in bounded batches, inside max_active, with leaves of
//     a kind of their own. rate_per_s does not bind there (promise 3 is about rate_per_s,
//     and the operator said that it is not to count), but those who pass count in the
//     second after the setting has gone. It admits nobody in a state that does not, or in a
//     lane that is paused.
//  18. Where an event has groups, nobody joins, is issued a token or queues for a number
//     outside the window of a group that takes them, by the store's clock, in the script
//     that would let them; whoever has joined keeps the place when the window ends.
//  19. A code for one person brings in one, whoever else has it, and is spent by joining
//     alone; the store has none that could be read.
//  20. With fail open, a view that cannot ask lets pass who was let in, until their time
//     ends, and nobody else; with fail closed, nobody.
//  21. Promises 1 to 8 hold in each lane, and those about max_active and the cap over all
//     of them too; a person is in one lane, also after a loss of the store. Whoever joins
//     again stands in the lane that they join then, at its end.
//  22. A lane without a rate has what those before it leave, and no arrival in another
//     lane makes a position that is shown grow.
//  23. The members of a party are one entry of the draw, see one place, and have one grant:
//     its token is the buyer's alone, and the one of a buyer before is revoked.
//  24. Whoever leaves a party, or is blocked, has no part in its place, by no token; the
//     others keep it, with the longest-standing as buyer if it was the buyer. It ends with
//     its last member.
//  25. Nobody has two chances: a person is in one party or has one entry, also by old
//     tokens, at the lobby's end and after a loss of the store; and whoever was in a party
//     when it entered joins no more.
package waitroom
