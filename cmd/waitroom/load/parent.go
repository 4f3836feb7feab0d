package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// startDelay is the time that worker processes get to be ready before the first
// arrival.
const startDelay = 500 * time.Millisecond

// stopGrace is how long a worker that was told to stop may take to report.
const stopGrace = 20 * time.Second

// Run brings the crowd and returns what it found. A *UsageError means that nothing
// was done. When ctx ends, the workers end, and the report holds what was seen until
// then. Progress goes to live, a line a second; what workers complain about too.
func Run(ctx context.Context, c Config, live io.Writer) (*Report, error) {
	files := fileLimit()
	c = c.withDefaults(files)
	if err := c.validate(files); err != nil {
		return nil, err
	}
	if len(c.Command) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this executable: %w", err)
		}
		c.Command = []string{exe, "load", "worker"}
	}
	w := newWatcher(c)
	if err := w.first(ctx); err != nil {
		if errors.Is(err, errNoEvent) {
			return nil, &UsageError{err: err}
		}
		return nil, err
	}
	l, _ := w.known()
	c.Checks.PerUser = l.perUser
	lanes, err := w.lanes()
	if err != nil {
		return nil, &UsageError{err: err}
	}
	c.Crowd.Lanes = lanes
	p := &parent{config: c, live: &sharedWriter{w: live}, watcher: w, start: time.Now().Add(startDelay), hist: newHistograms(), tally: newTally()}
	p.progress = make([]Counts, c.Workers)
	err = p.run(ctx)
	return p.report(ctx, err)
}

// parent is one run, seen from above its workers.
type parent struct {
	config  Config
	live    io.Writer
	watcher *watcher
	start   time.Time
	hist    *histograms
	tally   *tally

	mu       sync.Mutex
	progress []Counts // guarded by mu, as all below: the last of each worker
	facts    []fact
	sum      result
}

// sharedWriter lets the parent and what its workers complain about share one writer.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

// run starts the workers, shows their progress, and waits until all have reported.
func (p *parent) run(ctx context.Context) error {
	side, stop := context.WithCancel(ctx)
	var sides sync.WaitGroup
	sides.Go(func() { p.watcher.watch(side) })
	sides.Go(func() { p.show(side) })
	defer sides.Wait()
	defer stop()

	var workers errgroup.Group // one that fails does not take the others' figures with it
	for i := range p.config.Workers {
		workers.Go(func() error { return p.work(ctx, i) })
	}
	return workers.Wait()
}

// work runs one worker process from its spec to its result.
func (p *parent) work(ctx context.Context, i int) error {
	c := p.config
	c.OperatorToken = "" // not the workers' business
	first, err := json.Marshal(spec{Config: c, Worker: i, Start: p.start})
	if err != nil {
		return fmt.Errorf("worker %d: %w", i, err)
	}
	// A worker in a process group of its own does not get the terminal's Ctrl-C: the
	// parent tells it, by its pid, and it still reports.
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...) //nolint:gosec // this very executable
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	cmd.Stderr = p.live
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("worker %d: %w", i, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("worker %d: %w", i, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("worker %d: %w", i, err)
	}
	_, writeErr := in.Write(append(first, '\n'))
	readErr := readLines(out, func(l line) error { return p.take(i, l) })
	_ = in.Close() // the worker's word to end, if it has not
	waitErr := cmd.Wait()
	if err := errors.Join(writeErr, readErr); err != nil {
		return fmt.Errorf("worker %d: %w", i, errors.Join(err, waitErr))
	}
	return nil // it has reported; how it ended after that changes nothing
}

// take files one line of a worker.
func (p *parent) take(i int, l line) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.Progress != nil:
		p.progress[i] = *l.Progress
	case l.Facts != nil:
		p.facts = append(p.facts, l.Facts...)
	case l.Result != nil:
		r := l.Result
		p.progress[i] = r.Counts
		p.sum.Counts.add(r.Counts)
		p.sum.Server.add(r.Server)
		p.sum.Own.add(r.Own)
		p.sum.Refusals.add(r.Refusals)
		p.sum.PeakRSS += r.PeakRSS
		p.sum.Bots.add(r.Bots)
		for _, n := range r.Notes {
			if !slices.Contains(p.sum.Notes, n) {
				p.sum.Notes = append(p.sum.Notes, n)
			}
		}
		p.tally.add(r.Verdicts)
		return p.hist.add(r.Histograms)
	}
	return nil
}

// show writes a line of progress each second.
func (p *parent) show(ctx context.Context) {
	for pause(ctx, time.Second) == nil {
		var all Counts
		p.mu.Lock()
		for _, c := range p.progress {
			all.add(c)
		}
		p.mu.Unlock()
		_, _ = fmt.Fprintf(p.live, "%5.0fs  joined %d/%d  waiting %d  admitted %d  bought %d  errors %d server, %d own\n",
			max(0, time.Since(p.start).Seconds()), all.Joined, p.config.Crowd.Users, all.Waiting, all.Admitted, all.Bought, all.ServerErrors, all.OwnErrors)
	}
}

// fileLimit is how many files this process may hold, and so its children.
func fileLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return int(min(l.Cur, 1<<20))
}
