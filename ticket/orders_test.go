package ticket

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// deeds are what can happen to one seat, by ann or by another, in any order.
var deeds = []string{
	"hold", "hold by another", "pay", "captured", "declined", "refund", "cancel", "time ends", "sweep",
}

// orderDeep is the longest order of deeds that is played: -orders=8 takes a minute.
var orderDeep = flag.Int("orders", 6, "longest order of deeds on one seat")

// oneSeat is the model of a single seat.
func oneSeat() *world { return &world{kind: KindSeats, places: map[string]int{"seat": 1}} }

// clone copies a world.
func (w *world) clone() *world {
	c := oneSeat()
	for _, r := range w.all {
		same := *r
		c.all = append(c.all, &same)
	}
	return c
}

// latest is a person's last reservation.
func (w *world) latest(person string) *modelled {
	for _, r := range slices.Backward(w.all) {
		if r.person == person {
			return r
		}
	}
	return nil
}

// holding is what a hold by the person comes to; "" for a success.
func (w *world) holding(person string) string {
	want := w.refusal(person, person, "seat")
	if want != "" && w.sweep() {
		want = w.refusal(person, person, "seat")
	}
	if want == "" {
		w.all = append(w.all, &modelled{person: person, jti: person, seat: "seat", status: Held, ends: w.now + modelHold})
	}
	return want
}

// does a deed in the model and says what it comes to; false where it means nothing.
func (w *world) does(deed string) (string, bool) {
	ann := w.latest("ann")
	paying := ann != nil && ann.state != ""
	switch {
	case deed == "hold":
		return w.holding("ann"), true
	case deed == "hold by another":
		return w.holding("bob"), true
	case deed == "time ends":
		for _, r := range w.all {
			if r.status == Held || r.status == PaymentPending {
				r.ends = w.now
			}
		}
		return "", len(w.all) > 0
	case deed == "sweep":
		w.sweep()
		return "", len(w.all) > 0
	case deed == "pay" && ann != nil:
		switch {
		case ann.status == Held && !w.due(ann):
			ann.status, ann.state, ann.ends = PaymentPending, PaymentRequested, w.now+modelLease
			return "", true
		case ann.status == PaymentPending || ann.status == Paid:
			return "", true
		}
		return ErrHoldExpired.Error(), true
	case deed == "captured" && paying:
		ann.settle(ResultCaptured)
	case deed == "declined" && paying:
		ann.settle(ResultDeclined)
	case deed == "refund" && paying:
		if ann.state != PaymentRefundDue && ann.state != PaymentRefunded {
			return "", false
		}
		ann.state, ann.status = PaymentRefunded, Refunded
	case deed == "cancel" && ann != nil:
		return ann.cancel(), true
	default:
		return "", false
	}
	return "", true
}

func (r *modelled) cancel() string {
	if r.status == PaymentPending || r.status == Paid {
		return ErrNotCancellable.Error()
	}
	if r.status == Held {
		r.status = Cancelled
	}
	return ""
}

// key names a state of the model: what has the same key goes on in the same way.
func (w *world) key() string {
	var b strings.Builder
	for _, r := range w.all {
		fmt.Fprint(&b, r.person, r.status, r.state, r.attempts, w.due(r), ";")
	}
	return b.String()
}

// orders are all orders of deeds up to a length, but for those that differ from one
// of them only by a way to the same state: every deed in every state that can be
// reached.
func orders(deep int) (all [][]string) {
	type way struct {
		deeds []string
		world *world
	}
	seen := map[string]bool{"": true}
	for ways := []way{{world: oneSeat()}}; len(ways) > 0 && deep > 0; deep-- {
		var next []way
		for _, from := range ways {
			for _, deed := range deeds {
				w := from.world.clone()
				if _, ok := w.does(deed); !ok {
					continue
				}
				to := way{append(slices.Clone(from.deeds), deed), w}
				all = append(all, to.deeds)
				if k := w.key(); !seen[k] {
					seen[k] = true
					next = append(next, to)
				}
			}
		}
		ways = next
	}
	return all
}

// Promise 9: every order of {hold, hold by another, pay, captured, declined,
// refund, cancel, time ends, sweep}, generated, leaves the seat to its
// rightful owner, and so does the last deed a second time.
func TestPromise9EveryOrderOfDeedsOnOneSeat(t *testing.T) {
	t.Parallel()
	all := orders(*orderDeep)
	t.Logf("%d orders of up to %d deeds", len(all), *orderDeep)
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{})}
		next := make(chan int)
		var wg sync.WaitGroup
		for player := range 8 { // each with an event of its own: a sweep is of a whole event
			event := fmt.Sprint("e", player)
			require.NoError(t, nodes[0].Put(t.Context(), event, hallOf((len(all)+99)/100, 100)))
			wg.Go(func() {
				for i := range next {
					if !t.Failed() {
						(&played{t: t, event: event, nodes: nodes, n: i, w: oneSeat()}).play(all[i])
					}
				}
			})
		}
		for i := range all {
			next <- i
		}
		close(next)
		wg.Wait()
	})
}

