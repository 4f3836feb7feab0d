// Command bench prints the bars of the project and what was measured against
// them, one line a bar:
//
//	name · measured · bar · met
//
// `make bench` runs all of them in less than 25 minutes, `make bench BAR=joins`
// those whose names begin so, `make bench BENCH_JSON=file` writes them as JSON too.
// With -quick all sizes are small: it shows that the program works, and no verdict
// of it counts. -profile DIR keeps the nodes' CPU profiles, -list prints the names.
//
// # How a bar is measured
//
// As a ratio, on any machine: the same run also does the work in the usual way (the
// baseline), and both take turns, a round each, the order changing from round to
// round. A score is the median over the rounds of the ratio of two neighbours, so
// that a machine that is busy is busy for both. The absolute figures beside it are
// this machine's; its size is printed first.
//
//   - Servers are private, real and on this machine: redis-server on a free port,
//     PostgreSQL 15 or later on a socket of its own, both with the durability that
//     the line names. They end with this process, however that ends.
//   - A node is a process of its own: HTTP side, hub, view and line as `waitroom
//     serve` wires them. The load comes from this process, over keep-alive
//     connections that cost little. All share the machine's cores.
//   - What Redis does is what Redis says: its CPU from INFO cpu, its commands and
//     the time in them from INFO commandstats, its memory from INFO memory.
//
// Ratios bear a busy machine, though not every kind of it: gathered work runs one
// call at a time, and where others want the cores too, it gets fewer turns than the
// baseline's many threads. The load before the run stands in the first line.
//
// # Baselines
//
//   - joins: three calls a join (ZADD NX, ZRANK, ZCARD) behind the same HTTP server,
//     middleware and JSON, with a receipt of the same kind. The score is the
//     process's clock, since a counter in the store would be a fourth call.
//   - positions: ZRANK for each person and tick, in pipelines.
//   - sockets: a handler that stays, one goroutine to read and one to write a
//     socket, the library's default buffers.
//   - fan-out: a bare loop that writes prebuilt frames to the same sockets (the
//     hub's own benchmark, run from here).
//   - reservations: one transaction a request with the same rows in it, through a
//     pool of the same size, its statements prepared as its driver does by itself (that
//     for PostgreSQL keeps them, that for SQLite does not); a hot stock row by reading
//     the version and updating where it is still the same, again until it holds.
//     What a reservation costs, and what won its bar, is in package ticket's doc.go.
//   - entry tokens: the bare check of the signature, for each request anew.
//   - the gate over HTTP: /healthz of the same node, which is kept to one processor.
//
// leader-lost has no baseline: three processes that may lead share one Redis, the one
// that leads meets a fault, and the admission log says, by the store's clock, when
// the next person was let in, whether any second held more than the cap, and whether
// anybody came in twice. Faults take turns: killed, told to end, frozen for longer
// than the lease and woken beside its successor, its lease deleted by hand. The lease
// is 600 ms instead of the service's two seconds, so that fifty faults end within a
// minute; the tick is the service's. The faults in virtual time are the property test
// of the cap in package waitroom, run from here: the same script, both stores. On two
// busy cores (make bench BAR=leader-lost): killed or frozen 614 ms at most where the
// lease and a tick are 700, planned 90 ms at most, 0 over-admissions in 50 faults and
// in 2,826 in virtual time.
//
// # What joins miss, and why
//
// On two cores that load, node and Redis share (make bench BAR=joins; Redis keeping
// nothing), before what is named below and after it:
//
//	bar                                  before    after     wanted
//	over HTTP, the three-call flow's     1.73 ×    2.12 ×    2.5 ×: not met
//	  joins a second                     15,983    20,670    (three calls: 10,343)
//	  the node for a join                77 µs     60 µs     (126)
//	  Redis for a join                   10.4 µs   8.7 µs    (32)
//	  the load for a join                          15 µs     (20)
//	Redis for a join, at the package     10.3 µs   6.7 µs    10 µs: met
//	median at 2,000 a second             1.34 ×    1.09 ×    1.2 ×: met
//
// With AOF everysec it is 2.16 × (22,135/s), with always 2.09 × (11,122/s). What was done:
//
//   - Most batches are strangers who join an event without groups or lanes. A script that
//     stands before the whole one deals with them (waitroom's scripts/strangers.lua): it
//     makes none of common.lua's functions, reads 13 fields, and takes and answers runs
//     instead of people. Alone a join takes it 18 µs of Redis where the whole script took
//     30 to 39, in a batch of 64 4.6 instead of 6.7.
//   - Two who joined in one moment waited one for the other, which at 2,000 a second is
//     most of the time: now up to three lone calls are on their way beside each other.
//   - Some garbage may gather before it is collected (cmd/waitroom/heap), an event is
//     looked up once a join instead of three times, the hash of a receipt is begun once.
//
// What misses: the ratio is (126 + 32 + 20) / (60 + 8.7 + 15), so 2.5 would take 12 µs
// more off our side alone, or 20 off both. By the node's profile (-profile) 60 % of its
// 60 µs are net/http and the kernel: writing the answer 27 %, reading the request 9 %,
// watching for clients who hang up 5 %. Of the handler's 40 % most is the baseline's as
// well: encoding and writing 8 %, the deadline 4 %, the cookie 3 %. What it has not are
// the batch (7 %, the wait for it included) and parts of the receipt and of the looks
// into memory (4 %): 7 µs, and 8.7 of Redis. All of that away would be 2.6.
//
// # A crowd in one moment
//
// instant-issue lets a thousand people with the page open ask in one moment. All are on
// two cores, so the last is answered when all the work is done: 77 ms at the 95th
// percentile with Redis keeping nothing, 91 with everything (AOF always), given the
// cores before others who wanted them too; 105 and 101 before, and 110 to 190 beside
// those others. The node has 67 % of the time, a fifth of that for the signatures of the
// tokens, Redis 7 %, this load 27 %. The page's own question, which asks no store, takes
// 60 to 75 ms for the same crowd. Redis took 24 µs for a token, and takes 14.
//
// # The gate
//
// make bench BAR=gate, on two cores that others kept busy (a load of 17 before the run):
// 18,900 verdicts a second over HTTP from a node on one core, 43 µs of it each, 0.85 × its
// own /healthz; 228,700 a second in the middleware on one core, a thousand people
// confirmed at a time, its 99th percentile 10 µs; 440,000 of the token's check alone. At
// 6,000 a second over HTTP the median was 0.25 to 0.31 ms and the 99th percentile 1.5 ms,
// where 2 is the bar, and 3.1 ms in the run beside that load. Before verdicts were
// confirmed together, the middleware did 11,400 a second.
//
// # Verdicts
//
// "met" and "not met" are judged on the line's own figure. A bar whose work is not
// built yet is not met, and says so. A bar that something else measures says what.
// The program fails only where a measurement could not be made.
package main
