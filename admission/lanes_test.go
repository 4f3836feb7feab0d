package admission

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// doc.go promise 17: each lane is decided on by its own rate, law and signal, in the order of the settings.
func TestLanesAreDecidedOnOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ev := free("a", 100)
		rate := 20.0
		own := waitroom.LoadSettings{Law: "steps", Steps: []waitroom.LoadStep{{At: 0.9}}, FloorPerS: 1, StaleAfter: waitroom.Duration(3 * time.Second)}
		ev.Lanes = []waitroom.LaneSettings{{Name: "eu", RatePerS: &rate, Load: &own}, {Name: "us", Share: 0.5, Load: &own}, {Name: "rest"}}
		ev.Load.Law = "none"
		for _, l := range ev.Lanes {
			ev.LaneCounts = append(ev.LaneCounts, waitroom.LaneCounts{Name: l.Name, Waiting: 1000})
		}
		line, source := newFakeLine(ev), &fakeSource{}
		usage := func(us float64) {
			source.set(func(_ context.Context, ev waitroom.Event) (Reading, error) {
				switch ev.Lane {
				case "eu":
					return Reading{Usage: 0.5, At: time.Now()}, nil
				case "us":
					return Reading{Usage: us, At: time.Now()}, nil
				default:
					return Reading{}, ErrNoSignal
				}
			})
		}
		usage(0.2)
		c := start(t, line, &terms{trusted: time.Hour}, source)
		asked := func(d time.Duration) (n [3]int) {
			before := len(line.of("a"))
			time.Sleep(d)
			var last promoted
			for i, p := range line.of("a")[before:] {
				n[p.lane] += p.n
				if i > 0 && p.at == last.at {
					require.Greater(t, p.lane, last.lane, "within a tick in the order of the settings")
				}
				last = p
			}
			return n
		}
		asked(10*time.Second + 50*time.Millisecond) // the law climbs to its rate
		require.Equal(t, [3]int{20, 50, 100}, asked(time.Second))
		usage(0.95)
		asked(2 * DefaultTick)
		require.Equal(t, [3]int{20, 0, 100}, asked(time.Second), "a lane that is full stops alone")
		s, ok := c.Decision("a")
		require.True(t, ok)
		require.Equal(t, ReasonBusy, s.Reason, "the event says what holds its busiest lane")
		require.InDelta(t, 0.95, s.Usage, 0)
		require.Equal(t, []string{"eu", "us", "rest"}, []string{s.Lanes[0].Lane, s.Lanes[1].Lane, s.Lanes[2].Lane})
		require.Zero(t, s.Lanes[1].RatePerS)
		require.InDelta(t, 20, s.Lanes[0].RatePerS, 0)

		source.set(func(_ context.Context, ev waitroom.Event) (Reading, error) {
			if ev.Lane == "eu" {
				return Reading{Usage: math.NaN(), At: time.Now()}, errors.New("away")
			}
			return Reading{Usage: 0.2, At: time.Now()}, nil
		})
		asked(10 * time.Second)
		require.Equal(t, [3]int{1, 50, 100}, asked(time.Second), "one that cannot be known goes at its floor")
		c.stop()
	})
}
