package hub

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// In an event with lanes everybody hears of their own: its name, its rate, how many wait
// in it. A sequence of no lane takes nobody down.
func TestPositionsAreOfTheOwnLane(t *testing.T) {
	t.Parallel()
	const span = 1 << 49
	s := newStage()
	ev := s.events[concert]
	ev.Lanes = []waitroom.LaneSettings{{Name: "members"}, {Name: "public"}}
	ev.LaneCounts = []waitroom.LaneCounts{{Name: "members", RatePerS: 8, Waiting: 30}, {Name: "public", RatePerS: 2, Waiting: 970}}
	s.events[concert] = ev
	n := startNode(t, quick(), s.deps())
	for i, want := range []struct {
		seq int
		msg said
	}{
		{5, said{Lane: "members", RatePerS: 8, Waiting: 30}},
		{span + 5, said{Lane: "public", RatePerS: 2, Waiting: 970}},
		{7*span + 5, said{Lane: "public", RatePerS: 2, Waiting: 1000}},
	} {
		s.seat(want.seq, 3)
		f := dial(t, n, http.Header{"Cookie": {"place=" + receiptOf(fmt.Sprint("ann", i), want.seq)}})
		got := f.wait("position")
		require.Equal(t, want.msg, said{Lane: got.Lane, RatePerS: got.RatePerS, Waiting: got.Waiting}, "sequence %d", want.seq)
	}
}
