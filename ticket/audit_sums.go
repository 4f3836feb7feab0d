package ticket

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// counts are the numbers of rows by table and state.
func (l *ledger) counts() map[string]int64 {
	n := map[string]int64{}
	for _, seat := range l.seats {
		n["seats "+string(seat.status)]++
	}
	for _, item := range l.items {
		n["stock total"] += item.total
		n["stock free"] += item.free
	}
	if len(l.bookings) > 0 {
		n["bookings"] = int64(len(l.bookings))
	}
	if l.numbers.counts {
		n["numbers"], n["winners"] = l.numbers.n, int64(len(l.numbers.winners))
	}
	if l.numbers.issued > 0 {
		n["tokens issued"] = l.numbers.issued
	}
	for _, r := range l.reservations {
		n["reservations "+string(r.status)]++
	}
	for _, p := range l.payments {
		n["payments "+string(p.state)]++
	}
	names := map[int64]string{rowWaiting: "waiting", rowPublished: "published", rowParked: "parked"}
	for _, row := range l.outbox {
		name, known := names[row.state]
		if !known {
			name = "in state " + strconv.FormatInt(row.state, 10)
		}
		n["outbox "+name]++
	}
	return n
}

// seatSums compare seats and stock with what reservations say they have.
func (l *ledger) seatSums() []Sum {
	held, sold, free, stock := newTally("seats_held"), newTally("seats_sold"), newTally("seats_free"), newTally("stock")
	owned := map[string]bool{}
	taken := map[string]int64{}
	for _, r := range l.reservations {
		if !r.living() || r.before(l) {
			continue
		}
		side, want := held, SeatHeld
		if r.status == Paid {
			side, want = sold, SeatSold
		}
		for _, id := range r.seats {
			if _, item := l.items[id]; item {
				taken[id]++
				continue
			}
			found := int64(0)
			if seat := l.seats[id]; seat.status == want && seat.reservation == r.id {
				found = 1
			}
			owned[id] = true
			side.count(1, found, id)
		}
	}
	for id, seat := range l.seats {
		if owned[id] {
			continue
		}
		found := int64(0)
		if (seat.status == SeatFree || seat.status == SeatBlocked) && seat.reservation == "" {
			found = 1
		}
		free.count(1, found, id)
	}
	for id, item := range l.items {
		stock.count(item.total-taken[id], item.free, id)
	}
	return []Sum{held.sum(), sold.sum(), free.sum(), stock.sum()}
}

// reservationSums compare reservations with the counters beside them.
func (l *ledger) reservationSums() []Sum {
	size, holds, tokens := newTally("reservations"), newTally("holds"), newTally("tokens")
	reasons := newTally("reasons")
	persons := map[string]int64{}
	spent := map[string]bool{}
	for _, r := range l.reservations {
		if r.before(l) {
			continue
		}
		size.count(int64(len(r.seats)), r.n, r.id)
		if r.status == Held || r.status == PaymentPending {
			found := int64(0)
			if r.endedMS > r.created {
				found = 1
			}
			holds.count(1, found, r.id)
		}
		if !r.living() {
			reasons.count(1, map[bool]int64{true: 1}[r.reason != ""], r.id)
			continue
		}
		persons[r.person] += int64(len(r.seats))
		found := int64(0)
		if r.jti != "" && !spent[r.jti] {
			found = 1
		}
		spent[r.jti] = true
		tokens.count(1, found, r.id)
	}
	shares, limit := newTally("shares"), newTally("per_user")
	for person := range l.shares {
		persons[person] += 0 // also who has none left
	}
	for person, n := range persons {
		shares.count(n, l.shares[person], person)
		limit.count(n, min(n, l.perUser), person)
	}
	return []Sum{size.sum(), holds.sum(), shares.sum(), limit.sum(), tokens.sum(), reasons.sum()}
}

// fits says whether a payment's state belongs to its reservation's; "" is none.
func fits(r *ledgerReservation, state PaymentState) bool {
	switch r.status {
	case Held, Expired:
		return state == ""
	case PaymentPending:
		return state == PaymentRequested || state == PaymentUnknown
	case Paid:
		return state == PaymentCaptured || state == "" && r.amount == 0
	case Cancelled:
		return state != PaymentRequested && state != PaymentCaptured && state != PaymentRefunded
	case PaymentFailed:
		return state == PaymentDeclined || state == PaymentRefundDue
	case Refunded:
		return state == PaymentRefunded
	}
	return false
}

