package waitroom

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

const (
	// verdictFresh is how old the news of a feed may be for a verdict to be believed:
	// a revocation is felt everywhere within it, also where the feed stands still.
	verdictFresh = time.Second
	// verdictsMost is how many verdicts are remembered for an event in each of two
	// generations, about 350 bytes each. Who is forgotten has the store asked again.
	verdictsMost = 1 << 16
	// slidesMost is how many sessions may wait to be renewed. Beyond it, whoever passes
	// asks the store instead, and is renewed by that.
	slidesMost = 1 << 14
	// slideBatch is how many sessions one call renews, slideEvery how long the first of
	// them waits for the others, and slideLate how much of a session must be left for
	// it to wait at all.
	slideBatch = 256
	slideEvery = 500 * time.Millisecond
	slideLate  = 5 * time.Second
	// slideLeast is what a renewal must bring, as in enter.lua.
	slideLeast = time.Second
)

// verdicts is what a follower remembers of grants that were used: what the store said
// of each, and what the feed has told since.
type verdicts struct {
	asking singleflight.Group // one question at a time about one grant

	mu    sync.Mutex // guards the fields below, and the verdicts
	young map[string]*verdict
	old   map[string]*verdict
	slid  []*verdict // whose sessions are to be renewed
	since time.Time  // when the first of slid came
}

// verdict is what is known of one grant.
type verdict struct {
	grant  Grant     // without JTI as long as the store has not answered
	ended  error     // why it opens nothing any more, for good
	passed time.Time // when its person came by last; zero unless it is in slid
	open   bool      // let pass unchecked, and told of
}

// find is what is known of a jti, or nil. Callers hold mu.
func (vs *verdicts) find(jti string) *verdict {
	if v := vs.young[jti]; v != nil {
		return v
	}
	v := vs.old[jti]
	if v != nil {
		delete(vs.old, jti)
		vs.keep(jti, v)
	}
	return v
}

// keep remembers a verdict. Callers hold mu.
func (vs *verdicts) keep(jti string, v *verdict) {
	if len(vs.young) >= verdictsMost {
		vs.old, vs.young = vs.young, nil
	}
	if vs.young == nil {
		vs.young = make(map[string]*verdict)
	}
	vs.young[jti] = v
}

// ask says that the store is asked about a grant from now on. What the feed tells of
// it meanwhile is newer than the answer, and stays.
func (vs *verdicts) ask(jti string) *verdict {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.find(jti)
	if v == nil {
		v = &verdict{}
		vs.keep(jti, v)
	}
	return v
}

// answered takes what the store said. It is of no use where what was known was
// dropped meanwhile.
func (vs *verdicts) answered(jti string, v *verdict, g Grant, err error) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.find(jti) != v || v.ended != nil {
		return
	}
	switch {
	case err == nil:
		g.Entrance = false
		v.grant, v.open = g, false
	case errors.Is(err, ErrRevoked), errors.Is(err, ErrTokenExpired), errors.Is(err, ErrNoEntry) && v.grant.JTI != "":
		v.ended = finalOf(err)
	}
}

// finalOf is what a store's refusal comes to, without the call that it was the answer to.
func finalOf(err error) error {
	for _, final := range []error{ErrRevoked, ErrTokenExpired} {
		if errors.Is(err, final) {
			return final
		}
	}
	return ErrNoEntry
}

// end says that a grant is over.
func (vs *verdicts) end(jti string, state EntryState) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.find(jti)
	if v == nil {
		return // whoever shows it has the store asked
	}
	switch state { //nolint:exhaustive // the ends of a grant; the rest is as completed
	case EntryBlocked:
		v.ended = ErrRevoked
	case EntryExpired:
		v.ended = ErrTokenExpired
	default:
		v.ended = ErrNoEntry
	}
}

// clear drops everything: some of it may be wrong.
func (vs *verdicts) clear() {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.young, vs.old, vs.slid = nil, nil, nil
}

