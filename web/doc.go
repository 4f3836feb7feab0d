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