// paymentSums compare the money with what was sold.
func (l *ledger) paymentSums() []Sum {
	open, paid, ended := newTally("payments_open"), newTally("payments_captured"), newTally("payments_ended")
	amounts := newTally("payment_amounts")
	type sides struct{ expected, found int64 }
	money := map[string]sides{} // by currency
	for _, r := range l.reservations {
		p := l.payments[r.id]
		state := PaymentState("")
		if p != nil {
			state = p.state
			found := p.amount
			if p.currency != r.currency {
				found = 0
			}
			amounts.count(r.amount, found, p.id)
		}
		side := ended
		switch r.status {
		case PaymentPending:
			side = open
		case Paid:
			side = paid
			m := money[r.currency]
			m.expected += r.amount
			money[r.currency] = m
		case Held, Cancelled, Expired, PaymentFailed, Refunded:
		}
		found := int64(0)
		if fits(r, state) {
			found = 1
		}
		side.count(1, found, r.id)
	}
	for _, p := range l.payments {
		if l.reservations[p.reservation] == nil {
			ended.count(0, 1, p.id)
		}
		m := money[p.currency]
		switch p.state {
		case PaymentCaptured:
			m.found += p.amount
		case PaymentRefundDue: // ours for now, and owed
			m.found += p.amount
			m.expected += p.amount
		case PaymentRefunded, PaymentRequested, PaymentUnknown, PaymentDeclined, PaymentCancelled:
		}
		money[p.currency] = m
	}
	balance := newTally("money")
	for _, currency := range slices.Sorted(maps.Keys(money)) {
		balance.count(money[currency].expected, money[currency].found, currency)
	}
	return []Sum{open.sum(), paid.sum(), ended.sum(), amounts.sum(), balance.sum()}
}

// happened says whether a reservation has gone through what a topic tells; a topic
// that is about none always has.
func (l *ledger) happened(id, topic string) bool {
	switch topic {
	case TopicCatalogue, TopicSeats, TopicWinner: // of no reservation: no table says how often
		return true
	}
	r := l.reservations[id]
	if r == nil {
		return false
	}
	switch topic {
	case TopicHeld:
		return true
	case TopicPaymentRequested, TopicPaymentWaits:
		return l.payments[id] != nil
	case TopicCancelled, TopicExpired, TopicPaymentFailed:
		return topicOf(r.status) == topic || r.status == Refunded // money came after its end
	default:
		return topicOf(r.status) == topic
	}
}

// outboxSums compare the messages with what was committed.
func (l *ledger) outboxSums(keep time.Duration) []Sum {
	states, committed, parked := newTally("outbox"), newTally("outbox_committed"), newTally("outbox_parked")
	there := map[string]bool{}
	for _, row := range l.outbox {
		id := dedupID(row.key, row.topic)
		known, told, stuck := int64(0), int64(0), int64(0)
		if row.state == rowWaiting || row.state == rowPublished || row.state == rowParked {
			known = 1
		}
		if !there[id] && l.happened(row.key, row.topic) {
			told = 1
		}
		if row.state == rowParked {
			stuck = 1
		}
		there[id] = true
		states.count(1, known, id)
		committed.count(1, told, id)
		parked.count(0, stuck, id)
	}
	written := newTally("outbox_written")
	// since is the earliest that the change can have been: what is published may
	// have been swept after keep.
	want := func(since int64, key string, topics ...string) {
		if slices.ContainsFunc(topics, func(topic string) bool { return there[dedupID(key, topic)] }) {
			written.count(1, 1, "")
		} else if l.now-since < keep.Milliseconds() {
			written.count(1, 0, dedupID(key, topics[0]))
		}
	}
	for _, r := range l.reservations {
		want(r.created, r.id, TopicHeld)
		since := r.created
		if p := l.payments[r.id]; p != nil {
			want(p.created, r.id, TopicPaymentRequested)
			since = p.created
		}
		switch r.status {
		case Held, PaymentPending:
		case Refunded:
			want(since, r.id, TopicCancelled, TopicExpired, TopicPaymentFailed)
			want(since, r.id, TopicRefunded)
		case Paid, Cancelled, Expired, PaymentFailed:
			want(since, r.id, topicOf(r.status))
		}
	}
	return []Sum{states.sum(), committed.sum(), written.sum(), parked.sum()}
}
