package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// worker brings one part of the crowd.
type worker struct {
	spec   spec
	clock  clock
	limit  time.Time
	client *client
	bots   *client // the bots' own, so that people's calls never wait for theirs
	dialer *dialer
	crew   *crew
	// solvers work out puzzles, which is what the tool has cores for and not connections.
	solvers *crew
	shop    *shop
	out     *lines
	probes  sync.WaitGroup // checks on the side, which delay no user
	*books
}

// books are what the users of a worker write down together.
type books struct {
	hist  *histograms
	tally *tally
	live  counters
	late  lateness

	mu       sync.Mutex
	server   Trouble // guarded by mu, as all below
	own      Trouble
	refusals Trouble
	facts    []fact
	kept     []kept
	keys     keySet
	botted   Bots
	notes    []string
}

// counters are Counts while they move.
type counters struct {
	arrived, joined, waiting, admitted, entered, bought, soldOut, unpaid, left, refused, failed,
	solved, leftLine, reloads, tabs, deaf, polls, notModified,
	calls, messages, positions, reconnects atomic.Int64
}

// clock counts from the run's start, monotonically within a process.
type clock struct {
	base  time.Time // has a monotonic reading
	start time.Time // the run's
}

func newClock(start time.Time) clock { return clock{base: time.Now(), start: start} }

// now is the microseconds since the run's start; before it, negative.
func (c clock) now() int64 {
	return (c.base.Sub(c.start) + time.Since(c.base)).Microseconds()
}

