package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// reservation is what the service says of one.
type reservation struct {
	ID        string    `json:"reservation_id"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason"`
	Seats     []string  `json:"seats"`
	ExpiresAt time.Time `json:"expires_at"`
}

// The states of a reservation that matter here.
const (
	statusHeld    = "held"
	statusPending = "payment_pending"
	statusPaid    = "paid"
)

// final says whether a reservation's state is an outcome.
func final(status string) bool {
	return status != "" && status != statusHeld && status != statusPending
}

// maxPicks is how often somebody chooses other seats after a lost race, before
// taking what the server picks.
const maxPicks = 5

// buy goes from the seats to the outcome and returns how the user's way ended.
func (u *user) buy(ctx context.Context) string {
	switch a, err := u.browse(ctx); {
	case err != nil:
		return endGone
	case a.status == http.StatusConflict && a.code() == "wrong_mode":
		return u.passGate(ctx)
	case a.status != http.StatusOK && a.status != http.StatusNotModified:
		u.broken("seats", a)
		return endGone
	}
	u.probeShare(ctx)
	r, k, ok := u.reserve(ctx)
	if !ok {
		return u.afterRefusal(ctx)
	}
	u.probeReplay(ctx, k, r)
	if !u.pay(ctx, r) {
		return endStays
	}
	u.probeSecondPurchase(ctx)
	return endStays
}

// afterRefusal: who got nothing leaves, as people do.
func (u *user) afterRefusal(ctx context.Context) string {
	if ctx.Err() != nil {
		return endGone
	}
	return u.leave(ctx)
}

// browse asks for the seat map.
func (u *user) browse(ctx context.Context) (answer, error) {
	began := time.Now()
	a, err := u.ask(ctx, call{method: http.MethodGet, path: u.path("/seats"), etag: u.shop.tag()})
	if err != nil {
		return a, err
	}
	u.hist.record(mSeats, time.Since(began))
	if a.status == http.StatusOK {
		if err := u.shop.learn(a); err != nil {
			u.serverFault("bad_answer", "seats: %v", err)
		}
	}
	return a, nil
}

// passGate comes in where nothing is sold.
func (u *user) passGate(ctx context.Context) string {
	a, err := u.ask(ctx, call{method: http.MethodGet, path: "/v1/gate/" + u.spec.Config.Event, entry: u.token})
	switch {
	case err != nil:
		return endGone
	case a.status == http.StatusNoContent:
		u.enter()
		return endStays
	default:
		u.refusal(a.code(), "gate")
		return endGone
	}
}

func (u *user) enter() {
	u.fact.Entered = u.clock.now()
	u.live.entered.Add(1)
}

// reserve asks for seats until it has some or nothing is to be had. It also returns
// the call that was answered 201.
func (u *user) reserve(ctx context.Context) (*purchase, replayable, bool) {
	for pick := 1; ; pick++ {
		want := map[string]any{"quantity": u.seats}
		if u.chooses && pick <= maxPicks {
			seats, left := u.shop.pick(u.seats, u.rng)
			if !left {
				u.live.soldOut.Add(1)
				return nil, replayable{}, false
			}
			if seats != nil {
				want = map[string]any{"seats": seats}
			}
		}
		body, err := json.Marshal(want)
		if err != nil {
			return nil, replayable{}, false
		}
		k := call{method: http.MethodPost, path: u.path("/reservations"), entry: u.token, key: u.newKey("reserve"), body: string(body)}
		began := time.Now()
		a, err := u.ask(ctx, k)
		if err != nil {
			return nil, replayable{}, false
		}
		u.hist.record(mReservation, time.Since(began))
		if a.status == http.StatusCreated {
			p, ok := u.reserved(a)
			return p, replayable{k, a}, ok
		}
		if again := u.refusedSeats(ctx, a); !again {
			return nil, replayable{}, false
		}
	}
}

// reserved writes a 201 down.
func (u *user) reserved(a answer) (*purchase, bool) {
	var r reservation
	if err := decode(a.body, &r); err != nil || r.ID == "" || r.Status != statusHeld {
		return nil, u.broken("reservation", a)
	}
	if u.fact.Entered == 0 {
		u.enter()
	}
	u.fact.Purchases = append(u.fact.Purchases, purchase{
		ID: r.ID, Seats: r.Seats, Places: u.shop.shared(r.Seats), Quantity: max(len(r.Seats), 1), Answered: u.clock.now(), State: r.Status,
		Until: r.ExpiresAt.Sub(u.spec.Start).Microseconds(),
	})
	if len(r.Seats) == 0 {
		u.fact.Purchases[len(u.fact.Purchases)-1].Quantity = u.seats
	}
	return &u.fact.Purchases[len(u.fact.Purchases)-1], true
}

