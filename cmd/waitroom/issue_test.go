package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// asker is a person who asks for a token of an instant event until there is a
// definite answer, as a page does: with the cookie of the last answer.
type asker struct {
	cookie string
	login  string // the site's JWT, where the event knows its people
	status int    // 201, 200 or 409
	told   int    // times that it was 201
	tries  int
	answer struct {
		Result, Code string
		Rank         int64
		EntryToken   string `json:"entry_token"`
		PlaceToken   string `json:"place_token"`
	}
}

// instantEvent are the settings of one that gives out n tokens.
func instantEvent(n int, more facts) facts {
	f := facts{"mode": "instant", "quota": facts{"factor": 1}, "tickets": facts{"kind": "stock", "stock": n}}
	maps.Copy(f, more)
	return f
}

// ask makes one call; an answer that is not definite is false.
func (a *asker) ask(ctx context.Context, client *http.Client, url string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return false, err
	}
	if a.cookie != "" {
		req.Header.Set("Cookie", a.cookie)
	}
	if a.login != "" {
		req.Header.Set("Authorization", "Bearer "+a.login)
	}
	a.tries++
	res, err := client.Do(req)
	if err != nil {
		return false, nil
	}
	defer func() { _ = res.Body.Close() }()
	for _, c := range res.Cookies() {
		a.cookie = c.Name + "=" + c.Value
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return false, nil
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		return false, nil
	}
	a.status = res.StatusCode
	if a.status == http.StatusCreated {
		a.told++
	}
	if err := json.Unmarshal(raw, &a.answer); err != nil {
		return false, fmt.Errorf("%d: %s", res.StatusCode, raw)
	}
	return true, nil
}

// crowdAsks lets n people ask at once, spread over instances; after the first
// `soon` of them have a token, meanwhile is called once.
func crowdAsks(t *testing.T, n int, event string, soon int64, meanwhile func(), at ...*instance) []*asker {
	t.Helper()
	people := make([]*asker, n)
	for i := range people {
		people[i] = &asker{}
	}
	askTogether(t, people, event, soon, meanwhile, at...)
	return people
}

func askTogether(t *testing.T, people []*asker, event string, soon int64, meanwhile func(), at ...*instance) {
	t.Helper()
	n := len(people)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: n, MaxConnsPerHost: n}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var issued atomic.Int64
	reached := make(chan struct{})
	var wg sync.WaitGroup
	for i := range people {
		wg.Go(func() {
			for {
				url := at[(i+people[i].tries)%len(at)].url + "/v1/events/" + event + "/tokens"
				done, err := people[i].ask(ctx, client, url)
				if err != nil {
					t.Error(err)
					return
				}
				if done {
					break
				}
				select {
				case <-ctx.Done():
					t.Errorf("no definite answer after %d tries", people[i].tries)
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
			if people[i].status != http.StatusConflict && issued.Add(1) == soon {
				close(reached)
			}
		})
	}
	if meanwhile != nil {
		select {
		case <-reached:
			meanwhile()
		case <-ctx.Done():
		}
	}
	wg.Wait()
}

// judged checks that exactly n have a token: none over, none twice, ranks all
// different.
func judged(t *testing.T, people []*asker, n int) (holders []*asker) {
	t.Helper()
	ranks, tokens := make(map[int64]bool), make(map[string]bool)
	for _, p := range people {
		switch p.status {
		case http.StatusCreated, http.StatusOK:
			require.Equal(t, p.status == http.StatusCreated, p.answer.Result == "ISSUED")
			require.False(t, ranks[p.answer.Rank], "rank %d twice", p.answer.Rank)
			require.False(t, tokens[p.answer.EntryToken])
			ranks[p.answer.Rank], tokens[p.answer.EntryToken] = true, true
			holders = append(holders, p)
		case http.StatusConflict:
			require.Contains(t, []string{"exhausted", "sold_out"}, p.answer.Code)
		default:
			require.Fail(t, "unexpected", "%d %v", p.status, p.answer)
		}
	}
	require.Len(t, holders, n)
	return holders
}

// sameAgain checks that whoever has a token is told of the same one ever after.
func sameAgain(t *testing.T, holders []*asker, event string, s *instance) {
	t.Helper()
	for _, p := range holders {
		status, _, body := call(t, http.MethodPost, s.url+"/v1/events/"+event+"/tokens", nil, map[string]string{"Cookie": p.cookie, "Authorization": "Bearer " + p.login})
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, "ALREADY_ISSUED", body["result"])
		require.EqualValues(t, p.answer.Rank, body["rank"])
		require.Equal(t, p.answer.EntryToken, body["entry_token"])
	}
}

