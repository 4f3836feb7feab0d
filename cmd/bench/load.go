package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// conn is a keep-alive connection that costs little: one write and one read a
// request, no headers kept.
type conn struct {
	net.Conn
	in *bufio.Reader
}

var contentLength = []byte("content-length:")

// do sends a request as it stands and wants this status back.
func (c *conn) do(request []byte, status int) error {
	got, length, err := c.ask(request)
	if err != nil {
		return err
	}
	if got != status {
		body := make([]byte, min(length, 500))
		_, _ = io.ReadFull(c.in, body)
		return fmt.Errorf("answer %d, want %d: %s", got, status, body)
	}
	_, err = c.in.Discard(length)
	return err
}

// ask sends a request and reads the answer up to its body.
func (c *conn) ask(request []byte) (status, length int, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, 0, fmt.Errorf("send: %w", err)
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, fmt.Errorf("answer: %w", err)
	}
	if len(line) < 12 {
		return 0, 0, fmt.Errorf("answer: %q is no status line", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("answer: %w", err)
	}
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, 0, fmt.Errorf("answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return status, length, nil
		}
		if len(line) > len(contentLength) && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return 0, 0, fmt.Errorf("answer: %w", err)
			}
		}
	}
}

// clients are the load's connections to one node.
type clients []*conn

func dial(ctx context.Context, addr string, n int) (clients, error) {
	cs := make(clients, n)
	for i := range cs {
		var d net.Dialer
		raw, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			cs.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
		cs[i] = &conn{Conn: raw, in: bufio.NewReaderSize(raw, 4096)}
	}
	return cs, nil
}

func (cs clients) close() {
	for _, c := range cs {
		if c != nil {
			_ = c.Close()
		}
	}
}

// deadline bounds everything that the connections do until then.
func (cs clients) deadline(at time.Time) {
	for _, c := range cs {
		_ = c.SetDeadline(at) // one that is closed will say so itself
	}
}

// requests are sent in turn: each connection begins at one of its own.
type requests [][]byte

func (r requests) of(conn, turn, conns int) []byte { return r[(conn+turn*conns)%len(r)] }

// closed has every connection send the next request as soon as the last one is
// answered, for d. It gives the answers per second, and their number.
func (cs clients) closed(ctx context.Context, d time.Duration, rs requests, status int) (perS, n float64, err error) {
	var answers atomic.Int64
	began := time.Now()
	ends := began.Add(d)
	cs.deadline(ends.Add(patience))
	g, ctx := errgroup.WithContext(ctx)
	for i, c := range cs {
		g.Go(func() error {
			for turn := 0; ctx.Err() == nil && time.Now().Before(ends); turn++ {
				if err := c.do(rs.of(i, turn, len(cs)), status); err != nil {
					return err
				}
				answers.Add(1)
			}
			return ctx.Err()
		})
	}
	err = g.Wait()
	n = float64(answers.Load())
	return n / time.Since(began).Seconds(), n, err
}

// open sends at a fixed rate, whatever the answers do, each connection in its turn.
// An answer's time counts from when it was due; where our own timer rang late, from
// when that rang: only the server's lateness counts.
func (cs clients) open(ctx context.Context, perS float64, d time.Duration, rs requests, status int) ([]time.Duration, error) {
	took := make([][]time.Duration, len(cs))
	every := time.Duration(float64(len(cs)) / perS * float64(time.Second))
	began := time.Now().Add(10 * time.Millisecond)
	cs.deadline(began.Add(d + patience))
	g, ctx := errgroup.WithContext(ctx)
	for i, c := range cs {
		g.Go(func() error {
			timer := time.NewTimer(0)
			defer timer.Stop()
			first := began.Add(every * time.Duration(i) / time.Duration(len(cs)))
			for due := first; due.Before(began.Add(d)); due = due.Add(every) {
				from := due
				if wait := time.Until(due); wait > 0 {
					timer.Reset(wait)
					select {
					case <-timer.C:
						from = time.Now()
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				if err := c.do(rs.of(i, len(took[i]), len(cs)), status); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(from))
			}
			return nil
		})
	}
	err := g.Wait()
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	return all, err
}
