package ticket

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawn makes a hall from rows of '.' (free), 'x' (sold), 'w' (a free wheelchair
// place) and 'c' (the seat of the last one's companion); a blank line begins another
// section.
func drawn(plan string) *hall {
	in := intake{version: 1}
	section, row, ord, place := 'A', 0, int64(0), ""
	in.sections = append(in.sections, &block{Section: Section{ID: "A"}})
	for line := range strings.Lines(plan) {
		line = strings.TrimSpace(line)
		if line == "" {
			section, row = section+1, 0
			in.sections = append(in.sections, &block{Section: Section{ID: string(section)}})
			continue
		}
		row++
		for i, c := range line {
			ord++
			seat := seatPlace{
				seatRow: seatRow{fmt.Sprintf("%c%d-%d", section, row, i+1), SeatFree, 1},
				section: string(section), row: fmt.Sprint(row), number: i + 1, ord: ord,
			}
			switch c {
			case 'x':
				seat.status = SeatSold
			case 'w':
				seat.kind, place = SeatWheelchair, seat.id
			case 'c':
				seat.kind, seat.companionOf = SeatCompanion, place
			}
			in.seats = append(in.seats, seat)
		}
	}
	h := &hall{}
	h.build(in)
	return h
}

func TestPickIsTheBestAvailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, plan string
		n         int
		want      string
	}{
		{"the middle of the first row", ".......\n.......", 3, "A1-3 A1-4 A1-5"},
		{"the first row with room side by side", ".x.x.x.\n......x", 2, "A2-3 A2-4"},
		{"another section rather than apart", ".x.x\n\n....", 2, "B1-1 B1-2"},
		{"nobody alone rather than the middle", ".....", 2, "A1-1 A1-2"},
		{"alone if it must be", "...", 2, "A1-1 A1-2"},
		{"apart, in one section if it has enough", "x.xx\n\n.x.x", 2, "B1-1 B1-3"},
		{"apart, anywhere", "x.xx\n\nxx.x", 2, "A1-2 B1-3"},
		{"not so many", "x.xx\n\nxx.x", 3, ""},
	} {
		h := drawn(c.plan)
		got := h.pick(wish{n: c.n}, nil)
		require.Equal(t, c.want, strings.Join(got, " "), c.why)
		if c.want != "" {
			again := h.pick(wish{n: c.n}, nil)
			for _, id := range again {
				require.NotContains(t, got, id, "picked ones are not picked again: %s", c.why)
			}
			h.unpick(got)
			h.unpick(again)
			require.Equal(t, got, h.pick(wish{n: c.n}, nil), c.why)
		}
	}
	h := drawn(".......")
	require.Equal(t, []string{"A1-1"}, h.pick(wish{n: 1}, map[string]bool{"A1-1": true}), "only among those that are locked")
	require.Empty(t, h.claim([]string{"A1-1"}), "marked already")
	require.Equal(t, []string{"A1-2"}, h.claim([]string{"A1-1", "A1-2"}))
}

func TestPickGivesWheelchairPlacesWhenAskedOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, plan string
		w         wish
		want      string
	}{
		{"nobody else gets them", "wc.wcc.\n..", wish{n: 2}, "A2-1 A2-2"},
		{"also not apart", "wc.wcc.", wish{n: 2}, "A1-3 A1-7"},
		{"not even the last", "wc", wish{n: 1}, ""},
		{"the place alone", "wc.wcc.", wish{n: 1, wheelchair: true}, "A1-1"},
		{"with its companion", "wc.wcc.", wish{n: 2, wheelchair: true}, "A1-1 A1-2"},
		{"where there are enough companions", "wc.wcc.", wish{n: 3, wheelchair: true}, "A1-4 A1-5 A1-6"},
		{"never with another's", "wc.wc", wish{n: 3, wheelchair: true}, ""},
		{"in a section", "....\n\n....", wish{n: 2, section: "B"}, "B1-1 B1-2"},
		{"apart in a section", "....\n\n.x.x", wish{n: 2, section: "B"}, "B1-1 B1-3"},
		{"only in that section", "....\n\n.xxx", wish{n: 2, section: "B"}, ""},
		{"a wheelchair place in a section", "wc\n\n.wc", wish{n: 2, section: "B", wheelchair: true}, "B1-2 B1-3"},
	} {
		require.Equal(t, c.want, strings.Join(drawn(c.plan).pick(c.w, nil), " "), c.why)
	}
	h := drawn("wc.wcc.")
	_, alone := h.alone([]string{"A1-2", "A1-1"})
	require.False(t, alone)
	id, alone := h.alone([]string{"A1-1", "A1-5", "A1-6"})
	require.True(t, alone, "another's wheelchair place does not count")
	require.Equal(t, "A1-5", id)
}

// The sums that the hall keeps equal a recount, in any order of news and picks; two
// halls that learned the same have the same ETag, and no two contents share one.
func TestHallSumsEqualARecount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h, other := drawn("....\n.wc.\n\n......"), drawn("....\n.wc.\n\n......")
		h.event, other.event = "e", "e"
		all := slices.Sorted(maps.Keys(h.spots)) // the same seats for the same seed
		seat := rapid.IntRange(0, len(all)-1)
		var news []seatRow
		var picked [][]string
		etags := map[string]string{}
		rt.Repeat(map[string]func(*rapid.T){
			"learn": func(rt *rapid.T) {
				id := all[seat.Draw(rt, "seat")]
				r := seatRow{id, rapid.SampledFrom([]SeatStatus{SeatFree, SeatHeld, SeatSold, SeatBlocked}).Draw(rt, "status"), h.spots[id].Version + 1}
				h.learn([]seatRow{r})
				news = append(news, r)
			},
			"learn late": func(rt *rapid.T) {
				id := all[seat.Draw(rt, "seat")]
				before := h.spots[id].Seat
				h.learn([]seatRow{{id, SeatFree, before.Version}})
				require.Equal(rt, before, h.spots[id].Seat)
			},
			"pick": func(rt *rapid.T) {
				if ids := h.pick(wish{n: rapid.IntRange(1, 3).Draw(rt, "n")}, nil); len(ids) > 0 {
					picked = append(picked, ids)
				}
			},
			"unpick": func(rt *rapid.T) {
				if len(picked) > 0 {
					h.unpick(picked[0])
					picked = picked[1:]
				}
			},
			"": func(rt *rapid.T) {
				m, etag := h.show()
				content := fmt.Sprint(m.Sections)
				if was, ok := etags[etag]; ok {
					require.Equal(rt, was, content, "whoever has this ETag has this")
				}
				etags[etag] = content
				var free int64
				for _, s := range m.Sections {
					for _, seat := range s.Seats {
						require.Equal(rt, h.spots[seat.ID].Seat, seat)
						if seat.Status == SeatFree {
							free++
						}
					}
				}
				require.Equal(rt, free, m.Left)
				require.Equal(rt, free, h.left())
				for _, b := range h.blocks {
					for _, row := range b.benches {
						open := 0
						for i := range row.spots {
							if row.spots[i].usual() {
								open++
							}
						}
						require.Equal(rt, open, row.open)
					}
				}
			},
		})
		for _, r := range slices.Backward(news) {
			other.learn([]seatRow{r})
		}
		_, etag := h.show()
		_, same := other.show()
		require.Equal(rt, etag, same, "whatever the order")
	})
}
