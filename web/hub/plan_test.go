package hub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Promise 8, its arithmetic.
func TestPromise8SlotsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60_000).Draw(t, "clients")
		perS := rapid.IntRange(1, 5000).Draw(t, "per_s")
		s := newSlots(n, perS)
		seconds := make(map[int64]int)
		last := time.Duration(0)
		for rank := range n {
			after := s.after(rank)
			if after < last {
				t.Fatalf("rank %d comes back at %v, before the one ahead (%v)", rank, after, last)
			}
			last = after
			seconds[int64(after/time.Second)]++
		}
		if last > time.Minute {
			t.Fatalf("the last of %d comes back after %v", n, last)
		}
		most := max(n/10, 1)
		if n <= perS*int(longestWindow/time.Second) {
			most = min(most, max(perS, 1)+1)
		}
		for second, count := range seconds {
			if count > most+1 {
				t.Fatalf("second %d holds %d of %d clients, more than %d", second, count, n, most)
			}
		}
	})
}

func TestWheel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w wheel
		clients := make([]*client, 5)
		want := make(map[*client]int64)
		for i := range clients {
			clients[i] = &client{}
		}
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "plan") {
				c := clients[rapid.IntRange(0, len(clients)-1).Draw(t, "client")]
				ticks := rapid.Int64Range(-3, 400).Draw(t, "ticks")
				w.plan(c, ticks)
				want[c] = w.at + min(max(ticks, 1), wheelSlots-1)
				continue
			}
			visited := make(map[*client]int)
			w.turn(func(c *client) { visited[c]++ })
			for _, c := range clients {
				due := 0
				if at, ok := want[c]; ok && at == w.at {
					due = 1
					delete(want, c)
				}
				if visited[c] != due {
					t.Fatalf("tick %d: visited %d times, want %d", w.at, visited[c], due)
				}
			}
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.Validate())
	err := Config{
		Origins: []string{"tickets.example", "https://a.example/x", "ftp://a.example"}, MaxSockets: -1,
		FarEvery: time.Minute, PongWait: time.Second,
	}.Validate()
	for _, part := range []string{`"tickets.example"`, `"https://a.example/x"`, "ftp", "max_sockets: -1", "far_every: 1m0s", "pong_wait: 1s"} {
		require.ErrorContains(t, err, part)
	}
	_, err = New(Config{}, Deps{})
	require.ErrorContains(t, err, "required")
}
