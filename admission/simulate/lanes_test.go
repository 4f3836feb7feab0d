package simulate

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// members before the public, by order alone, at ten a second for 900 people.
func laned() Config {
	c := concert(900)
	c.Settings.Load.Law, c.Settings.RatePerS = "none", 10
	c.Settings.Lanes = []waitroom.LaneSettings{{Name: "members"}, {Name: "public"}}
	c.Mix = map[string]float64{"members": 1, "public": 2}
	c.Crowd.Over, c.Stock = 10*time.Second, 0
	return c
}

// Promise 7: a lane without a rate waits for the one before it; shares divide the rate,
// and what one lane does not use stays unused; the report adds up.
func TestPromise7LanesWaitForEachOther(t *testing.T) {
	t.Parallel()
	adds := func(r *Report, parts []Part) {
		people, in := 0, 0
		for _, p := range parts {
			people, in = people+p.People, in+p.Admitted
			require.Equal(t, p.People, p.Admitted+p.StillWaiting+p.Late+p.TurnedAway, p.Name)
		}
		require.Equal(t, []int{r.People, r.Admitted}, []int{people, in})
	}
	c := laned()
	r := played(t, c)
	adds(r, r.Lanes)
	require.InDelta(t, 300, r.Lanes[0].People, 45)
	require.InDelta(t, 30, r.Lanes[0].WaitS.Max, 6, "members in ten a second, whoever else waits")
	require.InDelta(t, 90, r.Lanes[1].WaitS.Max, 3)
	require.Greater(t, r.Lanes[1].WaitS.P10, r.Lanes[0].WaitS.P50, "nobody else before them")

	c.Settings.Lanes[0].Share, c.Settings.Lanes[1].Share = 0.8, 0.2
	r = played(t, c)
	adds(r, r.Lanes)
	require.InDelta(t, float64(r.Lanes[1].People)/2, r.Lanes[1].WaitS.Max, 12, "two a second, also when the members are through")
	c.Settings.Lanes[1].Paused, c.Limit = true, 2*time.Minute
	r = played(t, c)
	adds(r, r.Lanes)
	require.Equal(t, []int{0, r.Lanes[1].People}, []int{r.Lanes[1].Admitted, r.Lanes[1].StillWaiting})
}

// Promise 7: who comes before their window comes back when it opens, who comes after it
// joins no more; and all of it is the same for the same seed.
func TestPromise7WindowsOfGroups(t *testing.T) {
	t.Parallel()
	c := laned()
	start := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	at := func(after time.Duration) *time.Time { return new(start.Add(after)) }
	c.Start, c.Settings.Identity = start, "jwt"
	c.Settings.Groups = []waitroom.GroupSettings{
		{Name: "year-4", Claim: map[string]any{"year": 4.0}, Lane: "members"},
		{Name: "year-3", Claim: map[string]any{"year": 3.0}, OpensAt: at(10 * time.Minute), ClosesAt: at(20 * time.Minute), Lane: "public"},
		{Name: "over", Claim: map[string]any{"year": 2.0}, ClosesAt: at(-8 * time.Second), Lane: "public"},
	}
	c.Mix = nil
	r := played(t, c)
	require.Equal(t, []string{"year-4", "year-3", "over"}, []string{r.Groups[0].Name, r.Groups[1].Name, r.Groups[2].Name})
	require.InDelta(t, 300, r.Groups[1].People, 45)
	require.Zero(t, r.Groups[1].Late)
	require.Positive(t, r.Groups[2].Late)
	require.Positive(t, r.Groups[2].Admitted, "the first came in time")
	require.Equal(t, r.Late, r.Groups[2].Late)
	require.Greater(t, r.LastedS, 600.0, "the third year came when its window opened")
	require.Less(t, r.Groups[1].WaitS.Max, 60.0, "and waited from then on")
	require.Equal(t, 900, r.Admitted+r.Late)

	var first, again, table, page bytes.Buffer
	require.NoError(t, WriteJSON(&first, r))
	require.NoError(t, WriteJSON(&again, played(t, c)))
	require.Equal(t, first.String(), again.String())
	require.NoError(t, WriteTable(&table, r, played(t, concert(50))))
	require.Regexp(t, `lane public: wait p90 +\S+ +– *\n`, table.String())
	require.Regexp(t, `group year-3: people +\d+ +– *\n`, table.String())
	require.NoError(t, WriteHTML(&page, r))
	require.Contains(t, page.String(), "lane public: wait p90")
	require.Contains(t, page.String(), ">members<")

	c.Mix = map[string]float64{"year-5": 1}
	_, err := Run(c)
	require.ErrorContains(t, err, `mix: must be of the groups of the event, which "year-5" is none of`)
}
