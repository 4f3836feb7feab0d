package main

import (
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// installation is one kind of stores with as many instances as a test wants.
type installation struct {
	name string
	// flags name the stores; calling it makes fresh ones.
	flags func(t *testing.T) []string
}

var embedded = installation{"embedded", func(*testing.T) []string { return nil }}

var realServers = installation{"redis and postgres", func(t *testing.T) []string {
	t.Helper()
	return []string{"--redis", redistest.Start(t, redistest.Config{}).URL(), "--database", sqltest.Postgres(t), "--limits", "off"}
}}

// onEach plays a test on the embedded default and on real servers.
func onEach(t *testing.T, test func(t *testing.T, flags []string)) {
	t.Helper()
	for _, kind := range []installation{embedded, realServers} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, kind.flags(t))
		})
	}
}

// The whole way, from joining to a sold seat, over HTTP and a socket.
func TestJourney(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flags []string) {
		t.Helper()
		s := startInstance(t, flags...)
		p := join(t, s, "demo")
		l := p.open(s)
		b := p.admitted(l, 10*time.Second)
		require.Equal(t, b.pass, p.me(s)["entry_token"], "asking gives the same token as the push")

		status, header, _ := call(t, http.MethodGet, s.url+"/v1/gate/demo", nil, b.header(""))
		require.Equal(t, http.StatusNoContent, status)
		require.Equal(t, p.entry, header.Get("X-Waitroom-Entry"))
		require.Equal(t, "entered", p.me(s)["state"])

		status, _, seats := call(t, http.MethodGet, s.url+"/v1/events/demo/seats", nil, nil)
		require.Equal(t, http.StatusOK, status)
		section := seats["sections"].([]any)[0].(map[string]any)
		seat := section["seats"].([]any)[0].(map[string]any)["id"].(string)

		status, _, reserved := b.reserve(s, "key-1", map[string]any{"seats": []string{seat}})
		require.Equal(t, http.StatusCreated, status, reserved)
		require.Equal(t, "held", reserved["status"])
		id := reserved["reservation_id"].(string)
		status, header, again := b.reserve(s, "key-1", map[string]any{"seats": []string{seat}})
		require.Equal(t, http.StatusCreated, status)
		require.Equal(t, "true", header.Get("Idempotency-Replayed"))
		require.Equal(t, reserved, again)

		status, _, paying := b.pay(s, id, "key-2", "approve")
		require.Equal(t, http.StatusAccepted, status, paying)
		outcome := l.next(10*time.Second, "reservation")
		require.Equal(t, id, outcome["reservation_id"])
		require.Equal(t, "paid", outcome["status"])

		status, _, body := b.reserve(s, "key-3", map[string]any{"quantity": 1})
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "token_used", body["code"])
		status, _, _ = call(t, http.MethodGet, s.url+"/v1/gate/demo", nil, b.header(""))
		require.Equal(t, http.StatusNoContent, status, "the gate lets in until the session ends, also after a purchase")
		require.EqualValues(t, 1, s.audited("demo", flags...).Counts["seats sold"])
	})
}

// Promise 2: joining again, with the cookie or the token, keeps the place; also on
// another instance of the same event, and after a restart of the embedded default.
func TestPlaceIsKept(t *testing.T) {
	t.Parallel()

	t.Run("two instances", func(t *testing.T) {
		t.Parallel()
		flags := realServers.flags(t)
		a, b := startInstance(t, flags...), startInstance(t, flags...)
		_, _ = a.ops(http.MethodPatch, "/demo", map[string]any{"state": "paused"})
		people := []*person{join(t, a, "demo"), join(t, b, "demo"), join(t, a, "demo")}
		for i, p := range people {
			for _, s := range []*instance{a, b} {
				status, _, body := call(t, http.MethodPost, s.url+"/v1/events/demo/entries", nil, map[string]string{"Authorization": "Bearer " + p.token})
				require.Equal(t, http.StatusOK, status, body)
				require.Equal(t, p.entry, body["entry_id"])
				require.EqualValues(t, i+1, body["position"], "in the order of the joins, whichever instance took them")
			}
		}
	})

	t.Run("embedded default restarted", func(t *testing.T) {
		t.Parallel()
		data := filepath.Join(t.TempDir(), "data")
		s := startInstance(t, "--data", data)
		_, _ = s.ops(http.MethodPatch, "/demo", map[string]any{"state": "paused"})
		first, second := join(t, s, "demo"), join(t, s, "demo")
		s.signal(syscall.SIGKILL)
		<-s.done

		s = startInstance(t, "--data", data)
		_, _ = s.ops(http.MethodPatch, "/demo", map[string]any{"state": "paused"})
		newcomer := join(t, s, "demo")
		require.EqualValues(t, 1, second.me(s)["position"], "back by its receipt, ahead of who came after the crash")
		require.EqualValues(t, 1, first.me(s)["position"], "and ahead of it whoever stood there")
		require.EqualValues(t, 3, newcomer.me(s)["position"])
	})
}