// Work is a worker's whole life: it reads its spec from in, brings its users, and
// writes to out. It ends early when ctx or in ends, and still reports what it saw.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	stdin := bufio.NewReader(in)
	first, err := stdin.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("worker's spec: %w", err)
	}
	var s spec
	if err := json.Unmarshal(first, &s); err != nil {
		return fmt.Errorf("worker's spec: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// This goroutine may outlive Work by design: it waits for the parent's end, which
	// only the process's own end can cut short.
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	debug.SetGCPercent(200) // scanning many small stacks costs more than their memory (at 50 a fifth of all time)
	return newWorker(s, out).run(ctx)
}

func newWorker(s spec, out io.Writer) *worker {
	c := s.Config
	mine := (c.Crowd.Users + c.Workers - 1 - s.Worker) / c.Workers
	d := newDialer(s.Worker, mine, c.Targets)
	return &worker{
		spec: s, clock: newClock(s.Start), limit: s.Start.Add(c.Limit),
		dialer: d, client: newClient(c, d, c.Connections), bots: newClient(c, d, botConnections),
		crew: newCrew(c.Connections), solvers: newCrew(solvers(c.Workers)), shop: &shop{}, out: newLines(out),
		books: &books{hist: newHistograms(), tally: newTally()},
	}
}

// run brings the users and returns when all are done and reported.
func (w *worker) run(ctx context.Context) error {
	var crew, beat sync.WaitGroup
	crew.Go(w.crew.run)
	crew.Go(w.solvers.run)
	beating, stop := context.WithCancel(ctx)
	beat.Go(func() { w.beat(beating) })

	w.bring(ctx)
	w.askForKept(ctx)

	stop()
	beat.Wait()
	w.crew.end()
	w.solvers.end()
	crew.Wait()
	w.client.http.CloseIdleConnections()
	w.bots.http.CloseIdleConnections()
	return w.report()
}

// bring starts each user at its moment and waits until all are done. Those who wait
// for nothing, bots and the deaf, end when the others are done.
func (w *worker) bring(ctx context.Context) {
	var users, idle sync.WaitGroup
	meanwhile, stop := context.WithCancel(ctx)
	defer w.probes.Wait() // after the users, who start them
	defer idle.Wait()
	defer stop()
	defer users.Wait()
	c := w.spec.Config
	for i := w.spec.Worker; i < c.Crowd.Users; i += c.Workers {
		due := c.Crowd.arrival(i)
		if pause(ctx, time.Until(w.spec.Start.Add(due))) != nil {
			return
		}
		u := w.newUser(i, due)
		if u.kind == bot {
			idle.Go(func() { w.loop(meanwhile, i) })
			continue
		}
		w.live.arrived.Add(1)
		users.Go(func() {
			switch joined := u.join(ctx); {
			case !joined:
				u.done(endGone)
				return
			case u.kind == deaf:
				idle.Go(func() { u.done(u.sitDeaf(meanwhile)) })
				return
			}
			// Joining needs a deep stack, waiting does not: a fresh goroutine halves what
			// each person costs while they wait.
			users.Go(func() { u.done(u.way(ctx)) })
		})
	}
}

// beat reports progress each second and measures how late its own timer runs.
func (w *worker) beat(ctx context.Context) {
	const step = 100 * time.Millisecond
	for n := 1; ; n++ {
		due := time.Now().Add(step)
		if pause(ctx, step) != nil {
			return
		}
		lag := time.Since(due)
		w.late.note(lag)
		w.hist.record(mOwnLag, lag)
		if n%10 == 0 {
			c := w.counts()
			_ = w.out.write(line{Progress: &c}) // a parent that is gone ends us through stdin
		}
	}
}

// lateness remembers when the tool's own timers last ran late.
type lateness struct{ lastLate atomic.Int64 }

// tooLate is a lag from which the tool's own timeouts prove nothing.
const tooLate = 500 * time.Millisecond

func (l *lateness) note(lag time.Duration) {
	if lag > tooLate {
		l.lastLate.Store(time.Now().UnixNano())
	}
}

// busy says whether the tool was late within a call's time.
func (l *lateness) busy() bool {
	return time.Now().UnixNano()-l.lastLate.Load() < int64(callTimeout)
}

func (w *worker) counts() Counts {
	l := &w.live
	w.mu.Lock()
	server, own := w.server.Total, w.own.Total
	w.mu.Unlock()
	return Counts{
		Arrived: l.arrived.Load(), Joined: l.joined.Load(), Waiting: l.waiting.Load(),
		Admitted: l.admitted.Load(), Entered: l.entered.Load(), Bought: l.bought.Load(),
		SoldOut: l.soldOut.Load(), Unpaid: l.unpaid.Load(), Left: l.left.Load(),
		Refused: l.refused.Load(), Failed: l.failed.Load(), Calls: l.calls.Load(),
		Messages: l.messages.Load(), Reconnects: l.reconnects.Load(),
		Solved: l.solved.Load(), LeftLine: l.leftLine.Load(), Reloads: l.reloads.Load(), Tabs: l.tabs.Load(), Deaf: l.deaf.Load(),
		Polls: l.polls.Load(), NotModified: l.notModified.Load(),
		ServerErrors: server, OwnErrors: own,
	}
}

// fault books one error where it belongs; errors of an ended run are nobody's.
func (w *worker) fault(ctx context.Context, err error) {
	f, ok := classify(ctx, err, w.late.busy())
	if !ok {
		return
	}
	if f.own {
		w.ownFault(f.kind, f.text)
		return
	}
	w.serverFault(f.kind, "%s", f.text)
}

func (w *worker) ownFault(kind, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.own.count(kind, text)
}

func (w *worker) serverFault(kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server.count(kind, fmt.Sprintf(format, args...))
}

// note says once what could not be judged.
func (w *worker) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.notes, text) {
		w.notes = append(w.notes, text)
	}
}

func (w *worker) refusal(code, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals.count(code, text)
}

// report writes the facts in bounded lines, then the result.
func (w *worker) report() error {
	const each = 500
	w.tally.checkMany(promisePlace, w.live.positions.Load())
	for rest := w.facts; len(rest) > 0; {
		n := min(each, len(rest))
		if err := w.out.write(line{Facts: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	hist, err := w.hist.encode()
	if err != nil {
		return err
	}
	return w.out.write(line{Result: &result{
		Counts: w.counts(), Histograms: hist, Verdicts: w.tally.verdicts(),
		Server: w.server, Own: w.own, Refusals: w.refusals, PeakRSS: peakRSS(),
		Bots: w.botted, Notes: w.notes,
	}})
}

// peakRSS is the most memory this process ever held, in bytes; 0 where the system
// does not tell.
func peakRSS() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for row := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(row, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}
