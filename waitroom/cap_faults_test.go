package waitroom

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// capMachine plays whatever may happen to an event while people are let in, in
// virtual time: wall is the time as the people live it, and the event's clock is
// what a store's clock does that is set back and forth.
type capMachine struct {
	l      *Line
	rdb    *redis.Client
	prefix string
	t      *testing.T

	wall, clock time.Time
	fence       int64
	rate        float64
	state       State
	changes     []rated   // rates, with when they began
	leaps       []leap    // of the event's clock ahead of the wall's
	began       time.Time // the term of fence, by the wall
	witness     int64     // the fence of the last call, if it said how long its term has run
	let         []letIn
	faults      int
}

type rated struct {
	at   time.Time
	rate float64
}

// leap is when the event's clock went ahead, and whether the calls before and after it
// were of one term.
type leap struct {
	at         time.Time
	seen, sure bool
}

type letIn struct {
	at time.Time
	n  int
}

func (m *capMachine) pass(d time.Duration) {
	m.wall, m.clock = m.wall.Add(d), m.clock.Add(d)
	freeze(m.t, m.l, m.clock)
}

// fill keeps more people in the line than any call takes.
func (m *capMachine) fill(t *rapid.T) {
	n, err := m.rdb.ZCard(t.Context(), m.l.keys.line("e")).Result()
	require.NoError(t, err)
	joins := map[State]bool{Lobby: true, Open: true, Paused: true}
	if n < 120 && joins[m.state] {
		crowd(m.t, m.l, 256)
	}
}

// came notes who was let in, and looks at the second that ends now.
func (m *capMachine) came(t *rapid.T, n int) {
	require.True(t, n == 0 || m.state == Open || m.state == Draining, "%d let in while %s", n, m.state)
	m.let = append(m.let, letIn{m.wall, n})
	second := m.wall.Add(-time.Second)
	in := 0
	for _, a := range m.let {
		if a.at.After(second) {
			in += a.n
		}
	}
	highest := 0.0
	for i, c := range m.changes {
		if i+1 == len(m.changes) || m.changes[i+1].at.After(second) {
			highest = max(highest, c.rate)
		}
	}
	most := int(math.Ceil(highest*1.1 - 1e-9))
	for _, l := range m.leaps {
		switch {
		case !l.at.After(second):
		case l.sure: // the caller's clock tells it from time that passed
			most += int(math.Ceil(0.05*highest)) + 1
		default: // nobody can: worth 150 ms, once
			most += int(math.Ceil(0.2*highest)) + 2
		}
	}
	require.LessOrEqual(t, in, most, "over-admission in the second up to %v", m.wall)
}

func (m *capMachine) promote(t *rapid.T, l *Line, fence int64, n int) int {
	if fence > m.fence {
		m.began = m.wall.Add(-time.Millisecond)
	}
	p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: fence, N: n, Ran: m.wall.Sub(m.began)})
	if fence < m.fence {
		require.ErrorIs(t, err, ErrFenced)
		return 0
	}
	require.NoError(t, err)
	m.fence = fence
	m.saw(fence)
	return len(p.Grants)
}

// saw is a call of a term (0: one that did not say how long it has run).
func (m *capMachine) saw(fence int64) {
	for i := range m.leaps {
		if l := &m.leaps[i]; !l.seen {
			l.seen, l.sure = true, fence != 0 && m.witness == fence
		}
	}
	m.witness = fence
}

func many(t *rapid.T) int { return rapid.IntRange(1, 300).Draw(t, "n") }

func (m *capMachine) Tick(t *rapid.T) {
	m.fill(t)
	m.pass(time.Duration(rapid.IntRange(0, 220).Draw(t, "ms")) * time.Millisecond)
	m.came(t, m.promote(t, m.l, m.fence, many(t)))
}

// Gap is a time in which nobody led, or the leader was paused.
func (m *capMachine) Gap(t *rapid.T) {
	m.faults++
	m.pass(time.Duration(rapid.IntRange(500, 5000).Draw(t, "ms")) * time.Millisecond)
}

// Burst is a leader gone mad, or ticks that were missed and are made up for.
func (m *capMachine) Burst(t *rapid.T) {
	m.faults++
	m.fill(t)
	for range rapid.IntRange(2, 12).Draw(t, "calls") {
		m.came(t, m.promote(t, m.l, m.fence, many(t)))
	}
}

// Rivals are several that lead at the same time with fences of their own.
func (m *capMachine) Rivals(t *rapid.T) {
	m.faults++
	m.fill(t)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
	)
	n, highest := many(t), m.fence+3
	for i := range int64(4) {
		wg.Go(func() {
			p, _ := m.l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: highest - i, N: n}) // those too late are fenced off
			mu.Lock()
			defer mu.Unlock()
			total += len(p.Grants)
		})
	}
	wg.Wait()
	m.fence, m.began = highest, m.wall.Add(-time.Millisecond)
	m.saw(0)
	m.came(t, total)
}

// Woken is an old leader that was frozen.
func (m *capMachine) Woken(t *rapid.T) {
	m.faults++
	m.fence++
	m.began = m.wall.Add(-time.Millisecond)
	m.came(t, m.promote(t, m.l, m.fence, many(t)))
	require.Zero(t, m.promote(t, m.l, m.fence-1, many(t)))
}

