package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/admission/ledger"
	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// kindLeads is a node that does nothing but let people in, or stand by.
	kindLeads = "leads"
	// benchLease is shorter than the service's two seconds, so that fifty faults take
	// less than a minute. Its retry is the service's: a tick.
	benchLease = 600 * time.Millisecond
	leaderRate = 100
	leaders    = 3
)

// The faults that a leader meets.
const (
	faultKill   = iota // the process dies
	faultPlan          // it is told to end
	faultFreeze        // it is stopped for longer than its lease, and goes on
	faultDepose        // somebody deletes the lease by hand
	faults
)

// leaderUnit measures how long nobody is let in when the leader is lost.
func leaderUnit() unit { return unit{bars: []string{"leader-lost"}, run: runLeader} }

// runLeads is such a node's life: it says "yes" or "no" to each line of its input,
// whether it leads, and ends with it.
func runLeads(ctx context.Context, spec nodeSpec) error {
	rdb := client(spec.Redis)
	defer func() { _ = rdb.Close() }()
	_, line, err := openLine(ctx, rdb, spec.Prefix)
	if err != nil {
		return err
	}
	lease, err := admission.NewLease(admission.LeaseConfig{Prefix: spec.Prefix, TTL: benchLease}, rdb, zap.NewNop())
	if err != nil {
		return err
	}
	c, err := admission.New(admission.Config{Node: strconv.Itoa(os.Getpid())}, admission.Deps{
		Line: line, Leadership: lease, Log: zap.NewNop(), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fmt.Println("ready")
	// The reader is not waited for when something else ends the node first.
	go func() {
		defer stop()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println(map[bool]string{true: "yes", false: "no"}[c.Leading()])
		}
	}()
	return c.Run(ctx)
}

// leads asks the node whether it leads.
func (n *node) leads() (bool, error) {
	if _, err := io.WriteString(n.stdin, "?\n"); err != nil {
		return false, fmt.Errorf("ask a node: %w", err)
	}
	answer, err := n.line()
	return answer == "yes", err
}

// kill ends the node as a crash does.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	n.end()
}

// reign is an event with some nodes that may lead, and what became of it.
type reign struct {
	spec  nodeSpec
	store *store
	line  *waitroom.Line
	nodes []*node

	read   int64         // leaves read so far
	leaves []ledger.Leaf // all of them
	gaps   [faults][]time.Duration
}

