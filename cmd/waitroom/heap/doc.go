// Package heap lets a process gather some garbage before it is collected.
//
// Go collects whenever as much has been allocated as is in use. A node that has just
// begun uses 3 MB, and each join over HTTP allocates 10 KB: so under load it would be
// collected twenty times a second, each time with a look at the stacks of all the
// people who wait for an answer. With 32 MiB of slack it is collected twice a second.
// A large heap, of tens of thousands of sockets, has that much slack anyway, and is
// collected as Go would.
//
// On two busy cores (make bench BAR=joins-http, and with GOGC=100 before it for the
// line without slack):
//
//	slack   joins/s       the three-call flow's   the node for a join
//	none    15,222/s      1.93 ×                  64.8 µs
//	32 MiB  15,154/s      2.17 ×                  58.0 µs
//
// What it costs is up to 32 MiB of garbage in a process, not by the socket: nothing once
// as much is in use. A percentage for all sizes (GOGC=400) would win the same, and cost
// four times what each socket has on the heap.
//
// # Promises, each with a test that names it
//
//  1. The heap grows by the slack, or by as much as is in use where that is more,
//     between two collections.
//  2. Whoever has set GOGC is obeyed: nothing is changed.
//  3. When Run ends, the collector is as it was.
package heap
