// Package challenge makes joining dear for whoever joins a thousand times.
//
// What exists: a Challenger, which for each event says whether somebody must solve a
// challenge before they join or are issued a token (Wanted), gives them one (Offer),
// and checks what they bring back (Check). It knows no HTTP on our side; package web
// asks it and answers 403 challenge_required or challenge_failed.
//
//	           Wanted?                    Offer                      Check
//	stranger ──────────▶ 403 required ──────────▶ puzzle ── solve ──────────▶ cleared
//	           no: joins as ever           GET …/challenge         wrong, late, spent,
//	                                                               elsewhere: 403 failed
//
// Whoever holds a good place token has passed already and is not asked again.
//
// # Kinds
//
//	altcha      proof of work by ALTCHA's published protocol (version 2), checked here:
//	            no third party, no cookie, nothing to read, hear or click
//	turnstile   the page asks the provider, which gives it a response; we ask the
//	hcaptcha    provider whether the response is good (siteverify), with a secret of
//	recaptcha   this installation and for at most three seconds
//	none        nobody is asked
//
// Our own waiting page solves puzzles only: its policy allows no third party's script.
// The providers' kinds are for sites whose own pages join over the API.
//
// # Words
//
//   - puzzle: ALTCHA's challenge: find the counter whose derived key begins with the
//     prefix. It is signed, so that nothing is kept of it until it is solved.
//   - solution: what is brought back: a solved puzzle, or a provider's response.
//   - spent: used once. Remembered in the store, so by all instances, until the puzzle
//     would have expired anyway.
//   - pace: how many strangers a second come to an event, as this process sees it; those
//     who are refused count as well, or the refusals would end what they are for.
//   - effort: the most tries that a puzzle takes; half of them at least.
//
// # What it costs
//
// An offer costs us one derivation and two MACs and the store nothing; a check costs two
// MACs, and only a right solution that nobody has used costs a store call. The
// derivation is PBKDF2 with 200 rounds. Measured on two cores that had much else to do:
// an offer 93 µs and a check 32 µs here (go test -bench . ./web/challenge), a try 140 µs
// in ALTCHA's own library under node. A puzzle takes 2,000 to 4,000 tries, so about 0.4 s
// of one core; the effort grows with the pace, up to eight times as much, and then a
// thousand joins cost a flood about an hour of a core.
//
// The pace is each process's own: a count for all would cost a store call for every
// stranger, which is what a challenge is to spare. Over n instances above_per_s
// therefore means n times as many in all. It stays above for ten seconds after the last
// second that was.
//
// # While something is away
//
//   - The provider: after three seconds, or at once when it failed five times in a row,
//     on_error decides: refuse (default) lets nobody join who has no place, pass goes on
//     without the challenge, but never past the address's limit. At most 64 responses are
//     asked about at once by each instance; beyond them 503, whatever on_error says, so
//     that a flood of made-up ones does not pass for a provider that is down.
//   - The store: a right solution cannot be marked as spent, so 503, as the join itself
//     would be.
//
// # Promises, each with a test that names it
//
//  1. A puzzle is solved by ALTCHA's own widget, as npm has it (web/pages), and by Solve.
//  2. A solution counts once, whatever number of instances it is brought to at once.
//  3. It counts for its event and its host name only, and not after its end.
//  4. Nothing of a puzzle can be changed: not the effort, the end, the event or the key.
//  5. The effort grows with the pace, within its bounds, and falls again.
//  6. Above is decided by all strangers who come, and holds for ten seconds.
//  7. A provider's answer counts for our host names and this event's action only; one
//     that is down is an answer within three seconds, by the event's policy.
//  8. No solution, secret or address stands in a log, an error or a metric.
package challenge
