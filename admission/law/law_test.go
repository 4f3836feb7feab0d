package law

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Promise 1, on the corners of the grid; make laws tries all of it.
func TestTheChosenLawMeetsItsBars(t *testing.T) {
	t.Parallel()
	g := Quick()
	chosen := compare(contestants()[:1], g)[0]
	require.Equal(t, len(g), chosen.Met, "missed in %v", chosen.Failed)
	require.GreaterOrEqual(t, chosen.Near, 0.9)
	require.LessOrEqual(t, chosen.Over, 10.0)
	require.GreaterOrEqual(t, chosen.Swing, 60.0)
	require.GreaterOrEqual(t, chosen.Through, 0.95)
}

// Promise 2: the others do not, so that a change that makes them better is seen.
func TestTheOthersMissTheirs(t *testing.T) {
	t.Parallel()
	for _, r := range compare(contestants()[1:], Quick()[:8]) {
		require.NotEmpty(t, r.Failed, r.Law)
	}
}

// Promise 3: a trial gives the same figures each time, so that a table can be checked.
func TestATrialIsRepeatable(t *testing.T) {
	t.Parallel()
	trial := Quick()[3]
	first, again := run(&chosen{}, trial), run(&chosen{}, trial)
	require.Equal(t, first, again)
}

// Promise 4: the published table says what it says of the chosen law and the losers.
func TestThePublishedTableNamesTheWinner(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("comparison.md")
	require.NoError(t, err)
	n := len(Full())
	require.Contains(t, string(table), fmt.Sprintf("| target | %d of %d |", n, n))
	for _, c := range contestants()[1:] {
		require.Contains(t, string(table), "| "+c.name+" |")
		require.NotContains(t, string(table), fmt.Sprintf("| %s | %d of %d |", c.name, n, n))
	}
}

func TestTableHasARowForEachLaw(t *testing.T) {
	t.Parallel()
	rows := strings.Split(strings.TrimSpace(Table([]Result{{Law: "a", Trials: 2, Met: 1}, {Law: "b", Trials: 2, Met: 2}})), "\n")
	require.Len(t, rows, 4)
	require.Contains(t, rows[3], "| b | 2 of 2 |")
}
