package waitroom

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// An operator's request may be sent again long after the leader's ticks of since.
func TestAdmitSentAgainAfterManyTicks(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, nil)
		joinN(t, l, 40)
		req := AdmitRequest{RequestID: "r1", Count: 3, By: "op"}
		first, err := l.Admit(t.Context(), "e", req)
		require.NoError(t, err)
		require.Len(t, first, 3)
		for range 20 {
			shift(t, l, time.Second)
			require.Len(t, promote(t, l, 1).Grants, 1)
		}
		again, err := l.Admit(t.Context(), "e", req)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
}

// A request id may be used again when the store has forgotten it; a jti never is.
func TestRequestIDsMakeNoJTITwice(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, nil)
		joinN(t, l, 80)
		jtis := make(map[string]bool)
		for i := range 70 {
			g, err := l.Admit(t.Context(), "e", AdmitRequest{RequestID: "r" + strconv.Itoa(i%35), Count: 1, By: "op"})
			require.NoError(t, err)
			require.Len(t, g, 1)
			require.False(t, jtis[g[0].JTI], "jti %s of request %d was given before", g[0].JTI, i)
			jtis[g[0].JTI] = true
		}
	})
}

// A grant whose claim time is over is nothing to answer an operator with.
func TestAdmitOfAnExpiredGrant(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, func(s *Settings) { s.ClaimTTL = Duration(time.Minute) })
		p := joinN(t, l, 1)[0]
		require.Len(t, promote(t, l, 1).Grants, 1)
		shift(t, l, 2*time.Minute)
		_, err := l.Admit(t.Context(), "e", AdmitRequest{Entry: p.Entry, By: "op"})
		require.ErrorIs(t, err, ErrNoEntry)
		require.Equal(t, EntryExpired, state(t, l, p))
	})
}

// Promise 9: a large burst comes in several calls.
func TestPromise9LargeBurstsAreBounded(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	l := testLine(t, rdb)
	s := DefaultSettings("e")
	opens := time.Now().UTC().Truncate(time.Millisecond).Add(time.Hour)
	lobby := opens.Add(-2 * time.Hour)
	s.LobbyOpensAt, s.OpensAt, s.Burst, s.Grace = &lobby, &opens, mostGrants+1000, Duration(24*time.Hour)
	_, err := l.Create(t.Context(), s, "", "test")
	require.NoError(t, err)
	crowd(t, l, mostGrants+2000)
	freeze(t, l, opens.Add(10*time.Millisecond))
	require.Equal(t, mostGrants, len(promote(t, l, 1).Grants)) //nolint:testifylint // Len would print them all
	freeze(t, l, opens.Add(110*time.Millisecond))
	p := promote(t, l, 1)
	require.InDelta(t, 1001, len(p.Grants), 1)
	freeze(t, l, opens.Add(210*time.Millisecond))
	require.LessOrEqual(t, len(promote(t, l, 1).Grants), 1)
}