// played is one order on one seat of the database.
type played struct {
	t     *testing.T
	event string
	nodes []*Store
	n     int // the seat's and the buyers' number
	w     *world
	calls int
}

func (p *played) play(order []string) {
	for i, deed := range append(order, order[len(order)-1]) {
		before := len(p.w.all)
		want, ok := p.w.does(deed)
		if !ok { // a refund, say, that has nothing to give back by now
			break
		}
		require.Equal(p.t, want, p.does(deed, p.nodes[i%2], len(p.w.all) > before), "%v, deed %d", order, i)
		if i >= len(order)-1 { // what comes before is an order of its own
			p.check(order)
		}
	}
}

// buyer is the person of this order.
func (p *played) buyer(name string) *buyer {
	p.calls++
	return &buyer{event: p.event, name: fmt.Sprint(name, p.n), calls: p.calls}
}

// does a deed in the database; made says that the model has a new reservation.
func (p *played) does(deed string, s *Store, made bool) string {
	ctx := p.t.Context()
	ann := p.w.latest("ann")
	settle := func(r PaymentResult) string {
		_, err := s.Settle(ctx, ann.payment, r)
		require.NoError(p.t, err)
		return ""
	}
	switch deed {
	case "hold", "hold by another":
		name := map[string]string{"hold": "ann", "hold by another": "bob"}[deed]
		a, err := s.Reserve(ctx, p.buyer(name).seats(p.seat()))
		require.NoError(p.t, err)
		b := decode(p.t, a)
		if made {
			p.w.latest(name).id = b.ID
		}
		return b.Refusal
	case "pay":
		a, err := s.Pay(ctx, p.buyer("ann").pay(ann.id))
		require.NoError(p.t, err)
		if ann.state != "" {
			ann.payment = paymentOf(p.t, s, ann.id)
		}
		return decode(p.t, a).Refusal
	case "captured":
		return settle(ResultCaptured)
	case "declined":
		return settle(ResultDeclined)
	case "refund":
		_, err := s.SettleRefund(ctx, ann.payment)
		require.NoError(p.t, err)
	case "cancel":
		if err := s.Cancel(ctx, p.event, ann.id, fmt.Sprint("ann", p.n)); err != nil {
			require.ErrorIs(p.t, err, ErrNotCancellable)
			return ErrNotCancellable.Error()
		}
	case "time ends":
		for _, r := range p.w.all {
			if p.w.due(r) {
				require.NoError(p.t, s.db.change(ctx, func(ctx context.Context, x tx) error {
					_, err := x.exec(ctx, `UPDATE reservations SET ends_ms = 1 WHERE id = $1`, nil, r.id)
					return err
				}))
			}
		}
	case "sweep":
		require.NoError(p.t, s.expireAll(ctx, p.event, true))
	}
	return ""
}

func (p *played) seat() string { return fmt.Sprintf("A-%d-%d", p.n/100+1, p.n%100+1) }

// check compares all that the database says of the seat with the model.
func (p *played) check(order []string) {
	var want, got []string
	owner, refunds := "free ", 0
	shares := map[string]int{"ann": 0, "bob": 0}
	for _, r := range p.w.all {
		want = append(want, strings.TrimSpace(fmt.Sprintln(r.id, r.status, r.state)))
		if r.living() {
			owner = map[bool]string{true: "sold ", false: "held "}[r.status == Paid] + r.id
			shares[r.person]++
		}
		if r.state == PaymentRefunded {
			refunds++
		}
	}
	s := p.nodes[0]
	err := s.db.look(p.t.Context(), func(ctx context.Context, x tx) error {
		return x.query(ctx, func(scan func(...any) error) error {
			var id, status, state string
			err := scan(&id, &status, &state)
			got = append(got, strings.TrimSpace(fmt.Sprintln(id, status, state)))
			return err
		}, `SELECT v.id, v.status, coalesce((SELECT m.state FROM payments m WHERE m.reservation = v.id), '')
			FROM {rows} JOIN reservations v ON v.event = $1 AND v.id = r.id`, table("id", p.reservations()), p.event)
	})
	require.NoError(p.t, err)
	require.ElementsMatch(p.t, want, got, "%v", order)
	require.Equal(p.t, owner, ask1(p.t, s, `SELECT status || ' ' || reservation FROM seats WHERE event = $1 AND id = $2`, p.event, p.seat()), "%v", order)
	for person, n := range shares {
		require.EqualValues(p.t, n, count(p.t, s, `SELECT coalesce((SELECT n FROM shares WHERE event = $1 AND person = $2), 0)`,
			p.event, fmt.Sprint(person, p.n)), "share of %s after %v", person, order)
	}
	if last := p.w.latest("ann"); last != nil && last.payment != "" {
		require.EqualValues(p.t, refunds, count(p.t, s, `SELECT count(*) FROM outbox WHERE key IN (SELECT reservation FROM payments
			WHERE person = $1 AND event = $2 AND reservation = $3) AND topic = $4`,
			fmt.Sprint("ann", p.n), p.event, last.id, TopicRefunded), "%v", order)
	}
}

func (p *played) reservations() []string {
	ids := make([]string, len(p.w.all))
	for i, r := range p.w.all {
		ids[i] = r.id
	}
	return ids
}
