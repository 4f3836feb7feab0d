package relay

import (
	"errors"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
)

// claimed is a row that is ours until a moment.
type claimed struct {
	ticket.OutboxRow
	until time.Time
}

// verdict sorts the messages of one call to the broker.
type verdict struct {
	published []claimed
	// failed are poison: their own fault, with its cause.
	failed []failure
	// again are to be tried again with no attempt burnt.
	again []claimed
	// away is the broker's fault, if that was it.
	away error
}

type failure struct {
	row   claimed
	cause error
}

// wave takes the first row of each key, so that one call never holds two rows
// whose order matters; the rest keeps its order. Rows must come in order of id.
func wave(rows []claimed) (first, rest []claimed) {
	seen := make(map[string]bool, len(rows))
	for _, r := range rows {
		if seen[r.Key] {
			rest = append(rest, r)
			continue
		}
		seen[r.Key] = true
		first = append(first, r)
	}
	return first, rest
}

// judge decides whose fault each failure was. What the publisher does not say is
// the broker's fault if no message of the call was published, else the message's.
func judge(rows []claimed, errs []error) verdict {
	var v verdict
	var unsaid []failure
	for i, r := range rows {
		switch {
		case errs == nil || errs[i] == nil:
			v.published = append(v.published, r)
		case errors.Is(errs[i], ErrRefused):
			v.failed = append(v.failed, failure{r, errs[i]})
		case errors.Is(errs[i], ErrAway):
			v.again, v.away = append(v.again, r), errs[i]
		default:
			unsaid = append(unsaid, failure{r, errs[i]})
		}
	}
	if len(v.published) > 0 {
		v.failed = append(v.failed, unsaid...)
		return v
	}
	for _, f := range unsaid {
		v.again, v.away = append(v.again, f.row), f.cause
	}
	return v
}

// without drops the rows of the keys in bad: an earlier row of theirs failed, so
// they must wait for it. Their leases run out by themselves.
func without(rows []claimed, bad []failure) []claimed {
	if len(bad) == 0 {
		return rows
	}
	keys := make(map[string]bool, len(bad))
	for _, f := range bad {
		keys[f.row.Key] = true
	}
	kept := rows[:0:0]
	for _, r := range rows {
		if !keys[r.Key] {
			kept = append(kept, r)
		}
	}
	return kept
}

// live drops the rows whose lease ends within margin: somebody else may claim
// them before a call to the broker is back.
func live(rows []claimed, now time.Time, margin time.Duration) []claimed {
	kept := rows[:0:0]
	for _, r := range rows {
		if r.until.Sub(now) > margin {
			kept = append(kept, r)
		}
	}
	return kept
}
