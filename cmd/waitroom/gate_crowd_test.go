package main

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

var gateVisitors = flag.Int("gate-visitors", 1000, "how many visitors TestNobodyPassesNginxWhoShouldWait sends")

// A crowd comes to a site behind a real nginx with the example's configuration. Two in
// ten hold a good token and reach the site; everybody else, with no token, a forged or
// borrowed one, one that has ended, or a name of their own making, reaches nothing of it.
func TestNobodyPassesNginxWhoShouldWait(t *testing.T) {
	t.Parallel()
	visitors := *gateVisitors
	front := freeAddress(t)
	service := startInstance(t, "--origins", "http://"+front)
	service.create("demo2", nil)
	service.patch("demo", facts{"rate_per_s": 0})
	var mu sync.Mutex
	reached := map[string]int{} // requests that the site got, by who it was told that they are
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached[r.Header.Get("X-Waitroom-User")]++
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(shop.Close)
	gates()["nginx"](t, front, strings.TrimPrefix(shop.URL, "http://"), service)

	// letIn brings n people in, with their tokens.
	letIn := func(event string, n int) (tokens, entries []string) {
		people := make([]*person, n)
		var joining errgroup.Group
		joining.SetLimit(16)
		for i := range people {
			joining.Go(func() error { people[i] = join(t, service, event); return nil })
		}
		require.NoError(t, joining.Wait())
		for in := 0; in < n; {
			status, body := service.ops(http.MethodPost, "/"+event+"/admit", facts{"count": min(n-in, 500)})
			require.Equal(t, http.StatusOK, status, body)
			in += min(n-in, 500)
		}
		for _, p := range people {
			me := p.me(service)
			require.Equal(t, "admitted", me["state"])
			tokens, entries = append(tokens, me["entry_token"].(string)), append(entries, p.entry)
		}
		return tokens, entries
	}
	tokens, holders := letIn("demo", visitors/5)
	elsewhere, _ := letIn("demo2", 1)
	over, _ := letIn("demo", 2)
	status, body := service.ops(http.MethodPost, "/demo/revoke", facts{"jti": claimsOf(t, over[0])["jti"]})
	require.Equal(t, http.StatusNoContent, status, body)
	status, _, body = call(t, http.MethodPost, service.url+"/v1/events/demo/sessions/"+claimsOf(t, over[1])["jti"].(string)+"/complete", nil, bearerOf(siteKey))
	require.Equal(t, http.StatusNoContent, status, body)
	waiting := join(t, service, "demo")

	cookie := func(token string) map[string]string {
		return map[string]string{"Cookie": "waitroom_entry_demo=" + token}
	}
	uninvited := []map[string]string{
		nil,
		cookie(tokens[0][:len(tokens[0])-6] + "AAAAAA"),
		cookie(waiting.token),
		{"X-Waitroom-User": holders[0], "X-Waitroom-Entry": holders[0]},
		cookie(elsewhere[0]),
		cookie(over[0]),
		{"X-Entry-Token": over[1]},
		{"X-Original-URL": "http://" + front + "/healthz", "X-Entry-Token": "x", "Cookie": cookie(tokens[0])["Cookie"]},
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var passed, waited atomic.Int64
	began := time.Now()
	var crowd errgroup.Group
	crowd.SetLimit(32)
	for i := range visitors {
		crowd.Go(func() error {
			path, header := "/cart", uninvited[i%len(uninvited)]
			if i%5 == 0 {
				header = cookie(tokens[i/5])
			} else {
				path = []string{"/cart", "/healthz/../cart", "/", "/cart?a=/healthz"}[i/len(uninvited)%4]
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front+path, nil)
			if err != nil {
				return err
			}
			for name, value := range header {
				req.Header.Set(name, value)
			}
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				passed.Add(1)
			} else {
				waited.Add(1)
			}
			return nil
		})
	}
	require.NoError(t, crowd.Wait())
	took := time.Since(began)
	want := map[string]int{}
	for _, entry := range holders {
		want[entry] = 1
	}
	require.Equal(t, want, reached, "each holder once, and nobody else")
	require.EqualValues(t, len(holders), passed.Load())
	require.EqualValues(t, visitors-len(holders), waited.Load())
	t.Logf("%d visitors in %v: %d let through, %d sent to wait or refused, none inside who should wait", visitors, took.Round(10*time.Millisecond), passed.Load(), waited.Load())
}
