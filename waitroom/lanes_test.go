package waitroom

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// regions are three lanes of which the first has a rate of its own, the second a share,
// and the third what the others leave.
func regions(s *Settings) {
	own := 30.0
	s.RatePerS, s.MaxActive = 100, 60
	s.Lanes = []LaneSettings{{Name: "eu", RatePerS: &own}, {Name: "us", Share: 0.5, MaxActive: 40}, {Name: "asia"}}
}

// doc.go promise 22: where the event's rate is not enough for all, the first lane has it
// first; what it leaves goes to the next, and the position that is shown in the lower
// lane waits but never grows, however many join the higher.
func TestPromise22LowerLaneWaitsAndItsPositionsNeverGrow(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		e := open(t, l, func(s *Settings) {
			s.RatePerS = 100
			s.Lanes = []LaneSettings{{Name: "members"}, {Name: "public"}}
		})
		v := watch(t, l, nil)
		now := noon
		freeze(t, l, now)
		join := func(lane string, n int) []Place {
			groups, err := e.ChooseLane(lane, nil)
			require.NoError(t, err)
			places := make([]Place, n)
			for i := range places {
				places[i], err = l.Join(t.Context(), JoinRequest{Event: "e", Groups: groups})
				require.NoError(t, err)
			}
			return places
		}
		public := join("public", 50)
		least := make(map[EntryID]int64)
		shown := func() {
			level(t, v)
			for i, p := range public {
				pos, ok := v.Position("e", p.Seq)
				if !ok {
					continue
				}
				if before, told := least[p.Entry]; told {
					require.LessOrEqual(t, pos, before)
				} else {
					require.Equal(t, int64(i+1), pos, "it counts its own lane alone")
				}
				least[p.Entry] = pos
			}
		}
		shown()
		for tick := range 5 {
			join("members", 7)
			now = now.Add(100 * time.Millisecond)
			freeze(t, l, now)
			in := [2]int{}
			for lane := range in {
				p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 10, Lane: lane})
				require.NoError(t, err)
				in[lane] = len(p.Grants)
			}
			if tick > 0 {
				require.Equal(t, [2]int{7, 3}, in, "tick %d: the lower lane has what the higher leaves", tick)
			}
			shown()
		}
		ev, err := l.Event(t.Context(), "e")
		require.NoError(t, err)
		until(t, "the lanes' counts", func() bool {
			seen, err := v.Event(t.Context(), "e")
			return err == nil && seen.Waiting == ev.Waiting && slices.Equal(seen.LaneCounts, ev.LaneCounts)
		})
		require.Equal(t, ev.LaneCounts[1].Waiting, ev.WaitingWith(public[49].Seq))
	})
}

// doc.go promise 21: a store that lost a lane's places gets them back from the receipts,
// each in its lane, and gives no sequence twice.
func TestPromise21ReceiptsPutBackInTheirLane(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		e := open(t, l, regions)
		var places []Place
		for i := range 12 {
			p, err := l.Join(t.Context(), JoinRequest{Event: "e", Groups: []string{[]string{"eu", "us", "asia"}[i%3]}})
			require.NoError(t, err)
			places = append(places, p)
		}
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		other := testLineAs(t, rdb, l.cfg.Prefix) // that has seen nothing
		open(t, other, regions)
		p, err := other.Join(t.Context(), JoinRequest{Event: "e", Groups: []string{"us"}})
		require.NoError(t, err)
		for _, was := range slices.Backward(places) {
			back, err := other.Place(t.Context(), "e", was.Receipt)
			require.NoError(t, err)
			require.Equal(t, was.Seq, back.Seq)
			require.Greater(t, p.Seq, Seq(0))
			require.NotEqual(t, p.Seq, back.Seq)
		}
		late, err := other.Join(t.Context(), JoinRequest{Event: "e", Groups: []string{"us"}})
		require.NoError(t, err)
		for lane, name := range []string{"eu", "us", "asia"} {
			var want []EntryID
			for i := lane; i < len(places); i += 3 {
				want = append(want, places[i].Entry)
			}
			if name == "us" {
				want = append(want, p.Entry, late.Entry)
			}
			counts, err := other.Event(t.Context(), "e")
			require.NoError(t, err)
			require.Equal(t, int64(len(want)), counts.LaneCounts[lane].Waiting)
			got, err := other.Admit(t.Context(), "e", AdmitRequest{Count: 100, Lane: name, By: "test"})
			require.NoError(t, err)
			require.Equal(t, want, granted(got), "in %s", name)
			require.Equal(t, name, e.LaneOf(got[0].Seq))
		}
		_, err = other.Admit(t.Context(), "e", AdmitRequest{Count: 1, Lane: "moon", By: "test"})
		require.ErrorIs(t, err, ErrNoEntry)
	})
}

func TestLanesThatPromiseTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string][]FieldError{
		`"lanes":[{"name":"a","share":0.6},{"name":"b","share":0.6}]`:            {{"lanes[1].share", "makes the shares more than 1 in all"}},
		`"lanes":[{"name":"a","share":1.5}]`:                                     {{"lanes[0].share", "must be above 0 and at most 1"}},
		`"lanes":[{"name":"a","share":0.5,"rate_per_s":5}]`:                      {{"lanes[0].share", "give either this or rate_per_s"}},
		`"lanes":[{"name":"a","rate_per_s":-5}]`:                                 {{"lanes[0].rate_per_s", "must be 0 to 100000"}},
		`"lanes":[{"name":"a"},{"name":"a"}]`:                                    {{"lanes[1].name", "is there twice"}},
		`"lanes":[{"name":"a","max_active":-1}]`:                                 {{"lanes[0].max_active", "must be 0 to 100000000"}},
		`"lanes":[{"name":"a","load":{"law":"pid"}}]`:                            {{"lanes[0].load.law", "must be steps or target or none"}},
		`"lanes":[{"name":"a"}],"groups":[{"name":"g","codes":true}]`:            {{"groups[0].lane", "must be the name of one of the lanes"}},
		`"lanes":[{"name":"a"}],"groups":[{"name":"g","codes":true,"lane":"b"}]`: {{"groups[0].lane", "must be the name of one of the lanes"}},
		`"groups":[{"name":"g","codes":true,"lane":"b"}]`:                        {{"groups[0].lane", "the event has no lanes"}},
		`"mode":"buffered","lanes":[{"name":"a"}]`:                               {{"lanes", "are for mode queue"}},
		`"starts":{"usage":0.8},"lanes":[{"name":"a"}]`:                          {{"starts", "is for an event without lanes"}},
		`"order":"draw","lanes":[{"name":"a"}]`:                                  {{"lanes", "cannot be drawn: use order fifo"}},
	} {
		_, _, err := DecodeSettings([]byte(`{"id":"e",` + doc + `}`))
		wrong, ok := errors.AsType[*InvalidError](err)
		require.True(t, ok, "%s: %v", doc, err)
		require.Equal(t, want, wrong.Fields, doc)
	}
	l := testLine(t, redistest.Mini(t))
	open(t, l, regions)
	_, err := l.Patch(t.Context(), "e", []byte(`{"lanes":[{"name":"eu"}]}`), "test")
	require.ErrorContains(t, err, "lanes: their names and order cannot be changed")
	e, err := l.Patch(t.Context(), "e", []byte(`{"lanes":[{"name":"eu","rate_per_s":7},{"name":"us"},{"name":"asia"}]}`), "test")
	require.NoError(t, err)
	require.InDelta(t, 7, e.LaneCounts[0].RatePerS, 0)
}

// A lane that is paused lets nobody in, whoever asks and for how many, while people join
// it and the other lanes go on; afterwards its rate is what it was.
func TestAPausedLaneHoldsItsPeopleAlone(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Start(t, redistest.Config{}).Client(t))
	e := open(t, l, func(s *Settings) {
		s.RatePerS, s.Lanes = 1000, []LaneSettings{{Name: "members", Share: 0.5}, {Name: "public"}}
	})
	now := noon
	pause := func(on bool) {
		e, err := l.Patch(t.Context(), "e", fmt.Appendf(nil, `{"lanes":[{"name":"members","share":0.5,"paused":%t},{"name":"public"}]}`, on), "op")
		require.NoError(t, err)
		want := LaneCounts{Name: "members", RatePerS: 500, Waiting: e.LaneCounts[0].Waiting, Inside: e.LaneCounts[0].Inside}
		if on {
			want.RatePerS, want.Paused = 0, true
		}
		require.Equal(t, want, e.LaneCounts[0])
		require.InDelta(t, want.RatePerS, e.ForLane(0).RatePerS, 0)
	}
	in := func() (in [2]int) {
		now = now.Add(time.Second)
		freeze(t, l, now)
		for lane := range in {
			p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 3, Lane: lane})
			require.NoError(t, err)
			in[lane] = len(p.Grants)
		}
		return in
	}
	freeze(t, l, now)
	pause(true)
	for _, lane := range []string{"members", "public"} {
		for range 8 {
			groups, err := e.ChooseLane(lane, nil)
			require.NoError(t, err)
			_, err = l.Join(t.Context(), JoinRequest{Event: "e", Groups: groups})
			require.NoError(t, err)
		}
	}
	require.Equal(t, [2]int{0, 3}, in())
	require.Equal(t, [2]int{0, 3}, in())
	passes := func(on bool) {
		_, err := l.Patch(t.Context(), "e", fmt.Appendf(nil, `{"pass_through":%t}`, on), "op")
		require.NoError(t, err)
	}
	passes(true)
	for lane, want := range []int{0, 2} {
		p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 3, Lane: lane, Pass: true})
		require.NoError(t, err)
		require.Len(t, p.Grants, want, "lane %d, where everybody passes", lane)
	}
	passes(false)
	require.Equal(t, [2]int{0, 0}, in())
	pause(false)
	require.Equal(t, [2]int{3, 0}, in())
}

