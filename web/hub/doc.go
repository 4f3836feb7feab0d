// Package hub holds the sockets of everybody who waits: it tells each person the
// position, and the entry token in the moment of admission.
//
//	         net/http handler
//	fan ───▶ ServeLive ──opened──▶ shard (a few goroutines; own all clients)
//	 ▲ │     checks, hijacks,       ▲ ▲ │
//	 │ │     returns                │ │ └─ questions ──▶ askers ──▶ the line
//	 │ └───▶ poller ──posts─────────┘ │                     └─ answers ──▶ shard
//	 │       reads all sockets        │
//	 │       (hello, leave, gone)     └─ news: admitted, departed, changed, outcome
//	 └────── writes ◀── shard                  (the view's feeds, the tickets)
//
// # Words
//
//   - client: one socket, a WebSocket or server-sent events; the messages and the
//     life of both are the same.
//   - person: an entry with its clients (tabs) on this node. Person and clients
//     belong to one shard, chosen by the entry's id; a client moves there with its
//     hello.
//   - room: an event with clients on this node.
//   - notice: the event message that everybody in a room is to have seen.
//   - visit: a shard looks after one client: alive? what is it to be told? when next?
//     The wheel says who is visited at which tick.
//   - shopper: a client that is told what changes on the map that it chooses from.
//   - step: a moment of a map; the shoppers are told what changed from one to the next.
//   - owed: what a client is to be told but has not been. Owed messages are made when
//     they are written, so that a newer one replaces an older one by itself; only
//     reservations' outcomes and control frames wait in a queue.
//
// # A client's way
//
//	opened ──hello──▶ attached ──end (close frame)──▶ ending ──▶ cut
//	   │                 │  peer lost, slow, gone                 ▲
//	   └── no hello ─────┴────────────────────────────────────────┘
//
// # Promises, each with a test that names it
//
//  1. One writer: no two goroutines write to one socket, whatever happens at once.
//  2. A shard never waits for a socket. Who does not take what is owed within
//     WriteTimeout, or lets QueueLen one-off messages pile up, is cut; the others
//     notice nothing.
//  3. The first position comes within a second of the hello, also while paused; then
//     each NearEvery for the first Near (and whoever may be among them before the
//     next far message), each FarEvery for all others; after a draw, within NearEvery
//     of its notice for everybody (TestDrawProvesItself). Data comes at least every 25s.
//  4. The position that is shown is the least so far for the entry and sequence, over
//     all its tabs, also after a refresh.
//  5. Admitted means told: at once if a socket is here, else at the hello; every tab.
//  6. A notice reaches everybody of the event; the last one counts. One of them says
//     that the last piece is paid (sold_out), also where the line is kept.
//  7. A silent peer is cut after PongWait.
//  8. A drain gives each client a time of its own, nearest to the front first, no
//     second with more than a tenth of them; Run then returns within DrainGrace.
//  9. A full or draining node refuses with 503 and Retry-After before anything else,
//     nearest to the front first where a cookie tells the place, from memory alone.
//  10. The store away: sockets stay, everybody is told once, and once when it is back.
//  11. Origins are compared exactly.
//  12. Who is admitted is told before the positions that are due in the same tick, but
//     for a few.
//  13. Who asks with the version of their map is told what changed since, gathered, one
//     message each SeatsEvery whatever is sold, from memory alone; who is too far behind
//     is told once to read the map, and has no queue.
//  14. The members of a party hear of each change in it, wherever it was made, and of its
//     turn; the entry token is told to the buyer's sockets alone. Who joins one with an
//     open socket goes on with it, as a member. The party is away when its last member is.
//
// # Bounds
//
//	what                    most               at the bound                        filled by
//	sockets of a node       MaxSockets         503 and a time to come back         TestPromise9Full
//	frames for a client     QueueLen           the client is cut as slow           TestPromise2SlowClientIsCutAndNobodyElseWaits
//	a message from a fan    4 KiB              closed with 1009                    TestBrokenRules
//	messages from a fan     100 in 10 s        closed with 1008                    TestFlood
//	posts to a shard        1,024              whoever posts waits                 TestPostsAreBounded
//	news to a shard         65,536             dropped: a visit finds out          TestNewsIsBounded
//	questions to the line   4,096              put off to the next visit           TestQuestionsAreBounded
//	changes of presence     4 × MaxSockets     dropped: told again within 30 s     TestPresenceIsBounded
//	clients back a second   DrainPerS          each has a slot of its own          TestPromise8SlotsAreBounded
//
// A shopper says {"type":"seats","version":V} after the hello, where V is the ETag of the
// map (GET …/seats) or the version of the last message, or nothing; with "stop":true
// no more. It is answered within SeatsEvery, and from then on whenever something
// changed: {"type":"seats","seats_left":N,"version":V,"seats":[{"id","status","version"}]},
// for slots, courses and stock "items":[{"id","total","free","version"}]. What has a
// higher version than what the page has counts, so that order and repetition do not
// matter. {"type":"seats","reload":true} says that the map is to be read again; what a
// map of another node may lack by then follows. Server-sent events have none, and a
// node without the database does not answer: there the page asks for the map, with its
// ETag, as it does until it is answered.
//
// The line's own bounds stand in package waitroom.
//
// # Memory
//
// A waiting socket costs 2.0 KB here, with all that the hub knows of its person
// (BenchmarkMemory: resident memory over 5,000 sockets, without the kernel's part).
// It was 8.0 KB with a parked reader and the WebSocket library's connection: 4.2 KB
// of stack, 1.1 KB of the library's state. So:
//
//   - the handler returns as soon as the connection is hijacked, and net/http frees
//     its 8 KB of buffers;
//   - gorilla/websocket does the handshake; fans' frames, few and short, are parsed
//     here (inframe.go), and fuzzed against the library;
//   - one poller reads all sockets (Linux; elsewhere, and with TLS, a goroutine each);
//   - frames are put together in one buffer a shard and written without waiting; only
//     what a socket did not take is kept for its client;
//   - there is no timer and no channel for a client: deadlines are ticks, which a
//     visit compares.
//
// # At 50,000
//
// Profiles of one of four instances under `make load-50k` (PROFILES=DIR takes them),
// 12,500 sockets, 125 admissions a second, on two cores that six other processes
// share; an instance took 0.15 of a core.
//
//   - CPU: calls of the kernel 36 %, of which the hub's writes 26; the hub in all 45;
//     HTTP (people who leave and buy) 23; allocating 9, collecting 3; making entry
//     tokens 7; following the feed 7; reading all sockets 5. So the number of messages
//     is the lever, and far people get one in 4 s. While people joined, compressing the
//     seat map anew with each sale was 10: it is compressed now when somebody takes it
//     so, and fast rather than small.
//   - heap, 25 MB in use: clients 5 MB, their persons 2, connections (net) 3, entry
//     tokens that are kept for other tabs 3, the wheel 1.5. Nothing grows with time.
//   - blocks: only those who wait for work (loops, askers, shards between ticks); no
//     lock is among the first ten.
//   - An admission waited behind the positions of its tick: news is looked for after
//     every 16 visits now (promise 12). The load tool's own collector took a fifth of
//     its time from everybody, and collects less often now.
//
// From the promotion to the token in hand it took 28 ms at the median and 76 at the
// 99th percentile. Where people are let in while 833 a second join, both cores are full
// and everything waits for them: 344 ms on a quiet machine before these changes.
package hub
