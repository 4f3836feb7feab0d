// Package operators knows who may run events: named tokens with a role and an end, and
// the sessions of the console.
//
// What exists: a Store, which keeps operators in the shared store. A token is shown
// once, when it is made; what is kept of it is a SHA-256 hash, since a token is 128
// random bits that no dictionary has. A session is a second, shorter secret in a cookie
// of the console, so that no token lies in a page.
//
//	             Add                    SignIn                  SignOut, 12 h,
//	(owner) ──────────▶ token ─────────────────────▶ session ─────────────────▶ over
//	                      │ expires_at, Revoke                token's end, Revoke
//	                      └─────────────────────────────────────────────────────▶ over
//
// # Roles, each may what the one before it may
//
//	viewer     reads everything below /v1/ops
//	operator   changes events, lets in, blocks, revokes, imports
//	owner      deletes events, makes and revokes operators
//
// The token that the service is started with is an owner's, is named operator in the
// audit trail, needs no store and has no end.
//
// # Promises, each with a test that names it
//
//  1. A token is known by its hash only: nothing in the store opens anything.
//  2. It counts until its end or its revocation, everywhere at once, and so do the
//     sessions begun with it. A socket of the console that is open ends within a second
//     (web.TestTheTrailNamesTheOperator, hub.TestOps).
//  3. A name is one operator; a new one of the same name does not wake old sessions.
//  4. While the store is away nobody is taken for an operator, or told they are none.
//  5. The trail has who made and revoked whom, when, with which role and end, in one step
//     with the deed, and never a token. The newest 10,000 records are kept.
package operators