// Nor does the burst of an opening go by a pause, when the leader has not heard of it yet.
func TestNoBurstOpensAPausedLane(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Start(t, redistest.Config{}).Client(t))
	s := DefaultSettings("e")
	s.RatePerS, s.Burst, s.Lanes = 1000, 100, []LaneSettings{{Name: "members", Paused: true}, {Name: "public"}}
	e, err := l.Create(t.Context(), s, Lobby, "op")
	require.NoError(t, err)
	freeze(t, l, noon)
	groups, err := e.ChooseLane("members", nil)
	require.NoError(t, err)
	for range 8 {
		_, err = l.Join(t.Context(), JoinRequest{Event: "e", Groups: groups})
		require.NoError(t, err)
	}
	_, err = l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "op")
	require.NoError(t, err)
	freeze(t, l, noon.Add(100*time.Millisecond))
	p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 3})
	require.NoError(t, err)
	require.Empty(t, p.Grants)
}

// A code opens its lane as often as it may be used, and to whoever says it: who left the
// lane comes back into it by the code alone, and elsewhere without.
func TestPromise21WhoComesBackSaysTheirCodeAgain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		e := open(t, l, func(s *Settings) {
			s.Lanes = []LaneSettings{{Name: "members"}, {Name: "public"}}
			s.Groups = []GroupSettings{{Name: "club", Codes: true, Lane: "members"}, {Name: "all", Default: true, Lane: "public"}}
		})
		_, err := l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: "club", Codes: []string{"for-one-2345"}})
		require.NoError(t, err)
		_, err = l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: "club", Codes: []string{"for-two-2345"}, Uses: 2})
		require.NoError(t, err)
		join := func(was Place, code string) (Place, error) {
			if was.Receipt != "" {
				require.NoError(t, l.Leave(t.Context(), "e", was.Entry))
			}
			return l.Join(t.Context(), JoinRequest{Event: "e", Receipt: was.Receipt, Code: code, Groups: e.GroupsOf(nil)})
		}
		joined := func(was Place, code, lane string) Place {
			p, err := join(was, code)
			require.NoError(t, err)
			require.Equal(t, lane, e.LaneOf(p.Seq), "by %q", code)
			require.True(t, p.Created)
			return p
		}
		first := joined(Place{}, "for one 2345", "members")
		second := joined(first, "for-one-2345", "members")
		require.Equal(t, first.Entry, second.Entry, "it stays its holder's")
		third := joined(second, "", "public") // no code, no lane of its own
		fourth := joined(third, "FOR-ONE-2345", "members")
		require.NotEqual(t, first.Entry, fourth.Entry, "as somebody new, since a place ahead of an old one is no entry's")
		_, err = join(Place{}, "for-one-2345")
		require.NoError(t, err, "whoever has the code and nothing else is its holder")
		p, err := l.Place(t.Context(), "e", first.Receipt)
		require.NoError(t, err)
		require.Equal(t, EntryLeft, p.State, "an old receipt of the lane ahead brings nobody back")

		anybody := joined(Place{}, "", "public")
		anybody = joined(anybody, "for-two-2345", "members")
		anybody = joined(anybody, "", "public")
		anybody = joined(anybody, "for-two-2345", "members")
		_, err = join(anybody, "for-two-2345")
		require.Equal(t, UsedCode, why(t, err).Why, "each time is a use")
	})
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	l := testLine(t, rdb)
	e := open(t, l, func(s *Settings) {
		s.Identity, s.Lanes = "jwt", []LaneSettings{{Name: "members"}, {Name: "public"}}
		s.Groups = []GroupSettings{{Name: "club", Codes: true, Lane: "members"}, {Name: "all", Default: true, Lane: "public"}}
	})
	_, err := l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: "club", Codes: []string{"for-one-2345"}})
	require.NoError(t, err)
	for _, try := range []struct{ subject, code, lane string }{{"ann", "", "public"}, {"ann", "for-one-2345", "public"}, {"bob", "for-one-2345", "members"}, {"bob", "", "public"}} {
		p, err := l.Join(t.Context(), JoinRequest{Event: "e", Subject: try.subject, Code: try.code, Groups: e.GroupsOf(nil)})
		require.NoError(t, err, "%+v", try)
		require.Equal(t, try.lane, e.LaneOf(p.Seq), "%+v", try)
		require.NoError(t, l.Leave(t.Context(), "e", p.Entry))
	}
}
