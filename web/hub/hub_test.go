package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

const concert waitroom.EventID = "concert"

// stage is a line, a view and a store that a test sets by hand.
type stage struct {
	mu       sync.Mutex
	events   map[waitroom.EventID]waitroom.Event
	position map[waitroom.Seq]int64
	places   map[waitroom.EntryID]waitroom.Place
	placeErr error
	down     bool
	told     map[waitroom.EntryID]string // here, away, mobile
	batches  int
	left     []waitroom.EntryID
	asked    int
}

func newStage() *stage {
	s := &stage{
		events:   make(map[waitroom.EventID]waitroom.Event),
		position: make(map[waitroom.Seq]int64),
		places:   make(map[waitroom.EntryID]waitroom.Place),
		told:     make(map[waitroom.EntryID]string),
	}
	ev := waitroom.Event{State: waitroom.Open, Version: 1, Waiting: 1000}
	ev.ID, ev.RatePerS = concert, 10
	s.events[concert] = ev
	return s
}

func (s *stage) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// receiptOf is the receipt of an entry with a sequence.
func receiptOf(entry string, seq int) string { return fmt.Sprintf("r.%s.%d", entry, seq) }

func (s *stage) ReadReceipt(_ waitroom.EventID, token string) (waitroom.EntryID, waitroom.Seq, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[0] != "r" {
		return "", 0, fmt.Errorf("receipt: %w", waitroom.ErrTokenInvalid)
	}
	seq, err := strconv.Atoi(parts[2])
	who := parts[1]
	if _, member, both := strings.Cut(who, "/"); both {
		who = member
	}
	return waitroom.EntryID(who), waitroom.Seq(seq), err
}

// PartyOf takes "party/person" for the entry of a member.
func (s *stage) PartyOf(ev waitroom.EventID, token string) waitroom.EntryID {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		if party, _, both := strings.Cut(parts[1], "/"); both {
			return waitroom.EntryID(party)
		}
	}
	return ""
}

func (s *stage) Place(_ context.Context, ev waitroom.EventID, token string) (waitroom.Place, error) {
	entry, seq, err := s.ReadReceipt(ev, token)
	if err != nil {
		return waitroom.Place{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.placeErr != nil {
		return waitroom.Place{}, s.placeErr
	}
	if p, ok := s.places[entry]; ok {
		return p, nil
	}
	return waitroom.Place{Event: ev, Entry: entry, Seq: seq, State: waitroom.EntryWaiting}, nil
}

func (s *stage) Leave(_ context.Context, _ waitroom.EventID, entry waitroom.EntryID) error {
	s.do(func() { s.left = append(s.left, entry) })
	return nil
}

func (s *stage) Here(_ context.Context, _ waitroom.EventID, entries []waitroom.EntryID) error {
	return s.tell("here", entries)
}

func (s *stage) Away(_ context.Context, _ waitroom.EventID, desktop, mobile []waitroom.EntryID) error {
	return errors.Join(s.tell("away", desktop), s.tell("mobile", mobile))
}

func (s *stage) tell(what string, entries []waitroom.EntryID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return waitroom.ErrUnavailable
	}
	s.batches++
	for _, e := range entries {
		s.told[e] = what
	}
	return nil
}

func (s *stage) Event(_ context.Context, id waitroom.EventID) (waitroom.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev, ok := s.events[id]
	if !ok {
		return ev, fmt.Errorf("event %s: %w", id, waitroom.ErrNoEvent)
	}
	return ev, nil
}

func (s *stage) Position(_ waitroom.EventID, seq waitroom.Seq) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pos, ok := s.position[seq]
	return pos, ok
}

func (s *stage) Estimate(_ waitroom.EventID, _ waitroom.Seq, pos int64) (time.Duration, time.Duration, bool) {
	return time.Duration(pos) * 100 * time.Millisecond, time.Duration(pos) * 150 * time.Millisecond, true
}

func (s *stage) Mint(g waitroom.Grant) (string, error) { return "token-" + g.JTI, nil }

func (s *stage) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return waitroom.ErrUnavailable
	}
	return nil
}

func (s *stage) deps() Deps {
	return Deps{
		Line: s, Presence: s, View: s, Passes: s, Ping: s.Ping, Log: zap.NewNop(),
		SeatsLeft: func(waitroom.EventID) (int64, bool) { return 4210, true },
		Sample: func(_ context.Context, ev waitroom.EventID) ([]byte, error) {
			return []byte(`{"event":"` + string(ev) + `"}`), nil
		},
	}
}

// node is a hub that runs behind a real HTTP server.
type node struct {
	*Hub
	url   string
	stop  func() error // ends Run and returns what it returned
	http  *httptest.Server
	ended chan struct{}
	fired atomic.Bool // the operators are none any more
}

// quick is a configuration whose times suit a test.
func quick() Config {
	return Config{
		Origins: []string{"https://tickets.example"}, MaxSockets: 10_000, Shards: 3,
		NearEvery: 100 * time.Millisecond, FarEvery: 400 * time.Millisecond, Tick: 10 * time.Millisecond,
		GoneAfter: 100 * time.Millisecond,
	}
}

