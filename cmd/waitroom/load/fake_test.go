package load

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// breach is a promise that a fake service breaks on purpose.
type breach string

const (
	honest        breach = ""
	lifo          breach = "admits the last first"
	placeLost     breach = "joining again gives another place"
	placeBack     breach = "joining again moves back"
	grows         breach = "positions grow"
	tooFast       breach = "three times the rate"
	crowded       breach = "max_active ignored"
	regrant       breach = "another token when asked again"
	oneJTI        breach = "one jti for all"
	forged        breach = "signed with another key"
	otherAudience breach = "a token for another event"
	doubleSeat    breach = "one seat for all"
	tokenTwice    breach = "a token buys twice"
	replayRuns    breach = "a replay is a new deed"
	unmarked      breach = "a replay without its mark"
	overShare     breach = "more than per_user"
	spends        breach = "a refused try spends the token"
	forgets       breach = "a paid reservation is lost"
	unsold        breach = "a paid seat is free on the map"
	waiterLost    breach = "a waiting place is lost"
	staysIn       breach = "who left is still in line"
	oneTab        breach = "only the first tab is told"
	tabBack       breach = "a second tab stands further back"
	neverCut      breach = "a socket that nobody reads stays"
	impatient     breach = "does not say when to ask again"
	openPlace     breach = "a place for whoever asks without a token"
	unbalanced    breach = "its books do not balance"
	botsFirst     breach = "people are refused for the bots' calls"
)

// fake is a small service that keeps the contract, but for one breach.
type fake struct {
	breach    breach
	rate      float64
	maxActive int
	cuts      bool // sockets that answer no ping
	perUser   int
	seats     int
	key       ed25519.PrivateKey
	ended     <-chan struct{}
	gate      sync.RWMutex // held while the service is frozen
	counter   sync.RWMutex // held while no reservation is taken

	mu      sync.Mutex
	entries []*fakeEntry
	line    []*fakeEntry
	inside  int
	carry   float64
	recent  []int64           // promotions of the last second, unix ms
	sold    map[string]string // seat to reservation
	bought  map[string]*fakeReservation
	answers map[string][]byte // by idempotency key
	joins   int
}

type fakeEntry struct {
	id, place, token, jti string
	shown, admissionMS    int64
	state                 string
	spent                 bool
	outcome               chan string
	tabs                  int
}

type fakeReservation struct {
	id, status string
	seats      []string
	owner      *fakeEntry
}

// newFake starts a fake; change sets what differs from the usual, before it runs.
func newFake(t *testing.T, b breach, change func(*fake)) (*fake, string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{
		breach: b, rate: 100, perUser: 2, seats: 400, key: key, ended: ctx.Done(),
		sold: map[string]string{}, bought: map[string]*fakeReservation{}, answers: map[string][]byte{},
	}
	change(f)
	var ticking sync.WaitGroup
	ticking.Go(f.tick)
	srv := httptest.NewServer(f.routes())
	t.Cleanup(func() { cancel(); srv.CloseClientConnections(); srv.Close(); ticking.Wait() })
	return f, srv.URL
}

func (f *fake) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/events/e", f.event)
	mux.HandleFunc("POST /v1/events/e/entries", f.limited(f.join))
	mux.HandleFunc("POST /v1/events/e/tokens", f.limited(func(w http.ResponseWriter, _ *http.Request) { problem(w, 409, "wrong_mode") }))
	mux.HandleFunc("GET /v1/events/e/entries/me", f.me)
	mux.HandleFunc("DELETE /v1/events/e/entries/me", f.leave)
	mux.HandleFunc("GET /v1/events/e/live", f.live)
	mux.HandleFunc("GET /v1/events/e/seats", f.seatMap)
	mux.HandleFunc("POST /v1/events/e/reservations", f.reserve)
	mux.HandleFunc("POST /v1/events/e/reservations/{id}/payment", f.pay)
	mux.HandleFunc("GET /v1/events/e/reservations/{id}", f.reservation)
	mux.HandleFunc("GET /v1/ops/events/e", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, 200, map[string]any{"session_ttl": "10m", "tickets": map[string]any{"per_user": f.perUser}})
	})
	mux.HandleFunc("GET /v1/ops/events/e/books", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, 200, map[string]any{"pass": f.breach != unbalanced, "sums": []Sum{
			{Name: "seats", Expected: 3, Found: 3, Pass: true},
			{Name: "money", Expected: 5000, Found: 5001, Pass: f.breach != unbalanced},
		}})
	})
	mux.HandleFunc("GET /.well-known/jwks.json", f.jwks)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { problem(w, 404, "not_found") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if nobody(r) {
			_ = pause(r.Context(), 10*time.Millisecond)
		}
		f.gate.RLock()
		f.gate.RUnlock() //nolint:staticcheck // only waits while the service is frozen
		mux.ServeHTTP(w, r)
	})
}

