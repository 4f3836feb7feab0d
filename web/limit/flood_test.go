package limit

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// TestAFloodTakesNothingFromPeople holds promises 3 and 4 with the profile of a real
// event: of 1,000 calls with the usual limits 700 are loops of two uninvited, 300 are
// those of 60 people, who join from homes and offices, look, and book. The flood costs
// less than one store call each, and people are not refused.
func TestAFloodTakesNothingFromPeople(t *testing.T) {
	t.Parallel()
	rules, err := ParseRules(waitroom.LimitSettings{})
	require.NoError(t, err)
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		var people, flood trips
		crowd, bots := newLimiter(t, Config{}, counted(t, rdb, &people)), newLimiter(t, Config{}, counted(t, rdb, &flood))
		var served, refused, let atomic.Int64
		var all sync.WaitGroup
		for bot := range 2 {
			all.Go(func() {
				from := netip.AddrFrom4([4]byte{203, 0, 113, byte(bot)})
				for n := range 350 {
					if bots.Allow(t.Context(), Request{Event: "e", Call: []Call{Join, Issue, Poll, Browse}[n%4], Addr: from, Challenge: true}, rules).OK {
						let.Add(1)
					}
				}
			})
		}
		for person := range 60 {
			all.Go(func() {
				home := netip.AddrFrom4([4]byte{198, 51, byte(100 + person%8), byte(person / 8)})
				name := fmt.Sprint("person-", person)
				for _, req := range []Request{
					{Event: "e", Call: Join, Addr: home, Challenge: true},
					{Event: "e", Call: Poll, Person: name, Addr: home},
					{Event: "e", Call: Poll, Person: name, Addr: home},
					{Event: "e", Call: Booking, Person: name, Addr: home},
					{Event: "e", Call: Booking, Person: name, Addr: home},
				} {
					if crowd.Allow(t.Context(), req, rules).OK {
						served.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
		}
		all.Wait()
		require.Equal(t, int64(300), served.Load()+refused.Load())
		require.GreaterOrEqual(t, served.Load(), int64(297), "people succeed in 99 of 100 calls")
		cost := flood.take()
		require.Less(t, cost, 700, "less than one store call each")
		require.GreaterOrEqual(t, int64(cost), let.Load(), "whoever passed was counted in the store")
		t.Logf("people: %d of 300 served; flood: %d of 700 let through, %.2f store calls each", served.Load(), let.Load(), float64(cost)/700)
	})
}

// counted is another client of the same server, whose round trips are counted.
func counted(t *testing.T, rdb *redis.Client, n *trips) *redis.Client {
	t.Helper()
	own := redis.NewClient(rdb.Options())
	t.Cleanup(func() { _ = own.Close() })
	own.AddHook(n)
	return own
}
