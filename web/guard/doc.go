// Package guard puts a site behind Waitroom from inside the site's own program: a
// middleware for net/http, and so for Echo, chi, gin and whatever else wraps it.
//
//	g, err := guard.New(guard.Config{Service: "https://wait.example", Event: "spring-sale"})
//	http.ListenAndServe(":8080", g.Handler(shop))                 // net/http
//	e.Use(echo.WrapMiddleware(g.Handler))                         // Echo
//
// It imports nothing of the service: a JWT parser, a key cache and a bounded map.
//
// # Who passes
//
// A request shows its entry token in X-Entry-Token, which wins, in Authorization:
// Bearer, or in the cookie waitroom_entry_{event}. Two questions are asked of it:
//
//   - the signature, here: by the service's published keys, its address as issuer
//     and the event as audience. What was not signed by the service never leaves
//     this process. A kid that is not known yet has the keys fetched again, at most
//     once in ten seconds, so that a rotation needs nobody here.
//   - the verdict, there: the service knows whether the session still runs or has
//     been revoked. It is asked once and the answer kept for Config.Fresh (1 s), so
//     that a revocation is felt within that time.
//
// Where the site's own program runs Guard.Run (it needs the site key), the verdicts of
// whoever comes by are confirmed together, a thousand people in one question, four
// times in Config.Fresh, and no request waits for one but a person's first.
//
//	go g.Run(ctx) // or in your errgroup: it returns when ctx ends
//
// The handler finds who it is with FromContext.
//
// # Who does not
//
//	no token                          401 token_required   a browser is sent to the waiting page
//	forged, of another service        401 token_invalid    likewise
//	its time is over                  401 token_expired    likewise
//	of another event, revoked         403 token_wrong_event, token_revoked
//	spent on a route that spends      409 token_used
//	the service is away               503 unavailable, with Retry-After
//
// Only a browser that navigates (GET or HEAD, and Accept takes text/html) is sent
// away; everything else reads application/problem+json.
//
// # When the service is away
//
// Two things can be away. Where the service answers and its store does not, the
// event's own fail decides, there. Where the service itself is silent, Config.Open does:
//
// Closed, the default: nobody passes whose verdict is not fresh. Open, if
// Config.Open says so: whoever the service let in before stays in until the token's
// own time ends, and so does whoever shows a signed token that is not yet expired.
// Strangers never pass. What open gives up is revocation and the exact end of a
// session while the service is silent. Each request that passes so is marked
// (Person.Unchecked) and told to Config.Unchecked, to be counted and logged; the first
// answer of the service ends it.
//
// # Promises, each with a test that names it
//
//  1. Nobody passes without a token that the service signed for this event.
//  2. A revoked session ends within Config.Fresh.
//  3. A token that a route spends passes there once, whatever number of processes
//     and requests race for it.
//  4. A flood of forged tokens asks the service nothing.
//  5. While the service is away nobody passes, unless Open; then only who was signed.
//  6. No token stands in an address or a log line of ours.
package guard
