package simulate

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/deploy/events"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// concert is an event of so many people with the target law.
func concert(people int) Config {
	s := waitroom.DefaultSettings("concert")
	s.RatePerS = 200
	s.Load.Law = "target"
	return Config{
		Settings: s, Seed: 7, Stock: 5000,
		Crowd: events.Crowd{
			People: people, Over: 5 * time.Minute, Shape: "burst", Early: 10 * time.Second,
			Pool: 40, Purchase: 2 * time.Second, Look: 15 * time.Second, NoShows: 0.2, Buy: 0.7,
		},
	}
}

func played(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Run(c)
	require.NoError(t, err)
	return r
}

// Promise 3: nobody is counted twice or not at all.
func TestEverybodyIsAccountedFor(t *testing.T) {
	t.Parallel()
	for _, stock := range []int{0, 300, 5000} {
		c := concert(8000)
		c.Stock = stock
		r := played(t, c)
		require.Equal(t, 8000, r.People)
		require.Equal(t, r.People, r.Admitted+r.StillWaiting+r.TurnedAway)
		require.Equal(t, r.Admitted, r.Entered+r.NoShows)
		require.Equal(t, r.Entered, r.Bought+r.Left+r.SoldOutFor)
		if stock == 300 {
			require.Equal(t, stock, r.Bought)
			require.NotNil(t, r.SoldOutS)
			require.Positive(t, r.StillWaiting)
		}
	}
}

// Promise 2: the same bytes for the same seed, on any number of cores, and others
// for another.
func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	text := func(c Config) string {
		var b bytes.Buffer
		require.NoError(t, WriteJSON(&b, played(t, c)))
		return b.String()
	}
	c := concert(3000)
	first := text(c)
	before := runtime.GOMAXPROCS(1)
	one := text(c)
	runtime.GOMAXPROCS(before)
	require.Equal(t, first, one)
	c.Seed++
	require.NotEqual(t, first, text(c))
}

// Promise 4: the real law keeps the pool at its target, people by people.
func TestTheTargetIsKeptWithPeople(t *testing.T) {
	t.Parallel()
	c := concert(400_000)
	c.Settings.RatePerS, c.Crowd.Pool, c.Stock = 1000, 800, 0
	r := played(t, c)
	near, all := 0, 0
	for i, u := range r.Series.Usage {
		if at := float64(i) * r.Series.StepS; at > 330 && r.Series.Waiting[i] > 1000 {
			all++
			if u >= 0.65 && u <= 0.85 {
				near++
			}
		}
	}
	require.Greater(t, all, 100)
	require.GreaterOrEqual(t, float64(near)/float64(all), 0.9)
	require.Less(t, r.OverS, 30.0)
}

func TestWrongConfigsAreNamed(t *testing.T) {
	t.Parallel()
	c := concert(0)
	c.Crowd.Purchase, c.Crowd.Shape, c.Crowd.Buy = 0, "wave", 2
	_, err := Run(c)
	for _, field := range []string{"people", "purchase", "shape", "buy"} {
		require.ErrorContains(t, err, field+": must be")
	}
}

func TestArrivalsAreRead(t *testing.T) {
	t.Parallel()
	got, err := ReadArrivals(strings.NewReader("time,people\n5,2\n3.5\n7,0\n"))
	require.NoError(t, err)
	require.Equal(t, []time.Duration{0, 1500 * time.Millisecond, 1500 * time.Millisecond}, got)
	got, err = ReadArrivals(strings.NewReader("2026-05-01T18:00:00Z\n2026-05-01T18:00:02Z,3\n"))
	require.NoError(t, err)
	require.Len(t, got, 4)
	require.Equal(t, 2*time.Second, got[3])
	for _, bad := range []string{"", "time\n", "1\nnever\n", "1,-2\n", "1,99999999999\n"} {
		_, err := ReadArrivals(strings.NewReader(bad))
		require.Error(t, err, bad)
	}
}

func TestAPlanAnswersTheOperator(t *testing.T) {
	t.Parallel()
	n := Need{Pool: 40, Purchase: 12 * time.Second, Target: 0.75, Buy: 1}
	p, err := MakePlan(n, 5*time.Minute)
	require.NoError(t, err)
	require.InDelta(t, 2.5, p.RatePerS, 1e-9)
	n.NoShows, n.Buy = 0.5, 0.5
	p, err = MakePlan(n, 5*time.Minute)
	require.NoError(t, err)
	require.InDelta(t, 10, p.RatePerS, 1e-9)
	var b strings.Builder
	require.NoError(t, p.Write(&b, n))
	require.Contains(t, b.String(), "rate_per_s: 10")
	n.Target = 2
	_, err = MakePlan(n, 0)
	require.ErrorContains(t, err, "target")
}
