package ticket

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// ask is one ReserveRequest on its way through a group.
type ask struct {
	ReserveRequest
	key    []byte // nil without an idempotency key
	answer Answer
	err    error
	doubt  bool // an earlier try may have been committed
}

// Reserve sets seats aside for a person, or says why not.
//
// The order of checks is: the key's stored answer, existence (ErrNoSeat,
// ErrWrongMode), the token (ErrTokenUsed), seats and stock (ErrSeatTaken,
// ErrSoldOut), the person's share (ErrAlreadyReserved). Each such refusal is an
// Answer made by Encode and stored like a success.
//
// The error is ErrInProgress, ErrIdempotencyMismatch, ErrContended or
// ErrUnavailable, or one of the program's own; nothing is stored then, and the
// same key may be sent again. After ErrUnavailable the reservation may exist all
// the same (a commit whose reply was lost): the same key finds it.
func (s *Store) Reserve(ctx context.Context, q ReserveRequest) (Answer, error) {
	a := &ask{ReserveRequest: q, key: q.Key.hash(), err: ErrUnavailable}
	done, err := s.begin(a.key, q.Key)
	if err != nil {
		return Answer{}, err
	}
	defer done()
	h, err := s.hall(ctx, q.Event)
	if errors.Is(err, ErrWrongMode) {
		return refuse(q.Encode, err), nil
	}
	if err != nil {
		return Answer{}, err
	}
	if err := h.reserves.do(ctx, a); err != nil {
		return Answer{}, fmt.Errorf("reserve in %s: %w", q.Event, err)
	}
	if a.err != nil {
		return Answer{}, fmt.Errorf("reserve in %s: %w", q.Event, a.err)
	}
	return a.answer, nil
}

// refuse answers without storing anything.
func refuse(encode Encode, refusal error) Answer {
	status, body := encode(Reservation{}, refusal)
	return Answer{Status: status, Body: body}
}

// hash is the name under which an answer is stored; nil without a key.
func (k Key) hash() []byte {
	if k.Value == "" {
		return nil
	}
	h := sha256.New()
	for _, part := range []string{k.Caller, k.Route, k.Value} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) //nolint:gosec // far below 4 GiB
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// begin claims a key within this process until done is called.
func (s *Store) begin(hash []byte, k Key) (done func(), err error) {
	if hash == nil {
		return func() {}, nil
	}
	name := string(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if body, taken := s.running[name]; taken {
		if body != k.BodyHash {
			return nil, ErrIdempotencyMismatch
		}
		return nil, ErrInProgress
	}
	s.running[name] = k.BodyHash
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, name)
	}, nil
}

// reserveAll gives each of asks its answer.
func (s *Store) reserveAll(ctx context.Context, h *hall, asks []*ask) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	s.m.group.Observe(float64(len(asks)))
	s.reserveTries(ctx, h, asks)
	for _, a := range asks {
		s.m.answered(a.err, a.answer)
	}
}

// reserveTries does the group, in up to three tries.
func (s *Store) reserveTries(ctx context.Context, h *hall, asks []*ask) {
	how := h.manner()
	for try := 1; ; {
		how.locked = try == tries || h.catalogue().Locking == Pessimistic
		err := s.reserveOnce(ctx, h, asks, how)
		switch {
		case err == nil:
			return
		case errors.Is(err, errReturns) && !errors.Is(err, errCommit):
			how.first = false
			h.returns.Store(caution)
			continue
		case how.bold && (errors.Is(err, errGuess) || errors.Is(err, errConflict) && !errors.Is(err, errCommit)):
			how.bold, how.first = false, false
			h.wary.Store(caution)
			continue
		case errors.Is(err, errDue) && !how.swept:
			// Refusals that an ended hold may be the reason of: end it, and look again.
			how.swept = true
			if err := s.expireAll(ctx, h.event, true); err != nil {
				settle(asks, err)
				return
			}
			continue
		case errors.Is(err, errGuess) && !how.sure:
			how.sure = true
			continue
		case errors.Is(err, errStale) && !how.fresh:
			how.fresh = true
			if err := s.reload(ctx, h); err != nil {
				settle(asks, err)
				return
			}
			continue
		case errors.Is(err, errConflict), errors.Is(err, ErrUnavailable):
			for _, a := range asks {
				a.doubt = a.doubt || errors.Is(err, errCommit)
			}
			s.m.retries.Inc()
			if try < tries && pause(ctx, try) {
				try++
				how.swept = false
				if err := s.catchUp(ctx); err != nil {
					continue // the next try will meet the same fault, and say so
				}
				continue
			}
			if errors.Is(err, ErrUnavailable) {
				settle(asks, err)
				return
			}
			err = fmt.Errorf("%w: %w", ErrContended, err)
		}
		if len(asks) == 1 {
			settle(asks, err)
			return
		}
		// Something in the group cannot be done. Halve it until that stands alone, so
		// that it spoils nobody else's.
		s.m.split.Inc()
		s.reserveTries(ctx, h, asks[:len(asks)/2])
		s.reserveTries(ctx, h, asks[len(asks)/2:])
		return
	}
}

func settle(asks []*ask, err error) {
	for _, a := range asks {
		a.answer, a.err = Answer{}, err
	}
}

// manner is how a try is made.
type manner struct {
	bold   bool // nothing is asked before it is written
	first  bool // nobody is supposed to hold or own anything yet
	locked bool // rows are locked before they are judged
	swept  bool // ended holds were ended just now
	fresh  bool // the hall was read anew just now
	sure   bool // all seats are asked for, also those that the hall vouches for
}

// Why a try is made again without counting as one.
var (
	errDue   = errors.New("holds have ended")
	errStale = errors.New("the hall is behind")
	errGuess = errors.New("a refusal rests on the hall's word")
	// errReturns: somebody has a share already.
	errReturns = errors.New("somebody was here before")
)

// reserveOnce is one transaction for the whole group.
func (s *Store) reserveOnce(ctx context.Context, h *hall, asks []*ask, how manner) error {
	var p *plan
	defer func() {
		if p != nil {
			h.unpick(p.picked)
		}
	}()
	err := s.db.change(ctx, func(ctx context.Context, t tx) error {
		f, err := s.facts(ctx, t, h, asks, how)
		if err != nil {
			return err
		}
		if f.catalogue != h.known() && !how.fresh {
			return errStale
		}
		p = decide(h, f, asks)
		if how.bold && len(p.made) < len(asks) {
			return errGuess
		}
		if p.refusals && f.due && !how.swept {
			return errDue
		}
		if p.unsure && !how.sure {
			return errGuess
		}
		if p.soldOut && !how.fresh {
			if err := s.soldOut(ctx, t, h); err != nil {
				return err
			}
		}
		return p.write(ctx, t, h, f, how)
	})
	if err != nil {
		return err
	}
	h.learn(p.held)
	h.learnStock(p.stock)
	for i, a := range asks {
		a.answer, a.err = p.results[i].answer, p.results[i].err
		if a.doubt {
			a.answer.Replayed = false // it was this call that did it
		}
	}
	return nil
}

// soldOut is errStale when the database has more free seats than the hall.
func (s *Store) soldOut(ctx context.Context, t tx, h *hall) error {
	var n int64
	err := t.query(ctx, func(scan func(...any) error) error { return scan(&n) },
		`SELECT count(*) FROM seats WHERE event = $1 AND status = 'free'`, nil, h.event)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > h.free {
		return errStale
	}
	return nil
}

// wanted are the seats that asks name, each once, in one order.
func wanted(asks []*ask) []string {
	var ids []string
	for _, a := range asks {
		ids = append(ids, a.Seats...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