// The leader of two instances is killed, then its successor frozen past its lease,
// while people are let in: nobody is in twice, nobody is lost, and no second holds
// more than the rate.
func TestLeaderLost(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	instances := []*instance{startInstance(t, flags...), startInstance(t, flags...), startInstance(t, flags...)}
	last := instances[2] // takes the questions; it never leads while the others live
	const rate, crowd = 20, 160
	status, body := last.ops(http.MethodPost, "", map[string]any{"id": "rush", "rate_per_s": rate, "state": "paused"})
	require.Equal(t, http.StatusCreated, status, body)

	people := make([]*person, crowd)
	for i := range people {
		people[i] = join(t, instances[i%3], "rush")
	}
	status, body = last.ops(http.MethodPatch, "/rush", map[string]any{"state": "open"})
	require.Equal(t, http.StatusOK, status, body)

	admitted := func() int {
		_, m := last.ops(http.MethodGet, "/rush/metrics", nil)
		return int(m["admitted"].(float64))
	}
	leader := func() *instance {
		for _, s := range instances {
			select {
			case <-s.done:
				continue
			default:
			}
			if _, m := s.ops(http.MethodGet, "/rush/metrics", nil); m["leading"] == true {
				return s
			}
		}
		return nil
	}
	until(t, 20*time.Second, "the first are in", func() bool { return admitted() >= rate })
	killed := leader()
	require.NotNil(t, killed)
	if killed == last {
		last = instances[0]
	}
	killed.signal(syscall.SIGKILL)
	<-killed.done

	var frozen *instance
	until(t, 20*time.Second, "another leads", func() bool { frozen = leader(); return frozen != nil })
	if frozen == last {
		for _, s := range instances {
			if s != killed && s != frozen {
				last = s
			}
		}
	}
	before := admitted()
	frozen.signal(syscall.SIGSTOP)
	until(t, 20*time.Second, "a third goes on", func() bool { return admitted() > before+rate })
	frozen.signal(syscall.SIGCONT)
	until(t, 60*time.Second, "all are in", func() bool { return admitted() >= crowd })

	jtis := map[string]bool{}
	perSecond := map[float64]int{}
	for _, p := range people {
		me := p.me(last)
		require.Equal(t, "admitted", me["state"])
		claims := claimsOf(t, me["entry_token"].(string))
		jtis[claims["jti"].(string)] = true
		perSecond[claims["iat"].(float64)]++
	}
	require.Len(t, jtis, crowd, "each has one grant of their own")
	for second, n := range perSecond {
		require.LessOrEqual(t, n, rate+2, "second %v: the rate and one tick's rounding", second)
	}
	require.Equal(t, crowd, admitted())
}

