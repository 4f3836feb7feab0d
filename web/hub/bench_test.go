package hub

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// The clients of a benchmark live in a process of their own, so that their memory
// is not counted: the test binary runs itself with this variable set to
// "address count".
const childEnv = "HUB_BENCH_CLIENTS"

// runChild is the clients' process. It opens its sockets, says "ready", then reads
// and forgets whatever comes until its standard input ends.
func runChild() bool {
	spec, ok := os.LookupEnv(childEnv)
	if !ok {
		return false
	}
	address, count, _ := strings.Cut(spec, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		panic(err)
	}
	for i := range n {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_, err = fmt.Fprintf(conn, "GET /concert HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: place=%s\r\n\r\n",
				receiptOf(fmt.Sprintf("entry%011d", i), i+1))
		}
		if err == nil {
			_, err = bufio.NewReaderSize(conn, 16).ReadString('\n')
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "client", i, err)
			os.Exit(1)
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// crowd starts a hub and n clients in another process.
func crowd(b *testing.B, n int, cfg Config) (*Hub, func() float64) {
	b.Helper()
	st := &far{stage: newStage()}
	deps := st.deps()
	deps.View, deps.Line = st, st
	h, err := New(cfg, deps)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.Run(ctx) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("place")
		if err != nil {
			return
		}
		h.ServeLive(w, r, concert, c.Value)
	})}
	wg.Go(func() { _ = server.Serve(ln) })
	debug.FreeOSMemory()
	before := residentBytes(b)
	child := exec.CommandContext(b.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+ln.Addr().String()+" "+strconv.Itoa(n))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	require.NoError(b, err)
	stdout, err := child.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, child.Start())
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = child.Wait()
		cancel()
		_ = server.Close()
		wg.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	require.Equal(b, "ready\n", line)
	until(b, "all sockets", func() bool {
		known := 0
		ask(h, func(s *shard) { known += len(s.clients) }) // one shard after the other
		return known == n
	})
	return h, func() float64 { return float64(residentBytes(b)-before) / float64(n) }
}

// far is a view in which everybody stands far behind.
type far struct{ *stage }

// Position implements View.
func (*far) Position(_ waitroom.EventID, seq waitroom.Seq) (int64, bool) {
	return int64(seq) + 1_000_000, true
}

func residentBytes(b *testing.B) int64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("no /proc: resident memory cannot be read here")
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	require.NoError(b, err)
	return pages * int64(os.Getpagesize())
}

// BenchmarkMemory prints what one waiting socket costs: resident memory over the
// number of sockets, with everything the hub knows of it. The bar is 6 KB, the goal 3 KB.
func BenchmarkMemory(b *testing.B) {
	const sockets = 5000
	cfg := Config{MaxSockets: sockets, FarEvery: 2 * time.Second}
	_, perSocket := crowd(b, sockets, cfg)
	unforced := perSocket()
	for b.Loop() {
		debug.FreeOSMemory()
	}
	// A stack is halved at each collection; after a few they are as small as they get.
	for range 3 {
		debug.FreeOSMemory()
	}
	b.ReportMetric(perSocket(), "B/socket")
	b.ReportMetric(unforced, "B/socket-unforced")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFanOut compares the hub with a bare loop that writes prebuilt frames to
// the same sockets from as many goroutines. The bar is 0.8 of the bare loop's rate.
func BenchmarkFanOut(b *testing.B) {
	const sockets = 2000
	h, _ := crowd(b, sockets, Config{MaxSockets: sockets, FarEvery: 20 * time.Second})
	conns := make([][]net.Conn, len(h.shards))
	ask(h, func(s *shard) {
		for c := range s.clients {
			conns[s.index] = append(conns[s.index], c.conn)
		}
	})
	// position{} at the far end is about as long as this one.
	frame := appendFrame(nil, false, position{pos: 1_001_000, waiting: 1_001_000, eta: time.Hour, p90: time.Hour, tail: appendTail(nil, "", 10, 4210)}.append(nil))
	all := func(f func(i int)) time.Duration {
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range h.shards {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
		return time.Since(begun)
	}
	bare := func() time.Duration {
		return all(func(i int) {
			for _, c := range conns[i] {
				_, _ = c.Write(frame)
			}
		})
	}
	personal := func() time.Duration {
		return all(func(i int) {
			done := make(chan struct{})
			s := h.shards[i]
			s.posts <- post{kind: postCall, call: func() {
				for c := range s.clients {
					s.visit(c)
				}
				close(done)
			}}
			<-done
		})
	}
	version := int64(1)
	shared := func() time.Duration {
		version++
		ev := *h.rooms.get(concert).event.Load()
		ev.Version, ev.Message = version, fmt.Sprintf("%0110d", version)
		begun := time.Now()
		h.Changed(ev)
		for left := 1; left > 0; {
			left = 0
			ask(h, func(s *shard) { // one shard after the other
				for c := range s.clients {
					if c.notice < c.room.said.Load().number {
						left++
						break
					}
				}
			})
		}
		return time.Since(begun)
	}
	// Each round compares neighbours in time, so that a busy machine is busy for all.
	var rates, personals, shareds []float64
	for b.Loop() {
		for range 15 {
			before, p, sh, after := bare(), personal(), shared(), bare()
			base := (before + after).Seconds() / 2
			rates = append(rates, sockets/base)
			personals = append(personals, base/p.Seconds())
			shareds = append(shareds, base/sh.Seconds())
		}
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	b.ReportMetric(median(rates), "bare/s")
	b.ReportMetric(median(personals), "personal/bare")
	b.ReportMetric(median(shareds), "shared/bare")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkVisit is the hub's own work for one position, without the socket.
func BenchmarkVisit(b *testing.B) {
	st := &far{stage: newStage()}
	deps := st.deps()
	deps.View = st
	h, err := New(Config{Shards: 1}, deps)
	require.NoError(b, err)
	s := h.shards[0]
	ev, err := st.Event(b.Context(), concert)
	require.NoError(b, err)
	c := &client{room: h.rooms.enter(ev), home: s}
	c.owner.Store(s)
	p := &person{room: c.room, entry: "ann"}
	p.moved(7)
	p.add(c)
	b.ReportAllocs()
	for b.Loop() {
		s.owe(c)
		s.buf = s.gather(c, s.buf[:0])
	}
}
