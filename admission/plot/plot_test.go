package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAChartIsASoundPicture(t *testing.T) {
	t.Parallel()
	line := make([]float64, 1000)
	for i := range line {
		line[i] = math.Sin(float64(i) / 50)
	}
	for _, dark := range []bool{false, true} {
		svg, err := Chart{Title: "usage <of> the pool", Step: time.Second, Percent: true, Top: 1, Dark: dark, Lines: []Line{{"a", line}, {"b", line[:500]}}}.SVG()
		require.NoError(t, err)
		d := xml.NewDecoder(strings.NewReader(string(svg)))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
		require.Contains(t, string(svg), "100 %")
		require.Less(t, len(svg), 60_000)
	}
}

func TestValuesAreShort(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"0", "2.5", "999", "12.5k", "1M"}, []string{value(0), value(2.5), value(999), value(12_500), value(1e6)})
	require.Equal(t, []string{"0:00", "1:30", "3:00"}, labels(3, 90*time.Second))
	require.Equal(t, "1:30 h", labels(3, 90*time.Minute)[1])
	require.Equal(t, []float64{1.5, 3}, thin([]float64{1, 2, math.NaN(), 3}, 2))
}
