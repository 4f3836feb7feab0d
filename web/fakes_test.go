package web

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	testOperator  = "operator-token"
	testSite      = "site-key"
	goodReceipt   = "receipt-of-ann"
	partyReceipt  = "receipt-of-ann-in-a-party"
	foreignPlace  = "receipt-of-elsewhere"
	goodToken     = "token-of-ann"
	expiredToken  = "token-of-ann-expired"
	lateToken     = "token-of-ann-late" // its session may still run
	foreignToken  = "token-of-elsewhere"
	otherToken    = "token-of-bob"
	ann           = "ann-entry"
	testPublicURL = "https://wait.example"
)

var testNow = time.Date(2026, 5, 1, 12, 0, 0, 250_000_000, time.UTC)

// fakeLine answers as told; a nil function gives the ordinary answer.
type fakeLine struct {
	join     func(waitroom.JoinRequest) (waitroom.Place, error)
	place    func() (waitroom.Place, error)
	leave    func(waitroom.EntryID) error
	enter    func(waitroom.Pass) (waitroom.Grant, error)
	complete func(jti string) error
	number   int64
	use      func(jti, id string) error
	issue    func(waitroom.IssueRequest) (waitroom.Issued, error)
	party    func(waitroom.PartyRequest) (waitroom.Party, error)
	down     error // what ping answers
}

func (l *fakeLine) ping(context.Context) error { return l.down }

func annsPlace(event waitroom.EventID) waitroom.Place {
	return waitroom.Place{Event: event, Entry: ann, Seq: 3, State: waitroom.EntryWaiting, Receipt: goodReceipt}
}

func annsGrant(event waitroom.EventID) waitroom.Grant {
	return waitroom.Grant{
		Event: event, Entry: ann, Seq: 3, Subject: ann, JTI: "jti-1", AdmittedAt: testNow,
		ClaimBy: testNow.Add(5 * time.Minute), SessionEnds: testNow.Add(10 * time.Minute), State: waitroom.EntryEntered,
	}
}

func (l *fakeLine) Join(_ context.Context, r waitroom.JoinRequest) (waitroom.Place, error) {
	if l.join != nil {
		return l.join(r)
	}
	p := annsPlace(r.Event)
	p.Created = r.Receipt == ""
	return p, nil
}

func (l *fakeLine) Place(_ context.Context, event waitroom.EventID, receipt string) (waitroom.Place, error) {
	if _, _, err := l.ReadReceipt(event, receipt); err != nil {
		return waitroom.Place{}, err
	}
	if l.place != nil {
		return l.place()
	}
	return annsPlace(event), nil
}

func (l *fakeLine) PlaceOf(_ context.Context, event waitroom.EventID, subject string) (waitroom.Place, error) {
	if l.place != nil {
		return l.place()
	}
	p := annsPlace(event)
	p.Entry = waitroom.EntryID("entry-of-" + subject)
	return p, nil
}

func (l *fakeLine) Leave(_ context.Context, _ waitroom.EventID, e waitroom.EntryID) error {
	if l.leave != nil {
		return l.leave(e)
	}
	return nil
}

func (l *fakeLine) ReadReceipt(_ waitroom.EventID, token string) (waitroom.EntryID, waitroom.Seq, error) {
	switch token {
	case goodReceipt:
		return ann, 3, nil
	case foreignPlace:
		return "", 0, waitroom.ErrWrongEvent
	default:
		return "", 0, waitroom.ErrTokenInvalid
	}
}

func (l *fakeLine) Enter(_ context.Context, event waitroom.EventID, p waitroom.Pass) (waitroom.Grant, error) {
	if l.enter != nil {
		return l.enter(p)
	}
	if p.Expired {
		return waitroom.Grant{}, waitroom.ErrTokenExpired
	}
	return annsGrant(event), nil
}

func (l *fakeLine) Issue(_ context.Context, r waitroom.IssueRequest) (waitroom.Issued, error) {
	if l.issue != nil {
		return l.issue(r)
	}
	p := annsPlace(r.Event)
	p.State, p.Grant, p.Created = waitroom.EntryAdmitted, annsGrant(r.Event), r.Receipt == ""
	return waitroom.Issued{Place: p, Rank: 7}, nil
}

func (l *fakeLine) Enqueue(_ context.Context, r waitroom.EnqueueRequest) (waitroom.Numbering, error) {
	return waitroom.Numbering{Event: r.Event, Entry: ann, RequestID: cmp.Or(r.RequestID, "made"), Receipt: goodReceipt}, nil
}

func (l *fakeLine) Numbering(_ context.Context, r waitroom.JoinRequest) (waitroom.Numbering, error) {
	return waitroom.Numbering{Event: r.Event, Entry: ann, RequestID: "made", Receipt: r.Receipt, Seq: l.number, Winner: l.number == 3}, nil
}