// 200 buyers for one seat over two instances: one has it, all others are told so.
func TestOneSeatManyBuyers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flags []string) {
		t.Helper()
		instances := []*instance{startInstance(t, flags...)}
		if len(flags) > 0 {
			instances = append(instances, startInstance(t, flags...))
		}
		const crowd = 200
		status, body := instances[0].ops(http.MethodPost, "", map[string]any{
			"id": "single", "rate_per_s": 1000,
			"tickets": map[string]any{"kind": "seats", "sections": []map[string]any{{"id": "A", "rows": 1, "seats_per_row": 2}}},
		})
		require.Equal(t, http.StatusCreated, status, body)
		buyers := make([]*buyer, crowd)
		for i := range buyers {
			buyers[i] = &buyer{person: join(t, instances[i%len(instances)], "single")}
		}
		for _, b := range buyers {
			until(t, 60*time.Second, "everybody is in", func() bool {
				token, in := b.me(instances[0])["entry_token"].(string)
				b.pass = token
				return in
			})
		}
		codes := make([]string, crowd)
		var wg sync.WaitGroup
		for i, b := range buyers {
			wg.Go(func() {
				for range 20 { // a database that is too busy to answer says so, and decides nothing
					status, _, body := b.reserve(instances[i%len(instances)], "key", map[string]any{"seats": []string{"A-1"}})
					if codes[i], _ = body["code"].(string); status == http.StatusCreated {
						codes[i] = "created"
					}
					if status != http.StatusServiceUnavailable {
						return
					}
				}
			})
		}
		wg.Wait()
		counts := map[string]int{}
		for _, code := range codes {
			counts[code]++
		}
		require.Equal(t, map[string]int{"created": 1, "seat_taken": crowd - 1}, counts)
		require.EqualValues(t, 1, instances[0].audited("single", flags...).Counts["seats held"])
	})
}

// SIGTERM tells each socket when to come back, and the process ends with 0; the
// people find their places on the other instance.
func TestRollingStop(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	_, _ = a.ops(http.MethodPatch, "/demo", map[string]any{"state": "paused"})
	p := join(t, a, "demo")
	l := p.open(a)
	require.EqualValues(t, 1, l.next(2*time.Second, "position")["position"], "the first position comes also while paused")
	a.signal(syscall.SIGTERM)
	bye := l.next(5*time.Second, "bye")
	require.Positive(t, bye["retry_after_ms"])
	require.Equal(t, exitOK, a.wait(20*time.Second))
	require.EqualValues(t, 1, p.open(b).next(2*time.Second, "position")["position"])
}

// With the store away nobody passes the gate, /healthz answers, and everything
// comes back by itself. With the store's data gone, events and places come back.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s := startInstance(t, "--redis", server.URL(), "--limits", "off")
	p := join(t, s, "demo")
	b := p.admitted(p.open(s), 10*time.Second)
	_, _ = s.ops(http.MethodPatch, "/demo", map[string]any{"state": "paused"})
	waiting := []*person{join(t, s, "demo"), join(t, s, "demo")}
	state := func() any {
		_, _, body := call(t, http.MethodGet, s.url+"/v1/events/demo", nil, nil)
		return body["state"]
	}
	until(t, 5*time.Second, "the instance knows of the pause", func() bool { return state() == "paused" })

	server.Kill(t)
	status, _, body := call(t, http.MethodGet, s.url+"/v1/gate/demo", nil, b.header(""))
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, "unavailable", body["code"])
	status, header, body := call(t, http.MethodPost, s.url+"/v1/events/demo/entries", nil, nil)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "unavailable", body["code"])
	require.NotEmpty(t, header.Get("Retry-After"))
	status, _, _ = call(t, http.MethodGet, s.url+"/healthz", nil, nil)
	require.Equal(t, http.StatusOK, status)
	status, _, _ = call(t, http.MethodGet, s.url+"/readyz", nil, nil)
	require.Equal(t, http.StatusServiceUnavailable, status)

	server.Restart(t) // without its data: it kept none
	until(t, 20*time.Second, "the event is back", func() bool { return state() == "paused" })
	until(t, 10*time.Second, "the places are back", func() bool {
		for _, p := range waiting {
			status, _, _ := call(t, http.MethodGet, s.url+"/v1/events/demo/entries/me", nil, map[string]string{"Authorization": "Bearer " + p.token})
			if status != http.StatusOK {
				return false
			}
		}
		return true
	})
	for i, p := range waiting {
		require.EqualValues(t, i+1, p.me(s)["position"])
	}
}
