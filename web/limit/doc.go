// Package limit says whether one more call is too many.
//
// What exists: a Limiter, shared by everything that answers fans. Who asks gives it
// a Request (which event, which kind of call, which person or else which address)
// and the event's Rules; it gives back a Verdict: yes, or which rule says no and
// how long to wait. It refuses nobody by itself and knows no HTTP, but for
// ClientAddr, which finds the address that a request really came from.
//
// # Words
//
//   - rule: so many calls in so long, such as 60/1m; all of them may come at once,
//     then they come back evenly, one a second in this case.
//   - bucket: one rule's count for one event and one person or address. It is kept
//     twice: shared, in the store, and local, in this process.
//   - charge: what a call takes from a bucket. A call is let through if every
//     bucket that it charges has room.
//   - known: a person whose token was verified. Whoever asks must have done that;
//     a name that anybody can make up is a new bucket for each call.
//   - cleared: an unknown caller who has just solved a challenge.
//   - away: the store did not answer; it is asked again once in a while.
//
// # Which buckets a call charges
//
//	             browse, poll, join     booking    issue
//	known        person, person_burst   booking    issue
//	unknown      address                address    address     (with a challenge)
//	unknown      address; a join: office           office      (without one)
//	cleared      none                   none       none
//
// A code that was none charges guesses, and that alone, by the address of whoever gave
// it, known or not.
//
// A person is counted as a person, wherever they come from: three hundred people in
// one office have one address and three hundred places, and the address stands only
// for those who have none yet. A flood of strangers from that office therefore
// closes the door to more strangers, not to those in line, and whoever solves a
// challenge passes it. Booking and issuing have buckets that nothing else charges.
//
// An office of 300 is to be in line within 30 s of the opening. Where the event has a
// challenge, whoever comes after the first hundred of a minute solves it, and the
// address's rule holds for whoever does not. Without one nothing tells the office from
// a flood; then its joins have a bucket of their own (address_join, "office" above),
// with the same number at once, that comes back twelve times as fast. That is the price
// of having no challenge: a flood from one address gets 1,200 places a minute for 100.
//
// IPv6 addresses are counted by their /64, which is what one household is given.
//
// # A call's way
//
//	exempt address ───────────────────────────────▶ yes
//	local: refused before, and not over yet? ─────▶ no   (no store call)
//	local: bucket empty in this process alone? ───▶ no   (no store call)
//	a known person's poll, local buckets full? ───▶ yes  (no store call)
//	store: all charges in one round trip ─────────▶ yes, or no and remembered
//	store away: the cap of this process ──────────▶ yes or no
//
// Whoever polls as rarely as they are told finds their buckets full again, and costs
// the store nothing: an answer from memory is not to be dearer for its limit. Over n
// processes one person may so poll n times as often, each time at the rule's own
// pace; a poll that comes sooner is charged in the store as any other call.
//
// The local buckets have the rules of the shared ones, which see at least what this
// process sees: what they refuse, the store would have refused. So a flood costs the
// store what the rules let through, and a call now and then to learn how long to
// wait. redis_rate does the counting in the store (GCRA by the store's clock, one key a
// bucket; a cluster spreads the callers of an event); x/time/rate does it here.
//
// # While the store is away
//
// The limiter is neither open nor shut. Each process goes on by its local buckets,
// which have counted all along, so that nobody gets a fresh allowance: over n
// processes one person gets at most n times the rule, and the usual load balancer,
// which keeps a client on one process, makes that close to once. Over all people
// together a process lets through Config.AwayPerS calls a second (1,000 by default),
// so that a crowd of addresses, each within its rule, cannot make use of the moment;
// booking has as much again for itself, so that whoever is inside is not crowded
// out. The store is asked again each Config.AwayRetry by a single call, and a call
// waits for it at most Config.CallTimeout. When it comes back empty, the shared
// buckets are full again; the local ones still are not.
//
// # What it does not promise
//
//   - To let through the last call that a rule would allow. go-redis sends a command
//     again after a lost reply, so that a call may be charged up to four times; a
//     call that one bucket refuses has the others for a moment before it gives them
//     back, and a bucket that was untouched keeps that one charge.
//   - To remember everybody: the local buckets are bounded, and when more callers
//     come than Config.Remember, the oldest are forgotten. Then the store decides.
//
// # Promises, each with a test that names it
//
//  1. Of any calls by one person, however many processes they reach, no more are let
//     through than the rule allows, but for polls at that rule's pace; the same for
//     one address.
//  2. A refusal says how long to wait, and the call passes after that wait if
//     nothing else came in between.
//  3. Browsing and polling never take from booking or issuing, and no stranger's
//     call takes from a known person.
//  4. A call costs the store one round trip at most, or two if it is the one that
//     learns of a refusal; a flood's further calls cost none, nor do polls of people
//     who ask as rarely as they are told.
//  5. Memory is bounded, whatever addresses and names are made up.
//  6. While the store is away, each process lets through what its local buckets and
//     the cap say: not nothing, and not everything; no call waits longer than
//     CallTimeout, and after the first few none waits at all.
//  7. When the store is back, it decides again within AwayRetry.
//  8. An address is taken from X-Forwarded-For only as far as configured proxies
//     vouch for it: what a client writes there itself changes nothing.
//  9. An office of 300 behind one address is in line within 30 s, challenge or none.
//  10. Metrics carry no event, person or address.
package limit
