package admission

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// reigns gives terms one after the other; each ends when it is told to.
type reigns struct{ over chan struct{} }

func (r *reigns) Run(ctx context.Context, lead func(context.Context, Term)) error {
	for fence := int64(1); ctx.Err() == nil; fence++ {
		term, end := context.WithCancel(ctx)
		go func() {
			select {
			case <-r.over:
			case <-term.Done():
			}
			end()
		}()
		lead(term, NewTerm(fence, 24*time.Hour))
		end()
	}
	return nil
}

// Whatever happens to the loop under law target, in any order: no second holds more
// than the cap, two ticks of rounding and change of term apart, which the store cuts
// off; two ticks after a signal became absurd, stale or hanging the rate is the floor;
// and another leader begins at most where the last one was, or at the law's beginning.
func TestLawTargetThroughFaults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			const highest, floor = 200.0, 2.0
			ev := free("a", highest)
			ev.Load.Law, ev.Load.Target, ev.Load.FloorPerS = "target", 0.75, floor
			line := newFakeLine(ev)
			var usage atomic.Value
			usage.Store(0.4)
			says := func(u float64, err error) func(context.Context, waitroom.Event) (Reading, error) {
				return func(context.Context, waitroom.Event) (Reading, error) { return Reading{Usage: u}, err }
			}
			good := func(context.Context, waitroom.Event) (Reading, error) {
				return Reading{Usage: usage.Load().(float64)}, nil
			}
			hang := func(ctx context.Context, _ waitroom.Event) (Reading, error) {
				<-ctx.Done()
				return Reading{}, ctx.Err()
			}
			source, terms := &fakeSource{usage: good}, &reigns{over: make(chan struct{})}
			c, err := New(Config{Node: "n"}, Deps{Line: line, Leadership: terms, Sources: []Source{source}, Log: zap.NewNop(), Metrics: prometheus.NewRegistry()})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = c.Run(ctx) }()
			defer func() { cancel(); <-done }()
			decided := func() Standing {
				d, ok := c.Decision("a")
				require.True(t, ok)
				return d
			}
			time.Sleep(time.Duration(rapid.IntRange(1, 200).Draw(rt, "begun")) * time.Second)
			for range rapid.IntRange(1, 12).Draw(rt, "faults") {
				switch rapid.IntRange(0, 4).Draw(rt, "fault") {
				case 0: // a signal that is none
					bad := []func(context.Context, waitroom.Event) (Reading, error){
						says(math.NaN(), nil), says(-1, nil), says(math.Inf(1), nil), says(0, errors.New("stale")), hang,
					}
					source.set(bad[rapid.IntRange(0, len(bad)-1).Draw(rt, "bad")])
					time.Sleep(2*DefaultTick + DefaultTick/2)
					if d := decided(); d.Reason != ReasonNotOpen {
						require.Equal(t, ReasonUnknown, d.Reason)
						require.LessOrEqual(t, d.RatePerS, floor)
					}
					time.Sleep(time.Duration(rapid.IntRange(0, 100).Draw(rt, "blind")) * time.Second)
					source.set(good)
				case 1: // another leader
					before := decided()
					terms.over <- struct{}{}
					time.Sleep(2*DefaultTick + DefaultTick/2)
					require.LessOrEqual(t, decided().RatePerS, max(floor, highest*first, before.RatePerS)*1.05)
				case 2: // the store's clock jumps
					ev.Now = ev.Now.Add(time.Duration(rapid.IntRange(-7200, 7200).Draw(rt, "jump")) * time.Second)
					line.set(ev)
				case 3: // an operator
					ev.State = rapid.SampledFrom([]waitroom.State{waitroom.Open, waitroom.Paused, waitroom.Draining}).Draw(rt, "state")
					ev.RatePerS = rapid.SampledFrom([]float64{0, 0.5, 20, highest}).Draw(rt, "rate")
					line.set(ev)
				case 4: // the load
					usage.Store(rapid.Float64Range(0, 1).Draw(rt, "usage"))
				}
				time.Sleep(time.Duration(rapid.IntRange(1, 50).Draw(rt, "ticks")) * DefaultTick)
			}
			taken := line.of("a")
			window, from := 0, 0
			for _, p := range taken {
				for window += p.n; taken[from].at <= p.at-time.Second; from++ {
					window -= taken[from].n
				}
				require.LessOrEqual(t, window, int(highest+2*highest/10), "at %v", p.at)
			}
		})
	})
}
