package main

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Each preset is started as anybody would start it, on the embedded default, and
// played by a crowd for two cores. What does not fit one (a rate, an opening in half
// a minute) is patched as an operator would.

// inParallel has n people do something, at most 64 of them at a time.
func inParallel(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait()
}

// lobby gathers one: the opening waits for n people, whose sockets are open.
func (s *instance) lobby(event string, n int, scaled facts) ([]*person, []*live) {
	s.t.Helper()
	change := facts{"opens_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	maps.Copy(change, scaled)
	s.patch(event, change)
	require.Equal(s.t, "lobby", s.ev(event)["state"], "it opens after the start")
	people, sockets := make([]*person, n), make([]*live, n)
	people[0] = join(s.t, s, event) // the first in the line
	inParallel(n, func(i int) {
		if i > 0 {
			people[i] = join(s.t, s, event)
		}
		sockets[i] = people[i].open(s)
	})
	require.Zero(s.t, s.ev(event)["admitted"], "nobody comes in before the opening")
	s.patch(event, facts{"opens_at": time.Now().Add(200 * time.Millisecond).UTC().Format(time.RFC3339Nano)})
	return people, sockets
}

// buys reserves and pays at once, and tries again with the same key where the
// database is too busy to answer, as a page does; what is refused is a code.
func (b *buyer) buys(s *instance, body map[string]any) (held map[string]any, code string) {
	b.t.Helper()
	key, _ := claimsOf(b.t, b.pass)["jti"].(string)
	var status int
	answered := func(do func() (int, http.Header, map[string]any), answer *map[string]any) {
		until(b.t, 30*time.Second, "an answer", func() bool {
			status, _, *answer = do()
			return status != http.StatusServiceUnavailable
		})
	}
	answered(func() (int, http.Header, map[string]any) { return b.reserve(s, "buy-"+key, body) }, &held)
	if status != http.StatusCreated {
		return nil, fmt.Sprintf("%d %v", status, held["code"])
	}
	id, _ := held["reservation_id"].(string)
	var paid map[string]any
	answered(func() (int, http.Header, map[string]any) { return b.pay(s, id, "pay-"+key, "approve") }, &paid)
	require.Contains(b.t, []int{http.StatusOK, http.StatusAccepted}, status, paid)
	b.becomes(s, id, "paid")
	return held, ""
}

// System A, concert: 5,000 seats sell out, each once and held for three minutes, and
// nobody comes in over the rate.
func TestPresetConcert(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--preset", "concert")
	require.EqualValues(t, 100, s.ev("concert")["rate_per_s"])
	require.EqualValues(t, 5000, s.public("concert")["seats_left"])
	const people, share, rate = 60, 100, 20
	fans, sockets := s.lobby("concert", people, facts{"rate_per_s": rate, "tickets": facts{"per_user": share}})
	var chosen []string
	for row := 29; row <= 30; row++ {
		for seat := 1; seat <= 50; seat++ {
			chosen = append(chosen, fmt.Sprintf("B-%d-%d", row, seat))
		}
	}
	var mu sync.Mutex
	second, codes, seats := make(map[float64]int), make(map[string]int), make(map[string]bool)
	inParallel(people, func(i int) {
		b := fans[i].admitted(sockets[i], 30*time.Second)
		body := map[string]any{"quantity": share}
		if i == 0 {
			body = map[string]any{"seats": chosen}
		}
		asked := time.Now()
		held, code := b.buys(s, body)
		mu.Lock()
		defer mu.Unlock()
		second[claimsOf(t, b.pass)["iat"].(float64)]++
		codes[code]++
		if held == nil {
			return
		}
		ends, err := time.Parse(time.RFC3339, held["expires_at"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, asked.Add(3*time.Minute), ends, 20*time.Second)
		for _, seat := range held["seats"].([]any) {
			require.False(t, seats[seat.(string)], "%s is sold once", seat)
			seats[seat.(string)] = true
		}
	})
	require.Len(t, seats, 5000)
	require.Equal(t, map[string]int{"": 50, "409 sold_out": 10}, codes)
	for at, n := range second {
		require.LessOrEqual(t, n, rate+rate/10, "let in within second %.0f", at)
	}
	until(t, 10*time.Second, "everybody sees that nothing is left", func() bool { return s.public("concert")["seats_left"] == 0.0 })
	require.Equal(t, "open", s.ev("concert")["state"], "the line is kept for returns")
	for waits := join(t, s, "concert").open(s); waits.next(20*time.Second, "event")["reason"] != "sold_out"; {
		continue // what was told before the last payment was counted
	}
	s.audited("concert")
}

// System A, flash sale: the tokens go out at once, a hundred succeed, and with the
// last payment everybody else hears that it is over.
func TestPresetFlashSale(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--preset", "flash-sale")
	require.EqualValues(t, 5000, s.ev("flash-sale")["burst"])
	const people, tokens = 180, 130
	fans, sockets := s.lobby("flash-sale", people, facts{"burst": tokens, "max_active": tokens, "rate_per_s": 1})
	var mu sync.Mutex
	var lastPaid, lastHeard time.Time
	codes, second, won := make(map[string]int), make(map[float64]int), 0
	var all sync.WaitGroup
	for i := range people {
		all.Go(func() {
			mine, bought := sockets[i], false
			for {
				m := mine.next(30*time.Second, "admitted", "event")
				if m["type"] == "event" && m["state"] == "closed" {
					mu.Lock()
					defer mu.Unlock()
					if !bought {
						lastHeard = time.Now()
					}
					if m["reason"] != "sold_out" {
						t.Errorf("closed for %v", m["reason"])
					}
					return
				}
				if m["type"] == "event" {
					continue
				}
				b := &buyer{person: fans[i], pass: m["entry_token"].(string)}
				_, code := b.buys(s, map[string]any{"quantity": 1})
				mu.Lock()
				bought = code == ""
				codes[code]++
				second[claimsOf(t, b.pass)["iat"].(float64)]++
				if bought {
					lastPaid = time.Now()
					won++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, 100, won)
	most := 0
	for at, n := range second {
		most = max(most, n+second[at+1])
	}
	require.GreaterOrEqual(t, most, tokens, "all tokens went out at the opening")
	require.GreaterOrEqual(t, codes["409 sold_out"], 1)
	t.Logf("the last loser heard %s after the last buyer: %v", lastHeard.Sub(lastPaid), codes)
	require.Less(t, lastHeard.Sub(lastPaid), 5*time.Second)
	e := s.ev("flash-sale")
	require.Equal(t, []any{"closed", "sold_out"}, []any{e["state"], e["reason"]})
	request{"POST", "/v1/events/flash-sale/entries", "", nil}.refused(t, s, 403, "closed")
	_, _, trail := call(t, http.MethodGet, s.url+"/v1/ops/events/flash-sale/audit", nil, bearerOf(operatorToken))
	require.Contains(t, fmt.Sprint(trail), "stock", "and the trail says by whom")
	s.audited("flash-sale")
}

// System C: fifty at once on one slot, and what is left adds up.
func TestPresetVaccination(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--preset", "vaccination")
	people := make([]*buyer, 50)
	inParallel(len(people), func(i int) {
		p := join(t, s, "vaccination")
		people[i] = p.admitted(p.open(s), 30*time.Second)
	})
	free := func() map[string]float64 {
		_, _, body := call(t, http.MethodGet, s.url+"/v1/events/vaccination/seats", nil, nil)
		left := make(map[string]float64)
		for _, item := range body["items"].([]any) {
			item := item.(map[string]any)
			left[item["id"].(string)] = item["free"].(float64)
		}
		return left
	}
	require.Len(t, free(), 6)
	var got, gone atomic.Int64
	var all sync.WaitGroup
	for _, b := range people {
		all.Go(func() { // a hand that shakes: each asks three times with one key
			codes := make(map[int]bool)
			for range 3 {
				status, _, _ := b.reserve(s, "slot", map[string]any{"seats": []string{"d1-a"}})
				codes[status] = true
			}
			switch {
			case len(codes) == 1 && codes[http.StatusCreated]:
				got.Add(1)
			case len(codes) == 1 && codes[http.StatusConflict]:
				gone.Add(1)
			default:
				t.Errorf("answers %v", codes)
			}
		})
	}
	all.Wait()
	require.Equal(t, []int64{20, 30}, []int64{got.Load(), gone.Load()})
	until(t, 10*time.Second, "the map says so", func() bool { return free()["d1-a"] == 0 })
	require.InDelta(t, 20, free()["d1-b"], 0)
	for _, b := range people {
		if status, _, body := b.reserve(s, "slot", map[string]any{"seats": []string{"d1-a"}}); status == http.StatusCreated {
			b.pay(s, body["reservation_id"].(string), "pay", "approve")
			b.becomes(s, body["reservation_id"].(string), "paid")
			break
		}
	}
	s.audited("vaccination")
}

// System A, course registration: clashes are refused, also from two devices and at
// two times, and the last place of a seminar is given once.
func TestPresetCourseRegistration(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("secret of the university ", 2)
	s := startInstance(t, "--preset", "course-registration", "--identity-secret", secret)
	const event = "course-registration"
	require.Equal(t, "pessimistic", s.ev(event)["tickets"].(map[string]any)["locking"])
	year := 4
	login := func(student string) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
			"sub": student, "year": year, "exp": time.Now().Add(time.Hour).Unix(),
		}).SignedString([]byte(secret))
		require.NoError(t, err)
		return token
	}
	for i := range 3 { // the others are told when theirs is, one after the other
		year = 3 - i
		status, _, body := call(t, http.MethodPost, s.url+"/v1/events/"+event+"/entries", nil, bearerOf(login("early")))
		require.Equal(t, []any{http.StatusForbidden, "not_eligible"}, []any{status, body["code"]})
		opens, err := time.Parse(time.RFC3339, body["opens_at"].(string))
		require.NoError(t, err)
		require.InDelta(t, time.Duration(i+1)*10*time.Minute, time.Until(opens), float64(2*time.Minute))
	}
	year = 4
	turn := func(student string) *buyer {
		token := login(student)
		status, _, body := call(t, http.MethodPost, s.url+"/v1/events/"+event+"/entries", nil, bearerOf(token))
		require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, body)
		return (&person{t: t, event: event, token: token}).inside(s)
	}
	courses := func(ids ...string) map[string]any { return map[string]any{"seats": ids} }

	ann := turn("ann")
	status, _, body := ann.reserve(s, "both", courses("analysis", "physics"))
	require.Equal(t, []any{http.StatusConflict, "timetable_clash"}, []any{status, body["code"]})
	_, code := ann.buys(s, courses("analysis", "programming"))
	require.Empty(t, code, "a try that failed spends nothing")
	status, _, _ = call(t, http.MethodPost, s.url+"/v1/events/"+event+"/sessions/"+claimsOf(t, ann.pass)["jti"].(string)+"/complete", nil, bearerOf(siteKey))
	require.Less(t, status, 300)
	again := turn("ann") // at home, in the evening
	require.NotEqual(t, ann.pass, again.pass)
	status, _, body = again.reserve(s, "late", courses("physics"))
	require.Equal(t, []any{http.StatusConflict, "timetable_clash"}, []any{status, body["code"]})
	_, code = again.buys(s, courses("databases"))
	require.Empty(t, code)

	bob := turn("bob") // two devices at once
	require.Equal(t, bob.pass, turn("bob").pass, "one turn for one student")
	var held atomic.Int64
	inParallel(2, func(i int) {
		if status, _, _ := bob.reserve(s, strconv.Itoa(i), courses([]string{"analysis", "physics"}[i])); status == http.StatusCreated {
			held.Add(1)
		}
	})
	require.EqualValues(t, 1, held.Load())

	var mu sync.Mutex
	codes := make(map[string]int)
	inParallel(30, func(i int) {
		_, code := turn(fmt.Sprint("student-", i)).buys(s, courses("seminar"))
		mu.Lock()
		defer mu.Unlock()
		codes[code]++
	})
	require.Equal(t, map[string]int{"": 15, "409 seat_taken": 15}, codes, "the course is full, others are not")
	s.audited(event)

	// The next window: whoever was in line or inside keeps that, and year 4 is over.
	begun := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	s.patch(event, facts{"groups": []facts{
		{"name": "year-4", "claim": facts{"year": 4}, "closes_at": begun}, {"name": "year-3", "claim": facts{"year": 3}, "opens_at": begun},
	}})
	require.Equal(t, bob.pass, turn("bob").pass)
	status, _, body = call(t, http.MethodPost, s.url+"/v1/events/"+event+"/entries", nil, bearerOf(login("late")))
	require.Equal(t, []any{http.StatusForbidden, "not_eligible"}, []any{status, body["code"]})
	require.NotContains(t, body, "opens_at")
	year = 3
	_, code = turn("cid").buys(s, courses("programming"))
	require.Empty(t, code)
}
