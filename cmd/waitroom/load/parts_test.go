package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Promise 7, and the shape of each profile.
func TestArrivals(t *testing.T) {
	t.Parallel()
	const users = 10_000
	ramp := 100 * time.Second
	within := func(c Crowd, d time.Duration) (n int) {
		for i := range c.Users {
			if c.arrival(i) < d {
				n++
			}
		}
		return n
	}
	steady := Crowd{Users: users, Ramp: ramp, Profile: Steady, Seed: 3}
	require.InDelta(t, users/2, within(steady, ramp/2), 1)
	burst := Crowd{Users: users, Ramp: ramp, Profile: Burst, Seed: 3}
	require.InDelta(t, users*(1-1/math.E)/(1-math.Exp(-5)), within(burst, ramp/5), 2)
	flash := Crowd{Users: users, Ramp: ramp, Profile: Flash, Seed: 3}
	require.InDelta(t, users/2, within(flash, time.Millisecond), 2)
	require.Equal(t, users, within(flash, ramp/10+1))
	for _, c := range []Crowd{steady, burst, flash} {
		last := time.Duration(0)
		for i := range c.Users {
			at := c.arrival(i)
			require.GreaterOrEqual(t, at, last, "%s: user %d comes before the one before", c.Profile, i)
			require.LessOrEqual(t, at, c.Ramp)
			require.Equal(t, at, c.arrival(i), "the same seed brings the same crowd")
			last = at
		}
	}
}

// Promise 6: never before Retry-After, never beyond the cap by much, growing.
func TestBackoff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		attempt := rapid.IntRange(1, 1000).Draw(t, "attempt")
		asked := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "asked"))
		d := backoff(attempt, asked, r)
		if d < asked || d > max(retryCap, asked+asked/10) || d < retryBase/2 {
			t.Fatalf("attempt %d, asked for %v: %v", attempt, asked, d)
		}
		if attempt > 7 && d < retryCap/2 {
			t.Fatalf("attempt %d: %v has not grown", attempt, d)
		}
	})
}

func TestPauseEndsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, pause(t.Context(), 3*time.Second))
		require.Equal(t, 3*time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, pause(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, 4*time.Second, time.Since(began))
	})
}

// Merged histograms are those of all values, not means of percentiles.
func TestHistogramsMerge(t *testing.T) {
	t.Parallel()
	a, b, both := newHistograms(), newHistograms(), newHistograms()
	for i := 1; i <= 1000; i++ {
		d := time.Duration(i) * time.Millisecond
		both.record(mJoin, d)
		if i <= 900 {
			a.record(mJoin, d)
		} else {
			b.record(mJoin, d)
		}
	}
	b.record(mSeats, 2*time.Hour) // out of range counts as the end of it
	both.record(mSeats, time.Hour)
	merged := newHistograms()
	for _, h := range []*histograms{a, b} {
		encoded, err := h.encode()
		require.NoError(t, err)
		require.NoError(t, merged.add(encoded))
	}
	require.Equal(t, both.latencies(), merged.latencies())
	require.InDelta(t, 990, merged.latencies()[mJoin].P99, 1)
	require.Error(t, merged.add(map[string]string{mJoin: "no histogram"}))
	require.Error(t, merged.add(map[string]string{mJoin: ""}))
}

// Promise 4.
func TestFaultsAreBookedWhereTheyBelong(t *testing.T) {
	t.Parallel()
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
	}
	for _, c := range []struct {
		err  error
		busy bool
		own  bool
		kind string
	}{
		{dial(syscall.EMFILE), false, true, "no_files"},
		{dial(syscall.EADDRNOTAVAIL), false, true, "no_ports"},
		{dial(syscall.ENOBUFS), false, true, "no_memory"},
		{&net.DNSError{Name: "x"}, false, true, "no_address"},
		{context.DeadlineExceeded, true, true, "timeout_while_late"},
		{context.DeadlineExceeded, false, false, "timeout"},
		{os.ErrDeadlineExceeded, false, false, "timeout"},
		{dial(syscall.ECONNREFUSED), false, false, "refused"},
		{dial(syscall.ECONNRESET), true, false, "reset"},
		{io.ErrUnexpectedEOF, false, false, "cut"},
		{errors.New("malformed HTTP response"), false, false, "protocol"},
	} {
		f, ok := classify(t.Context(), fmt.Errorf("wrapped: %w", c.err), c.busy)
		require.True(t, ok)
		require.Equal(t, fault{own: c.own, kind: c.kind, text: "wrapped: " + c.err.Error()}, f)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok := classify(ended, io.EOF, false)
	require.False(t, ok, "an ended run is nobody's fault")
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	a := answer{header: http.Header{"Retry-After": {"2"}}, body: []byte(`{"code":"rate_limited","retry_after_ms":1500}`)}
	require.Equal(t, 2*time.Second, a.retryAfter())
	require.Equal(t, "rate_limited", a.code())
	a = answer{header: http.Header{}, body: []byte(`{"retry_after_ms":1500}`)}
	require.Equal(t, 1500*time.Millisecond, a.retryAfter())
	require.Zero(t, answer{header: http.Header{"Retry-After": {"soon"}}, body: []byte("no json")}.retryAfter())
}

func TestConfigFaultsAreAllNamed(t *testing.T) {
	t.Parallel()
	c := Config{Targets: []string{"ftp://x", "http://x/y"}, Event: "Nö", Crowd: Crowd{Buy: math.NaN(), Profile: "wave", Ramp: -1}}
	err := c.withDefaults(20_000).validate(20_000)
	var wrong *UsageError
	require.ErrorAs(t, err, &wrong)
	for _, name := range []string{`"ftp://x"`, "no path", "--event", "--users", "--buy", "--profile", "--ramp"} {
		require.ErrorContains(t, err, name)
	}
}

