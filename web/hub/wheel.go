package hub

// wheelSlots is how many ticks ahead a visit can be planned.
const wheelSlots = 256

// wheel says which client is visited at which tick. A client has one planned
// visit, client.due; planning it anew leaves the older mark in its slot, where it
// is passed over.
type wheel struct {
	owner *shard
	at    int64 // the tick that is being or was last visited
	slots [wheelSlots][]*client
	spare []*client
}

// plan sets c's next visit, at least one tick and at most the whole wheel ahead.
func (w *wheel) plan(c *client, ticks int64) {
	c.due = w.at + min(max(ticks, 1), wheelSlots-1)
	i := c.due % wheelSlots
	w.slots[i] = append(w.slots[i], c)
}

// turn goes one tick on and visits whoever is due. visit may plan and may unplan
// (due = 0) any client.
func (w *wheel) turn(visit func(*client)) {
	w.at++
	i := w.at % wheelSlots
	due := w.slots[i]
	w.slots[i] = w.spare[:0]
	for _, c := range due {
		if c.owner.Load() == w.owner && c.due == w.at {
			c.due = 0
			visit(c)
		}
	}
	clear(due)
	w.spare = due[:0]
}
