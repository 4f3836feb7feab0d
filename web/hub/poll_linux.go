package hub

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// poller reads all sockets in one goroutine: an epoll set says which have something
// to read. A parked goroutine a socket would cost 4 to 5 KB, most of what a waiting
// person costs. The set is itself a file that the Go runtime waits for, so that no
// thread is blocked.
type poller struct {
	file *os.File
	raw  syscall.RawConn
	fd   int

	mu      sync.Mutex // guards the following
	clients []*client  // by file descriptor; nil: none
}

func newPoller() (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd) // the first error counts
		return nil, fmt.Errorf("epoll: %w", err)
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close() // the first error counts
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{file: file, raw: raw, fd: fd}, nil
}

// add begins to read from c; false if c must be read by a goroutine of its own.
func (p *poller) add(c *client) bool {
	if c.raw == nil {
		return false
	}
	var err error
	ctl := c.raw.Control(func(u uintptr) {
		fd := int(u)
		p.set(fd, c)
		err = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{
			Events: syscall.EPOLLIN | syscall.EPOLLRDHUP,
			Fd:     int32(fd), //nolint:gosec // a file descriptor fits
		})
	})
	if ctl == nil && err == nil {
		return true
	}
	p.remove(c)
	return false
}

// remove ends the reading from c. It must be called before c is closed, since the
// descriptor may then belong to somebody else at once.
func (p *poller) remove(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.fd != 0 && p.clients[c.fd] == c {
		p.clients[c.fd] = nil
		// A closed connection is not in the set any more.
		_ = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_DEL, c.fd, nil)
	}
}

func (p *poller) set(fd int, c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fd >= len(p.clients) {
		p.clients = append(p.clients, make([]*client, fd+1-len(p.clients))...)
	}
	p.clients[fd], c.fd = c, fd
}

func (p *poller) get(fd int32) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clients[fd]
}

// close ends run.
func (p *poller) close() {
	_ = p.file.Close() // run ends either way
}

// run reads until close.
func (p *poller) run(h *Hub) error {
	var (
		events [128]syscall.EpollEvent
		n      int
		failed error
		buf    [readBuffer]byte
	)
	for {
		err := p.raw.Read(func(fd uintptr) bool {
			n, failed = syscall.EpollWait(int(fd), events[:], 0)
			return n != 0 // with none ready the runtime waits
		})
		switch {
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("epoll: %w", err)
		case errors.Is(failed, syscall.EINTR):
			continue
		case failed != nil:
			return fmt.Errorf("epoll: %w", failed)
		}
		for _, e := range events[:n] {
			if c := p.get(e.Fd); c != nil {
				p.read(h, c, buf[:])
			}
		}
	}
}

// read takes what there is in c's socket, up to one buffer; if there is more, the
// next round brings it, after all others had their turn.
func (p *poller) read(h *Hub, c *client, buf []byte) {
	var n int
	var failed error
	err := c.raw.Read(func(fd uintptr) bool {
		n, failed = syscall.Read(int(fd), buf)
		return true
	})
	switch {
	case err == nil && n > 0:
		h.hear(c, buf[:n])
	case err == nil && (errors.Is(failed, syscall.EAGAIN) || errors.Is(failed, syscall.EINTR)):
	default: // the end of the stream, or a broken one
		p.remove(c)
		c.home.posts <- post{kind: postGone, client: c}
	}
}
