package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/pay"
	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// The sizes of the sale in chaos; `make chaos` plays it with 20,000 for 5,000.
var (
	chaosBuyers = flag.Int("chaos-buyers", 400, "people who want a seat")
	chaosSeats  = flag.Int("chaos-seats", 100, "seats that there are")
	chaosTurns  = flag.Int("chaos-turns", 1, "how often each part is killed and restarted")
)

// Two instances, the relay, the payment provider and the database are killed and
// restarted in turn while a crowd buys: in the end every seat is sold once, and the
// books balance to the last unit, those of the provider too.
func TestChaosBooksBalance(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	var crowd sync.WaitGroup
	began := time.Now()
	for n := range *chaosBuyers {
		crowd.Go(func() { (&chaosBuyer{c: c, n: n}).buy() })
	}
	for range *chaosTurns {
		for _, part := range []struct {
			name string
			kill func()
		}{
			// These two first: a dead worker's claims and the open breaker take 30 s.
			{"relay", func() { c.restart(&c.worker, "worker") }},
			{"provider", c.restartProvider},
			{"seller", func() { c.restart(&c.sellers[0], "line,admission,ticket") }},
			{"database", c.restartDatabase},
			{"other seller", func() { c.restart(&c.sellers[1], "line,admission,ticket") }},
		} {
			before := c.sold.Load()
			c.until(max(3*time.Second, time.Duration(*chaosBuyers)*3*time.Millisecond), func() bool { // in the midst of it
				return c.sold.Load() >= before+int64(*chaosSeats / *chaosTurns / 12) || c.sold.Load() >= int64(*chaosSeats)*9/10
			})
			part.kill()
			t.Logf("%s killed and restarted after %v, %d told of their seats", part.name, time.Since(began).Round(time.Second/10), c.sold.Load())
		}
	}
	c.until(10*time.Minute, func() bool { return c.count(`SELECT count(*) FROM seats WHERE status = 'sold'`) == int64(*chaosSeats) })
	t.Logf("sold out after %v", time.Since(began).Round(time.Second/10))
	c.until(2*time.Minute, func() bool {
		return c.count(`SELECT count(*) FROM outbox WHERE state <> 1`)+
			c.count(`SELECT count(*) FROM payments WHERE state IN ('requested', 'unknown', 'refund_due')`)+
			c.count(`SELECT count(*) FROM reservations WHERE status IN ('held', 'payment_pending')`) == 0
	})
	close(c.over)
	crowd.Wait()

	for s := range c.sellers {
		books := c.sellers[s].Load().audited("rush", c.stores...)
		t.Logf("%d sums balance: %v", len(books.Sums), books.Counts)
	}
	require.EqualValues(t, *chaosSeats, c.count(`SELECT count(*) FROM reservations WHERE status = 'paid'`))
	require.EqualValues(t, *chaosSeats, c.count(`SELECT count(DISTINCT reservation) FROM seats WHERE status = 'sold'`))
	require.Zero(t, c.lost.Load(), "who was told of a seat has it")
	c.provider.Load().signal(syscall.SIGKILL)
	c.provider.Load().wait(10 * time.Second)
	kept, err := pay.OpenSandbox(pay.SandboxConfig{}, c.journal)
	require.NoError(t, err)
	captured, refunded := kept.Recount()
	require.Equal(t, c.count(`SELECT sum(amount_cents) FROM reservations WHERE status = 'paid'`), captured-refunded,
		"the provider has the price of what is sold, and no more")
	require.NoError(t, kept.Close())
	t.Logf("provider: %+v", kept.Audit())
}

// chaos is a sale and what it runs on.
type chaos struct {
	t        *testing.T
	database *sqltest.Server
	count    func(query string) int64
	stores   []string // flags
	flags    []string
	sellers  [2]atomic.Pointer[instance]
	worker   atomic.Pointer[instance]
	provider atomic.Pointer[instance]
	journal  string // of the provider
	address  string
	client   *http.Client
	over     chan struct{}
	sold     atomic.Int64 // people who were told that they have paid
	lost     atomic.Int64 // and heard something else later
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	port, err := redistest.FreePort(t.Context())
	require.NoError(t, err)
	c := &chaos{
		t: t, database: sqltest.Alone(t), over: make(chan struct{}),
		journal: filepath.Join(t.TempDir(), "journal"), address: "127.0.0.1:" + strconv.Itoa(port),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, MaxConnsPerHost: 512}},
	}
	t.Cleanup(c.client.CloseIdleConnections)
	c.count = counter(t, c.database)
	c.provider.Store(c.startProvider())
	c.stores = []string{"--redis", redistest.Start(t, redistest.Config{}).URL(), "--database", c.database.URL()}
	c.flags = append([]string{"--limits", "off", "--payments", "http://" + c.address}, c.stores...)
	for s := range c.sellers {
		c.sellers[s].Store(c.start("line,admission,ticket"))
	}
	c.worker.Store(c.start("worker"))
	c.sellers[0].Load().create("rush", facts{
		"rate_per_s": max(200, *chaosBuyers/10), "grace": "10m", "claim_ttl": "15m", "session_ttl": "30m",
		"tickets": facts{
			"kind": "seats", "hold_ttl": "10s", "per_user": 1, "price_cents": 2500,
			"sections": []facts{{"id": "A", "rows": *chaosSeats / 50, "seats_per_row": 50}},
		},
	})
	return c
}

// counter asks the database for numbers; one that is away has none, which is -1.
func counter(t *testing.T, s *sqltest.Server) func(string) int64 {
	t.Helper()
	db, err := s.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return func(query string) int64 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		n := int64(-1)
		_ = db.QueryRowContext(ctx, query).Scan(&n)
		return n
	}
}

