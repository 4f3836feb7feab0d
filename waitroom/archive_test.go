package waitroom

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 11: whoever takes from the archive and dies leaves it to the others, and
// what is filed is gone.
func TestPromise11Archive(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			other := testLineAs(t, rdb, l.cfg.Prefix)
			ctx := t.Context()
			instant(t, l, 3, nil)
			var want []Given
			for range 3 {
				got := issue(t, l, "")
				want = append(want, Given{Grant: got.Grant, Rank: got.Rank})
			}
			ids, err := l.Archives(ctx)
			require.NoError(t, err)
			require.Equal(t, []EventID{"e"}, ids)
			first, err := l.Unfiled(ctx, "e", 2, time.Hour)
			require.NoError(t, err)
			require.Equal(t, want[:2], first.Given)
			second, err := other.Unfiled(ctx, "e", 2, time.Hour)
			require.NoError(t, err)
			require.Equal(t, want[2:], second.Given, "each record goes to one")
			taken, err := other.Unfiled(ctx, "e", 10, 0)
			require.NoError(t, err)
			require.Equal(t, want, taken.Given, "and to another when it is not filed")
			require.NoError(t, other.Filed(ctx, "e", taken.Records))
			require.NoError(t, l.Filed(ctx, "e", first.Records), "harmless when repeated")
			n, err := rdb.XLen(ctx, l.keys.archive("e")).Result()
			require.NoError(t, err)
			require.Zero(t, n)

			// A deleted event's last tokens are filed before its name is forgotten.
			require.NoError(t, l.Leave(ctx, "e", want[0].Entry))
			issue(t, l, "")
			require.NoError(t, l.Delete(ctx, "e", "op"))
			last, err := l.Unfiled(ctx, "e", 10, 0)
			require.NoError(t, err)
			require.Len(t, last.Given, 1)
			require.NoError(t, l.Filed(ctx, "e", last.Records))
			_, err = l.Unfiled(ctx, "e", 10, 0)
			require.NoError(t, err)
			ids, err = l.Archives(ctx)
			require.NoError(t, err)
			require.Empty(t, ids)
		})
	}
}

// A full archive gives out nothing that could not be kept.
func TestFullArchiveGivesOutNothing(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	instant(t, l, 5, nil)
	a := issue(t, l, "")
	args := func(c joinCall) []any { return []any{newID(), 0, 1, c.arg()} }
	c := l.whoJoins(JoinRequest{Event: "e"})
	r, err := l.call(t.Context(), scriptIssue, "e", []string{l.keys.issued("e"), l.keys.archive("e")}, args(c)...)
	require.NoError(t, err)
	require.Equal(t, []string{"behind"}, r.rest)
	_, err = parseIssued("e", c.entry, placeReply(r.rest[0]))
	require.ErrorIs(t, err, ErrBusy)
	r, err = l.call(t.Context(), scriptIssue, "e", []string{l.keys.issued("e"), l.keys.archive("e")},
		args(l.whoJoins(JoinRequest{Event: "e", Receipt: a.Receipt}))...)
	require.NoError(t, err)
	require.Regexp(t, "^a 1 ", r.rest[0], "whoever has one is told so")
}
