package load

import "time"

// toToken measures how long the token took from the promotion to the hand, by the
// definition in doc.go. offset is the service's clock less ours.
func toToken(h *histograms, facts []fact, start time.Time, offset time.Duration) (note string) {
	untold := false
	for _, f := range facts {
		if f.IAT == 0 || !f.Prompt {
			continue
		}
		inHand := start.Add(time.Duration(f.Admitted) * time.Microsecond).Add(offset)
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
