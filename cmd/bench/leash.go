package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// leashed runs a server until its input ends, which happens also when the process
// that holds the other end dies. Its first argument is the signal to end it with.
const leashed = `signal=$1; shift; "$@" </dev/null & server=$!; read _; kill -$signal $server; wait $server`

// server is a process that ends with this one, however this one ends.
type server struct {
	cmd   *exec.Cmd
	leash io.Closer
	done  chan struct{} // closed when it has ended

	mu     sync.Mutex // guards output
	output bytes.Buffer
}

// start runs a program in a directory, as another user where who is set.
func start(ctx context.Context, dir string, who *syscall.Credential, signal, program string, args ...string) (*server, error) {
	// Its life is the leash's, not the context's.
	//nolint:gosec // the programs and arguments are this package's
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", append([]string{"-c", leashed, "sh", signal, program}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: who}
	s := &server{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = s, s
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	s.leash = leash
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() { // ends with the process, which end waits for
		defer close(s.done)
		_ = cmd.Wait() // its status says only that it was told to end
	}()
	return s, nil
}

// Write keeps what the process prints.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(p)
}

func (s *server) printed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// end ends the process and waits for it.
func (s *server) end() {
	_ = s.leash.Close()
	<-s.done
}