// SentAgain is a call whose answer was lost: the client sends it up to four times.
func (m *capMachine) SentAgain(t *rapid.T) {
	m.faults++
	m.fill(t)
	m.pass(100 * time.Millisecond)
	args := append([]any{m.fence, many(t), newID(), mostGrants}, Why{}.args()...)
	var first []string
	for i := range 4 {
		r, err := m.l.call(t.Context(), scriptPromote, "e", []string{m.l.keys.log("e"), m.l.keys.owed("e")}, args...)
		require.NoError(t, err)
		m.saw(0)
		if i == 0 {
			first = r.rest
			grants, err := parseGrants("e", r.rest[0])
			require.NoError(t, err)
			m.came(t, len(grants))
		}
		if first[0] != "" { // nobody let in: nothing to be remembered, and it is tried anew
			require.Equal(t, first[0], r.rest[0])
			continue
		}
		grants, err := parseGrants("e", r.rest[0])
		require.NoError(t, err)
		if i > 0 {
			m.came(t, len(grants))
		}
		if len(grants) > 0 {
			first = r.rest
		}
	}
}

// ClockBack sets the store's clock back; ClockAhead sets it ahead.
func (m *capMachine) ClockBack(t *rapid.T) {
	m.faults++
	m.clock = m.clock.Add(-time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
	freeze(m.t, m.l, m.clock)
}

func (m *capMachine) ClockAhead(t *rapid.T) {
	m.faults++
	m.clock = m.clock.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
	m.leaps = append(m.leaps, leap{at: m.wall})
	freeze(m.t, m.l, m.clock)
}

// Restart is another process, on a server that knows no script, or that has just
// become master.
func (m *capMachine) Restart(t *rapid.T) {
	m.faults++
	require.NoError(t, m.rdb.ScriptFlush(t.Context()).Err())
	if rapid.Bool().Draw(t, "another server") {
		require.NoError(t, m.rdb.HSet(t.Context(), m.l.keys.meta("e"), "store", "another").Err())
	}
	m.l = testLineAs(m.t, m.rdb, m.prefix)
	m.fence++
	m.began = m.wall.Add(-time.Millisecond)
}

func (m *capMachine) patch(t *rapid.T, body string) {
	_, err := m.l.Patch(t.Context(), "e", []byte(body), "op")
	require.NoError(t, err)
}

func (m *capMachine) Rate(t *rapid.T) {
	m.rate = rapid.SampledFrom([]float64{0, 0.5, 3, 10, 47.5, 200}).Draw(t, "rate")
	m.changes = append(m.changes, rated{m.wall, m.rate})
	m.patch(t, `{"rate_per_s":`+strconv.FormatFloat(m.rate, 'f', -1, 64)+`}`)
}

// State pauses, resumes, drains, closes and opens again, as operators do.
func (m *capMachine) State(t *rapid.T) {
	m.state = rapid.SampledFrom([]State{Open, Open, Open, Open, Paused, Draining, Lobby, Scheduled, Closed}).Draw(t, "state")
	m.patch(t, `{"state":"`+string(m.state)+`"}`)
}

func (m *capMachine) Resume(t *rapid.T) {
	m.state = Open
	m.patch(t, `{"state":"open","max_active":0}`)
}

func (m *capMachine) Others(t *rapid.T) {
	m.patch(t, fmt.Sprintf(`{"max_active":%d,"burst":%d}`,
		rapid.SampledFrom([]int{0, 0, 1, 50}).Draw(t, "max_active"), rapid.IntRange(0, 100).Draw(t, "burst")))
}

// Admit by hand is outside the rate, and must not bring or take anything of it.
func (m *capMachine) Admit(t *rapid.T) {
	m.fill(t)
	_, _ = m.l.Admit(t.Context(), "e", AdmitRequest{Count: rapid.IntRange(1, 20).Draw(t, "count"), By: "op"}) // refused where closed or full
}

// Promise 3: no sequence of faults, clock jumps, restarts and operators' acts gets
// the rate above the cap in any one second.
func TestPromise3NoFaultsGetAboveTheCap(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			faults, let := 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				l := testLine(t, rdb)
				m := &capMachine{l: l, rdb: rdb, prefix: l.keys.prefix, t: t, fence: 1, state: Open}
				m.rate = rapid.SampledFrom([]float64{0.5, 3, 10, 47.5, 200}).Draw(rt, "first rate")
				e := open(t, m.l, func(s *Settings) { s.RatePerS, s.Grace = m.rate, Duration(24*time.Hour) })
				m.wall, m.clock = e.Now, e.Now
				m.began = m.wall.Add(-time.Millisecond)
				m.changes = []rated{{m.wall, m.rate}}
				m.pass(0)
				rt.Repeat(map[string]func(*rapid.T){
					"tick": m.Tick, "tick again": m.Tick, "and again": m.Tick, "gap": m.Gap, "burst": m.Burst, "rivals": m.Rivals,
					"woken": m.Woken, "sent again": m.SentAgain, "clock back": m.ClockBack, "clock ahead": m.ClockAhead,
					"restart": m.Restart, "rate": m.Rate, "state": m.State, "resume": m.Resume, "others": m.Others, "admit": m.Admit,
				})
				faults += m.faults
				for _, a := range m.let {
					let += a.n
				}
			})
			require.Positive(t, let)
			t.Logf("faults %d, over-admissions 0; let in %d", faults, let)
		})
	}
}
