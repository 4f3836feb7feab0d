package simulate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a line of the table: what it is and what each report says.
type row struct {
	name string
	of   func(*Report) string
}

func span(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func share(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// count writes a number with its thousands apart.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func number(of func(*Report) int) func(*Report) string {
	return func(r *Report) string { return count(of(r)) }
}

// rows are those of a table of these reports: each lane and group that any of them has
// gets some of its own.
func rows(reports []*Report) []row {
	all := []row{
		{"rate", func(r *Report) string { return fmt.Sprintf("%v/s", r.RatePerS) }},
		{"law", func(r *Report) string {
			if r.Law == "target" {
				return fmt.Sprintf("target %v", r.Target)
			}
			return r.Law
		}},
		{"people", number(func(r *Report) int { return r.People })},
		{"had their turn", number(func(r *Report) int { return r.Admitted })},
		{"came in", number(func(r *Report) int { return r.Entered })},
		{"no-shows", number(func(r *Report) int { return r.NoShows })},
		{"bought", number(func(r *Report) int { return r.Bought })},
		{"looked and left", number(func(r *Report) int { return r.Left })},
		{"inside when it sold out", number(func(r *Report) int { return r.SoldOutFor })},
		{"waiting when it sold out", number(func(r *Report) int { return r.StillWaiting })},
		{"turned away after", number(func(r *Report) int { return r.TurnedAway })},
		{"sold out after", func(r *Report) string {
			if r.SoldOutS == nil {
				return "not"
			}
			return span(*r.SoldOutS)
		}},
		{"lasted", func(r *Report) string { return span(r.LastedS) }},
		{"wait p50", func(r *Report) string { return span(r.WaitS.P50) }},
		{"wait p90", func(r *Report) string { return span(r.WaitS.P90) }},
		{"wait p99", func(r *Report) string { return span(r.WaitS.P99) }},
		{"pool usage p50", func(r *Report) string { return share(r.Usage.P50) }},
		{"pool usage p99", func(r *Report) string { return share(r.Usage.P99) }},
		{"pool above 95 %", func(r *Report) string { return span(r.OverS) }},
		{"in by the P90 shown", func(r *Report) string {
			if r.Told == 0 {
				return "nobody was told"
			}
			return fmt.Sprintf("%s of %s", share(r.By90), count(r.Told))
		}},
	}
	if slices.ContainsFunc(reports, func(r *Report) bool { return r.Late > 0 }) {
		all = append(all, row{"too late for their window", number(func(r *Report) int { return r.Late })})
	}
	all = append(all, partRows("group", reports, func(r *Report) []Part { return r.Groups })...)
	return append(all, partRows("lane", reports, func(r *Report) []Part { return r.Lanes })...)
}

func partRows(kind string, reports []*Report, of func(*Report) []Part) (all []row) {
	var names []string
	for _, r := range reports {
		for _, part := range of(r) {
			if !slices.Contains(names, part.Name) {
				names = append(names, part.Name)
			}
		}
	}
	for _, name := range names {
		for _, figure := range []struct {
			what string
			is   func(Part) string
		}{
			{"people", func(p Part) string { return count(p.People) }},
			{"had their turn", func(p Part) string { return count(p.Admitted) }},
			{"wait p50", func(p Part) string { return span(p.WaitS.P50) }},
			{"wait p90", func(p Part) string { return span(p.WaitS.P90) }},
		} {
			all = append(all, row{fmt.Sprintf("%s %s: %s", kind, name, figure.what), func(r *Report) string {
				i := slices.IndexFunc(of(r), func(p Part) bool { return p.Name == name })
				if i < 0 {
					return "–"
				}
				return figure.is(of(r)[i])
			}})
		}
	}
	return all
}

// WriteTable writes the figures, a report a column.
func WriteTable(w io.Writer, reports ...*Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	names := make([]string, len(reports))
	for i, r := range reports {
		names[i] = r.Event
	}
	fmt.Fprintf(t, "\t%s\t\n", strings.Join(names, "\t"))
	for _, row := range rows(reports) {
		fmt.Fprintf(t, "%s\t", row.name)
		for _, r := range reports {
			fmt.Fprintf(t, "%s\t", row.of(r))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