// refusedSeats judges a refusal and says whether to try for other seats.
func (u *user) refusedSeats(ctx context.Context, a answer) bool {
	code := a.code()
	u.refusal(code, "reservation")
	switch code {
	case "seat_taken":
		if pause(ctx, backoff(1, a.retryAfter(), u.rng)) != nil {
			return false
		}
		_, err := u.browse(ctx)
		return err == nil
	case "sold_out":
		u.live.soldOut.Add(1)
	case "token_used", "already_reserved":
		// Nothing was answered 201 before, so a try that failed has spent something.
		u.tally.check(promiseSeat, false, "user %d, entry %s: %s, although no try was answered 201", u.fact.User, u.fact.Entry, code)
	case "token_expired", "closed":
	default:
		u.broken("reservation", a)
	}
	return false
}

// pay asks for the payment and waits for its outcome; false ends the user's way.
func (u *user) pay(ctx context.Context, p *purchase) bool {
	began := time.Now()
	sent := u.clock.now()
	a, err := u.ask(ctx, call{
		method: http.MethodPost, path: u.path("/reservations/" + p.ID + "/payment"),
		entry: u.token, key: u.newKey("pay"), body: "{}",
	})
	if err != nil {
		return false
	}
	u.hist.record(mPayment, time.Since(began))
	switch {
	case a.status == http.StatusAccepted:
		p.State = statusPending
	case a.status == http.StatusConflict && a.code() == "hold_expired":
		u.refusal("hold_expired", "payment")
		u.live.unpaid.Add(1)
		return false
	default:
		return u.broken("payment", a)
	}
	status, err := u.outcome(ctx, p.ID)
	if err != nil {
		if errors.Is(err, errGaveUp) {
			u.live.failed.Add(1)
			u.serverFault("no_outcome", "user %d: reservation %s: no outcome of its payment", u.fact.User, p.ID)
		}
		p.Until = min(p.Until, sent)
		return false
	}
	u.hist.record(mOutcome, time.Since(began))
	p.State = status
	if status != statusPaid {
		p.Until = min(p.Until, sent) // from then on the seats may go back
		u.live.unpaid.Add(1)
		u.refusal("outcome_"+status, "payment")
		return false
	}
	p.Until = 0
	u.live.bought.Add(1)
	if u.sampled {
		u.mu.Lock()
		u.kept = append(u.kept, kept{user: u.fact.User, id: p.ID, token: u.token, status: statusPaid})
		u.mu.Unlock()
	}
	return true
}

// The patience for an outcome: it is pushed; now and then it is asked for as well.
const (
	outcomeAsk  = 3 * time.Second
	outcomeWait = 2 * time.Minute
)

// outcome waits for the outcome of a payment on the socket, and asks for it between.
func (u *user) outcome(ctx context.Context, id string) (string, error) {
	for end := time.Now().Add(outcomeWait); time.Now().Before(end); {
		m, err := u.next(ctx, time.Now().Add(outcomeAsk))
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err == nil && m.Type == typeReservation && m.ReservationID == id && final(m.Status):
			return m.Status, nil
		case err == nil:
			continue
		case errors.Is(err, errGaveUp), errors.Is(err, errEnded): // no socket, but it can be asked for
			if err := pause(ctx, outcomeAsk); err != nil {
				return "", err
			}
		}
		a, err := u.ask(ctx, call{method: http.MethodGet, path: u.path("/reservations/" + id), entry: u.token})
		if err != nil {
			return "", err
		}
		var r reservation
		if err := decode(a.body, &r); err != nil || a.status != http.StatusOK {
			u.tally.check(promiseKept, a.status != http.StatusNotFound, "user %d: reservation %s was answered 201 and is not found", u.fact.User, id)
			return "", fmt.Errorf("reservation %s: http %d: %w", id, a.status, errGaveUp)
		}
		if final(r.Status) {
			return r.Status, nil
		}
	}
	return "", errGaveUp
}