// slide has the session of somebody who has just come by renewed; false where there
// is no room for one more. Callers hold mu.
func (vs *verdicts) slide(v *verdict, now time.Time) bool {
	if v.passed.IsZero() {
		if len(vs.slid) >= slidesMost {
			return false
		}
		if len(vs.slid) == 0 {
			vs.since = now
		}
		vs.slid = append(vs.slid, v)
	}
	v.passed = now
	return true
}

// slides is one batch of sessions to be renewed, each with the time since its person
// came by; empty while it may still grow.
func (vs *verdicts) slides(now time.Time) (jtis []string, since []time.Duration) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if len(vs.slid) < slideBatch && (len(vs.slid) == 0 || now.Sub(vs.since) < slideEvery) {
		return nil, nil
	}
	n := min(len(vs.slid), slideBatch)
	for _, v := range vs.slid[:n] {
		jtis, since = append(jtis, v.grant.JTI), append(since, now.Sub(v.passed))
		v.passed = time.Time{}
	}
	if vs.slid = vs.slid[n:]; len(vs.slid) == 0 {
		vs.slid = nil
	}
	return jtis, since
}

// renewed takes the new ends of sessions; of whoever has none the feed tells why.
func (vs *verdicts) renewed(jtis []string, ends []int64) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	for i, jti := range jtis {
		if v := vs.find(jti); v != nil && ends[i] > 0 && v.grant.JTI != "" {
			v.grant.SessionEnds = millis(ends[i])
		}
	}
}

// unrenewed puts back what the store did not take, as of when its people came by.
func (vs *verdicts) unrenewed(jtis []string, since []time.Duration, now time.Time) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	for i, jti := range jtis {
		if v := vs.find(jti); v != nil && v.passed.IsZero() {
			vs.slide(v, now.Add(-since[i]))
		}
	}
}

// Enter uses a grant, as Line.Enter does: the first use, and what is not known here,
// is the store's to say. From then on it answers from memory as long as the feed is
// fresh (1 s), the session runs and the feed has not told of its end. The store hears
// of sliding sessions in gathered writes. Errors as Line.Enter.
//
// While the store is away and the event's fail is open, it lets pass, marked
// Unchecked, whoever was let in before: who has entered here, until the session's end
// as last known; and who holds a pass whose claim time runs. Whoever this node knows
// to be revoked or done stays out, and so does everybody without a pass. Once the
// store answers it decides again, also on those who passed meanwhile.
func (v *View) Enter(ctx context.Context, event EventID, p Pass) (Grant, error) {
	f := v.follower(event)
	if f == nil || p.Event != event {
		return v.line.Enter(ctx, event, p)
	}
	g, err := v.enter(ctx, f, p)
	if errors.Is(err, ErrUnavailable) {
		return f.unchecked(p, err)
	}
	return g, err
}

func (v *View) enter(ctx context.Context, f *follower, p Pass) (Grant, error) {
	if g, ok, err := f.verdict(p.JTI, time.Now()); ok {
		return g, err
	}
	asked, err, _ := f.verdicts.asking.Do(p.JTI, func() (any, error) {
		mark := f.verdicts.ask(p.JTI)
		// Others wait for this answer too: who asked first may go.
		g, err := v.line.Enter(context.WithoutCancel(ctx), f.id, p)
		f.verdicts.answered(p.JTI, mark, g, err)
		return g, err
	})
	g, _ := asked.(Grant)
	return g, err
}

// checkAtOnce is how many of a Check that memory does not know are asked about at a time.
const checkAtOnce = 32

// Check is Enter for many at once, by their jtis: the same grants are asked about
// again and again by a gate that keeps its verdicts fresh. The errors are in the order
// of the jtis.
func (v *View) Check(ctx context.Context, event EventID, jtis []string) []error {
	errs := make([]error, len(jtis))
	f := v.follower(event)
	now := time.Now()
	var asking errgroup.Group
	asking.SetLimit(checkAtOnce)
	for i, jti := range jtis {
		if f != nil {
			if _, ok, err := f.verdict(jti, now); ok {
				errs[i] = err
				continue
			}
		}
		asking.Go(func() error {
			_, errs[i] = v.Enter(ctx, event, Pass{Event: event, JTI: jti})
			return nil
		})
	}
	_ = asking.Wait()
	return errs
}

