// Package web is the service as the outside sees it: HTTP, and what belongs to it.
//
// What exists: one Echo server with every route of the contract in one table
// (routes.go), one map from errors to refusals (errors.go), one strict decoder
// (decode.go), and handlers that do four things in this order: decode, call one
// method, return the error, encode. It knows no Redis and no SQL; the line, the
// tickets, the tokens and the sockets come in through the small interfaces of
// deps.go.
//
// A request's way, each step a refusal or the next step:
//
//	route ─▶ size ─▶ origin ─▶ who (token) ─▶ body ─▶ idempotency ─▶ exists ─▶ state ─▶ answer
//	 404      413      403       401 403     400 415      422         404      403 409    2xx
//	 405                                        422       409
//
// # Words
//
//   - place token: the receipt of a place; a cookie of the waiting page or a Bearer.
//   - entry token: the signed right to come in; a header, a Bearer or a cookie.
//   - proof: whichever of the two a person shows for a reservation of theirs.
//   - refusal: an answer with a stable code, as application/problem+json.
//   - gate: the verdict for a proxy that guards the site.
//   - site key, operator token: what the protected site and an operator show.
//
// # Threats
//
// Who would rather not wait, or not let others; what stops them; the test that holds it
// (TestThreatsNameTheirTests finds each of them).
//
//	who                     wants                                       defence                                             test
//	a bot                   a thousand places                           a proof of work each, spent once                    TestPromise13StrangersSolveAChallenge
//	a bot                   to solve one puzzle and use it everywhere   bound to event, host and end; a mark in the store   TestPromise2ASolutionCountsOnce
//	a bot                   an easier puzzle                            every word of it is signed                          TestPromise4NothingCanBeChanged
//	a flood                 the store's time                            local buckets before it, refusals remembered        TestFloodsAreCheap
//	a flood                 people's places in the queue of calls       buckets of their own for people and for booking     TestAFloodTakesNothingFromPeople
//	a flood, made-up names  memory                                      bounded tables                                      TestMemoryIsBounded
//	a fan                   a better place by asking again, 50 at once  one person, one entry, one script                   TestFiftyJoinsAtOnceAreOnePlace
//	a fan, many devices     a place on each                             the site's own subject is one person                TestContractIdentity
//	a fan                   another name, place, event or priority      only the token says who; unknown fields refused     TestForgedClaimsChangeNothing
//	a forger                a place token                               HMAC over event, entry and sequence                 TestReceiptRefusesEveryChange
//	a forger                an entry token                              Ed25519, exact algorithm, audience, issuer, times   TestContractForgedTokens
//	a forger                somebody else's JWT                         exact algorithms and keys, issuer, audience, exp    TestPublishedKeys
//	a reseller              to use one token twice                      marked as used in one script, or with the seats     TestSpentOnce
//	a reseller              to buy twice with one token                 a unique constraint in the sale's transaction       TestPromise4TokenBuysOnce
//	a guesser               a group's code                              wrong ones are counted, by address                  TestGuessesAreLimited
//	friends                 two chances by one party                    one person, one entry or one party, in one script   TestPromise25NobodyHasTwoChances
//	a guesser               a party's code                              31^10 of them, and wrong ones are counted           TestGuessesAreLimited
//	a guesser               an operator's token                         128 random bits, attempts counted, kept as a hash   TestSignInIsLimited
//	a neighbour             the caller's address to be another          X-Forwarded-For only from configured proxies        TestClientAddr
//	another site            a visitor's place, by their cookie          exact origins on writes                             TestWritesFromElsewhere
//	another site            a visitor's socket                          exact origins on sockets                            TestPromise11Origins
//	another site            an operator's session                       SameSite=Strict, our own origin only                TestPromise15TheConsolesCookieIsOurPagesOwn
//	a phisher               to be where people are sent back to         configured hosts only                               TestRedirectGoesToAllowedHostsOnly
//	whoever reads logs      tokens, keys, names, addresses              none is written, none stands in an address          TestContractAJourneyLeavesNoSecret
//	whoever reads the store operators' tokens                           hashes only                                         TestPromise1NothingInTheStoreOpensAnything
//	an operator             more than their role                        a role for each call, a name in the trail           TestPromise14RolesDecide
//	whoever left            to go on operating                          an end for each token, revoked everywhere at once   TestPromise2TokensAndSessionsEnd
//	a provider that is down everybody in, or nobody for long            three seconds, then the event's policy              TestPromise7AProviderThatIsDown
//	an outage of the store  everybody in                                closed when in doubt; a cap in each process         TestStoreAwayClosesTheGate
//	a hostile body          a crash, memory, a hint                     a strict decoder, bounds, no causes outside         FuzzBodies
//	a slow client           goroutines, buffers                         deadlines, bounded queues, cut                      TestPromise2SlowClientIsCutAndNobodyElseWaits
//
// # Promises, each with a test that names it
//
//  1. Every refusal has a status and a code from one table, the same for a wrapped
//     error; its cause stands in the log only.
//  2. What may be tried again says when, as Retry-After and as retry_after_ms.
//  3. An unknown, doubled, missing or wrong field is refused with its name.
//  4. Whatever is sent (bodies, headers, addresses), no answer is a 500.
//  5. Everything personal is no-store; pages and the public event are cacheable and
//     carry no cookie.
//  6. No token stands in an address or in the log.
//  7. A write from another origin is refused unless that origin is configured exactly.
//  8. The gate answers 204, 302, 401 or 403 and nothing else, and refuses while the
//     store is away; it sends nobody to a host that is not configured.
//  9. The same key, caller, route and body is answered byte for byte as before.
//  10. /healthz answers while the process lives, with store and database away.
//  11. The served OpenAPI document names every route and every code.
//  12. A panic is a 500 without a trace outside, and the server goes on.
//  13. Where an event wants a challenge, no stranger joins or is issued a token without
//     a solution; one who has a place is never asked.
//  14. Every call of operators takes a role, by token or by the console's session alike.
//  15. An operator's cookie counts for pages of our own origin only, and signing out, the
//     token's end or its revocation end it.
package web
