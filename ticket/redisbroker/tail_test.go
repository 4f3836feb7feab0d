package redisbroker_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/redisbroker"
	"github.com/waitroom-dev/waitroom/ticket/relay"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

type heard struct {
	mu  sync.Mutex
	all []ticket.Outcome
}

func (h *heard) Outcome(o ticket.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, o)
}

func (h *heard) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func (h *heard) last() (o ticket.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) > 0 {
		o = h.all[len(h.all)-1]
	}
	return o
}

func outcome(n int) (relay.Message, ticket.Outcome) {
	o := ticket.Outcome{Event: "demo", Person: "p", ReservationID: fmt.Sprintf("r%d", n), Status: ticket.Paid}
	b, _ := json.Marshal(o)
	return relay.Message{DedupID: fmt.Sprintf("o%d", n), Event: "demo", Topic: ticket.TopicPaid, Key: o.ReservationID, Payload: b}, o
}

// Promise 6: every node sees every outcome from its start on, in order.
func TestEveryTailSeesEveryOutcome(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{})
		early, _ := outcome(999)
		require.Nil(t, p.Publish(t.Context(), []relay.Message{early}))
		tails := []*heard{{}, {}}
		for _, h := range tails {
			tail, err := redisbroker.NewTail(redisbroker.TailConfig{Block: 50 * time.Millisecond}, another(t, rdb), h, zap.NewNop(), prometheus.NewRegistry())
			require.NoError(t, err)
			running(t, tail.Run)
		}
		// A tail says nothing of its start; so outcomes are published until both heard one.
		n := 0
		for tails[0].len() == 0 || tails[1].len() == 0 {
			m, _ := outcome(n)
			require.Nil(t, p.Publish(t.Context(), []relay.Message{m}))
			n++
		}
		var want []ticket.Outcome
		ms := make([]relay.Message, 0, 101)
		for i := range 100 {
			m, o := outcome(n + i)
			ms, want = append(ms, m, message(n+i)), append(want, o)
		}
		ms = append(ms, relay.Message{DedupID: "bad", Topic: ticket.TopicPaid, Payload: []byte("{")})
		require.Nil(t, p.Publish(t.Context(), ms))
		for _, h := range tails {
			eventually(t, func() bool { return h.last() == want[99] })
			h.mu.Lock()
			require.Equal(t, want, h.all[len(h.all)-100:])
			require.NotContains(t, h.all, ticket.Outcome{ReservationID: "r999"})
			h.mu.Unlock()
		}
	})
}

// Promise 6, when the store lost its data and its clock was set back: the new log's
// ids are smaller than those the tail knows.
func TestTailFollowsANewLogWithAnOlderClock(t *testing.T) {
	t.Parallel()
	mr := miniredis.RunT(t)
	mr.SetTime(time.Now().Add(time.Hour))
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr(), Protocol: 2})
	defer func() { require.NoError(t, rdb.Close()) }()
	p := publisher(t, rdb, redisbroker.PublisherConfig{})
	h := &heard{}
	tail, err := redisbroker.NewTail(redisbroker.TailConfig{Block: 20 * time.Millisecond}, another(t, rdb), h, zap.NewNop(), nil)
	require.NoError(t, err)
	stop := running(t, tail.Run)
	for n := 0; h.len() == 0; n++ {
		m, _ := outcome(n)
		require.Nil(t, p.Publish(t.Context(), []relay.Message{m}))
	}
	mr.FlushAll() // and no call of the tail fails
	mr.SetTime(time.Now())
	m, want := outcome(5000)
	require.Nil(t, p.Publish(t.Context(), []relay.Message{m}))
	eventually(t, func() bool { return h.last() == want })
	stop()
}