// verdict answers from memory; not ok where only the store can tell.
func (f *follower) verdict(jti string, now time.Time) (_ Grant, ok bool, _ error) {
	moment, ttl, sure := f.sure(now)
	if !sure {
		return Grant{}, false, nil
	}
	vs := &f.verdicts
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.find(jti)
	if v == nil {
		return Grant{}, false, nil
	}
	if v.ended != nil {
		return Grant{}, true, fmt.Errorf("enter %s: %w", f.id, v.ended)
	}
	left := v.grant.SessionEnds.Sub(moment)
	if v.grant.JTI == "" || left <= 0 {
		return Grant{}, false, nil
	}
	if slides := ttl > 0; slides && ttl-left >= slideLeast && (left < slideLate || !vs.slide(v, now)) {
		return Grant{}, false, nil
	}
	return v.grant, true, nil
}

// unchecked decides on a pass while the store is away; cause says why it is.
func (f *follower) unchecked(p Pass, cause error) (Grant, error) {
	ev, known := f.now()
	if !known || ev.Fail != failOpen {
		return Grant{}, cause
	}
	vs := &f.verdicts
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.find(p.JTI)
	if v == nil {
		v = &verdict{}
		vs.keep(p.JTI, v)
	}
	if v.ended != nil {
		return Grant{}, fmt.Errorf("enter %s: %w", f.id, v.ended)
	}
	g := v.grant
	switch {
	case g.JTI != "" && ev.Now.Before(g.SessionEnds):
	case g.JTI == "" && ev.Now.Before(p.ClaimBy):
		g = Grant{Event: f.id, Subject: p.Subject, JTI: p.JTI, AdmittedAt: p.AdmittedAt, ClaimBy: p.ClaimBy, State: EntryAdmitted}
		if g.Entry = EntryID(p.Subject); ev.Identity == identityJWT {
			g.Entry = f.line.entryOf(f.id, p.Subject)
		}
	default:
		return Grant{}, cause
	}
	if !v.open {
		v.open = true
		f.log.Warn("passes unchecked: the store is away", zap.String("jti", p.JTI), zap.Bool("entered", g.State == EntryEntered))
	}
	g.Unchecked = true
	return g, nil
}

// sure tells whether memory is what the store had a moment ago. With it goes the
// latest that the event's clock can be, and how long a session slides; 0: it is fixed.
func (f *follower) sure(now time.Time) (moment time.Time, slides time.Duration, sure bool) {
	s := &f.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.event.Session == sessionSliding {
		slides = time.Duration(s.event.SessionTTL)
	}
	return s.event.Now.Add(now.Sub(s.asked)), slides, s.known && now.Sub(s.sure) < verdictFresh
}

// slide renews the sessions that are due, as far as one call goes.
func (f *follower) slide(ctx context.Context) error {
	jtis, since := f.verdicts.slides(time.Now())
	if len(jtis) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(jtis))
	for i, jti := range jtis {
		args = append(args, jti, since[i].Milliseconds())
	}
	r, err := f.line.call(ctx, scriptSlide, f.id, nil, args...)
	if err == nil && r.outcome != outcomeOK {
		err = r.odd()
	}
	if err == nil {
		err = r.want(len(jtis))
	}
	var ends []int64
	if err == nil {
		ends, err = numbers(r.rest[:len(jtis)]...)
	}
	if err != nil {
		f.verdicts.unrenewed(jtis, since, time.Now())
		return fmt.Errorf("renew sessions of %s: %w", f.id, err)
	}
	f.verdicts.renewed(jtis, ends)
	return nil
}
