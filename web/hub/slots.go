package hub

import "time"

// The appointments of a drain.
const (
	// firstSlot is when the very first may come back: the balancer needs a moment
	// to see that this instance is gone.
	firstSlot = 500 * time.Millisecond
	// shortestWindow keeps any second below a tenth of the clients.
	shortestWindow = 12 * time.Second
	// longestWindow has everybody back within a minute.
	longestWindow = 50 * time.Second
)

// slots spreads n clients over a time in which no second holds more than perS of
// them, nor more than a tenth. Where both together would take longer than
// longestWindow, perS gives way.
type slots struct{ step time.Duration }

func newSlots(n int, perS int) slots {
	n = max(n, 1)
	window := time.Duration(n) * time.Second / time.Duration(max(perS, 1))
	window = min(max(window, shortestWindow), longestWindow)
	// With fewer than a dozen clients a second each is enough.
	return slots{step: min(window/time.Duration(n), time.Second)}
}

// after is the time to come back for the client that is rank-th from the front,
// counted from 0.
func (s slots) after(rank int) time.Duration {
	return firstSlot + time.Duration(rank)*s.step
}
