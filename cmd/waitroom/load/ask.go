package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// decode reads an answer's JSON; unknown fields are allowed, as for any client.
func decode(b []byte, into any) error { return json.Unmarshal(b, into) }

// tryAt makes one try of a call at one target through the crew and books what went
// wrong with it.
func (w *worker) tryAt(ctx context.Context, target int, k call, attempt int) (answer, error) {
	var a answer
	var err error
	w.live.calls.Add(1)
	if doErr := w.crew.do(ctx, func() { a, err = w.client.once(ctx, target, k, attempt) }); doErr != nil {
		return answer{}, doErr
	}
	switch {
	case err != nil:
		w.fault(ctx, err)
	case a.status >= 500:
		w.serverFault(statusKind(a.status), "%s %s: %.200s", k.method, k.path, a.body)
	case a.status == http.StatusTooManyRequests:
		w.refusal(a.code(), k.method+" "+k.path)
	}
	return a, err
}

// try makes one try at the user's own target and, as a balancer would, turns away
// from one that does not answer.
func (u *user) try(ctx context.Context, k call, attempt int) (answer, error) {
	k.from = u.addressOf(u.fact.User)
	a, err := u.tryAt(ctx, u.target, k, attempt)
	if err != nil {
		u.target++
	}
	return a, err
}

// ask makes a call until there is a definite answer. errGaveUp: every try failed;
// the user is counted as failed.
func (u *user) ask(ctx context.Context, k call) (answer, error) {
	for attempt := 1; ; attempt++ {
		a, err := u.try(ctx, k, attempt)
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		if err == nil && !again(a) {
			return a, nil
		}
		if attempt == retryTries {
			u.live.failed.Add(1)
			return answer{}, errGaveUp
		}
		if err := pause(ctx, backoff(attempt, a.retryAfter(), u.rng)); err != nil {
			return answer{}, err
		}
	}
}

// addressOf is the address that user i names as its own, of the range that is set
// aside for measurements (RFC 2544); empty where the crowd names none.
func (w *worker) addressOf(i int) string {
	if !w.spec.Config.Crowd.Forwarded {
		return ""
	}
	return fmt.Sprintf("198.%d.%d.%d", 18+i>>16&1, i>>8&255, i&255)
}

// again says whether an answer is worth another try of the same call.
func again(a answer) bool {
	switch a.status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		code := a.code()
		return code == "contended" || code == "idempotency_in_progress"
	case http.StatusForbidden:
		return a.code() == "not_open"
	default:
		return false
	}
}
