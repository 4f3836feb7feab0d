package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/cmd/waitroom/heap"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web"
	"github.com/waitroom-dev/waitroom/web/hub"
	"github.com/waitroom-dev/waitroom/web/pages"
)

// event is the one event of every measurement.
const event waitroom.EventID = "bench"

// The kinds of nodes.
const (
	kindOurs  = "ours"  // as waitroom serve wires it
	kindThree = "three" // the same HTTP side in front of three calls a join
	kindUsual = "usual" // sockets as one would first write them
)

// serveSlack is the heap's slack that waitroom serve has by default, in MiB.
const serveSlack = 32

// nodeEnv makes this program a node: it holds a nodeSpec.
const nodeEnv = "WAITROOM_BENCH_NODE"

// nodeSpec is what a node needs to know. Profile is the directory for its CPU
// profile, empty for none. OneCore keeps it to one processor.
type nodeSpec struct {
	Kind, Redis, Prefix, Profile string
	OneCore                      bool
}

// node is a node in a process of its own, as its parent sees it.
type node struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// startNode runs a node until end.
func startNode(ctx context.Context, spec nodeSpec) (*node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	doc, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self) //nolint:gosec // this program itself
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(doc))
	cmd.Stderr = os.Stderr
	n := &node{cmd: cmd}
	if n.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	n.lines = bufio.NewReader(stdout)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if n.addr, err = n.line(); err != nil {
		n.end()
		return nil, fmt.Errorf("node %s did not start: %w", spec.Kind, err)
	}
	return n, nil
}

func (n *node) line() (string, error) {
	line, err := n.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// collect lets the node give back all memory that it does not need.
func (n *node) collect() error {
	if _, err := io.WriteString(n.stdin, "collect\n"); err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	if _, err := n.line(); err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	return nil
}

// resident is the node's memory in bytes, as the kernel sees it.
func (n *node) resident() (float64, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(n.cmd.Process.Pid) + "/statm")
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(content), &size, &pages); err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	return pages * float64(os.Getpagesize()), nil
}

