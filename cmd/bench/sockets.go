package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// socketUnits measure what waiting sockets take, and what telling them costs.
func socketUnits() []unit {
	return []unit{
		{bars: []string{"socket-memory"}, run: runSocketMemory},
		{bars: []string{"fan-out"}, run: runFanOut},
	}
}

// usualSocket is the handler that one writes first: it stays for as long as the
// socket does and reads, while a goroutine of its own writes.
func usualSocket(ctx context.Context) echo.HandlerFunc {
	up := websocket.Upgrader{}
	return func(c echo.Context) error {
		ws, err := up.Upgrade(c.Response(), c.Request(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = ws.Close() }()
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		wg.Go(func() {
			every := time.NewTicker(4 * time.Second)
			defer every.Stop()
			for position := 1; ; position++ {
				err := ws.WriteJSON(map[string]any{"type": "position", "position": position, "ahead": position, "waiting": position, "eta_s": 60, "rate_per_s": 10})
				if err != nil {
					return
				}
				select {
				case <-every.C:
				case <-ctx.Done():
					_ = ws.Close() // ends the reader
					return
				}
			}
		})
		for {
			if _, _, err := ws.ReadMessage(); err != nil {
				return nil // the peer went, which is no fault
			}
		}
	}
}

// footprint is what one waiting socket takes of a node's resident memory.
type footprint struct{ forced, unforced float64 }

func runSocketMemory(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
	s, err := startRedis(ctx, "")
	if err != nil {
		return nil, err
	}
	defer s.end()
	_, line, err := openLine(ctx, s.rdb, "sockets")
	if err != nil {
		return nil, err
	}
	if err := openEvent(ctx, line, event); err != nil {
		return nil, err
	}
	fill := func() ([]string, error) {
		receipts := make([]string, b.sockets)
		return receipts, joinAll(ctx, line, event, b.sockets, func(i int, p waitroom.Place) { receipts[i] = p.Receipt })
	}
	ours, err := measureSockets(ctx, nodeSpec{Kind: kindOurs, Redis: s.addr, Prefix: "sockets", Profile: b.profile}, b.sockets, fill)
	if err != nil {
		return nil, err
	}
	usual, err := measureSockets(ctx, nodeSpec{Kind: kindUsual, Redis: s.addr, Profile: b.profile}, b.sockets, func() ([]string, error) {
		return make([]string, b.sockets), nil
	})
	if err != nil {
		return nil, err
	}
	const most = 6000
	return []result{{
		Name: "socket-memory",
		Measured: fmt.Sprintf("%s bytes a socket after a collection, %s before (usual handler %s and %s: %.2f ×; %s sockets, whole node, kernel not counted)",
			thousands(ours.forced), thousands(ours.unforced), thousands(usual.forced), thousands(usual.unforced), ours.forced/usual.forced, thousands(float64(b.sockets))),
		Bar: "≤ 6 KB (goal 3 KB)", Verdict: verdict(ours.forced <= most),
		Figures: map[string]float64{"bytes": ours.forced, "bytes_unforced": ours.unforced, "usual_bytes": usual.forced, "usual_bytes_unforced": usual.unforced, "sockets": float64(b.sockets)},
	}}, nil
}

// measureSockets starts a node, lets people join behind its back, opens a socket
// for each, and looks at the node's memory before and after.
func measureSockets(ctx context.Context, spec nodeSpec, n int, fill func() ([]string, error)) (f footprint, err error) {
	node, err := startNode(ctx, spec)
	if err != nil {
		return f, err
	}
	defer node.end()
	if err := node.collect(); err != nil {
		return f, err
	}
	before, err := node.resident()
	if err != nil {
		return f, err
	}
	receipts, err := fill()
	if err != nil {
		return f, err
	}
	crowd, err := openSockets(ctx, node.addr, receipts)
	defer crowd.close()
	if err != nil {
		return f, err
	}
	// Everybody is told their position a few times more.
	const settle = 9 * time.Second
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return f, ctx.Err()
	}
	unforced, err := node.resident()
	if err != nil {
		return f, err
	}
	if err := node.collect(); err != nil {
		return f, err
	}
	forced, err := node.resident()
	if err != nil {
		return f, err
	}
	if lost := crowd.ended(); lost > 0 {
		return f, fmt.Errorf("%d of %d sockets were closed", lost, n)
	}
	return footprint{forced: (forced - before) / float64(n), unforced: (unforced - before) / float64(n)}, nil
}

// sockets are clients that read and forget.
type sockets struct {
	conns   []net.Conn
	readers sync.WaitGroup

	mu   sync.Mutex // guards over
	over int
}

// openSockets opens one for each receipt, and waits for everybody's first message.
func openSockets(ctx context.Context, addr string, receipts []string) (*sockets, error) {
	s := &sockets{conns: make([]net.Conn, len(receipts))}
	g, ctx := errgroup.WithContext(ctx)
	const dialers = 32
	g.SetLimit(dialers)
	for i, receipt := range receipts {
		g.Go(func() error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			s.conns[i] = c
			_ = c.SetDeadline(time.Now().Add(2 * patience))
			in, err := upgrade(c, receipt)
			if err == nil {
				_, err = in.ReadByte() // of the first message
			}
			if err != nil {
				return fmt.Errorf("socket %d: %w", i, err)
			}
			_ = c.SetDeadline(time.Time{})
			s.readers.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				s.mu.Lock()
				s.over++
				s.mu.Unlock()
			})
			return nil
		})
	}
	return s, g.Wait()
}

// upgrade shakes hands.
func upgrade(c net.Conn, receipt string) (*bufio.Reader, error) {
	_, err := fmt.Fprintf(c, "GET /v1/events/%s/live HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: waitroom_place_%s=%s\r\n\r\n", event, event, receipt)
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	in := bufio.NewReaderSize(c, 512)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("answer: %s", res.Status)
	}
	return in, nil
}

// ended is how many have been closed by the server.
func (s *sockets) ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *sockets) close() {
	for _, c := range s.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	s.readers.Wait()
}

// runFanOut runs the hub's own benchmark, which knows the hub from inside.
func runFanOut(ctx context.Context, _ *bench, _ func(string) bool) ([]result, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkFanOut$", "-benchtime", "1x", "-count", "1",
		"github.com/waitroom-dev/waitroom/web/hub")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test: %w: %s", err, out)
	}
	figures := benchmarkFigures(string(out))
	bare, personal, shared := figures["bare/s"], figures["personal/bare"], figures["shared/bare"]
	if bare == 0 || personal == 0 || shared == 0 {
		return nil, errors.New("the hub's benchmark printed no figures: " + string(out))
	}
	const least = .8
	return []result{{
		Name: "fan-out",
		Measured: fmt.Sprintf("%.2f × for positions, %.2f × for what is told to all (bare loop: %s messages/s, 2,000 sockets)",
			personal, shared, thousands(bare)),
		Bar: "≥ 0.8 × a bare loop of prebuilt frames", Verdict: verdict(min(personal, shared) >= least),
		Figures: map[string]float64{"personal_ratio": personal, "shared_ratio": shared, "bare_per_s": bare},
	}}, nil
}

// benchmarkFigures reads the figures of go test's benchmark lines, by their units.
func benchmarkFigures(out string) map[string]float64 {
	figures := make(map[string]float64)
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if x, err := strconv.ParseFloat(fields[i], 64); err == nil {
				figures[fields[i+1]] = x
			}
		}
	}
	return figures
}
