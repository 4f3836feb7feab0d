package ticket

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pageMap is a map as a page keeps it: it takes in what has a higher version.
type pageMap map[string]Seat

func (p pageMap) take(seats []Seat) {
	for _, s := range seats {
		if s.Version >= p[s.ID].Version {
			p[s.ID] = s
		}
	}
}

func (p pageMap) read(h *hall) (etag string) {
	m, etag := h.show()
	for _, section := range m.Sections {
		p.take(section.Seats)
	}
	return etag
}

// Promise 23: whoever begins with any map of the last seconds, of this node or of one
// that is behind, and takes in the deltas, has the map that is read then.
func TestPromise23DeltasMakeTheMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		here, there := drawn("......\n......\n\n......"), drawn("......\n......\n\n......")
		lag := rapid.Bool().Draw(rt, "lag") // a short journal has not the time by which others may be behind
		here.journal.most = 400
		if !lag {
			here.journal.most = rapid.SampledFrom([]int{4, 20}).Draw(rt, "journal")
		}
		ids := slices.Sorted(maps.Keys(here.spots))
		var unheard []seatRow // by the other node
		page, at := pageMap{}, int64(0)
		read := func() {
			if lag && rapid.Bool().Draw(rt, "of the other node") {
				page.read(there)
				return
			}
			etag := page.read(here)
			if n := here.journal.at(strings.Trim(etag, `"`)); n > at && rapid.Bool().Draw(rt, "by its tag") {
				at = n
			}
		}
		hear := func() (reload bool) {
			d := here.changes(at, here.journal.tag(here.version, here.content, time.Now(), true), time.Now())
			at = d.At
			if d.Reload {
				read()
			}
			page.take(d.Seats)
			return d.Reload
		}
		read()
		for range rapid.IntRange(1, 40).Draw(rt, "moves") {
			switch rapid.IntRange(0, 5).Draw(rt, "move") {
			case 0, 1, 2:
				for range rapid.IntRange(1, 5).Draw(rt, "seats") {
					id := rapid.SampledFrom(ids).Draw(rt, "seat")
					status := rapid.SampledFrom([]SeatStatus{SeatFree, SeatHeld, SeatSold, SeatBlocked}).Draw(rt, "status")
					row := seatRow{id, status, here.spots[id].Version + 1}
					here.learn([]seatRow{row})
					unheard = append(unheard, row)
				}
			case 3:
				there.learn(unheard)
				unheard = nil
			default:
				hear()
			}
		}
		if hear() {
			require.False(rt, hear(), "one instruction, then deltas")
		}
		want := pageMap{}
		want.read(here)
		require.Equal(rt, want, page)
	})
}

// Promise 23: what is too old or too much is one instruction to read the map; what
// follows begins early enough for a map that is some seconds behind, and is no more
// than a delta may be.
func TestPromise23TooMuchIsOneInstruction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := drawn(strings.Repeat(strings.Repeat(".", 50)+"\n", 40))
		begin := h.journal.tag(h.version, h.content, time.Now(), true)
		_, etag := h.show()
		sell := func(from, to int) int64 {
			for n := from; n < to; n++ {
				id := fmt.Sprintf("A%d-%d", n/50+1, n%50+1)
				h.learn([]seatRow{{id, SeatSold, h.spots[id].Version + 1}})
			}
			return h.journal.next
		}
		require.Len(t, h.changes(begin, sell(0, 1000), time.Now()).Seats, 1000)
		d := h.changes(begin, sell(1000, 1001), time.Now())
		require.True(t, d.Reload && len(d.Seats) == 0)
		require.EqualValues(t, 999, d.Left)
		d = h.changes(d.At, h.journal.next, time.Now())
		require.Len(t, d.Seats, 500, "no more than there is room for beside what comes next")
		require.False(t, d.Reload)

		time.Sleep(7 * time.Second)
		sell(1001, 1003)
		time.Sleep(4 * time.Second)
		d = h.changes(0, sell(1003, 1004), time.Now())
		require.True(t, d.Reload)
		require.Len(t, h.changes(d.At, h.journal.next, time.Now()).Seats, 3, "those of the last ten seconds")
		require.Equal(t, begin, h.journal.at(strings.Trim(etag, `"`)))
		for range 4 {
			sell(0, 1000)
		}
		require.Zero(t, h.journal.at(strings.Trim(etag, `"`)), "a moment that was left behind")
		h.journal.cut() // another catalogue
		require.True(t, h.changes(h.journal.next-1, h.journal.next, time.Now()).Reload)
	})
}