// cpu is the processor time that the node has used so far.
func (n *node) cpu() (time.Duration, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(n.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	// The name may hold blanks; behind it, user and system time are the 12th and 13th.
	_, rest, _ := strings.Cut(string(content), ") ")
	const user, tickS = 11, 100
	fields := strings.Fields(rest)
	if len(fields) < user+2 {
		return 0, errors.New("processor time: the kernel's line is too short")
	}
	var spent float64
	for _, field := range fields[user : user+2] {
		jiffies, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		spent += jiffies / tickS
	}
	return time.Duration(spent * float64(time.Second)), nil
}

// end ends the node, whose input this closes, and waits for it.
func (n *node) end() {
	_ = n.stdin.Close()
	_ = n.cmd.Wait()
}

// runNode is the node's own process. It prints its address, answers each line of
// its input, and ends with it.
func runNode(ctx context.Context) error {
	var spec nodeSpec
	if err := json.Unmarshal([]byte(os.Getenv(nodeEnv)), &spec); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if spec.Kind == kindLeads {
		return runLeads(ctx, spec)
	}
	if spec.OneCore {
		runtime.GOMAXPROCS(1)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if spec.Profile != "" {
		file, err := os.Create(filepath.Join(spec.Profile, "node-"+spec.Kind+".pprof"))
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	rdb := client(spec.Redis)
	defer func() { _ = rdb.Close() }()
	g, ctx := errgroup.WithContext(ctx)
	if spec.Kind == kindUsual {
		usualNode(ctx, g, listener)
	} else if err := webNode(ctx, g, spec, rdb, listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	slack, err := heap.New(serveSlack)
	if err != nil {
		return err
	}
	g.Go(func() error { return slack.Run(ctx) })
	fmt.Println(listener.Addr())
	// The reader is not waited for when something else ends the node first.
	go func() {
		defer stop()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
			for range 4 { // a stack is halved at each collection
				debug.FreeOSMemory()
			}
		}
	}()
	return g.Wait()
}

// webNode is the service's HTTP side, in front of the line or of three calls.
func webNode(ctx context.Context, g *errgroup.Group, spec nodeSpec, rdb *redis.Client, listener net.Listener) error {
	log, err := zap.Config{Level: zap.NewAtomicLevelAt(zap.WarnLevel), Encoding: "console", EncoderConfig: zap.NewDevelopmentEncoderConfig(), OutputPaths: []string{"stderr"}, ErrorOutputPaths: []string{"stderr"}}.Build()
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	url := "http://" + listener.Addr().String()
	keys, line, err := openLine(ctx, rdb, spec.Prefix)
	if err != nil {
		return err
	}
	passes, err := admission.NewPasses(keys, url)
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	deps := web.Deps{
		Line: line, Draws: line, Operations: line, Passes: passes, Load: admission.NewReports(rdb, spec.Prefix),
		Sample: func(context.Context, waitroom.EventID) ([]byte, error) { return []byte("{}"), nil },
		Pages:  pages.Files(), Listener: listener, Log: log, Registerer: metrics, Gatherer: metrics,
	}
	if spec.Kind == kindOurs {
		ears := &ears{}
		view, err := waitroom.NewView(line, ears)
		if err != nil {
			return err
		}
		h, err := hub.New(hub.Config{Origins: []string{url}}, hub.Deps{
			Line: line, Presence: line, View: view, Passes: passes, Ping: line.Ping, Refuse: web.Refuse, Log: log, Registerer: metrics,
		})
		if err != nil {
			return err
		}
		ears.Hub = h
		deps.View, deps.Hub = view, h
		g.Go(func() error { return view.Run(ctx) })
		g.Go(func() error { return h.Run(ctx) })
	} else {
		three, err := newThreeCalls(ctx, line, rdb, spec.Prefix, keys.ReceiptKeys()[0])
		if err != nil {
			return err
		}
		deps.Line, deps.View, deps.Hub = three, three, noSockets{}
	}
	//nolint:contextcheck // each request brings its own
	server, err := web.New(web.Config{PublicURL: url, OperatorToken: "bench-operator", SiteKey: benchSite}, deps)
	if err != nil {
		return err
	}
	g.Go(func() error { return server.Run(ctx) })
	return nil
}

// ears hand the view's news to a hub that is made after it.
type ears struct{ *hub.Hub }

// openLine is the line of a prefix; whoever opens it has the same keys.
func openLine(ctx context.Context, rdb *redis.Client, prefix string) (*admission.Keys, *waitroom.Line, error) {
	keys, err := admission.SharedKeys(ctx, rdb, prefix)
	if err != nil {
		return nil, nil, err
	}
	line, err := waitroom.New(waitroom.Config{
		Prefix: prefix, ReceiptKeys: keys.ReceiptKeys(), SubjectKey: keys.SubjectKey(), CallTimeout: patience,
	}, rdb, zap.NewNop())
	return keys, line, err
}

// openEvent makes an event, open, with the highest rate and no limits.
func openEvent(ctx context.Context, line *waitroom.Line, id waitroom.EventID) error {
	s := waitroom.DefaultSettings(id)
	s.RatePerS = 100_000
	s.Limits = waitroom.LimitSettings{Person: "off", PersonBurst: "off", Address: "off", Booking: "off", Issue: "off"}
	s.Grace, s.GraceMobile = waitroom.Duration(patience*60), waitroom.Duration(patience*60)
	_, err := line.Create(ctx, s, waitroom.Open, "bench")
	return err
}

// noSockets is the hub of a node that has none.
type noSockets struct{}

// ServeLive refuses.
func (noSockets) ServeLive(w http.ResponseWriter, _ *http.Request, _ waitroom.EventID, _ string) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

// ServeOps refuses.
func (noSockets) ServeOps(w http.ResponseWriter, _ *http.Request, _ waitroom.EventID, _ func(context.Context) bool) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

// usualNode serves sockets as one would first write them.
func usualNode(ctx context.Context, g *errgroup.Group, listener net.Listener) {
	e := echo.New()
	e.GET("/v1/events/:event/live", usualSocket(ctx))
	srv := &http.Server{Handler: e, ReadHeaderTimeout: patience}
	g.Go(func() error {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
}