func TestCrowdIsSpreadOverWorkers(t *testing.T) {
	t.Parallel()
	c := Config{Targets: []string{"http://127.0.0.1:1/"}, Event: "e", Crowd: Crowd{Users: 50_000}}
	filled := c.withDefaults(20_000)
	require.Equal(t, 4, filled.Workers)
	require.NoError(t, filled.validate(20_000))
	filled.Workers = 3
	require.ErrorContains(t, filled.validate(20_000), "need at least 4")
	require.Equal(t, 96, c.withDefaults(1024).Workers, "a small file limit takes more processes")
}

func TestSourceAddressesAreOnesOwn(t *testing.T) {
	t.Parallel()
	if !sourceAddresses() {
		return
	}
	seen := map[string]bool{}
	for w := range 300 {
		d := newDialer(w, maxUsersPerWorker, []string{"http://127.0.0.1:8080"})
		require.Len(t, d.sources, 2)
		for _, ip := range d.sources {
			require.True(t, ip.IsLoopback())
			require.False(t, seen[ip.String()], "%s belongs to two workers", ip)
			seen[ip.String()] = true
		}
	}
	require.False(t, seen["127.0.0.1"])
	require.Empty(t, newDialer(0, 10, []string{"http://192.0.2.1"}).sources, "only loopback has addresses to spare")
}

func TestReadLines(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	out := newLines(&stream)
	want := []line{
		{Progress: &Counts{Joined: 3}},
		{Facts: []fact{{User: 1, Entry: "e", IAT: 5, End: endStays, Purchases: []purchase{{ID: "r", Seats: []string{"A-1"}, Quantity: 1}}}}},
		{Result: &result{Counts: Counts{Joined: 4}, Own: Trouble{Total: 1, ByKind: map[string]int64{"no_ports": 1}}}},
	}
	for _, l := range want {
		require.NoError(t, out.write(l))
	}
	whole := stream.String()
	var got []line
	require.NoError(t, readLines(strings.NewReader(whole), func(l line) error { got = append(got, l); return nil }))
	require.Equal(t, want, got)

	none := func(line) error { return nil }
	cut := whole[:strings.LastIndex(whole[:len(whole)-1], "\n")+1]
	require.Error(t, readLines(strings.NewReader(cut), none), "a worker that ended without its result")
	require.Error(t, readLines(strings.NewReader(whole[:len(whole)-5]), none), "a worker that ended in the middle of a line")
	require.Error(t, readLines(strings.NewReader("panic: boom\n"), none))
	require.ErrorIs(t, readLines(strings.NewReader(whole), func(line) error { return errGaveUp }), errGaveUp)
}

func TestCrewBoundsItsJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(2)
		ended := make(chan struct{})
		go func() { defer close(ended); c.run() }()
		began := time.Now()
		done := make(chan struct{})
		for range 6 {
			go func() {
				_ = c.do(t.Context(), func() { time.Sleep(time.Second) })
				done <- struct{}{}
			}()
		}
		for range 6 {
			<-done
		}
		require.Equal(t, 3*time.Second, time.Since(began), "six jobs of a second, two at a time")
		c.end()
		<-ended
	})
}

// The short way through a position gives what JSON would.
func FuzzParseMessage(f *testing.F) {
	f.Add(int64(12847), "", []byte(`{"type":"position","position":12847,"ahead":12846}`))
	f.Add(int64(-1), "database_busy", []byte(`{"type":"position","position":1e3}`))
	f.Add(int64(1)<<60, "\"}", []byte(`{"type":"position","position":99999999999999999999}`))
	f.Fuzz(func(t *testing.T, position int64, reason string, raw []byte) {
		_, _ = parseMessage(raw) // whatever comes, it does not panic
		b, err := json.Marshal(struct {
			Type     string `json:"type"`
			Position int64  `json:"position"`
			Reason   string `json:"reason,omitempty"`
		}{typePosition, position, reason})
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseMessage(b)
		if err != nil || m.Type != typePosition || m.Position != position {
			t.Fatalf("%s: got %q %d %v", b, m.Type, m.Position, err)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJFZERTQSIsImtpZCI6ImsifQ.e30.AA")
	f.Fuzz(func(t *testing.T, token string) {
		p, err := parseToken(token)
		if err == nil && (keySet{}).verify(p) == nil {
			t.Fatal("verified by no key")
		}
	})
}

// Whoever loses a socket without a word comes back in the order of the line, no
// second with more than a tenth, and a few at once.
func TestAppointments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		waiting := rapid.Int64Range(200, 100_000).Draw(t, "waiting")
		seconds, last := map[int64]int64{}, time.Duration(-1)
		for position := range waiting {
			at := appointment(position+1, waiting)
			if at < last || at > lostWindow {
				t.Fatalf("position %d comes back at %v, the one before at %v", position+1, at, last)
			}
			last = at
			seconds[int64(at/time.Second)]++
		}
		for second, n := range seconds {
			if n > waiting/10+1 {
				t.Fatalf("%d of %d come back in second %d", n, waiting, second)
			}
		}
	})
	require.Zero(t, appointment(1, 1))
	require.Less(t, appointment(10, 10), time.Second)
	require.Zero(t, appointment(0, 100), "whose place is not known backs off like any call")
}