func (l *fakeLine) Complete(_ context.Context, _ waitroom.EventID, jti string) error {
	if l.complete != nil {
		return l.complete(jti)
	}
	return nil
}

func (l *fakeLine) Credit(p waitroom.Pass) string { return "credit-of-" + p.JTI }

func (l *fakeLine) ReadCredit(_ waitroom.EventID, token string) (string, error) {
	jti, ok := strings.CutPrefix(token, "credit-of-")
	if !ok {
		return "", waitroom.ErrTokenInvalid
	}
	return jti, nil
}

func (l *fakeLine) MakeGood(_ context.Context, r waitroom.JoinRequest, _ string) (waitroom.Place, error) {
	p := annsPlace(r.Event)
	if r.Receipt != goodReceipt {
		return p, waitroom.ErrTokenRequired
	}
	p.State, p.Grant, p.Created = waitroom.EntryAdmitted, annsGrant(r.Event), true
	return p, nil
}

func (l *fakeLine) Use(_ context.Context, _ waitroom.EventID, jti, id string) error {
	if l.use != nil {
		return l.use(jti, id)
	}
	return nil
}

// Check enters one after the other.
func (l *fakeLine) Check(ctx context.Context, event waitroom.EventID, jtis []string) []error {
	errs := make([]error, len(jtis))
	for i, jti := range jtis {
		_, errs[i] = l.Enter(ctx, event, waitroom.Pass{Event: event, JTI: jti})
	}
	return errs
}

// fakeView asks the line about everybody, and knows the event "demo" and, with
// identity jwt, "members".
type fakeView struct {
	*fakeLine
	event    waitroom.Event
	err      error
	position int64
	eta      time.Duration
}

func (v *fakeView) Event(_ context.Context, id waitroom.EventID) (waitroom.Event, error) {
	switch {
	case v.err != nil:
		return waitroom.Event{}, v.err
	case id == "members":
		return waitroom.Event{Settings: waitroom.Settings{ID: id, Identity: "jwt"}, State: waitroom.Open}, nil
	case id != "demo":
		return waitroom.Event{}, waitroom.ErrNoEvent
	}
	return v.event, nil
}

// Shown remembers nobody.
func (v *fakeView) Shown(_ waitroom.EventID, _ waitroom.EntryID, _ waitroom.Seq, position int64) int64 {
	return position
}

func (v *fakeView) Position(waitroom.EventID, waitroom.Seq) (int64, bool) {
	return v.position, v.position > 0
}

func (v *fakeView) Estimate(waitroom.EventID, waitroom.Seq, int64) (eta, p90 time.Duration, ok bool) {
	return v.eta, 2 * v.eta, v.eta > 0
}

type fakePasses struct{}

func (fakePasses) Mint(g waitroom.Grant) (string, error) { return "token-" + g.JTI, nil }
func (fakePasses) JWKS() []byte                          { return []byte(`{"keys":[]}`) }

func (fakePasses) Verify(token string, event waitroom.EventID) (waitroom.Pass, error) {
	p := waitroom.Pass{Event: event, Subject: ann, JTI: "jti-1", AdmittedAt: testNow}
	switch token {
	case goodToken:
	case otherToken:
		p.Subject, p.JTI = "bob-entry", "jti-2"
	case expiredToken:
		p.Expired = true
	case lateToken:
		p.Expired, p.ClaimBy = true, time.Now().Add(-time.Minute)
	case foreignToken:
		return waitroom.Pass{}, waitroom.ErrWrongEvent
	default:
		return waitroom.Pass{}, waitroom.ErrTokenInvalid
	}
	return p, nil
}

type fakeHub struct {
	meanwhile func() // what happens while an operator's socket is open
}

func (fakeHub) ServeLive(w http.ResponseWriter, r *http.Request, event waitroom.EventID, receipt string) {
	if receipt == "" {
		Refuse(w, r, http.StatusUnauthorized, "token_required", 0)
		return
	}
	_, _ = io.WriteString(w, "live "+string(event)+" "+receipt)
}

func (h fakeHub) ServeOps(w http.ResponseWriter, r *http.Request, event waitroom.EventID, ended func(context.Context) bool) {
	_, _ = io.WriteString(w, "ops "+string(event))
	if h.meanwhile != nil {
		h.meanwhile()
	}
	if ended(r.Context()) {
		_, _ = io.WriteString(w, " until then")
	}
}

type fakeLoad struct{ usage float64 }

func (l *fakeLoad) ReportLane(_ context.Context, _ waitroom.EventID, _ string, usage float64) error {
	l.usage = usage
	return nil
}
