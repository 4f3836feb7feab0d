package waitroom

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Closed and scheduled events cost the store next to nothing, and are seen to change
// within a moment all the same.
func TestIdleEventsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	const each = 50
	in := time.Now().Add(time.Hour)
	for i := range each {
		for name, state := range map[string]State{"closed": Closed, "scheduled": ""} {
			settings := DefaultSettings(EventID(name + "-" + string(rune('a'+i%26)) + string(rune('a'+i/26))))
			if state == "" {
				settings.OpensAt = &in
			}
			_, err := l.Create(t.Context(), settings, state, "op")
			require.NoError(t, err)
		}
	}
	var c counting
	rdb := s.Client(t)
	rdb.AddHook(&c)
	var lis heardOf
	v := watch(t, testLineAs(t, rdb, l.cfg.Prefix), &lis)
	until(t, "all are idle", func() bool {
		v.mu.RLock()
		defer v.mu.RUnlock()
		n := 0
		for _, f := range v.followers {
			if f.idle.Load() {
				n++
			}
		}
		return n == 2*each
	})
	c.n.Store(0)
	began := time.Now()
	<-time.After(viewIdle)
	perS := float64(c.n.Load()) / time.Since(began).Seconds()
	t.Logf("%.0f commands a second for %d events", perS, 2*each)
	require.Less(t, perS, 2*each*3/viewIdle.Seconds()*2+15, "three commands in viewIdle for each, twice over, and the stirs")

	// An operator opens one of them, on another node.
	began = time.Now()
	_, err := l.Patch(t.Context(), "closed-aa", []byte(`{"state":"open"}`), "op")
	require.NoError(t, err)
	until(t, "it is open", func() bool { return lis.last().ID == "closed-aa" && lis.last().State == Open })
	t.Logf("seen after %v", time.Since(began))
	require.Less(t, time.Since(began), viewIdle/2, "without a stir it takes all of viewIdle")
}

// A scheduled event that nobody stirs opens on time.
func TestIdleEventsKeepTheirTimes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		s := DefaultSettings("e")
		in := time.Now().Add(1500 * time.Millisecond)
		s.OpensAt = &in
		_, err := l.Create(t.Context(), s, "", "op")
		require.NoError(t, err)
		var lis heardOf
		watch(t, l, &lis)
		until(t, "it is open", func() bool { return lis.last().State == Open })
		require.Less(t, time.Since(in), viewIdle/2)
	})
}
