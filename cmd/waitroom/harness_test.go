package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary builds the command once for all tests that need a process of its own.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "waitroom-bin-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "waitroom")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// operatorToken is the one every service of these tests is started with.
const operatorToken = "operator-token-of-the-tests"

// siteKey likewise.
const siteKey = "site-key-of-the-tests"

// instance is a `waitroom serve` process, or another that listens.
type instance struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when the process has ended and err is set
	err  error

	mu  sync.Mutex // guards log and out
	log strings.Builder
	out strings.Builder
}

// Write takes what the process prints.
func (s *instance) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

// printed is what the process has printed, apart from its log.
func (s *instance) printed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// startInstance starts `waitroom serve` on a free port with its own data
// directory, and waits until it listens. It is killed when the test ends.
func startInstance(t *testing.T, args ...string) *instance {
	t.Helper()
	return startProcess(t, nil, append([]string{
		"serve", "--addr", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--log-format", "json",
		"--operator-token", operatorToken, "--site-key", siteKey,
	}, args...)...)
}

// startProcess starts a command that listens and logs in JSON, in a directory of
// its own.
func startProcess(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	bin, err := binary()
	require.NoError(t, err)
	s := &instance{t: t, done: make(chan struct{})}
	s.cmd = exec.Command(bin, args...)
	s.cmd.Dir = t.TempDir()
	s.cmd.Env = append(cleanEnviron(), env...)
	stderr, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	s.cmd.Stdout = s
	require.NoError(t, s.cmd.Start())
	listening := make(chan string, 1)
	go s.follow(stderr, listening)
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.url, s.logs())
		}
	})
	select {
	case addr := <-listening:
		s.url = "http://" + addr
	case <-s.done:
		require.FailNow(t, "the service ended before it listened", s.logs())
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the service did not listen within 30 s", s.logs())
	}
	return s
}

// follow keeps the log and reports the address once; then it waits for the process.
func (s *instance) follow(stderr io.Reader, listening chan<- string) {
	defer close(s.done)
	scanner := bufio.NewScanner(stderr)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line struct{ Msg, Addr string }
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "listening" {
			listening <- line.Addr
		}
		s.mu.Lock()
		if s.log.Len() < 1<<20 {
			s.log.WriteString(scanner.Text() + "\n")
		}
		s.mu.Unlock()
	}
	s.err = s.cmd.Wait()
}

func (s *instance) logs() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// signal sends one signal to the process.
func (s *instance) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
}

// wait returns the exit status, or fails after the time.
func (s *instance) wait(limit time.Duration) int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(limit):
		require.FailNow(s.t, "the service did not end", "within %s\n%s", limit, s.logs())
	}
	return s.cmd.ProcessState.ExitCode()
}

// cleanEnviron is the test's environment without variables that configure us.
func cleanEnviron() []string {
	var out []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, envPrefix) {
			out = append(out, pair)
		}
	}
	return out
}

// runCommand runs one command line to its end.
func runCommand(t *testing.T, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	bin, err := binary()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(cleanEnviron(), env...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit { //nolint:errorlint // Run returns it unwrapped
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// oneCall is a client for one call, with connections of its own: what a test closes behind
// it is never another's. It follows no redirect.
func oneCall() *http.Client {
	return &http.Client{
		Timeout:       20 * time.Second,
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call sends one request and returns status, headers and the decoded body.
func call(t *testing.T, method, url string, body any, header map[string]string) (int, http.Header, map[string]any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		reader = strings.NewReader(string(raw))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	require.NoError(t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	client := oneCall()
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	var decoded map[string]any
	if len(raw) > 0 && strings.Contains(res.Header.Get("Content-Type"), "json") {
		require.NoError(t, json.Unmarshal(raw, &decoded), string(raw))
	}
	return res.StatusCode, res.Header, decoded
}

// ops calls the ops API with the operator's token.
func (s *instance) ops(method, path string, body any) (int, map[string]any) {
	s.t.Helper()
	status, _, answer := call(s.t, method, s.url+"/v1/ops/events"+path, body, map[string]string{"Authorization": "Bearer " + operatorToken})
	return status, answer
}

// until asks again and again until the condition is true, or fails after the limit.
func until(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			require.FailNow(t, "not in time: "+what)
		case <-ticker.C:
		}
	}
}

// claimsOf reads a JWT's claims; the signature is others' to check.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(raw, &claims))
	return claims
}
