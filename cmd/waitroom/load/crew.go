package load

import (
	"context"
	"sync"
)

// crew makes the calls of all users of a worker in a bounded number of goroutines,
// so that users keep small stacks and the connections in use have a bound. Jobs are
// taken in order of arrival; whoever finds the whole crew busy waits, and that wait
// is part of the latency, because it runs from the user's intention.
type crew struct {
	size int
	jobs chan func()
}

func newCrew(size int) *crew { return &crew{size: size, jobs: make(chan func())} }

// run works until the jobs end; close it by end, after the last do returned.
func (c *crew) run() {
	var wg sync.WaitGroup
	for range c.size {
		wg.Go(func() {
			for job := range c.jobs {
				job()
			}
		})
	}
	wg.Wait()
}

// end lets run return. Nobody may call do after it.
func (c *crew) end() { close(c.jobs) }

// do has job made by the crew and waits for its end. Only the wait for a free hand
// ends with ctx; the job itself must heed ctx on its own.
func (c *crew) do(ctx context.Context, job func()) error {
	done := make(chan struct{})
	select {
	case c.jobs <- func() { defer close(done); job() }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
