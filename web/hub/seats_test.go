package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
)

// shelf is a map of which a test sells; version n is that after n changes. It forgets
// what is older than most, and a map may be behind by two changes.
type shelf struct {
	mu   sync.Mutex
	row  []ticket.Seat
	most int
}

func (s *shelf) sell(n int) (last int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.row = append(s.row, ticket.Seat{ID: fmt.Sprint("A-", len(s.row)+1), Status: ticket.SeatSold, Version: 2})
	}
	return len(s.row)
}

func (s *shelf) Step(context.Context, string) (ticket.Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ticket.Step{At: int64(len(s.row)), Version: strconv.Itoa(len(s.row))}, nil
}

func (s *shelf) At(_, version string) int64 {
	at, _ := strconv.ParseInt(version, 10, 64)
	return at
}

func (s *shelf) Changes(_ string, from, to int64) ticket.Delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from < 1 || to-from > int64(s.most) {
		return ticket.Delta{Reload: true, At: to - 2}
	}
	return ticket.Delta{At: to, Seats: s.row[from:to], Left: int64(1000 - len(s.row))}
}

// heardSeats is a seats message.
type heardSeats struct {
	Type    string        `json:"type"`
	Version string        `json:"version"`
	Reload  bool          `json:"reload"`
	Left    int64         `json:"seats_left"`
	Seats   []ticket.Seat `json:"seats"`
}

// seats is the next message about the map.
func (f *fan) seats() heardSeats {
	f.t.Helper()
	for {
		require.NoError(f.t, f.ws.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, data, err := f.ws.ReadMessage()
		require.NoError(f.t, err)
		var m heardSeats
		require.NoError(f.t, json.Unmarshal(data, &m))
		if m.Type == "seats" {
			return m
		}
	}
}

func startShop(t *testing.T, goods *shelf) (*node, func(name string, seq int) *fan) {
	t.Helper()
	st := newStage()
	cfg, deps := quick(), st.deps()
	cfg.SeatsEvery, cfg.SendBuffer, cfg.WriteTimeout = 10*time.Millisecond, 4<<10, time.Minute
	deps.Seats = goods
	n := startNode(t, cfg, deps)
	return n, func(name string, seq int) *fan {
		st.seat(seq, int64(seq))
		return dial(t, n, cookie(receiptOf(name, seq)))
	}
}

// Promise 13: whoever asks is told what changed since the version they have; whoever
// has none, or too old a one, reads the map once, and is told what it may lack.
func TestPromise13ChangesSinceAVersion(t *testing.T) {
	t.Parallel()
	goods := &shelf{most: 10}
	goods.sell(5)
	n, come := startShop(t, goods)
	ann := come("ann", 1)
	ann.say(`{"type":"seats","version":"3"}`)
	require.Equal(t, heardSeats{"seats", "5", false, 995, goods.row[3:5]}, ann.seats())
	goods.sell(1)
	require.Equal(t, heardSeats{"seats", "6", false, 994, goods.row[5:6]}, ann.seats())
	ann.say(`{"type":"seats","version":"6"}`)
	require.Equal(t, heardSeats{Type: "seats", Version: "6", Left: 994}, ann.seats(), "a word, though nothing changed")

	bob := come("bob", 2)
	bob.say(`{"type":"seats"}`)
	require.True(t, bob.seats().Reload)
	require.Equal(t, heardSeats{"seats", "6", false, 994, goods.row[4:6]}, bob.seats(), "of a moment ago, too")
	ann.say(`{"type":"seats","stop":true}`)
	ann.say(`{"type":"hello"}`)
	until(t, "ann to stop", func() bool { return n.rooms.get(concert).shoppers.Load() == 1 })
	goods.sell(11)
	require.True(t, bob.seats().Reload, "more than is remembered")
	require.Equal(t, goods.row[15:17], bob.seats().Seats)
	_ = bob.ws.Close()
	until(t, "bob to be gone", func() bool { return n.rooms.get(concert).shoppers.Load() == 0 })

	come("cem", 3)
	stranger := dial(t, n, nil)
	stranger.say(`{"type":"seats"}`)
	stranger.hello(receiptOf("cem", 3))
	stranger.wait("position")
	require.Zero(t, n.rooms.get(concert).shoppers.Load(), "who has not said hello is not told")
}

// follow takes in what f is told until it has the map of a version, and counts the
// messages. A map that is read is two changes behind.
func (s *shelf) follow(f *fan, begin, end int) (messages int) {
	have := make(map[string]bool)
	read := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, seat := range s.row[:n] {
			have[seat.ID] = true
		}
	}
	read(begin)
	for messages = 1; ; messages++ {
		m := f.seats()
		if m.Reload {
			now, _ := s.Step(f.t.Context(), "")
			read(int(now.At) - 2)
		}
		for _, seat := range m.Seats {
			have[seat.ID] = true
		}
		if m.Version == strconv.Itoa(end) {
			require.Len(f.t, have, end, "nothing was left out")
			return messages
		}
	}
}

// Promise 13: however much is sold, messages are gathered; who does not read has no
// queue, and is up to date with the next message or with the map.
func TestPromise13MessagesAreGathered(t *testing.T) {
	t.Parallel()
	const begin, end, step = 5, 20_005, 50
	goods := &shelf{most: 1000}
	goods.sell(begin)
	n, come := startShop(t, goods)
	ann, slow := come("ann", 1), come("slow", 2)
	require.NoError(t, slow.ws.NetConn().(*net.TCPConn).SetReadBuffer(4<<10))
	for _, f := range []*fan{ann, slow} {
		f.say(fmt.Sprintf(`{"type":"seats","version":"%d"}`, begin))
	}
	until(t, "both to be heard", func() bool { return n.rooms.get(concert).shoppers.Load() == 2 })
	began := time.Now()
	go func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for range (end - begin) / step {
			<-pace.C
			goods.sell(step)
		}
	}()
	told := goods.follow(ann, begin, end)
	most := int(time.Since(began)/(10*time.Millisecond)) + 2
	require.LessOrEqual(t, told, most, "a bounded number a second")
	require.Less(t, goods.follow(slow, begin, end), told/2+10, "what was not read was replaced")
}
