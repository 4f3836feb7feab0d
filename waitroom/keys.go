package waitroom

// keys spells every key of the store. All keys of an event share the hash tag
// {event}, so that one script works on one slot of a cluster.
type keys struct{ prefix string }

// index is the set of the ids of all events; it stands outside the tags.
func (k keys) index() string { return k.prefix + ":events" }

// archives is the set of the ids of events whose archive may hold something, also
// after the event is deleted; it stands outside the tags.
func (k keys) archives() string { return k.prefix + ":archives" }

// stirs is the stream of the ids of events that an operator has just changed; it
// stands outside the tags too.
func (k keys) stirs() string { return k.prefix + ":stirs" }

func (k keys) of(e EventID, name string) string {
	return k.prefix + ":{" + string(e) + "}:" + name
}

func (k keys) meta(e EventID) string    { return k.of(e, "meta") }    // hash: settings, state, counters, cap
func (k keys) line(e EventID) string    { return k.of(e, "line") }    // zset: entry → seq
func (k keys) away(e EventID) string    { return k.of(e, "away") }    // zset: entry → end of its grace, ms
func (k keys) grants(e EventID) string  { return k.of(e, "grants") }  // hash: entry → "jti seq admitted_ms claim_ms state subject"
func (k keys) jtis(e EventID) string    { return k.of(e, "jtis") }    // hash: jti → entry, "!completed" or "!revoked"
func (k keys) claims(e EventID) string  { return k.of(e, "claims") }  // zset: entry → end of claim or session, ms; its size is inside
func (k keys) ended(e EventID) string   { return k.of(e, "ended") }   // hash: entry → "state seq"
func (k keys) blocked(e EventID) string { return k.of(e, "blocked") } // set of entries
func (k keys) subs(e EventID) string    { return k.of(e, "subs") }    // hash: waiting entry → subject, base64url (identity jwt only)
func (k keys) nodes(e EventID) string   { return k.of(e, "nodes") }   // zset: node → end of its heartbeat, ms; 0: being given up
func (k keys) reqs(e EventID) string    { return k.of(e, "reqs") }    // hash: rings of the last requests and their answers
func (k keys) feed(e EventID) string    { return k.of(e, "feed") }    // stream of departures and changes
func (k keys) audit(e EventID) string   { return k.of(e, "audit") }   // stream of what operators did
func (k keys) issued(e EventID) string  { return k.of(e, "issued") }  // hash: entry → "rank jti seq admitted_ms claim_ms subject" (mode instant only)
func (k keys) archive(e EventID) string { return k.of(e, "archive") } // stream: tokens given out that no database has yet
func (k keys) asks(e EventID) string    { return k.of(e, "asks") }    // hash: entry → request id, "?" before it: perhaps not in the queue (mode buffered only)
func (k keys) queue(e EventID) string   { return k.of(e, "queue") }   // stream: requests that wait for a number
func (k keys) numbers(e EventID) string { return k.of(e, "numbers") } // hash: entry → "seq winner"
func (k keys) grave(e EventID) string   { return k.of(e, "grave") }   // hash: what a deleted event leaves behind
func (k keys) log(e EventID) string     { return k.of(e, "log") }     // list: the admission log's leaves, oldest first
func (k keys) seals(e EventID) string   { return k.of(e, "seals") }   // hash: the log's sealed head, where it begins, its marks
func (k keys) drawn(e EventID) string   { return k.of(e, "drawn") }   // list: the entrants of a draw, by their leaves
func (k keys) codes(e EventID) string   { return k.of(e, "codes") }   // hash: hashed code → "group uses holder"

// party is a hash of the parties of an event, with fields of four kinds:
// "p" + entry → "code buyer member…", "m" + person → the entry of their party (or "!":
// they have had their turn in one), "c" + hashed code → entry, "s" + person → subject.
func (k keys) party(e EventID) string { return k.of(e, "party") }

// here is the set of entries whose sockets a node holds.
func (k keys) here(e EventID, node string) string { return k.of(e, "here:"+node) }

// used is the mark that a token was used where it may be used once: the id of the
// call that used it.
func (k keys) used(e EventID, jti string) string { return k.of(e, "used:"+jti) }

// owed is a zset of entries with a credit for which there was no room: entry → until
// when the next place is kept for them, ms.
func (k keys) owed(e EventID) string { return k.of(e, "owed") }

// credited is the mark that the credit of a turn was used.
func (k keys) credited(e EventID, jti string) string { return k.of(e, "credited:"+jti) }

// all is the KEYS of every script, in the order in which scripts/common.lua
// names them; a script that needs more takes it after these.
func (k keys) all(e EventID, more ...string) []string {
	return append([]string{
		k.meta(e), k.line(e), k.away(e), k.grants(e), k.jtis(e), k.claims(e), k.ended(e),
		k.blocked(e), k.subs(e), k.nodes(e), k.reqs(e), k.feed(e), k.audit(e), k.grave(e),
	}, more...)
}
