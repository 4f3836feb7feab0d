// Package plot draws lines over time as SVG, in the colours of Waitroom's pages, for
// a light and a dark ground. Drawing is github.com/go-analyze/charts's work; here is
// only what all our plots have in common.
package plot

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-analyze/charts"
)

// Line is a named series; NaN leaves a gap.
type Line struct {
	Name   string
	Values []float64
}

// Chart is one plot.
type Chart struct {
	Title string
	// Step is the time between two values.
	Step  time.Duration
	Lines []Line
	// Percent writes the values as a share of one; Top is the end of the scale, 0
	// what the values need.
	Percent bool
	Top     float64
	// Width and Height in points; 0 is 760 by 300.
	Width, Height int
	// Dark draws for a dark ground.
	Dark bool
}

// widest is how many values a line is drawn with; more are joined.
const widest = 300

// SVG draws the chart; its ground is transparent.
func (c Chart) SVG() ([]byte, error) {
	if c.Width == 0 {
		c.Width, c.Height = 760, 300
	}
	n := 0
	for _, l := range c.Lines {
		n = max(n, len(l.Values))
	}
	join := max(1, (n+widest-1)/widest)
	var values [][]float64
	var names []string
	for _, l := range c.Lines {
		values, names = append(values, thin(l.Values, join)), append(names, l.Name)
	}
	opt := charts.NewLineChartOptionWithData(values)
	opt.Theme = theme(c.Dark)
	opt.Title = charts.TitleOption{Text: c.Title, FontStyle: charts.FontStyle{FontSize: 13}}
	opt.Legend = charts.LegendOption{SeriesNames: names, Offset: charts.OffsetStr{Left: charts.PositionRight}}
	opt.LineStrokeWidth = 2
	opt.Symbol.Shape = charts.SymbolNone
	opt.XAxis.Labels = labels((n+join-1)/join, time.Duration(join)*c.Step)
	opt.XAxis.BoundaryGap = new(false)
	opt.XAxis.LabelCount = max(3, min(7, c.Width/85))
	opt.YAxis = []charts.YAxisOption{{Min: new(0.0), LabelCount: 5}}
	if c.Top > 0 {
		opt.YAxis[0].Max = new(c.Top)
	}
	opt.ValueFormatter = value
	if c.Percent {
		opt.ValueFormatter = func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
	}
	opt.Padding = charts.NewBox(12, 12, 20, 8)
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: c.Width, Height: c.Height})
	if err := p.LineChart(opt); err != nil {
		return nil, fmt.Errorf("plot %s: %w", c.Title, err)
	}
	svg, err := p.Bytes()
	if err != nil {
		return nil, fmt.Errorf("plot %s: %w", c.Title, err)
	}
	return svg, nil
}

// thin joins so many values into their mean.
func thin(values []float64, join int) []float64 {
	if join == 1 {
		return values
	}
	out := make([]float64, 0, len(values)/join+1)
	for i := 0; i < len(values); i += join {
		sum, n := 0.0, 0.0
		for _, v := range values[i:min(i+join, len(values))] {
			if !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
		out = append(out, sum/n)
	}
	return out
}

// labels are the times of n values.
func labels(n int, step time.Duration) []string {
	out := make([]string, n)
	for i := range out {
		s := int((time.Duration(i) * step).Seconds())
		if time.Duration(n)*step >= 2*time.Hour {
			out[i] = fmt.Sprintf("%d:%02d h", s/3600, s/60%60)
		} else {
			out[i] = fmt.Sprintf("%d:%02d", s/60, s%60)
		}
	}
	return out
}

// value writes a number shortly: 12.5k.
func value(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		if v >= unit.of {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", v/unit.of), ".0") + unit.name
		}
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

func theme(dark bool) charts.ColorPalette {
	text, soft, grid := "#1d2433", "#5b6475", "#e3e7ee"
	series := []string{"#2457d6", "#c2410c", "#0f766e", "#9333ea", "#a16207", "#be185d"}
	if dark {
		text, soft, grid = "#e8ecf4", "#9aa5b8", "#2b3446"
		series = []string{"#7aa2ff", "#fb923c", "#2dd4bf", "#c084fc", "#facc15", "#f472b6"}
	}
	colours := make([]charts.Color, len(series))
	for i, s := range series {
		colours[i] = charts.ParseColor(s)
	}
	return charts.MakeTheme(charts.ThemeOption{
		IsDarkMode: dark, AxisStrokeColor: charts.ParseColor(grid), AxisSplitLineColor: charts.ParseColor(grid),
		BackgroundColor: charts.ColorTransparent, TextColor: charts.ParseColor(text),
		TextColorXAxis: charts.ParseColor(soft), TextColorYAxis: charts.ParseColor(soft), SeriesColors: colours,
	})
}