// limited refuses whoever has no token, names an address, and has called from there
// before: with a wait, and after a challenge that a careless service sets everybody.
func (f *fake) limited(h http.HandlerFunc) http.HandlerFunc {
	seen := map[string]int{}
	return func(w http.ResponseWriter, r *http.Request) {
		from := r.Header.Get("X-Forwarded-For")
		if from == "" {
			h(w, r)
			return
		}
		f.mu.Lock()
		seen[from]++
		seen["all"]++
		many, all := seen[from] > 5, seen["all"]
		f.mu.Unlock()
		switch {
		case f.breach == botsFirst && all > 50:
			problem(w, 403, "challenge_required")
		case many:
			problem(w, 429, "rate_limited")
		default:
			h(w, r)
		}
	}
}

// nobody is whether a call names no person; the fake takes its time for those.
func nobody(r *http.Request) bool {
	return r.Header.Get("X-Forwarded-For") != "" && r.Header.Get("Authorization") == "" && r.Header.Get("Cookie") == ""
}

// freeze stops the whole service, or one part, for d.
func (f *fake) freeze(part *sync.RWMutex, d time.Duration) {
	part.Lock()
	defer part.Unlock()
	select {
	case <-time.After(d):
	case <-f.ended:
	}
}

func answerJSON(w http.ResponseWriter, status int, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
	return b
}

func problem(w http.ResponseWriter, status int, code string) {
	answerJSON(w, status, map[string]any{"code": code, "status": status})
}

// tick admits people ten times a second.
func (f *fake) tick() {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-f.ended:
			return
		case <-t.C:
		}
		f.gate.RLock()
		f.mu.Lock()
		rate := f.rate
		if f.breach == tooFast {
			rate *= 3
		}
		if f.carry += rate / 10; len(f.line) == 0 {
			f.carry = min(f.carry, rate/10)
		}
		for ; f.carry >= 1 && len(f.line) > 0; f.carry-- {
			now := time.Now().UnixMilli()
			if f.breach != tooFast {
				f.recent = slices.DeleteFunc(f.recent, func(at int64) bool { return at <= now-1000 })
				if float64(len(f.recent)) >= f.rate+f.rate/10 {
					f.carry = 0
					break
				}
				f.recent = append(f.recent, now)
			}
			if f.maxActive > 0 && f.inside >= f.maxActive && f.breach != crowded {
				f.carry = 0
				break
			}
			f.promote(now)
		}
		f.mu.Unlock()
		f.gate.RUnlock()
	}
}

func (f *fake) promote(now int64) {
	at := 0
	if f.breach == lifo {
		at = len(f.line) - 1
	}
	e := f.line[at]
	f.line = slices.Delete(f.line, at, at+1)
	f.inside++
	e.state, e.admissionMS, e.jti = stateAdmitted, now, "j-"+e.id
	if f.breach == oneJTI {
		e.jti = "j"
	}
	e.token = f.mint(e)
}

const fakeClaim = 5 * time.Minute

