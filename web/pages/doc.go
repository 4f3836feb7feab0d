// Package pages carries what browsers get: the waiting page, the shop and the
// operator's console. They are plain files, ES modules and one style sheet, without
// a build step; they are the same bytes for everyone, so that a CDN can serve them.
// Of others there is one thing: ALTCHA's widget in assets/altcha, its own files from npm,
// which .ci/widget brings when the service is built and a page loads only where it is
// challenged. Without npm the build has none, and puzzle.js does what the widget would.
//
//	index.html ── wait.js ────┬─ place.js   what the page knows: one pure function from
//	                          │             messages to the next page
//	                          ├─ live.js    the connection: socket, else stream, else asking
//	                          ├─ choice.js  which line, by which code, in whose window
//	                          ├─ event.js   the public event, and the server's clock
//	                          ├─ drawn.js   the check of one's own place in a draw, by draw.js
//	                          ├─ challenge.js  a challenge before joining, by ALTCHA's widget or puzzle.js
//	                          └─ turn.js    the way into the shop or to the site
//	shop.html ─── shop.js ────┬─ basket.js  choice, price, keys, outcomes: pure
//	                          └─ seats.js   the map: 2,000 buttons, one tab stop a section
//	console.html ─ console.js ─ audit.js, trace.js
//	                 all of them: strings.js (every sentence), format.js, api.js, clock.js,
//	                 backoff.js, store.js, dom.js, style.css
//
// A file named …-view.js only writes to the page; its neighbour decides.
//
// # What a waiting page shows
//
//	load ──▶ before ──▶ join ──▶ wait ──▶ turn ──▶ (shop)     join ──▶ turn    mode instant
//	  │                   ▲        │        │                 join ──▶ number  mode buffered
//	  └──▶ missing        └─ end ◀─┴────────┘
//
// # Promises, each with a test that names it
//
//  1. No script, style or handler stands in a page, and nothing is fetched from
//     anywhere else: the pages work under "default-src 'none'" with 'self' for
//     scripts, styles, images and connections.
//  2. The position that is shown never grows for one place, over refreshes and tabs;
//     a new place begins anew.
//  3. Countdowns go by the server's clock, however wrong the device's own is, also
//     where a cache revalidated an old answer.
//  4. No retry comes before the server's word (Retry-After, retry_after_ms, bye), and
//     beyond it each waits a random part of a bounded, growing time.
//  5. Where no WebSocket gets through the page goes on by server-sent events, and
//     where those do not either by asking; it says which.
//  6. Tokens stand in headers, first messages, forms and storage, never in an address.
//  7. A deed that must happen once (reserve, pay) carries one key over all its retries.
//  8. Every code of the contract has a sentence that says what to do.
//  9. Every sentence comes from strings.js; the English in the pages is the same.
//  10. In the lobby of a draw no place is shown. The commitment that was there when
//     this device joined is kept, and whoever was in the draw can have the page work
//     out their place anew; what does not fit is named.
//  11. A number is asked for under one key of this device, over retries and visits, and
//     comes by whatever connection there is. Where the service has lost the request, the
//     page makes it again (cmd/waitroom plays it against the real service).
//  12. Where a socket says what changes on the seat map, the page does not ask; a choice
//     that went is named, and nothing that is older than what it has counts.
//  13. Where a challenge is wanted, ALTCHA's own widget solves it, or without it the page
//     itself, on our origin and under the same policy, without a person's doing;
//     what cannot be solved here is said.
//  14. Where people may choose a line, one is chosen before joining, and the page tells
//     of that line alone; where codes count there is a field, with what is wrong beside
//     it; whose window comes later counts down to it.
//  15. Where friends may share a place, the lobby's page makes a code and takes one, tells
//     how many they are and who buys, and shows the way in to that one alone; any of them
//     can take that over, and leave.
package pages
