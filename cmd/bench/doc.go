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
// On two cores that load, node and Redis share, in one run (make bench BAR=joins-http
// and so on; Redis keeping nothing): 1.8 × the three-call flow over HTTP where 2.5 is
// the bar, 10.3 µs of Redis a join where it is 10, and 1.34 × its median at 2,000 a
// second where it is 1.2 (1.48 before). The bytes a person are met: 188 on the page,
// 224 away (220 and 256 before ids became shorter); a member of a party is 410.
//
//   - Over HTTP a join takes the node 75 µs of processor time and Redis 11, the
//     three-call flow 135 and 34. By the node's profile (-profile), our handler is
//     34 % of its time and the line in it 17 % (half of that the call that is shared,
//     a quarter the receipt's signature); net/http, Echo and the kernel are the rest,
//     which both sides pay, beside the load on the same cores.
//   - At 2,000 a second most joins are alone. A lone script costs Redis about 30 µs,
//     more than each of three plain calls, though less than all of them: reading the
//     event (15 fields), the clock, three looks for a join that is here again, three
//     writes. The looks stay: without them a call that a frozen server reads twice,
//     in the wrong order, would give one person two places.
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
