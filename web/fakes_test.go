package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// fakeTickets keeps one reservation, of ann.
type fakeTickets struct {
	owner   string // of the one reservation; ann
	reserve func(ticket.ReserveRequest) (ticket.Answer, error)
	pay     func(ticket.PayRequest) (ticket.Answer, error)
	cancel  error
	seats   *ticket.Map
	put     func(ticket.Catalogue) error
	cold    bool
	maps    atomic.Int64
	removed []string
	sheets  []ticket.Sheet
	blocked [][]string
}

var annsReservation = ticket.Reservation{
	ID: "res-1", Event: "demo", Person: ann, Status: ticket.Held, Seats: []string{"A-1"},
	AmountCents: 5000, Currency: "EUR", ExpiresAt: testNow.Add(3 * time.Minute),
}

func (t *fakeTickets) Put(_ context.Context, _ string, c ticket.Catalogue) error {
	if t.put != nil {
		return t.put(c)
	}
	return nil
}

func (t *fakeTickets) Remove(_ context.Context, event string) error {
	t.removed = append(t.removed, event)
	return nil
}

func (t *fakeTickets) Import(_ context.Context, _ string, sheet ticket.Sheet) (ticket.Imported, error) {
	t.sheets = append(t.sheets, sheet)
	return ticket.Imported{Added: len(sheet.Items), Before: 4, Places: 7}, nil
}

func (t *fakeTickets) Block(_ context.Context, _ string, block, release []string) ([]ticket.PlaceChange, error) {
	t.blocked = [][]string{block, release}
	if len(block) == 0 {
		return nil, nil
	}
	return []ticket.PlaceChange{{ID: block[0], Before: "free", After: "blocked"}}, nil
}

func (t *fakeTickets) Export(context.Context, string) (ticket.Sheet, error) {
	if len(t.sheets) == 0 {
		return ticket.Sheet{}, ticket.ErrWrongMode
	}
	return t.sheets[len(t.sheets)-1], nil
}

func (t *fakeTickets) Map(context.Context, string) (*ticket.Map, string, error) {
	t.maps.Add(1)
	if t.seats == nil {
		return nil, "", ticket.ErrWrongMode
	}
	return t.seats, `"v1"`, nil
}

// SeatsLeft knows nothing of a cold map before somebody has asked for it.
func (t *fakeTickets) SeatsLeft(string) (int64, bool) { return 7, !t.cold || t.maps.Load() > 0 }

func (t *fakeTickets) Reserve(_ context.Context, r ticket.ReserveRequest) (ticket.Answer, error) {
	if t.reserve != nil {
		return t.reserve(r)
	}
	status, body := r.Encode(annsReservation, nil)
	return ticket.Answer{Status: status, Body: body}, nil
}

func (t *fakeTickets) Pay(_ context.Context, r ticket.PayRequest) (ticket.Answer, error) {
	if t.pay != nil {
		return t.pay(r)
	}
	if r.ReservationID != annsReservation.ID || r.Person != ann {
		return refusedAnswer(r.Encode, ticket.ErrNoReservation), nil
	}
	paying := annsReservation
	paying.Status = ticket.PaymentPending
	status, body := r.Encode(paying, nil)
	return ticket.Answer{Status: status, Body: body}, nil
}

func refusedAnswer(encode ticket.Encode, err error) ticket.Answer {
	status, body := encode(ticket.Reservation{}, err)
	return ticket.Answer{Status: status, Body: body}
}

func (t *fakeTickets) Cancel(_ context.Context, _, id, person string) error {
	if id != annsReservation.ID || person != ann {
		return ticket.ErrNoReservation
	}
	return t.cancel
}

func (t *fakeTickets) Bought(_ context.Context, _, jti string) (bool, error) {
	return jti == "jti-2", nil
}

func (t *fakeTickets) Reservation(_ context.Context, _, id, person string) (ticket.Reservation, error) {
	if id != annsReservation.ID || person != cmp.Or(t.owner, ann) {
		return ticket.Reservation{}, ticket.ErrNoReservation
	}
	return annsReservation, nil
}

// fakeBooks has an event whose books do not balance.
type fakeBooks struct{}

func (fakeBooks) Books(_ context.Context, event waitroom.EventID) (ticket.Books, error) {
	return ticket.Books{
		Event: string(event), At: testNow, Sums: []ticket.Sum{{Name: "money", Expected: 2, Found: 1, Note: "1 differ"}},
		Counts: map[string]int64{"seats sold": 2},
	}, nil
}

func (fakeBooks) Replay(context.Context, waitroom.EventID) (int, error) { return 3, nil }

