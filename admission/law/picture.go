package law

import (
	"time"

	"github.com/waitroom-dev/waitroom/admission/plot"
)

// Picture is the usage under each law in the trial of Example, as SVG.
func Picture() ([]byte, error) {
	scores := Example()
	c := plot.Chart{Title: "Pool usage, target 75 %", Step: time.Second, Percent: true, Top: 1, Width: 900, Height: 340}
	for _, name := range Names() {
		if name == "little" || name == "smith" {
			continue // one line of their kind is enough to read
		}
		c.Lines = append(c.Lines, plot.Line{Name: name, Values: scores[name].Usage})
	}
	return c.SVG()
}
