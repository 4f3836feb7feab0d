package load

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// promise is the number of a promise in the contract's last section.
type promise int

// The promises that can be checked from outside.
const (
	promiseOrder promise = 1 + iota
	promisePlace
	promiseCap
	promiseGrant
	promiseSeat
	promiseOutbox
	promiseKept
	promiseClosed
)

var promiseNames = map[promise]string{
	promiseOrder:  "order of arrival",
	promisePlace:  "a place is kept",
	promiseCap:    "the cap holds",
	promiseGrant:  "exactly one grant",
	promiseSeat:   "a seat is sold once",
	promiseOutbox: "events of sold seats",
	promiseKept:   "what was answered stays",
	promiseClosed: "closed when in doubt",
}

// maxExamples bounds the examples kept of each breach.
const maxExamples = 5

// Verdict is what was seen of one promise. Checked counts the single checks: zero
// means that the promise was not put to the test.
type Verdict struct {
	Promise  promise  `json:"promise"`
	Name     string   `json:"name"`
	Checked  int64    `json:"checked"`
	Broken   int64    `json:"broken"`
	Examples []string `json:"examples,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// tally counts checks and breaches. It is safe for concurrent use.
type tally struct {
	mu        sync.Mutex
	byPromise map[promise]*Verdict // guarded by mu
}

func newTally() *tally { return &tally{byPromise: map[promise]*Verdict{}} }

// of returns the verdict to change; the caller holds mu.
func (t *tally) of(p promise) *Verdict {
	v := t.byPromise[p]
	if v == nil {
		v = &Verdict{Promise: p, Name: promiseNames[p]}
		t.byPromise[p] = v
	}
	return v
}

// check counts one check, and a breach with its example unless ok.
func (t *tally) check(p promise, ok bool, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.of(p)
	v.Checked++
	if ok {
		return
	}
	v.Broken++
	if len(v.Examples) < maxExamples {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

// checkMany counts n checks that were kept, made elsewhere.
func (t *tally) checkMany(p promise, n int64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(p).Checked += n
}

// note says once what could not be checked, and why.
func (t *tally) note(p promise, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.of(p)
	if !slices.Contains(v.Notes, text) && len(v.Notes) < maxExamples {
		v.Notes = append(v.Notes, text)
	}
}

// verdicts lists every promise by number, also those that were not checked.
func (t *tally) verdicts() []Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Verdict, 0, len(promiseNames))
	for _, p := range slices.Sorted(maps.Keys(promiseNames)) {
		out = append(out, *t.of(p))
	}
	return out
}

// add merges verdicts into the tally.
func (t *tally) add(vs []Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range vs {
		mine := t.of(v.Promise)
		mine.Checked += v.Checked
		mine.Broken += v.Broken
		for _, e := range v.Examples {
			if len(mine.Examples) < maxExamples {
				mine.Examples = append(mine.Examples, e)
			}
		}
		for _, n := range v.Notes {
			if !slices.Contains(mine.Notes, n) && len(mine.Notes) < maxExamples {
				mine.Notes = append(mine.Notes, n)
			}
		}
	}
}

// Trouble counts what went wrong by kind, with the first example of each kind.
type Trouble struct {
	Total    int64             `json:"total"`
	ByKind   map[string]int64  `json:"by_kind,omitempty"`
	Examples map[string]string `json:"examples,omitempty"`
}

// count adds one of a kind.
func (t *Trouble) count(kind, example string) { t.countN(kind, example, 1) }

func (t *Trouble) countN(kind, example string, n int64) {
	if t.ByKind == nil {
		t.ByKind, t.Examples = map[string]int64{}, map[string]string{}
	}
	t.Total += n
	t.ByKind[kind] += n
	if _, ok := t.Examples[kind]; !ok && example != "" {
		t.Examples[kind] = example
	}
}

// add merges other into t.
func (t *Trouble) add(other Trouble) {
	for kind, n := range other.ByKind {
		t.countN(kind, other.Examples[kind], n)
	}
}
