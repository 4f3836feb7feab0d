package load

import "time"

// toToken measures how long the token took from the promotion to the hand, by the
// definition in doc.go. offset is the service's clock less ours.
func toToken(h *histograms, facts []fact, start time.Time, offset time.Duration) (note string) {
	untold := false
	for _, f := range facts {
		inHand := start.Add(time.Duration(f.Admitted) * time.Microsecond).Add(offset)
		if f.Polled && f.Promoted > 0 {
			h.record(mToTokenPolled, inHand.Sub(time.UnixMilli(f.Promoted)))
		}
		if f.IAT == 0 || !f.Prompt {
			continue
		}
		atMost := inHand.Sub(time.Unix(f.IAT, 0))
		h.record(mToTokenAtMost, atMost)
		h.record(mToTokenAtLeast, atMost-time.Second)
		if f.Promoted == 0 {
			untold = true
			continue
		}
		h.record(mToToken, inHand.Sub(time.UnixMilli(f.Promoted)))
	}
	if untold {
		return "admission_to_token: the service does not tell the promotion's milliseconds (admitted_at); it lies between at_least and at_most"
	}
	return ""
}

// staleLimit is far beyond what an answer from an instance's memory may be behind.
const staleLimit = 5 * time.Second

// judgePolls: whoever asks is told of a turn. An answer that says to wait, to a
// question sent long after the promotion, withholds it.
func judgePolls(t *tally, facts []fact, start time.Time, offset time.Duration) {
	for _, f := range facts {
		if !f.Polled || f.IAT == 0 || f.Waiting == 0 {
			continue
		}
		asked := start.Add(time.Duration(f.Waiting) * time.Microsecond).Add(offset)
		late := asked.Sub(time.Unix(f.IAT+1, 0))
		t.check(promiseGrant, late <= staleLimit, "user %d, entry %s: asked %.1f s after its admission, and was told to wait", f.User, f.Entry, late.Seconds())
	}
}