func (f *fake) mint(e *fakeEntry) string {
	iat := e.admissionMS / 1000
	aud := "e"
	if f.breach == otherAudience {
		aud = "other"
	}
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signed := part(map[string]string{"alg": "EdDSA", "kid": "k"}) + "." +
		part(claims{Iss: "fake", Aud: aud, Sub: e.id, JTI: e.jti, IAT: iat, NBF: iat, Exp: iat + int64(fakeClaim/time.Second)})
	key := f.key
	if f.breach == forged {
		_, key, _ = ed25519.GenerateKey(nil)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(signed)))
}

// position of an entry; the caller holds mu.
func (f *fake) position(e *fakeEntry) int64 {
	at := int64(slices.Index(f.line, e) + 1)
	if f.breach == lifo {
		at = int64(len(f.line)) - at + 1 // consistent with its own order, and unfair
		if e.shown > 0 {
			at = min(at, e.shown) // shows no growth: only the order gives it away
		}
	}
	if f.breach == grows && e.shown > 0 {
		at = e.shown + 1
	}
	e.shown = at
	return at
}

func (f *fake) view(e *fakeEntry) map[string]any {
	v := map[string]any{"entry_id": e.id, "state": e.state, "place_token": e.place}
	switch e.state {
	case stateWaiting:
		v["position"] = f.position(e)
	case stateAdmitted:
		v["entry_token"], v["expires_at"], v["admitted_at"] = e.token, f.expires(e), stamp(e.admissionMS)
	}
	return v
}

func (f *fake) expires(e *fakeEntry) string {
	return stamp(e.admissionMS + fakeClaim.Milliseconds())
}

func stamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// byPlace finds who holds a place token; the caller holds mu.
func (f *fake) byPlace(token string) *fakeEntry {
	for _, e := range f.entries {
		if e.place == token {
			return e
		}
	}
	return nil
}

func (f *fake) bearer(r *http.Request) *fakeEntry {
	if c, err := r.Cookie("waitroom_place_e"); err == nil {
		return f.byPlace(c.Value)
	}
	return f.byPlace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
}

func (f *fake) event(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, 200, map[string]any{"id": "e", "order": "fifo", "state": "open", "now": time.Now().UTC(), "rate_per_s": f.rate})
}

func (f *fake) join(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.bearer(r)
	if e != nil && f.breach != placeLost {
		v := f.view(e)
		if at, ok := v["position"].(int64); ok && f.breach == placeBack {
			v["position"] = at + 50
		}
		answerJSON(w, 200, v)
		return
	}
	f.joins++
	e = &fakeEntry{id: fmt.Sprintf("e%d", f.joins), place: fmt.Sprintf("place-%d", f.joins), state: stateWaiting, outcome: make(chan string, 4)}
	f.entries = append(f.entries, e)
	f.line = append(f.line, e)
	answerJSON(w, 201, f.view(e))
}

func (f *fake) me(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.bearer(r)
	if e == nil && f.breach == openPlace && len(f.entries) > 0 {
		e = f.entries[0]
	}
	if e == nil || f.breach == waiterLost {
		problem(w, 401, "token_invalid")
		return
	}
	if f.breach == regrant && e.state == stateAdmitted {
		e.jti += "+"
		e.token = f.mint(e)
	}
	v := f.view(e)
	if f.breach != impatient {
		w.Header().Set("Retry-After", "1")
	}
	at, _ := v["position"].(int64)
	tag := fmt.Sprintf(`"%v-%d"`, v["state"], at/100) // a little further is nothing new
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(304)
		return
	}
	answerJSON(w, 200, v)
}

func (f *fake) leave(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := f.bearer(r); {
	case e == nil:
	case e.state == stateAdmitted:
		e.state = "left"
		f.inside--
	case f.breach != staysIn:
		e.state = "left"
		f.line = slices.DeleteFunc(f.line, func(o *fakeEntry) bool { return o == e })
	}
	w.WriteHeader(204)
}

func (f *fake) jwks(w http.ResponseWriter, _ *http.Request) {
	x := base64.RawURLEncoding.EncodeToString(f.key.Public().(ed25519.PublicKey))
	answerJSON(w, 200, map[string]any{"keys": []map[string]string{{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}}})
}
