package load

import "time"

// toToken measures how long the token took from the promotion to the hand, by the
// definition in doc.go. offset is the service's clock less ours.
func toToken(h *histograms, facts []fact, start time.Time, offset time.Duration) (note string) {
	exact := newHistograms()
	total, fractions, negative := 0, 0, 0
	for _, f := range facts {
		if f.IAT == 0 || !f.Prompt {
			continue
		}
		total++
		inHand := start.Add(time.Duration(f.Admitted) * time.Microsecond).Add(offset)
		h.record(mToTokenAtMost, inHand.Sub(time.Unix(f.IAT, 0)))
		ms := f.Expires % 1000
		if ms != 0 {
			fractions++
		}
		lag := inHand.Sub(time.UnixMilli(f.IAT*1000 + ms))
		if lag < -time.Millisecond {
			negative++
		}
		exact.record(mToToken, lag)
	}
	switch {
	case total == 0:
		return ""
	case fractions == 0:
		return "admission_to_token: expires_at shows no milliseconds; only the bound is known"
	case negative*20 > total:
		return "admission_to_token: the milliseconds of expires_at are not those of the promotion (claim_ttl not in whole seconds, or the clocks differ); only the bound is known"
	}
	h.take(exact)
	return ""
}
