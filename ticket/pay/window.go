package pay

// window counts the faults and the slow calls of the last calls.
type window struct {
	calls []call // a ring of at most cap(calls)
	next  int
	// failed and slow count those in the ring.
	failed, slow int
}

type call struct{ failed, slow bool }

func newWindow(size int) window { return window{calls: make([]call, 0, size)} }

// add counts a call, and forgets the oldest when the window is full.
func (w *window) add(c call) {
	if len(w.calls) < cap(w.calls) {
		w.calls = append(w.calls, c)
	} else {
		w.count(w.calls[w.next], -1)
		w.calls[w.next] = c
	}
	w.next = (w.next + 1) % cap(w.calls)
	w.count(c, 1)
}

func (w *window) count(c call, by int) {
	if c.failed {
		w.failed += by
	}
	if c.slow {
		w.slow += by
	}
}

// verdict says whether the breaker must open, and why: failures, slow, or "".
func (w *window) verdict(minCalls int, failureRate, slowRate float64) string {
	n := float64(len(w.calls))
	switch {
	case len(w.calls) < minCalls:
		return ""
	case float64(w.failed) >= failureRate*n:
		return "failures"
	case float64(w.slow) >= slowRate*n:
		return "slow"
	default:
		return ""
	}
}