// archived waits until the database has as many tokens of an event as it should,
// and checks that their ranks are those of the holders.
func archived(t *testing.T, database, event string, holders []*asker) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	want := make(map[int64]bool)
	for _, p := range holders {
		want[p.answer.Rank] = true
	}
	until(t, 30*time.Second, "everything archived", func() bool {
		rows, err := db.QueryContext(t.Context(), `SELECT rank FROM issued WHERE event = $1`, event)
		if err != nil {
			return false
		}
		defer func() { _ = rows.Close() }()
		got := make(map[int64]int)
		for rows.Next() {
			var rank int64
			if rows.Scan(&rank) != nil {
				return false
			}
			got[rank]++
		}
		for rank := range want {
			if got[rank] == 0 {
				return false
			}
			require.Equal(t, 1, got[rank], "rank %d is filed once", rank)
		}
		return rows.Err() == nil
	})
}

// System E: 1,300 people at once and 900 wristbands, over two instances; then the
// same with the store killed in the middle, which keeps everything.
func TestInstantIssueNoneOverNoneTwice(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Config{AOF: "always"})
	database := sqltest.Postgres(t)
	flags := []string{"--redis", srv.URL(), "--database", database, "--limits", "off"}
	a, b := startInstance(t, flags...), startInstance(t, flags...)

	a.create("calm", instantEvent(900, nil))
	holders := judged(t, crowdAsks(t, 1300, "calm", 0, nil, a, b), 900)
	for _, p := range holders {
		require.Equal(t, http.StatusCreated, p.status)
		require.LessOrEqual(t, p.answer.Rank, int64(900))
	}
	sameAgain(t, holders[:20], "calm", b)
	archived(t, database, "calm", holders)

	a.create("crash", instantEvent(900, nil))
	people := crowdAsks(t, 1300, "crash", 100, func() {
		srv.Kill(t)
		srv.Restart(t)
	}, a, b)
	holders = judged(t, people, 900)
	sameAgain(t, holders[:20], "crash", a)
	archived(t, database, "crash", holders)
	require.EqualValues(t, 900, a.ev("crash")["inside"], "and the store counts the same")
}

// ev is the event as the operator sees it.
func (s *instance) ev(id string) map[string]any {
	s.t.Helper()
	status, body := s.ops(http.MethodGet, "/"+id, nil)
	require.Equal(s.t, http.StatusOK, status, body)
	return body
}

// With `durable: true` a failover to a replica loses nothing that was answered.
func TestInstantIssueSentinelFailover(t *testing.T) {
	t.Parallel()
	trio := redistest.StartSentinels(t)
	database := sqltest.Postgres(t)
	flags := []string{"--redis", trio.URL(), "--database", database, "--limits", "off"}
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	a.create("fail", instantEvent(900, facts{"durable": true}))
	people := crowdAsks(t, 1300, "fail", 100, func() { trio.Master().Kill(t) }, a, b)
	holders := judged(t, people, 900)
	sameAgain(t, holders[:20], "fail", b)
	archived(t, database, "fail", holders)
	require.EqualValues(t, 900, a.ev("fail")["inside"])
}

// System B: one process issues, another sells. Unused tokens come back within a
// tick, and when the last piece is paid everybody hears that it is over.
func TestInstantIssueAndSaleApart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Config{})
	flags := []string{"--redis", srv.URL(), "--database", sqltest.Postgres(t), "--limits", "off"}
	issuer := startInstance(t, append([]string{"--roles", "line,admission"}, flags...)...)
	seller := startInstance(t, append([]string{"--roles", "ticket,worker"}, flags...)...)
	seller.create("drop", instantEvent(2, facts{"claim_ttl": "3s", "quota": facts{"factor": 1.5}, "tickets": facts{"kind": "stock", "stock": 2, "per_user": 1}}))
	until(t, 10*time.Second, "both know the event", func() bool {
		status, _, _ := call(t, http.MethodGet, issuer.url+"/v1/events/drop", nil, nil)
		return status == http.StatusOK
	})
	first := judged(t, crowdAsks(t, 20, "drop", 0, nil, issuer), 3)
	request{"POST", "/v1/events/drop/entries", "", nil}.refused(t, issuer, 409, "wrong_mode")

	buy := func(p *asker) {
		b := &buyer{person: &person{t: t, event: "drop", token: p.answer.PlaceToken}, pass: p.answer.EntryToken}
		id := b.held(seller, map[string]any{"quantity": 1})
		status, _, body := b.pay(seller, id, "pay", "")
		require.Equal(t, http.StatusAccepted, status, body)
		b.becomes(seller, id, "paid")
	}
	buy(first[0])
	// Two of three were not used; each goes to one other.
	var second []*asker
	until(t, 20*time.Second, "unused tokens come back", func() bool {
		for _, p := range crowdAsks(t, 5, "drop", 0, nil, issuer) {
			if p.status == http.StatusCreated {
				second = append(second, p)
			}
		}
		return len(second) > 0
	})
	require.LessOrEqual(t, len(second), 2)
	for _, p := range second {
		require.Greater(t, p.answer.Rank, int64(3), "a rank is never given twice")
	}
	buy(second[0])
	until(t, 20*time.Second, "sold out is said", func() bool {
		status, _, body := call(t, http.MethodPost, issuer.url+"/v1/events/drop/tokens", nil, nil)
		return status == http.StatusConflict && body["code"] == "sold_out"
	})
}
