package simulate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageNeedsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	c := concert(2000)
	one := played(t, c)
	c.Settings.Load.Law = "steps"
	c.Settings.ID = "other"
	two := played(t, c)
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, one, two))
	text := b.String()
	require.Equal(t, 32, strings.Count(text, "<svg"), "four plots of each, for both grounds and two widths")
	for _, foreign := range []string{"<script", "<link", "url(", "src=", "@import"} {
		require.NotContains(t, text, foreign)
	}
	require.NotContains(t, strings.ReplaceAll(text, "http://www.w3.org/", ""), "http://")
	require.Contains(t, text, ">other<")
}

func TestTheTableHasAColumnEach(t *testing.T) {
	t.Parallel()
	r := played(t, concert(500))
	var b strings.Builder
	require.NoError(t, WriteTable(&b, r, r))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, len(rows(nil))+1)
	require.Equal(t, 2, strings.Count(lines[0], "concert"))
	require.Equal(t, "1,234,567", count(1234567))
}
