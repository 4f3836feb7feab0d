package load

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Sum is one line of the service's own recount of seats, money, messages and tokens.
type Sum struct {
	Name     string `json:"name"`
	Expected int64  `json:"expected"`
	Found    int64  `json:"found"`
	Pass     bool   `json:"pass"`
	Note     string `json:"note,omitempty"`
}

// What the last messages get to be on their way, and one recount to be made.
const (
	booksTries   = 10
	booksTimeout = 40 * time.Second // above the service's own bound
)

// books asks the service for its recount until it balances, or has had time to: what
// was sold a moment ago may still be under way to the broker. An operator's token is
// needed; without one, and where nothing is sold, note says so.
func (w *watcher) books(ctx context.Context) (sums []Sum, note string) {
	if w.config.OperatorToken == "" {
		return nil, "the books are not audited: it takes --operator-token"
	}
	for try := 1; ; try++ {
		sums, note = w.askBooks(ctx)
		if note != "" || len(failed(sums)) == 0 || try == booksTries || pause(ctx, time.Second) != nil {
			return sums, note
		}
	}
}

func (w *watcher) askBooks(ctx context.Context) ([]Sum, string) {
	ctx, cancel := context.WithTimeout(ctx, booksTimeout)
	defer cancel()
	a, err := w.client.once(ctx, 0, call{method: http.MethodGet, path: "/v1/ops/events/" + w.config.Event + "/books", bearer: w.config.OperatorToken}, 1)
	if err != nil {
		return nil, fmt.Sprintf("the books are not audited: %v", err)
	}
	var books struct {
		Sums []Sum `json:"sums"`
	}
	switch {
	case a.status == http.StatusNotFound || a.status == http.StatusConflict:
		return nil, "the books are not audited: the service keeps none of this event"
	case a.status != http.StatusOK || decode(a.body, &books) != nil:
		return nil, fmt.Sprintf("the books are not audited: http %d %.200s", a.status, a.body)
	}
	return books.Sums, ""
}

// failed are the sums that do not balance.
func failed(sums []Sum) (out []Sum) {
	for _, s := range sums {
		if !s.Pass {
			out = append(out, s)
		}
	}
	return out
}