func startNode(t *testing.T, cfg Config, deps Deps) *node {
	t.Helper()
	return startNodeOn(t, cfg, deps, httptest.NewServer)
}

func startNodeOn(t *testing.T, cfg Config, deps Deps, serve func(http.Handler) *httptest.Server) *node {
	t.Helper()
	h, err := New(cfg, deps)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{Hub: h, ended: make(chan struct{})}
	var runErr error
	var once sync.Once
	go func() {
		defer close(n.ended)
		runErr = h.Run(ctx)
	}()
	n.stop = func() error {
		once.Do(cancel)
		<-n.ended
		return runErr
	}
	n.http = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		if len(parts) == 2 && parts[1] == "ops" {
			h.ServeOps(w, r, waitroom.EventID(parts[0]), func(context.Context) bool { return n.fired.Load() })
			return
		}
		receipt := ""
		if c, err := r.Cookie("place"); err == nil {
			receipt = c.Value
		}
		h.ServeLive(w, r, waitroom.EventID(parts[0]), receipt)
	}))
	n.url = n.http.URL
	t.Cleanup(func() {
		require.NoError(t, n.stop())
		n.http.Close()
	})
	until(t, "the hub to serve", func() bool {
		h.gate.RLock()
		defer h.gate.RUnlock()
		return h.running
	})
	return n
}

// until polls for a condition that comes true by itself.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		require.True(tb, time.Now().Before(deadline), "waited too long for %s", what)
	}
}

// said is any message of the server.
type said struct {
	Type          string  `json:"type"`
	Position      int64   `json:"position"`
	Ahead         int64   `json:"ahead"`
	Waiting       int64   `json:"waiting"`
	EtaS          int64   `json:"eta_s"`
	EtaP90S       int64   `json:"eta_p90_s"`
	RatePerS      float64 `json:"rate_per_s"`
	Lane          string  `json:"lane"`
	SeatsLeft     int64   `json:"seats_left"`
	EntryToken    string  `json:"entry_token"`
	ExpiresAt     string  `json:"expires_at"`
	RedirectURL   string  `json:"redirect_url"`
	Since         string  `json:"since"`
	State         string  `json:"state"`
	Reason        string  `json:"reason"`
	Message       string  `json:"message"`
	ReservationID string  `json:"reservation_id"`
	Status        string  `json:"status"`
	RetryAfterMS  int64   `json:"retry_after_ms"`
	Members       int     `json:"members"`
	Size          int     `json:"size"`
	YouBuy        bool    `json:"you_buy"`
}

// fan is a client on a real WebSocket.
type fan struct {
	t  *testing.T
	ws *websocket.Conn
}

func dial(t *testing.T, n *node, header http.Header) *fan {
	t.Helper()
	dialer := *websocket.DefaultDialer
	if tr, ok := n.http.Client().Transport.(*http.Transport); ok {
		dialer.TLSClientConfig = tr.TLSClientConfig
	}
	ws, resp, err := dialer.Dial("ws"+strings.TrimPrefix(n.url, "http")+"/"+string(concert), header)
	require.NoError(t, err)
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = ws.Close() })
	return &fan{t, ws}
}

// cookie is the header of somebody who has a place.
func cookie(receipt string) http.Header { return http.Header{"Cookie": {"place=" + receipt}} }

func (f *fan) say(msg string) {
	f.t.Helper()
	require.NoError(f.t, f.ws.WriteMessage(websocket.TextMessage, []byte(msg)))
}

func (f *fan) hello(receipt string) {
	f.t.Helper()
	f.say(`{"type":"hello","place_token":"` + receipt + `"}`)
}

// next is the next message.
func (f *fan) next() said {
	f.t.Helper()
	m, err := f.read()
	require.NoError(f.t, err)
	return m
}

func (f *fan) read() (said, error) {
	_ = f.ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	var m said
	_, data, err := f.ws.ReadMessage()
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(data, &m)
}

// wait reads until a message of the type comes.
func (f *fan) wait(kind string) said {
	f.t.Helper()
	for {
		if m := f.next(); m.Type == kind {
			return m
		}
	}
}

// closed reads until the close frame and returns its code.
func (f *fan) closed() int {
	f.t.Helper()
	for {
		_, err := f.read()
		if err == nil {
			continue
		}
		closed, ok := errors.AsType[*websocket.CloseError](err)
		require.True(f.t, ok, "the socket ended without a close frame: %v", err)
		return closed.Code
	}
}

func grantFor(entry string, seq int) waitroom.Grant {
	return waitroom.Grant{
		Event: concert, Entry: waitroom.EntryID(entry), Seq: waitroom.Seq(seq), Subject: entry, JTI: "jti-" + entry,
		AdmittedAt: time.Unix(1_800_000_000, 0), ClaimBy: time.Unix(1_800_000_300, 0), State: waitroom.EntryAdmitted,
	}
}

// seat puts an entry into the stage's line.
func (s *stage) seat(seq int, pos int64) { s.do(func() { s.position[waitroom.Seq(seq)] = pos }) }

func (s *stage) leaveLine(seq int) { s.do(func() { delete(s.position, waitroom.Seq(seq)) }) }
