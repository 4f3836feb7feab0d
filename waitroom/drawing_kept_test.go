package waitroom

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// keepAndLose keeps an event's draw as a file would, and gives a line on a new store.
func keepAndLose(t *testing.T, l *Line) (*Line, KeptDraw) {
	t.Helper()
	ev, err := l.Event(t.Context(), "e")
	require.NoError(t, err)
	kept, err := l.KeepDraw(t.Context(), ev)
	require.NoError(t, err)
	text, err := json.Marshal(kept)
	require.NoError(t, err)
	var read KeptDraw
	require.NoError(t, json.Unmarshal(text, &read))
	return testLineAs(t, redistest.Mini(t), l.cfg.Prefix), read
}

// doc.go promise 13, over the end of a store that keeps nothing: the draw that was
// published is the one that counts, for whoever comes back, in whatever order and
// however late, also while it is being done again.
func TestPromise13ADrawOutlivesItsStore(t *testing.T) {
	t.Parallel()
	before := testLine(t, redistest.Mini(t))
	made := lobby(t, before, func(s *Settings) { s.Burst = 5 })
	drawers(t, 1, before, nil)
	early := joinMany(t, before, 40)
	_, err := before.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
	require.NoError(t, err)
	drawn := drawnOpen(t, before)
	late := joinN(t, before, 2)
	want, err := before.Bundle(t.Context(), drawn)
	require.NoError(t, err)

	l, kept := keepAndLose(t, before)
	require.True(t, kept.Listed())
	back, err := l.Recreate(t.Context(), made.Settings, Lobby, kept, "test")
	require.NoError(t, err)
	require.Equal(t, Lobby, back.State)
	comes := func(p Place) {
		_, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: p.Receipt})
		require.NoError(t, err)
	}
	fresh := joinN(t, l, 1)
	rand.Shuffle(len(early), func(i, j int) { early[i], early[j] = early[j], early[i] })
	for _, p := range early[:15] {
		comes(p)
	}
	comes(late[1])
	drawers(t, 2, l, nil)
	again := drawnOpen(t, l)
	require.Equal(t, drawn.Draw, again.Draw, "nothing that was published is another now")
	got, err := l.Bundle(t.Context(), again)
	require.NoError(t, err)
	require.NoError(t, got.Verify())
	require.Equal(t, want, got)
	for _, p := range early[15:38] { // two never come back
		comes(p)
	}
	comes(late[0])

	places := make(map[draw.Hash]EntryID)
	for _, p := range early[:38] {
		places[draw.Leaf("e", string(p.Entry))] = p.Entry
	}
	var line []EntryID
	for _, leaf := range want.Line {
		if entry, ok := places[leaf]; ok {
			line = append(line, entry)
		}
	}
	line = append(line, late[0].Entry, late[1].Entry, fresh[0].Entry)
	v := watch(t, l, nil)
	until(t, "the line is known", func() bool {
		p, err := l.Place(t.Context(), "e", fresh[0].Receipt)
		require.NoError(t, err)
		pos, ok := v.Position("e", p.Seq)
		return ok && pos == int64(len(line))
	})
	var in []EntryID
	for _, g := range promote(t, l, 100).Grants {
		in = append(in, g.Entry)
	}
	require.Equal(t, line, in, "those of the draw by the draw, then who came later")
	require.EqualValues(t, 0, l.rdb.HGet(t.Context(), l.keys.meta("e"), "burst_left").Val()[0]-'0', "its burst came once")
}

// Before the list is published the lobby goes on, under the same commitment; after it,
// the draw waits for its beacon as before.
func TestPromise13ALobbyOutlivesItsStore(t *testing.T) {
	t.Parallel()
	before := testLine(t, redistest.Mini(t))
	made := lobby(t, before, func(s *Settings) {
		s.Beacon = BeaconSettings{URL: "https://beacon.example", Wait: Duration(10 * time.Minute)}
	})
	early := joinN(t, before, 10)
	l, kept := keepAndLose(t, before)
	require.False(t, kept.Listed())
	back, err := l.Recreate(t.Context(), made.Settings, Lobby, kept, "test")
	require.NoError(t, err)
	require.Equal(t, made.Draw, back.Draw, "the commitment is the one that people have seen")
	for _, p := range early {
		now, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: p.Receipt})
		require.NoError(t, err)
		require.Equal(t, EntryLobby, now.State)
	}
	beacon := &fakeBeacon{}
	drawers(t, 1, l, beacon)
	_, err = l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
	require.NoError(t, err)
	var waits Event
	until(t, "the list is published", func() bool {
		waits, err = l.Event(t.Context(), "e")
		require.NoError(t, err)
		return waits.Draw.Root != nil
	})

	last, kept := keepAndLose(t, l)
	back, err = last.Recreate(t.Context(), made.Settings, Lobby, kept, "test")
	require.NoError(t, err)
	require.Equal(t, waits.Draw, back.Draw)
	require.Equal(t, 10, back.Draw.Size)
	drawers(t, 1, last, beacon)
	beacon.out.Store(true)
	end := drawnOpen(t, last)
	require.NotNil(t, end.Draw.Beacon)
	b, err := last.Bundle(t.Context(), end)
	require.NoError(t, err)
	require.NoError(t, b.Verify())
}

// A store that lost the lobby, and nobody kept it: whoever comes back before the draw is
// in it, and whoever comes back later stands behind it, as any latecomer.
func TestPromise13WhoMissesTheDrawAfterALossStandsBehind(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			made := lobby(t, l, nil)
			early := joinN(t, l, 3)
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			_, err := l.Create(t.Context(), made.Settings, Lobby, "test")
			require.NoError(t, err)
			back, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: early[2].Receipt})
			require.NoError(t, err)
			require.Equal(t, EntryLobby, back.State)
			drawers(t, 1, l, nil)
			_, err = l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
			require.NoError(t, err)
			require.Equal(t, 1, drawnOpen(t, l).Draw.Size)
			_, err = l.Place(t.Context(), "e", early[0].Receipt)
			require.ErrorIs(t, err, ErrNoEntry)
			late, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: early[0].Receipt})
			require.NoError(t, err)
			require.True(t, late.Created)
			var in []EntryID
			for _, g := range promote(t, l, 100).Grants {
				in = append(in, g.Entry)
			}
			require.Equal(t, []EntryID{back.Entry, late.Entry}, in)
		})
	}
}