func (c *chaos) start(roles string) *instance {
	return startInstance(c.t, append([]string{"--roles", roles}, c.flags...)...)
}

// restart kills a process as a crash would, and starts another in its place.
func (c *chaos) restart(at *atomic.Pointer[instance], roles string) {
	s := at.Load()
	s.signal(syscall.SIGKILL)
	s.wait(10 * time.Second)
	at.Store(c.start(roles))
}

func (c *chaos) restartDatabase() {
	c.database.Stop()
	c.until(time.Second, func() bool { return false })
	require.NoError(c.t, c.database.Start())
}

// restartProvider kills the provider, with every call that is under way; it is away for
// a moment, and then knows what it has charged.
func (c *chaos) restartProvider() {
	s := c.provider.Load()
	s.signal(syscall.SIGKILL)
	s.wait(10 * time.Second)
	c.until(300*time.Millisecond, func() bool { return false })
	c.provider.Store(c.startProvider())
}

func (c *chaos) startProvider() *instance {
	return startProcess(c.t, nil, "sandbox", "--addr", c.address, "--log-format", "json", "--journal", c.journal)
}

// until waits for a condition, and goes on without it when the time is over: what
// comes after says what is wrong.
func (c *chaos) until(limit time.Duration, condition func() bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

// chaosBuyer is one person, who comes again with the same key until the answer is
// definite, to whichever instance is there.
type chaosBuyer struct {
	c           *chaos
	n, keys     int
	place, pass string
}

// buy goes the whole way, again and again until there is a seat or the sale is over.
func (b *chaosBuyer) buy() {
	status, body := b.asks(http.MethodPost, "/entries", nil, nil)
	b.place, _ = body["place_token"].(string)
	for b.pass == "" && status < 300 && !b.pause() {
		_, body = b.asks(http.MethodGet, "/entries/me", nil, nil)
		b.pass, _ = body["entry_token"].(string)
	}
	for b.pass != "" && !b.pause() {
		b.keys++
		status, body = b.asks(http.MethodPost, "/reservations", map[string]any{"quantity": 1}, b.key("reserve"))
		id, _ := body["reservation_id"].(string)
		if status != http.StatusCreated {
			continue // sold out for now; some hold may end
		}
		method := []string{pay.MethodApprove, pay.MethodApprove, pay.MethodApprove, pay.MethodDecline, pay.MethodDelay, pay.MethodTwice}[rand.IntN(6)]
		if b.n%97 == 3 && b.keys == 1 {
			continue // forgets to pay; the token is spent until the hold ends
		}
		b.asks(http.MethodPost, "/reservations/"+id+"/payment", map[string]any{"method": method}, b.key("pay"))
		if b.outcome(id) {
			return
		}
	}
}

// outcome waits for the end of a reservation; true when the seat is this person's.
func (b *chaosBuyer) outcome(id string) bool {
	for {
		_, body := b.asks(http.MethodGet, "/reservations/"+id, nil, nil)
		switch body["status"] {
		case "paid":
			b.c.sold.Add(1)
			<-b.c.over
			if status, body := b.ask(http.MethodGet, "/reservations/"+id, nil, nil); status < 500 && status > 0 && body["status"] != "paid" {
				b.c.lost.Add(1)
			}
			return true
		case "held", "payment_pending":
		default:
			return false
		}
		if b.pause() {
			return false
		}
	}
}

func (b *chaosBuyer) key(what string) map[string]string {
	return map[string]string{"Idempotency-Key": fmt.Sprint(what, b.keys)}
}

// chaosCalls is how many calls a second the whole crowd makes at most while it waits,
// as Retry-After would have it: 20,000 who ask each second are a crowd that two cores
// cannot even generate.
const chaosCalls = 500

// pause waits for a turn, a seat or an outcome; true when the sale is over.
func (b *chaosBuyer) pause() bool {
	return b.rest(max(time.Second, time.Duration(*chaosBuyers)*time.Second/chaosCalls))
}

// rest waits for about so long; true when the sale is over.
func (b *chaosBuyer) rest(about time.Duration) bool {
	wait := time.NewTimer(about/2 + rand.N(about))
	defer wait.Stop()
	select {
	case <-wait.C:
		return false
	case <-b.c.over:
		return true
	}
}

// asks repeats a call until its answer is definite.
func (b *chaosBuyer) asks(method, path string, body map[string]any, header map[string]string) (int, map[string]any) {
	for {
		status, answer := b.ask(method, path, body, header)
		code, _ := answer["code"].(string)
		if status != 0 && status < 500 && status != http.StatusTooManyRequests && code != "contended" && code != "idempotency_in_progress" {
			return status, answer
		}
		if b.rest(time.Second) { // a call that failed: soon again, with its key
			return 0, nil
		}
	}
}

// ask makes one call to one of the instances; status 0 is no answer.
func (b *chaosBuyer) ask(method, path string, body map[string]any, header map[string]string) (int, map[string]any) {
	packed, err := json.Marshal(body)
	if err != nil || body == nil {
		packed = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s := b.c.sellers[rand.IntN(2)].Load()
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/v1/events/rush"+path, bytes.NewReader(packed))
	if err != nil {
		return 0, nil
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if b.place != "" {
		req.Header.Set("Authorization", "Bearer "+b.place)
	}
	if b.pass != "" {
		req.Header.Set("X-Entry-Token", b.pass)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := b.c.client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	var answer map[string]any
	_ = json.Unmarshal(raw, &answer) // what is no JSON has no fields
	return res.StatusCode, answer
}
