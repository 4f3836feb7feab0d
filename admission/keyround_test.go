package admission

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// doc.go promise 18: no step of a rotation is taken before every instance that runs is ready for it.
func TestNextKeys(t *testing.T) {
	t.Parallel()
	old := NewKeys()
	prepared, err := old.Prepared()
	require.NoError(t, err)
	rotated := prepared.Rotated()
	has := func(all ...*Keys) (holders []KeyHolder) {
		for _, k := range all {
			holders = append(holders, k.KIDs())
		}
		return holders
	}
	for name, c := range map[string]struct {
		keys    *Keys
		step    KeyStep
		running []KeyHolder
		refused string
	}{
		"prepare":                  {old, PrepareKeys, has(old, old), ""},
		"prepare twice":            {prepared, PrepareKeys, has(old), "the next keys are there already"},
		"rotate unprepared":        {old, RotateKeys, has(old, old), "none of 2 running instances has the next keys; prepare first"},
		"rotate one alone":         {old, RotateKeys, has(old), ""},
		"rotate with none running": {old, RotateKeys, nil, ""},
		"rotate too early":         {prepared, RotateKeys, has(prepared, old, prepared), "1 of 3 running instances have not taken the keys yet"},
		"rotate":                   {prepared, RotateKeys, has(prepared, prepared), ""},
		"retire prepared":          {prepared, RetireKeys, has(prepared), "the next keys are prepared; rotate first"},
		"retire too early":         {rotated, RetireKeys, has(rotated, prepared), "1 of 2 running instances have not taken the keys yet"},
		"retire":                   {rotated, RetireKeys, has(rotated, rotated), ""},
		"a step that is none":      {old, "undo", nil, `"undo" is no step of a rotation`},
	} {
		next, err := c.keys.next(c.step, c.running)
		if c.refused != "" {
			require.ErrorContains(t, err, c.refused, name)
			continue
		}
		require.NoError(t, err, name)
		require.False(t, next.equal(c.keys), name)
	}
	require.True(t, old.follows(prepared) && prepared.follows(old) && prepared.follows(rotated) && rotated.follows(prepared))
	require.False(t, old.follows(rotated), "which signs with what old does not know")
	require.False(t, old.follows(NewKeys()))
}

// doc.go promise 18 in the store: steps are counted from what instances say that they
// have, and only while they run.
func TestSharedKeysAreRotated(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		ctx := t.Context()
		_, err := ChangeShared(ctx, rdb, "x", PrepareKeys)
		require.ErrorContains(t, err, "the store holds none")
		holds := func(want int) {
			until(t, "as many say what they have", func() bool {
				holders, err := KeyHolders(ctx, rdb, "x")
				return err == nil && len(holders) == want
			})
		}
		start := func() (k *Keys, stop func()) {
			k, err := SharedKeys(ctx, rdb, "x")
			require.NoError(t, err)
			run, end := context.WithCancel(ctx)
			var wg sync.WaitGroup
			wg.Go(func() { _ = k.KeepShared(run, rdb, "x", zaptest.NewLogger(t)) })
			return k, func() { end(); wg.Wait() }
		}
		first, stop1 := start()
		_, stop2 := start()
		holds(2)
		step := func(s KeyStep) *Keys {
			t.Helper()
			k, err := ChangeShared(ctx, rdb, "x", s)
			require.NoError(t, err)
			stored, err := StoredKeys(ctx, rdb, "x")
			require.NoError(t, err)
			require.True(t, k.equal(stored))
			return k
		}
		tooEarly := func(s KeyStep, waiting, running int) {
			t.Helper()
			var notYet *NotYetError
			_, err := ChangeShared(ctx, rdb, "x", s)
			require.ErrorAs(t, err, &notYet)
			require.Equal(t, NotYetError{Step: s, Waiting: waiting, Running: running}, *notYet)
		}
		tooEarly(RotateKeys, 2, 2)
		prepared := step(PrepareKeys)
		require.Equal(t, first.KID(), prepared.KID())
		tooEarly(RotateKeys, 2, 2)
		stop1()
		holds(1)
		_, stop1 = start()
		holds(2)
		tooEarly(RotateKeys, 1, 2)
		stop2()
		_, stop2 = start()
		holds(2)
		rotated := step(RotateKeys)
		require.Equal(t, []string{prepared.KIDs()[1], first.KID()}, rotated.KIDs())
		tooEarly(RetireKeys, 2, 2)
		stop1()
		stop2()
		holds(0)
		require.Equal(t, rotated.KIDs()[:1], step(RetireKeys).KIDs())
	})
}