func runLeader(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
	virtual, err := virtualFaults(ctx)
	if err != nil {
		return nil, err
	}
	s, err := startRedis(ctx, "")
	if err != nil {
		return nil, err
	}
	defer s.end()
	r := &reign{store: s, spec: nodeSpec{Kind: kindLeads, Redis: s.addr, Prefix: "leader"}}
	defer r.end()
	if err := r.begin(ctx, b); err != nil {
		return nil, err
	}
	for i := range b.faults {
		if err := r.fault(ctx, i%faults); err != nil {
			return nil, fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	if err := r.follow(ctx); err != nil {
		return nil, err
	}
	return []result{r.result(b, virtual)}, nil
}

// begin opens the event, lets people join, and starts the nodes.
func (r *reign) begin(ctx context.Context, b *bench) (err error) {
	if _, r.line, err = openLine(ctx, r.store.rdb, r.spec.Prefix); err != nil {
		return err
	}
	if err := openEvent(ctx, r.line, event); err != nil {
		return err
	}
	if _, err := r.line.Patch(ctx, event, fmt.Appendf(nil, `{"rate_per_s":%d,"claim_ttl":"1h"}`, leaderRate), "bench"); err != nil {
		return err
	}
	if err := joinAll(ctx, r.line, event, b.faults*2*leaderRate, nil); err != nil {
		return err
	}
	for range leaders {
		if err := r.add(ctx); err != nil {
			return err
		}
	}
	return r.settle(ctx)
}

func (r *reign) add(ctx context.Context) error {
	n, err := startNode(ctx, r.spec)
	if err != nil {
		return err
	}
	r.nodes = append(r.nodes, n)
	return nil
}

func (r *reign) end() {
	for _, n := range r.nodes {
		_ = n.cmd.Process.Signal(syscall.SIGCONT)
	}
	var g errgroup.Group
	for _, n := range r.nodes {
		g.Go(func() error { n.end(); return nil })
	}
	_ = g.Wait()
}

// settle waits until somebody was let in half a second after now, so that faults
// meet a reign and not each other.
func (r *reign) settle(ctx context.Context) error {
	from := time.Now().Add(benchLease * 3 / 4)
	_, err := r.next(ctx, from, 0)
	return err
}

// next is the first leaf after a moment and of a later term than the fence.
func (r *reign) next(ctx context.Context, from time.Time, fence int64) (ledger.Leaf, error) {
	var found ledger.Leaf
	var failed error
	err := until(ctx, nil, func(ctx context.Context) bool {
		was := len(r.leaves)
		if failed = r.follow(ctx); failed != nil {
			return true
		}
		for _, l := range r.leaves[was:] {
			if l.At.After(from) && l.Fence > fence {
				found = l
				return true
			}
		}
		return false
	})
	if err == nil {
		err = failed
	}
	return found, err
}

// follow reads what the admission log says by now.
func (r *reign) follow(ctx context.Context) error {
	for {
		page, err := r.line.Log(ctx, event, r.read, 1000)
		if err != nil {
			return err
		}
		for _, text := range page.Leaves {
			l, err := ledger.Parse(text)
			if err != nil {
				return err
			}
			r.leaves = append(r.leaves, l)
		}
		if r.read += int64(len(page.Leaves)); len(page.Leaves) == 0 {
			return nil
		}
	}
}

// leader is the node that leads, and its term.
func (r *reign) leader(ctx context.Context) (i int, fence int64, err error) {
	err = until(ctx, nil, func(context.Context) bool {
		for n, node := range r.nodes {
			if leads, err := node.leads(); err == nil && leads {
				i = n
				return true
			}
		}
		return false
	})
	return i, r.leaves[len(r.leaves)-1].Fence, err
}

// fault does one thing to the leader, and notes how long nobody came in.
func (r *reign) fault(ctx context.Context, kind int) error {
	i, fence, err := r.leader(ctx)
	if err != nil {
		return err
	}
	victim := r.nodes[i]
	began := time.Now()
	switch kind {
	case faultKill:
		victim.kill()
	case faultPlan:
		_ = victim.stdin.Close()
	case faultFreeze:
		err = victim.cmd.Process.Signal(syscall.SIGSTOP)
	case faultDepose:
		err = r.store.rdb.Del(ctx, r.spec.Prefix+":{leader}:lease").Err()
	}
	if err != nil {
		return err
	}
	leaf, err := r.next(ctx, began, fence)
	if err != nil {
		return err
	}
	r.gaps[kind] = append(r.gaps[kind], leaf.At.Sub(began))
	switch kind {
	case faultFreeze: // it wakes with a term that it may take for its own
		err = victim.cmd.Process.Signal(syscall.SIGCONT)
	case faultKill, faultPlan:
		victim.end()
		r.nodes = append(r.nodes[:i], r.nodes[i+1:]...)
		err = r.add(ctx)
	}
	if err != nil {
		return err
	}
	return r.settle(ctx)
}

// over is how many were let in above the cap in the fullest second, and people who
// came in twice.
func over(leaves []ledger.Leaf, rate float64) (above, twice int64) {
	most := int64(math.Ceil(rate*1.1 - 1e-9))
	seen := make(map[int64]bool)
	from, in := 0, int64(0)
	for _, l := range leaves {
		for _, run := range l.Runs {
			for seq := run.First; seq < run.First+run.Len; seq++ {
				if seen[seq] {
					twice++
				}
				seen[seq] = true
			}
		}
		in += l.People()
		for !leaves[from].At.After(l.At.Add(-time.Second)) {
			in -= leaves[from].People()
			from++
		}
		above = max(above, in-most)
	}
	return above, twice
}

func (r *reign) result(b *bench, virtual figuresOfFaults) result {
	const tick = admission.DefaultTick
	above, twice := over(r.leaves, leaderRate)
	lost := append(append([]time.Duration(nil), r.gaps[faultKill]...), r.gaps[faultFreeze]...)
	planned := r.gaps[faultPlan]
	good := quantile(lost, 1) <= benchLease+tick && quantile(planned, 1) <= 2*tick && above == 0 && twice == 0 && virtual.over == 0
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return result{
		Name: "leader-lost",
		Measured: fmt.Sprintf("killed or frozen: median %s ms, most %s ms (lease %s ms and a tick: %s); planned: %s, most %s ms; deposed by hand: most %s ms; "+
			"%d over-admissions in %d faults on Redis with %d processes, %d twice; %d in %d in virtual time",
			ms(quantile(lost, .5)), ms(quantile(lost, 1)), ms(benchLease), ms(benchLease+tick),
			ms(quantile(planned, .5)), ms(quantile(planned, 1)), ms(quantile(r.gaps[faultDepose], 1)),
			above, b.faults, leaders, twice, virtual.over, virtual.faults),
		Bar:     "next admission within lease + 1 tick (kill), 2 ticks (planned); 0 over-admissions in 1,000 faults in virtual time and 50 on real servers",
		Verdict: verdict(good),
		Figures: map[string]float64{
			"lost_ms": float64(quantile(lost, 1).Milliseconds()), "lease_ms": float64(benchLease.Milliseconds()),
			"planned_ms": float64(quantile(planned, 1).Milliseconds()), "faults": float64(b.faults), "virtual_faults": float64(virtual.faults),
		},
	}
}

// figuresOfFaults is what the test in virtual time saw.
type figuresOfFaults struct{ faults, over int }

var faultsLine = regexp.MustCompile(`faults (\d+), over-admissions (-?\d+)`)

// virtualFaults runs the faults in virtual time, which are a test of the line.
func virtualFaults(ctx context.Context) (figuresOfFaults, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count", "1", "-run", "^TestPromise3NoFaultsGetAboveTheCap$", "github.com/waitroom-dev/waitroom/waitroom")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return figuresOfFaults{}, fmt.Errorf("go test: %w: %s", err, out)
	}
	return parseFaults(string(out))
}

func parseFaults(out string) (figuresOfFaults, error) {
	var f figuresOfFaults
	for _, m := range faultsLine.FindAllStringSubmatch(out, -1) {
		n, errN := strconv.Atoi(m[1])
		above, errA := strconv.Atoi(m[2])
		if err := cmp.Or(errN, errA); err != nil {
			return f, fmt.Errorf("faults in virtual time: %w", err)
		}
		f.faults, f.over = f.faults+n, f.over+above
	}
	if f.faults == 0 {
		return f, fmt.Errorf("the test in virtual time printed no figures: %s", strings.TrimSpace(out))
	}
	return f, nil
}
