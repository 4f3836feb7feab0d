package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// reportsEvery is how often a node reads what the sites reported.
	reportsEvery = 200 * time.Millisecond
	// reportForgotten is the age from which on a site that stopped reporting counts
	// as one that never did.
	reportForgotten = 24 * time.Hour
)

// Reports are what the sites say of their own load, kept in the store with the
// store's time, so that any node takes them and the leader sees them.
type Reports struct {
	rdb    redis.UniversalClient
	prefix string

	mu   sync.Mutex // guards the fields below
	read bool
	last map[waitroom.EventID]Reading
}

// NewReports is this node's view of the reports.
func NewReports(rdb redis.UniversalClient, prefix string) *Reports {
	return &Reports{rdb: rdb, prefix: prefix}
}

// storeReport keeps one report.
//
//	KEYS[1]  the hash of reports: event → "ms usage"
//	ARGV     event, usage
//	reply    OK
var storeReport = redis.NewScript(`
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s', t[1] * 1000 + math.floor(t[2] / 1000), ARGV[2]))
return redis.status_reply('OK')`)

// readReports gives all reports with their ages, and drops forgotten ones.
//
//	KEYS[1]  the hash of reports
//	ARGV[1]  ms from which on a report is forgotten
//	reply    event, age in ms, usage; of every report in turn
var readReports = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all, out = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local at, usage = string.match(all[i + 1], '^(%d+) (.*)$')
  local age = at and now - tonumber(at)
  if age == nil or age > tonumber(ARGV[1]) then
    redis.call('HDEL', KEYS[1], all[i])
  else
    out[#out + 1] = all[i]
    out[#out + 1] = string.format('%.0f', age)
    out[#out + 1] = usage
  end
end
return out`)

// Report keeps what an event's site says of its load: from 0, idle, to 1, full. A
// *waitroom.InvalidError says that it is neither; ErrUnavailable that the store
// did not take it. Whether there is such an event is the caller's to know.
func (r *Reports) Report(ctx context.Context, event waitroom.EventID, usage float64) error {
	return r.ReportLane(ctx, event, "", usage)
}

// reportName is under what a lane's report is kept; an event's own is under its id.
func reportName(event waitroom.EventID, lane string) waitroom.EventID {
	if lane == "" {
		return event
	}
	return event + "/" + waitroom.EventID(lane)
}

// ReportLane is Report for one lane of an event, of which the event's own report then
// says nothing.
func (r *Reports) ReportLane(ctx context.Context, event waitroom.EventID, lane string, usage float64) error {
	if math.IsNaN(usage) || usage < 0 || usage > 1 {
		return &waitroom.InvalidError{Fields: []waitroom.FieldError{{Field: "pool_usage", Detail: "must be from 0 to 1"}}}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := storeReport.Run(ctx, r.rdb, []string{reportsKey(r.prefix)}, string(reportName(event, lane)), number(usage)).Err(); err != nil {
		return fmt.Errorf("report %s: %w: %w", event, waitroom.ErrUnavailable, err)
	}
	return nil
}

// Forget drops an event's report: for an event that is deleted.
func (r *Reports) Forget(ctx context.Context, event waitroom.EventID) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	names := []string{string(event)}
	r.mu.Lock()
	for name := range r.last {
		if strings.HasPrefix(string(name), string(event)+"/") {
			names = append(names, string(name))
		}
	}
	r.mu.Unlock()
	if err := r.rdb.HDel(ctx, reportsKey(r.prefix), names...).Err(); err != nil {
		return fmt.Errorf("forget report of %s: %w: %w", event, waitroom.ErrUnavailable, err)
	}
	return nil
}

// Run reads the reports until ctx ends. While the store is away they grow old.
func (r *Reports) Run(ctx context.Context) error {
	return every(ctx, reportsEvery, r.fetch)
}

// Usage is the last report of an event's site, or of a lane's; ErrNoSignal if there
// never was one.
func (r *Reports) Usage(_ context.Context, ev waitroom.Event) (Reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.read {
		return Reading{}, errors.New("reports: not read yet")
	}
	reading, ok := r.last[reportName(ev.ID, ev.Lane)]
	if !ok && ev.Lane != "" {
		reading, ok = r.last[ev.ID]
	}
	if !ok {
		return Reading{}, ErrNoSignal
	}
	return reading, nil
}

func (r *Reports) fetch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	asked := time.Now()
	reply, err := readReports.Run(ctx, r.rdb, []string{reportsKey(r.prefix)}, reportForgotten.Milliseconds()).StringSlice()
	if err != nil {
		return
	}
	last := make(map[waitroom.EventID]Reading, len(reply)/3)
	for ; len(reply) >= 3; reply = reply[3:] {
		ms, err := strconv.ParseInt(reply[1], 10, 64)
		usage, err2 := strconv.ParseFloat(reply[2], 64)
		if err != nil || err2 != nil {
			usage = math.NaN() // unknown, not idle
		}
		last[waitroom.EventID(reply[0])] = Reading{Usage: usage, At: asked.Add(-time.Duration(ms) * time.Millisecond), Detail: "site's report"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.last = true, last
}
