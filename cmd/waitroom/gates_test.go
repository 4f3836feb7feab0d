package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// site is somebody's shop, which knows nothing of waiting rooms: it says who came.
func site(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "welcome "+r.Header.Get("X-Waitroom-User")+" to "+r.Method+" "+r.URL.RequestURI())
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// freeAddress is an address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := redistest.FreePort(t.Context())
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// example is a file of deploy/gate with the addresses of this test.
func example(t *testing.T, name, front, site, service string, more ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../deploy/gate", name))
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(front)
	require.NoError(t, err)
	for _, must := range []string{"8081", "127.0.0.1:3000", "127.0.0.1:8080", "demo"} {
		require.Contains(t, string(raw), must, "%s says what to change", name)
	}
	text := strings.NewReplacer(append(more, "8081", port, "127.0.0.1:3000", site, "127.0.0.1:8080", service)...).Replace(string(raw))
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// program runs somebody else's server until the test ends.
func program(t *testing.T, address, name string, args ...string) {
	t.Helper()
	redistest.Need(t, name)
	var said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Log(said.String())
		}
	})
	until(t, 20*time.Second, name+" listens", func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.WithoutCancel(t.Context()), "tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// gates are the ways to put the waiting room before a site; each listens on front.
func gates() map[string]func(t *testing.T, front, site string, service *instance) {
	return map[string]func(t *testing.T, front, site string, service *instance){
		"nginx": func(t *testing.T, front, site string, service *instance) {
			t.Helper()
			redistest.Need(t, "nginx")
			dir := t.TempDir()
			conf := example(t, "nginx.conf", front, site, strings.TrimPrefix(service.url, "http://"), "http {\n",
				"http {\n  access_log off;\n  client_body_temp_path "+dir+"/body;\n  proxy_temp_path "+dir+"/proxy;\n"+
					"  fastcgi_temp_path "+dir+"/f;\n  uwsgi_temp_path "+dir+"/u;\n  scgi_temp_path "+dir+"/s;\n")
			program(t, front, "nginx", "-p", dir, "-c", conf, "-e", "stderr", "-g", "daemon off; pid "+dir+"/pid;")
		},
		"caddy": func(t *testing.T, front, site string, service *instance) {
			t.Helper()
			redistest.Need(t, "caddy")
			conf := example(t, "Caddyfile", front, site, strings.TrimPrefix(service.url, "http://"), ":8081 {", "{\n\tadmin off\n}\n:8081 {")
			raw, err := os.ReadFile(conf)
			require.NoError(t, err)
			_, port, err := net.SplitHostPort(front)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(conf, bytes.ReplaceAll(raw, []byte(":8081"), []byte(":"+port)), 0o600))
			program(t, front, "caddy", "run", "--config", conf, "--adapter", "caddyfile")
		},
		"waitroom gate": func(t *testing.T, front, site string, service *instance) {
			t.Helper()
			rules := filepath.Join(t.TempDir(), "rules.yaml")
			require.NoError(t, os.WriteFile(rules, []byte("rules:\n  - {path: /healthz, do: pass}\n"), 0o600))
			startProcess(t, nil, "gate", "--addr", front, "--upstream", "http://"+site, "--target", service.url,
				"--event", "demo", "--rules", rules, "--fresh", "200ms", "--log-format", "json")
		},
	}
}

