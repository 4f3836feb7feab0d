// Package simulate plays an event in virtual time, so that an operator sees before
// the opening how it would go: how long people wait, what the database has to bear,
// when it is sold out, who goes home with nothing.
//
//	arrivals ──▶ line ── promote ──▶ comes ──▶ looks ──▶ a connection ──▶ bought
//	(a shape,     ▲ (the model)      │ or       around    of the pool,       │
//	 a CSV, a     │                  ▼ never               a queue           ▼
//	 past log)    │
//	        admission.Decide ◀── usage, claims ◀────────────────────── the place is free
//	        (the real law)
//
// What is real: the settings (waitroom.DecodeSettings), the law (admission.Decide),
// what it makes of the pool (admission.PoolStats) and of claims (admission.Turns), the
// estimates that people are shown, and what these learn (waitroom.Estimate,
// waitroom.Outlook). What is a model: the line, in plain words, which a test holds
// equal to the real one; the people, who
// come, look around, buy and leave as Crowd says; and the site, a pool of connections
// with a queue, the same for all lanes. Nobody's network fails here: that is what `waitroom load` is for.
//
// A million people take less than a second on one core, so that trying another rate
// costs nothing.
//
// # Promises, each with a test that names it
//
//  1. The model of the line and the real one, told the same, let in the same people in
//     the same order at the same moments, and count the same.
//  2. The same settings and seed give the same bytes, on any number of cores.
//  3. Everybody is accounted for, once.
//  4. The real law keeps a pool of people at its target.
//  5. Of those who are shown a P90 85 to 95 % are in by then, or 96 % where the rate
//     is the same in every tick.
//  6. A past event's admission log, replayed, brings everybody again who came up to its
//     last leaf, at most the time between two leaves from when they came.
//  7. Lanes are asked for in their order in each tick, each with its own law, under its
//     own rate and the event's; who comes before the window of their group comes back
//     when it opens, in the order of their coming, and who comes after it joins no more.
package simulate
