package limit

import (
	"strconv"
	"testing"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// BenchmarkRefused is a flood by one caller.
func BenchmarkRefused(b *testing.B) {
	l := newLimiter(b, Config{}, nil)
	l.store = willing
	req := Request{Event: "e", Call: Join, Addr: office}
	rules := Rules{Address: per(1, time.Hour)}
	b.ReportAllocs()
	for b.Loop() {
		l.Allow(b.Context(), req, rules)
	}
}

// BenchmarkPassed is a call by one of many people, with two buckets in the store.
func BenchmarkPassed(b *testing.B) {
	l := newLimiter(b, Config{}, redistest.Start(b, redistest.Config{}).Client(b))
	rules := Rules{Person: per(1_000_000, time.Hour), PersonBurst: per(1_000_000, time.Hour)}
	people := make([]string, 1000)
	for i := range people {
		people[i] = strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			l.Allow(b.Context(), Request{Event: "e", Call: Browse, Person: people[i%len(people)]}, rules)
		}
	})
}