// A site that knows nothing of us stands behind each gate: a stranger's browser goes
// to the waiting page and back, and only who was let in reaches the site.
func TestGatesBeforeASite(t *testing.T) {
	t.Parallel()
	for name, start := range gates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front := freeAddress(t)
			service := startInstance(t, "--origins", "http://"+front)
			start(t, front, site(t), service)
			home := "http://" + front

			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			browser := &http.Client{Jar: jar, Transport: &http.Transport{}, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			defer browser.CloseIdleConnections()
			ask := func(method, address string, form url.Values, header ...string) (*http.Response, string) {
				req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
				require.NoError(t, err)
				req.Header.Set("Accept", "text/html")
				if form != nil {
					req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				}
				for i := 0; i < len(header); i += 2 {
					req.Header.Set(header[i], header[i+1])
				}
				res, err := browser.Do(req)
				require.NoError(t, err)
				defer func() { _ = res.Body.Close() }()
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				return res, string(body)
			}

			res, body := ask(http.MethodGet, home+"/healthz", nil)
			require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
			wanted := home + "/cart?a=1&b=two%20words"
			res, body = ask(http.MethodGet, wanted, nil)
			require.Equal(t, http.StatusFound, res.StatusCode, "%s", body)
			require.NotContains(t, body, "welcome")
			waiting := service.url + "/e/demo?"
			query, found := strings.CutPrefix(res.Header.Get("Location"), waiting)
			require.True(t, found, res.Header.Get("Location"))
			values, err := url.ParseQuery(query)
			require.NoError(t, err)
			require.Equal(t, wanted, values.Get("return_to"))

			// Who says that they are somebody is nobody.
			res, body = ask(http.MethodGet, home+"/cart", nil, "X-Waitroom-User", "root", "X-Entry-Token", "forged")
			require.NotEqual(t, http.StatusOK, res.StatusCode)
			require.NotContains(t, body, "welcome")

			b := newBuyer(t, service, "demo")
			res, body = ask(http.MethodPost, home+"/v1/gate/demo/enter",
				url.Values{"entry_token": {b.pass}, "return_to": {"/cart?a=1"}}, "Origin", service.url, "Sec-Fetch-Site", "cross-site")
			require.Equal(t, http.StatusSeeOther, res.StatusCode, "%s", body)
			require.Equal(t, "/cart?a=1", res.Header.Get("Location"))
			claims := []string{"X-Waitroom-User", "root"}
			if name == "waitroom gate" { // Caddy takes out what a client's Connection names, ours too
				claims = append(claims, "Connection", "X-Waitroom-User")
			}
			res, body = ask(http.MethodGet, home+"/cart?a=1", nil, claims...)
			require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
			require.Equal(t, "welcome "+b.entry+" to GET /cart?a=1", body)
			res, body = ask(http.MethodPost, home+"/order", url.Values{"x": {"1"}})
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, "welcome "+b.entry+" to POST /order", body)

			// The browser that keeps no cookie comes straight back, and is told so.
			jar.SetCookies(res.Request.URL, []*http.Cookie{{Name: "waitroom_entry_demo", MaxAge: -1}})
			res, _ = ask(http.MethodGet, home+"/cart", nil, "Referer", service.url+"/")
			require.Contains(t, res.Header.Get("Location"), "cookies=blocked")

			status, _ := service.ops(http.MethodPost, "/demo/revoke", facts{"jti": claimsOf(t, b.pass)["jti"]})
			require.Equal(t, http.StatusNoContent, status)
			until(t, 10*time.Second, "revoked everywhere", func() bool {
				res, _ = ask(http.MethodGet, home+"/cart", nil, "X-Entry-Token", b.pass)
				return res.StatusCode == http.StatusForbidden
			})
		})
	}
}

// Wrong flags and rules stop the gate with one line.
func TestGateFaults(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("rules:\n  - {path: a//b, do: let}\n  - {do: pass}\n"), 0o600))
	for want, args := range map[string][]string{
		`upstream: "" is no http or https address`: {"--target", "http://x"},
		`target: wants the public URL`:             {"--upstream", "http://x"},
		`target: "x" wants the form`:               {"--upstream", "http://x", "--target", "x"},
		`ask: "x" wants the form`:                  {"--upstream", "http://x", "--target", "http://x", "--ask", "x"},
		`rule 1: do: "let" is none of pass`:        {"--upstream", "http://x", "--target", "http://x", "--rules", rules},
		`rule 2: name at least one of`:             {"--upstream", "http://x", "--target", "http://x", "--rules", rules},
		`proxies: "ten" is no network`:             {"--upstream", "http://x", "--target", "http://x", "--proxies", "ten"},
		`addr: "x" is no HOST:PORT`:                {"--upstream", "http://x", "--target", "http://x", "--addr", "x"},
	} {
		status, _, stderr := runCommand(t, nil, append([]string{"gate"}, args...)...)
		require.Equal(t, exitUsage, status, stderr)
		require.Contains(t, stderr, want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

// Traefik and Envoy are not to be had here: their examples are read, and say what to
// change; how Envoy asks is tested in package web.
func TestExamplesThatNobodyStarts(t *testing.T) {
	t.Parallel()
	for name, must := range map[string][]string{
		"traefik.yml": {"http.middlewares.waitroom.forwardAuth.address=http://127.0.0.1:8080/v1/gate/demo?redirect=1", "http.routers.site.middlewares.0=waitroom"},
		"envoy.yaml": {
			"failure_mode_allow=false", "path_prefix=/v1/gate/demo", "headers_to_add.0.key=x-waitroom-ok", "headers_to_add.0.value=200",
			"normalize_path=true", "request_mutations.0.remove=x-waitroom-user",
		},
	} {
		raw, err := os.ReadFile(filepath.Join("../../deploy/gate", name))
		require.NoError(t, err)
		var doc any
		require.NoError(t, yaml.Unmarshal(raw, &doc), name)
		var leaves []string
		var walk func(path string, v any)
		walk = func(path string, v any) {
			switch v := v.(type) {
			case map[string]any:
				for key, child := range v {
					walk(path+"."+key, child)
				}
			case []any:
				for i, child := range v {
					walk(path+"."+strconv.Itoa(i), child)
				}
			default:
				leaves = append(leaves, path+"="+fmt.Sprint(v))
			}
		}
		walk("", doc)
		all := strings.Join(leaves, "\n") + "\n"
		for _, line := range must {
			require.Contains(t, all, "."+line+"\n", name)
		}
		for _, change := range []string{"127.0.0.1:3000", "127.0.0.1:8080", "demo"} {
			require.Contains(t, string(raw), change, "%s says what to change", name)
		}
	}
}
