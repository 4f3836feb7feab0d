package simulate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// twins are the real line and the model of it, told the same.
type twins struct {
	real   *waitroom.Line
	rdb    redis.UniversalClient
	meta   string
	model  *line
	event  waitroom.Event
	places []waitroom.Place
	index  map[waitroom.EntryID]int32
	grants map[int32]waitroom.Grant
	began  time.Time
	now    int64
}

func (m *twins) clock(t *rapid.T) {
	at := m.began.Add(time.Duration(m.now) * time.Millisecond).UnixMilli()
	require.NoError(t, m.rdb.HSet(t.Context(), m.meta, "clock_ms", at).Err())
}

func (m *twins) time(t *rapid.T) {
	m.now += rapid.SampledFrom([]int64{1, 24, 100, 100, 100, 100, 130, 1000, 2500, 60_000}).Draw(t, "ms")
	m.clock(t)
	_, err := m.real.Sweep(t.Context(), "e")
	require.NoError(t, err)
	m.model.sweep(m.now)
}

func (m *twins) join(t *rapid.T) {
	for range rapid.IntRange(1, 30).Draw(t, "people") {
		lane, name := m.lane(t)
		groups, err := m.event.ChooseLane(name, nil)
		require.NoError(t, err)
		p, err := m.real.Join(t.Context(), waitroom.JoinRequest{Event: "e", Groups: groups})
		require.NoError(t, err)
		require.Equal(t, lane, m.event.LaneNumber(p.Seq))
		m.places = append(m.places, p)
		m.index[p.Entry] = m.model.join(lane, m.now)
	}
}

// lane is one of the event's.
func (m *twins) lane(t *rapid.T) (int, string) {
	if len(m.event.Lanes) == 0 {
		return 0, ""
	}
	lane := rapid.IntRange(0, len(m.event.Lanes)-1).Draw(t, "lane")
	return lane, m.event.Lanes[lane].Name
}

// any is somebody who ever joined.
func (m *twins) any(t *rapid.T) (int32, bool) {
	if len(m.places) == 0 {
		return 0, false
	}
	return int32(rapid.IntRange(0, len(m.places)-1).Draw(t, "who")), true
}

func (m *twins) leave(t *rapid.T) {
	if i, ok := m.any(t); ok {
		require.NoError(t, m.real.Leave(t.Context(), "e", m.places[i].Entry))
		m.model.leave(i)
	}
}

func (m *twins) promote(t *rapid.T) {
	n := rapid.SampledFrom([]int{0, 1, 2, 5, 40, 1000}).Draw(t, "n")
	lane, _ := m.lane(t)
	p, err := m.real.Promote(t.Context(), waitroom.PromoteRequest{Event: "e", Fence: 1, N: n, Lane: lane})
	require.NoError(t, err)
	var order []int32
	given, held := m.model.promote(lane, n, m.now, func(i int32) { order = append(order, i) })
	require.Len(t, p.Grants, given, "n %d", n)
	require.Equal(t, p.Reason, held)
	for k, g := range p.Grants {
		require.Equal(t, m.index[g.Entry], order[k], "the same people in the same order")
		require.Equal(t, m.model.people[order[k]].until, g.ClaimBy.Sub(m.began).Milliseconds())
		m.grants[order[k]] = g
	}
}

func (m *twins) enter(t *rapid.T) {
	if i, ok := m.any(t); ok {
		g, had := m.grants[i]
		if !had {
			return
		}
		_, err := m.real.Enter(t.Context(), "e", waitroom.Pass{Event: "e", JTI: g.JTI})
		require.Equal(t, err == nil, m.model.enter(i, m.now), "%v", err)
	}
}

func (m *twins) complete(t *rapid.T) {
	if i, ok := m.any(t); ok {
		if g, had := m.grants[i]; had {
			_ = m.real.Complete(t.Context(), "e", g.JTI) // one that is over says so
			m.model.complete(i)
		}
	}
}

func (m *twins) check(t *rapid.T) {
	e, err := m.real.Event(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []int64{e.Waiting, e.Inside, e.Entered, e.Unclaimed},
		[]int64{int64(m.model.waiting), int64(m.model.inside), m.model.came, m.model.missed})
	for i, l := range e.LaneCounts {
		require.Equal(t, []int64{l.Waiting, l.Inside}, []int64{int64(m.model.lanes[i].waiting), int64(m.model.lanes[i].inside)}, l.Name)
	}
}

// Promise 1: the model and the real line, told the same, let in the same people in the
// same order at the same moments, and count the same.
func TestTheModelIsTheRealLine(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			rapid.Check(t, func(rt *rapid.T) {
				prefix := fmt.Sprintf("t%d", rand.Int64())
				l, err := waitroom.New(waitroom.Config{
					Prefix: prefix, ReceiptKeys: [][]byte{bytes.Repeat([]byte{1}, 32)}, CallTimeout: 20 * time.Second,
				}, rdb, zap.NewNop())
				require.NoError(rt, err)
				s := waitroom.DefaultSettings("e")
				s.RatePerS = rapid.SampledFrom([]float64{0.3, 1, 7, 33.3, 200, 1000}).Draw(rt, "rate")
				s.MaxActive = rapid.SampledFrom([]int{0, 0, 3, 50}).Draw(rt, "max_active")
				s.Burst = rapid.SampledFrom([]int{0, 20}).Draw(rt, "burst")
				if rapid.Bool().Draw(rt, "lanes") {
					own := rapid.SampledFrom([]float64{0, 0.5, 5, 100}).Draw(rt, "own rate")
					s.Lanes = []waitroom.LaneSettings{{Name: "own", RatePerS: &own}, {Name: "share", Share: 0.4, MaxActive: 10}, {Name: "rest"}}
				}
				s.ClaimTTL, s.SessionTTL = waitroom.Duration(3*time.Second), waitroom.Duration(5*time.Second)
				s.Grace, s.GraceMobile = waitroom.Duration(24*time.Hour), waitroom.Duration(24*time.Hour)
				e, err := l.Create(rt.Context(), s, waitroom.Lobby, "test")
				require.NoError(rt, err)
				m := &twins{
					real: l, rdb: rdb, meta: prefix + ":{e}:meta", model: newLine(s), grants: make(map[int32]waitroom.Grant),
					began: e.Now.Truncate(time.Hour), event: e, index: make(map[waitroom.EntryID]int32),
				}
				m.clock(rt)
				m.model.cap.refilled = -m.began.UnixMilli()
				for _, l := range m.model.lanes {
					if l.cap != nil {
						l.cap.refilled = -m.began.UnixMilli()
					}
				}
				_, err = l.Patch(rt.Context(), "e", []byte(`{"state":"open"}`), "test")
				require.NoError(rt, err)
				m.model.open(m.now)
				rt.Repeat(map[string]func(*rapid.T){
					"time": m.time, "join": m.join, "leave": m.leave, "promote": m.promote, "again": m.promote,
					"enter": m.enter, "complete": m.complete, "": m.check,
				})
			})
		})
	}
}
