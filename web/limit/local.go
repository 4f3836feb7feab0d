package limit

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// memory is what this process knows of its callers: a local bucket for each, and
// until when the store has refused them. It holds two generations: who calls moves
// to the young one, and when that is full it becomes the old one, whose members
// are forgotten. So it never holds more than twice most, and who calls stays in it.
type memory struct {
	most int // buckets in a generation

	mu    sync.Mutex // guards what follows, and the buckets in the maps
	young map[bucket]*local
	old   map[bucket]*local
}

// local is one bucket in this process.
type local struct {
	rule  waitroom.Rule
	count *rate.Limiter
	until time.Time // the store refuses until then
}

func newMemory(most int) *memory {
	return &memory{most: most, young: make(map[bucket]*local)}
}

// take charges every bucket, or none and says which refuse. It says too whether all
// were full: then this process has seen nothing of the caller that counts any more.
func (m *memory) take(now time.Time, charges []charge) (refused []refusal, full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	full = true
	for _, c := range charges {
		l := m.find(now, c)
		if wait := l.wait(now); wait > 0 {
			refused = append(refused, refusal{c.bucket.which, wait})
		}
		full = full && l.count.TokensAt(now) >= float64(c.rule.N)
	}
	if len(refused) > 0 {
		return refused, false
	}
	for _, c := range charges {
		m.find(now, c).count.AllowN(now, 1)
	}
	return nil, full
}

// remember keeps the store's refusals, and says how long the callers must really
// wait: the local bucket was charged for the call that was refused, and must have
// room again too, or who waits as long as told would be told so twice.
func (m *memory) remember(now time.Time, charges []charge, refused []refusal) []refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range refused {
		for _, c := range charges {
			if c.bucket.which != r.which {
				continue
			}
			l := m.find(now, c)
			l.until = now.Add(r.wait)
			refused[i].wait = l.wait(now)
		}
	}
	return refused
}

// find is the bucket's local count, made when it is new. Callers hold mu.
func (m *memory) find(now time.Time, c charge) *local {
	if l, ok := m.young[c.bucket]; ok {
		l.follow(now, c.rule)
		return l
	}
	l, ok := m.old[c.bucket]
	if ok {
		l.follow(now, c.rule)
	} else {
		l = &local{rule: c.rule, count: rate.NewLimiter(perSecond(c.rule), c.rule.N)}
	}
	if len(m.young) >= m.most {
		m.old, m.young = m.young, make(map[bucket]*local)
	}
	m.young[c.bucket] = l
	return l
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.young) + len(m.old)
}

// follow takes a changed rule over; what was refused by the old one is forgotten.
func (l *local) follow(now time.Time, rule waitroom.Rule) {
	if l.rule == rule {
		return
	}
	l.rule, l.until = rule, time.Time{}
	l.count.SetLimitAt(now, perSecond(rule))
	l.count.SetBurstAt(now, rule.N)
}

// wait is how long until the bucket has room for one call.
func (l *local) wait(now time.Time) time.Duration {
	// Less than half a nanosecond is the arithmetic's own dust. What is told is
	// rounded up beyond that, so that it is never told again after the wait.
	const room, dust = 0.5, 0.1
	missing := 1 - l.count.TokensAt(now)
	empty := missing / float64(perSecond(l.rule)) * float64(time.Second)
	if empty < room {
		empty = 0
	}
	return max(0, time.Duration(math.Ceil(empty-dust)), l.until.Sub(now))
}

func perSecond(r waitroom.Rule) rate.Limit { return rate.Limit(float64(r.N) / r.Per.Seconds()) }
