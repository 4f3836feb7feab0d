package ledger

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind is by what people were let in.
type Kind string

// The kinds of leaves.
const (
	ByRate  Kind = "r" // the law's decision
	ByHand  Kind = "h" // outside the rate: an operator, or for the reason make_good a credit
	Through Kind = "p" // the event measures only, and everybody passes
)

// ErrLeaf is a leaf that is not what the store writes.
var ErrLeaf = errors.New("bad leaf")

// Leaf is who was let in by one decision, and why so many.
type Leaf struct {
	Kind Kind
	// At is when, by the event's clock, to the millisecond.
	At time.Time
	// Lane is the part of the line; empty where there is only one.
	Lane string
	// Fence is the leadership that decided; 0 by hand.
	Fence int64
	// Asked is how many were asked for, Burst how many came on top of it from the
	// opening's, and Kept how many of the first had been put back by their receipts.
	Asked, Burst, Kept int64
	// RatePerS is the rate behind it, Reason why it is that, and Usage the load that
	// it was decided by; NaN while unknown.
	RatePerS float64
	Reason   string
	Usage    float64
	// Held is what kept the store below what was asked for: rate_cap, max_active,
	// empty, or nothing.
	Held string
	// Runs are the sequences let in, rising.
	Runs []Run
	// Behind is how many sequences had been given out behind the last of Runs: who had
	// come by then. -1 in the leaves of a version that did not say it.
	Behind int64
}

// Run is Len sequences in a row, from First on.
type Run struct{ First, Len int64 }

// last is the highest sequence of the run.
func (r Run) last() int64 { return r.First + r.Len - 1 }

// People is how many were let in.
func (l Leaf) People() int64 {
	var n int64
	for _, r := range l.Runs {
		n += r.Len
	}
	return n
}

const (
	leafParts = 13 // 12 without Behind
	// maxNumber bounds every number of a leaf: sequences and moments stay exact.
	maxNumber = 1 << 53
)

// Parse reads a leaf. It takes only what String writes, so that one leaf has one
// text. Errors: ErrLeaf.
func Parse(text string) (Leaf, error) {
	p := strings.Split(text, " ")
	if len(p) != leafParts && len(p) != leafParts-1 {
		return Leaf{}, fmt.Errorf("%w: %d parts, want %d", ErrLeaf, len(p), leafParts)
	}
	l := Leaf{Behind: -1}
	var ms int64
	l.Kind, l.Lane, l.Reason, l.Held, l.Usage = Kind(p[0]), p[2], p[8], p[9], math.NaN()
	var faults []error
	if l.Kind != ByRate && l.Kind != ByHand && l.Kind != Through {
		faults = append(faults, fmt.Errorf("kind %q", p[0]))
	}
	for _, word := range []*string{&l.Lane, &l.Reason, &l.Held} {
		if !isWord(*word) {
			faults = append(faults, fmt.Errorf("word %q", *word))
		}
		if *word == "-" {
			*word = ""
		}
	}
	numbers := map[int]*int64{1: &ms, 3: &l.Fence, 4: &l.Asked, 5: &l.Burst, 6: &l.Kept}
	if len(p) == leafParts {
		numbers[leafParts-1] = &l.Behind
	}
	for i, n := range numbers {
		v, err := strconv.ParseInt(p[i], 10, 64)
		if err != nil || v < 0 || v >= maxNumber {
			faults = append(faults, fmt.Errorf("number %q", p[i]))
		}
		*n = v
	}
	l.At = time.UnixMilli(ms).UTC()
	var err error
	if l.RatePerS, err = strconv.ParseFloat(p[7], 64); err != nil || !(l.RatePerS >= 0 && l.RatePerS < maxNumber) {
		faults = append(faults, fmt.Errorf("rate %q", p[7]))
	}
	if p[10] != "-" {
		if l.Usage, err = strconv.ParseFloat(p[10], 64); err != nil || !(l.Usage >= 0 && l.Usage <= 1) {
			faults = append(faults, fmt.Errorf("usage %q", p[10]))
		}
	}
	if l.Runs, err = parseRuns(p[11]); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return Leaf{}, fmt.Errorf("%w: %w", ErrLeaf, errors.Join(faults...))
	}
	if l.String() != text {
		return Leaf{}, fmt.Errorf("%w: not in its one form", ErrLeaf)
	}
	return l, nil
}

// String is the leaf as the store keeps it and the chain covers it.
func (l Leaf) String() string {
	usage := "-"
	if !math.IsNaN(l.Usage) {
		usage = strconv.FormatFloat(l.Usage, 'f', 3, 64)
	}
	text := fmt.Sprintf("%s %d %s %d %d %d %d %s %s %s %s %s", l.Kind, l.At.UnixMilli(), dash(l.Lane), l.Fence, l.Asked, l.Burst, l.Kept,
		strconv.FormatFloat(l.RatePerS, 'f', -1, 64), dash(l.Reason), dash(l.Held), usage, formatRuns(l.Runs))
	if l.Behind >= 0 {
		text += " " + strconv.FormatInt(l.Behind, 10)
	}
	return text
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// isWord checks a name in a leaf.
func isWord(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// parseRuns reads "17*3,+2,+5*2": 17 18 19, 21, 26 27.
func parseRuns(text string) ([]Run, error) {
	var runs []Run
	var end int64 // the last sequence so far
	for part := range strings.SplitSeq(text, ",") {
		at, many, repeated := strings.Cut(part, "*")
		gap, relative := strings.CutPrefix(at, "+")
		first, err := strconv.ParseInt(gap, 10, 64)
		n := int64(1)
		if err == nil && repeated {
			n, err = strconv.ParseInt(many, 10, 64)
		}
		if err != nil || first < 1 || first >= maxNumber || n < 1 || n >= maxNumber || relative != (len(runs) > 0) {
			return nil, fmt.Errorf("sequences %.40q", part)
		}
		first += end
		if relative && first-end < 2 || first+n >= maxNumber {
			return nil, fmt.Errorf("sequences %.40q", part)
		}
		runs = append(runs, Run{First: first, Len: n})
		end = first + n - 1
	}
	return runs, nil
}

func formatRuns(runs []Run) string {
	var b []byte
	var end int64
	for i, r := range runs {
		if i > 0 {
			b = append(b, ",+"...)
		}
		b = strconv.AppendInt(b, r.First-end, 10)
		if r.Len > 1 {
			b = append(b, '*')
			b = strconv.AppendInt(b, r.Len, 10)
		}
		end = r.last()
	}
	return string(b)
}
