package waitroom

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Every move of every script, on a cluster of three masters, with events on all of
// them.
func TestLinesOnACluster(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Cluster(t))
	ctx := t.Context()
	for i := range 12 {
		s := DefaultSettings(EventID(fmt.Sprintf("event-%d", i)))
		s.Identity, s.MaxActive = "jwt", 10
		_, err := l.Create(ctx, s, Open, "op")
		require.NoError(t, err)
		id := s.ID
		var places []Place
		for j := range 9 {
			p, err := l.Join(ctx, JoinRequest{Event: id, Subject: fmt.Sprint(j)})
			require.NoError(t, err)
			places = append(places, p)
		}
		_, err = l.beat(ctx, id)
		require.NoError(t, err)
		require.NoError(t, l.Here(ctx, id, entries(places[:4])))
		require.NoError(t, l.Away(ctx, id, entries(places[:1]), entries(places[1:2])))
		pr, err := l.Promote(ctx, PromoteRequest{Event: id, Fence: 1, N: 2})
		require.NoError(t, err)
		require.NotEmpty(t, pr.Grants)
		g, err := l.Admit(ctx, id, AdmitRequest{Count: 3, By: "op"})
		require.NoError(t, err)
		require.Len(t, g, 3)
		_, err = l.Enter(ctx, id, passOf(g[0]))
		require.NoError(t, err)
		require.NoError(t, l.Complete(ctx, id, g[0].JTI))
		require.NoError(t, l.Revoke(ctx, id, g[1].JTI, "op"))
		require.NoError(t, l.Block(ctx, id, places[7].Entry, "op"))
		require.NoError(t, l.Leave(ctx, id, places[8].Entry))
		p, err := l.PlaceOf(ctx, id, "6")
		require.NoError(t, err)
		require.Equal(t, EntryWaiting, p.State)
		require.NoError(t, l.ShiftClock(ctx, id, time.Hour))
		_, err = l.Sweep(ctx, id)
		require.NoError(t, err)
		e, err := l.Patch(ctx, id, []byte(`{"state":"closed"}`), "op")
		require.NoError(t, err)
		require.Zero(t, e.Waiting+e.Inside)
	}
	events, err := l.Events(ctx)
	require.NoError(t, err)
	require.Len(t, events, 12)
	require.NoError(t, l.Delete(ctx, "event-3", "op"))
}
