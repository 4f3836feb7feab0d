package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/waitroom-dev/waitroom/admission/plot"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pagePlot is one plot, drawn for both grounds and for wide and narrow screens.
type pagePlot struct {
	Title, Note                          string
	Light, Dark, LightNarrow, DarkNarrow template.HTML
}

// pageEvent is one report on the page.
type pageEvent struct {
	Name, Law string
	Figures   []pageFigure
	Plots     []pagePlot
}

type pageFigure struct{ Name, Value string }

// pageRow is one line of the table.
type pageRow struct {
	Name   string
	Values []string
}

// WriteHTML writes a page that needs nothing from elsewhere.
func WriteHTML(w io.Writer, reports ...*Report) error {
	data := struct {
		Title  string
		Seed   uint64
		Events []pageEvent
		Names  []string
		Rows   []pageRow
	}{Title: "How it would go: " + reports[0].Event, Seed: reports[0].Seed}
	for _, r := range reports {
		plots, err := r.plots()
		if err != nil {
			return err
		}
		data.Names = append(data.Names, r.Event)
		data.Events = append(data.Events, pageEvent{Name: r.Event, Law: rows(nil)[1].of(r), Figures: r.figures(), Plots: plots})
	}
	for _, row := range rows(reports) {
		line := pageRow{Name: row.name}
		for _, r := range reports {
			line.Values = append(line.Values, row.of(r))
		}
		data.Rows = append(data.Rows, line)
	}
	return page.Execute(w, data)
}

// figures are the few that are looked at first.
func (r *Report) figures() []pageFigure {
	sold := pageFigure{"bought", count(r.Bought)}
	if r.SoldOutS != nil {
		sold = pageFigure{"sold out after", span(*r.SoldOutS)}
	}
	return []pageFigure{
		{"people", count(r.People)},
		{"waited, half of them less than", span(r.WaitS.P50)},
		{"nine of ten less than", span(r.WaitS.P90)},
		sold,
		{"pool usage, median", share(r.Usage.P50)},
		{"no-shows", count(r.NoShows)},
	}
}

func floats(ns []int) []float64 {
	out := make([]float64, len(ns))
	for i, n := range ns {
		out[i] = float64(n)
	}
	return out
}

// mostLaneLines is how many lanes a plot shows beside the whole line; the table has all.
const mostLaneLines = 5

func (r *Report) plots() ([]pagePlot, error) {
	step := time.Duration(r.Series.StepS * float64(time.Second))
	usage := plot.Chart{Title: "Pool usage", Percent: true, Top: 1, Lines: []plot.Line{{Name: "wanted", Values: r.Series.Usage}}}
	if r.Target > 0 {
		goal := make([]float64, len(r.Series.Usage))
		for i := range goal {
			goal[i] = r.Target
		}
		usage.Lines = append(usage.Lines, plot.Line{Name: "target", Values: goal})
	}
	inLine := plot.Chart{Title: "In line", Lines: []plot.Line{{Name: "waiting", Values: floats(r.Series.Waiting)}}}
	for i, l := range r.Lanes {
		if i < mostLaneLines {
			inLine.Lines = append(inLine.Lines, plot.Line{Name: l.Name, Values: floats(r.Series.Lanes[i])})
		}
	}
	charts := []struct {
		chart plot.Chart
		note  string
	}{
		{inLine, "People who wait for their turn."},
		{plot.Chart{Title: "Let in a second", Lines: []plot.Line{{Name: "let in", Values: r.Series.Admitted}, {Name: "allowed", Values: r.Series.Allowed}}}, "What the law allows, and who was there to come in."},
		{usage, "Connections in use or waited for, as a share of all."},
		{plot.Chart{Title: "Inside and bought", Lines: []plot.Line{{Name: "inside", Values: floats(r.Series.Inside)}, {Name: "bought", Values: floats(r.Series.Bought)}}}, "Turns that are held, and purchases so far."},
	}
	var out []pagePlot
	for _, c := range charts {
		p := pagePlot{Title: c.chart.Title, Note: c.note}
		for _, v := range []struct {
			to            *template.HTML
			dark          bool
			width, height int
		}{{&p.Light, false, 760, 280}, {&p.Dark, true, 760, 280}, {&p.LightNarrow, false, 340, 230}, {&p.DarkNarrow, true, 340, 230}} {
			k := c.chart
			k.Title, k.Step, k.Dark, k.Width, k.Height = "", step, v.dark, v.width, v.height
			svg, err := k.SVG()
			if err != nil {
				return nil, fmt.Errorf("page: %w", err)
			}
			*v.to = template.HTML(svg) //nolint:gosec // drawn here, from numbers and our own names
		}
		out = append(out, p)
	}
	return out, nil
}
