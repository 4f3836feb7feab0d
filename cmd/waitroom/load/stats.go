package load

import (
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The latencies of a run; doc.go says what each runs from and to.
const (
	mJoin              = "join"
	mChallenge         = "challenge"
	mReconnect         = "reconnect"
	mConnect           = "connect"
	mFirstPosition     = "first_position"
	mPositionAge       = "position_age"
	mPositionAgeFront  = "position_age_front"
	mPositionAgePolled = "position_age_polled"
	mToToken           = "admission_to_token"
	mToTokenPolled     = "admission_to_token_polled"
	mToTokenAtLeast    = "admission_to_token_at_least"
	mToTokenAtMost     = "admission_to_token_at_most"
	mSeats             = "seats"
	mReservation       = "reservation"
	mPayment           = "payment"
	mOutcome           = "payment_outcome"
	mOwnLag            = "own_lag"
)

// metrics is the order in which they are shown.
var metrics = []string{
	mJoin, mChallenge, mConnect, mReconnect, mFirstPosition, mPositionAge, mPositionAgeFront, mPositionAgePolled, mToToken, mToTokenPolled,
	mToTokenAtLeast, mToTokenAtMost, mSeats, mReservation, mPayment, mOutcome, mOwnLag,
}

// histograms hold microseconds, up to an hour, to three digits. They are safe for
// concurrent use.
type histograms struct {
	mu     sync.Mutex
	byName map[string]*hdrhistogram.Histogram // guarded by mu
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
}

func newHistograms() *histograms {
	return &histograms{byName: map[string]*hdrhistogram.Histogram{}}
}

// record adds one latency; what is out of range counts as the end of the range.
func (h *histograms) record(name string, d time.Duration) {
	us := min(max(d.Microseconds(), 1), int64(time.Hour/time.Microsecond))
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.byName[name]
	if one == nil {
		one = newHistogram()
		h.byName[name] = one
	}
	_ = one.RecordValue(us) // cannot be out of range any more
}

// encode writes each histogram in HdrHistogram's own compressed form.
func (h *histograms) encode() (map[string]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[string]string, len(h.byName))
	for name, one := range h.byName {
		b, err := one.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			return nil, fmt.Errorf("encode histogram %s: %w", name, err)
		}
		out[name] = string(b)
	}
	return out, nil
}

// add merges encoded histograms into these.
func (h *histograms) add(encoded map[string]string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, text := range encoded {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("histogram %s: %w", name, err)
		}
		one, err := hdrhistogram.Decode([]byte(text))
		if err != nil {
			return fmt.Errorf("histogram %s: %w", name, err)
		}
		if h.byName[name] == nil {
			h.byName[name] = newHistogram()
		}
		if lost := h.byName[name].Merge(one); lost > 0 {
			return fmt.Errorf("histogram %s: %d values out of range", name, lost)
		}
	}
	return nil
}

// seconds is a duration from seconds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Latency is one latency's distribution in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	Max   float64 `json:"max"`
}

// latencies is the distribution of each histogram that has values.
func (h *histograms) latencies() map[string]Latency {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[string]Latency, len(h.byName))
	for name, one := range h.byName {
		q := func(p float64) float64 { return float64(one.ValueAtQuantile(p)) / 1000 }
		out[name] = Latency{
			Count: one.TotalCount(), Mean: float64(int64(one.Mean())) / 1000,
			P50: q(50), P90: q(90), P95: q(95), P99: q(99), P999: q(99.9), Max: float64(one.Max()) / 1000,
		}
	}
	return out
}