// fakeWebhooks take what is signed "good".
var fakeWebhooks = map[string]func(context.Context, string, []byte) error{
	"stripe": func(_ context.Context, signature string, body []byte) error {
		if signature != "good" || string(body) != `{"type":"x"}` {
			return fmt.Errorf("webhook: %w", waitroom.ErrTokenInvalid)
		}
		return nil
	},
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

// rig is a server among fakes.
type rig struct {
	*Server
	line    *fakeLine
	ops     *fakeOperations
	view    *fakeView
	tickets *fakeTickets
	load    *fakeLoad
	logs    *observer.ObservedLogs
}

func testPages() fstest.MapFS {
	return fstest.MapFS{
		"index.html":    {Data: []byte("<!doctype html><title>wait</title>")},
		"shop.html":     {Data: []byte("<!doctype html><title>shop</title>")},
		"console.html":  {Data: []byte("<!doctype html><title>console</title>")},
		"assets/app.js": {Data: []byte("export {}")},
	}
}

func newRig(tb testing.TB, change ...func(*Config, *Deps)) *rig {
	tb.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	r := &rig{
		line: &fakeLine{}, ops: &fakeOperations{}, tickets: &fakeTickets{}, load: &fakeLoad{}, logs: logs,
		view: &fakeView{position: 3, event: waitroom.Event{
			Settings: waitroom.Settings{ID: "demo", Name: "Demo", Mode: "queue", Order: "fifo", Identity: "anonymous", RatePerS: 20, Tickets: waitroom.TicketSettings{Kind: "seats"}},
			State:    waitroom.Open, Waiting: 5, Now: testNow,
		}},
	}
	reg := prometheus.NewRegistry()
	cfg := Config{
		PublicURL: testPublicURL, Origins: []string{"https://shop.example"}, AllowedRedirectHosts: []string{"shop.example"},
		OperatorToken: testOperator, OpenMetrics: true, SiteKey: testSite, Identity: identity.Config{Secret: strings.Repeat("k", 32)},
	}
	deps := Deps{
		Line: r.line, Operations: r.ops, View: r.view, Passes: fakePasses{}, Tickets: r.tickets, Books: fakeBooks{}, Webhooks: fakeWebhooks, Load: r.load, Hub: fakeHub{},
		Sample:       func(context.Context, waitroom.EventID) ([]byte, error) { return []byte(`{"waiting":5}`), nil },
		AdmissionLog: fakeAdmissionLog{}, Draws: fakeDraws{}, Pages: testPages(), Log: zap.New(core), Registerer: reg, Gatherer: reg,
	}
	r.view.fakeLine = r.line
	for _, f := range change {
		f(&cfg, &deps)
	}
	s, err := New(cfg, deps)
	require.NoError(tb, err)
	r.Server = s
	return r
}

// call is one request to make, and what it comes with.
type call struct {
	method, path, body string
	headers            map[string]string
}

func (c call) with(pairs ...string) call {
	headers := map[string]string{}
	maps.Copy(headers, c.headers)
	for i := 0; i < len(pairs); i += 2 {
		headers[pairs[i]] = pairs[i+1]
	}
	c.headers = headers
	return c
}

func (r *rig) do(tb testing.TB, c call) *httptest.ResponseRecorder {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), c.method, "http://wait.example"+c.path, bytes.NewReader([]byte(c.body)))
	if c.body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.headers {
		if v == "" {
			req.Header.Del(k)
			continue
		}
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, req)
	return w
}

func problemIn(tb testing.TB, w *httptest.ResponseRecorder) problem {
	tb.Helper()
	require.Equal(tb, mimeProblem, w.Header().Get("Content-Type"), "body: %s", w.Body)
	var p problem
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	require.NoError(tb, dec.Decode(&p))
	return p
}

// annsParty is a party of ann and another, for which ann buys.
func annsParty(event waitroom.EventID) waitroom.Party {
	p := annsPlace(event)
	p.Entry, p.Receipt, p.Party = "theirs", partyReceipt, &waitroom.Membership{Members: 2, Buys: true}
	return waitroom.Party{Place: p, Code: "ABCDE-FGHJK"}
}

func (l *fakeLine) partyCall(r waitroom.PartyRequest) (waitroom.Party, error) {
	if l.party != nil {
		return l.party(r)
	}
	if r.Receipt == "" {
		return waitroom.Party{}, waitroom.ErrTokenRequired
	}
	return annsParty(r.Event), nil
}

func (l *fakeLine) MakeParty(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	p, err := l.partyCall(r)
	p.Place.Created = err == nil
	return p, err
}

func (l *fakeLine) JoinParty(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	return l.partyCall(r)
}

func (l *fakeLine) Party(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	return l.partyCall(r)
}

func (l *fakeLine) LeaveParty(_ context.Context, r waitroom.PartyRequest) error {
	_, err := l.partyCall(r)
	return err
}

func (l *fakeLine) BuyForParty(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	return l.partyCall(r)
}
