package redistest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Fault says what a Proxy does to the reply of a script.
type Fault struct {
	// Cut closes the connection instead of passing the reply on.
	Cut bool
	// Delay holds the reply back for so long.
	Delay time.Duration
}

// Proxy stands between clients and a server. Handshakes and plain commands pass;
// only replies to EVALSHA and EVAL meet faults, after the server has done the work:
// that is the case in which a client sends a script again.
type Proxy struct {
	target string
	ln     net.Listener

	mu      sync.Mutex // guards what follows
	fault   func(n int) Fault
	scripts int // script replies seen
	conns   map[net.Conn]struct{}
	wg      sync.WaitGroup
}

// NewProxy stands before the server at target until the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("proxy: %v", err)
	}
	p := &Proxy{target: target, ln: ln, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept) // Cleanup waits for it and for what it starts
	tb.Cleanup(func() {
		_ = ln.Close()
		p.CutAll()
		p.wg.Wait()
	})
	return p
}

// Addr is where clients find the proxy.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Fail sets what happens to script replies from now on; f is asked with 1, 2, 3 …
// for each. nil passes them all.
func (p *Proxy) Fail(f func(n int) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.scripts = f, 0
}

// Scripts is how many script replies came since the last Fail.
func (p *Proxy) Scripts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts
}

// CutAll closes all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) next() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scripts++
	if p.fault == nil {
		return Fault{}
	}
	return p.fault(p.scripts)
}

func (p *Proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.keep(c)
		p.wg.Go(func() { p.serve(c) })
	}
}

// serve carries one connection, command by command: clients of ours do not
// pipeline scripts.
func (p *Proxy) serve(client net.Conn) {
	defer p.drop(client)
	var d net.Dialer
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	server, err := d.DialContext(ctx, "tcp", p.target)
	cancel()
	if err != nil {
		return
	}
	p.keep(server)
	defer p.drop(server)
	from, back := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, name, err := readValue(from)
		if err != nil {
			return
		}
		if _, err := server.Write(command); err != nil {
			return
		}
		answer, _, err := readValue(back)
		if err != nil {
			return
		}
		// A script that the server has not got has not run.
		if isScript(name) && !bytes.HasPrefix(answer, []byte("-NOSCRIPT")) {
			f := p.next()
			if f.Delay > 0 {
				<-time.After(f.Delay)
			}
			if f.Cut {
				return
			}
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

func isScript(name []byte) bool {
	return bytes.EqualFold(name, []byte("eval")) || bytes.EqualFold(name, []byte("evalsha"))
}

// readValue reads one RESP value whole; first is its first bulk string, a
// command's name.
func readValue(r *bufio.Reader) (raw, first []byte, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, nil, fmt.Errorf("read: %w", err)
	}
	raw = line
	if len(line) < 3 {
		return nil, nil, fmt.Errorf("short line %q", line)
	}
	switch line[0] {
	case '$':
		n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if err != nil {
			return nil, nil, fmt.Errorf("bulk length: %w", err)
		}
		if n < 0 {
			return raw, nil, nil
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, nil, fmt.Errorf("bulk: %w", err)
		}
		return append(raw, body...), body[:n], nil
	case '*', '%', '~', '>':
		n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if err != nil {
			return nil, nil, fmt.Errorf("array length: %w", err)
		}
		if line[0] == '%' {
			n *= 2
		}
		for i := range n {
			part, name, err := readValue(r)
			if err != nil {
				return nil, nil, err
			}
			raw = append(raw, part...)
			if i == 0 {
				first = name
			}
		}
		return raw, first, nil
	}
	return raw, nil, nil
}
