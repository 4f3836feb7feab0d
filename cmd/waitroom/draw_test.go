package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/draw"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// beacons is a drand network whose rounds come each second.
func beacons(t *testing.T) string {
	t.Helper()
	genesis := time.Now().Add(-time.Hour).Unix()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"period":1,"genesis_time":%d}`, genesis)
	})
	mux.HandleFunc("GET /public/{round}", func(w http.ResponseWriter, r *http.Request) {
		var round int64
		_, _ = fmt.Sscan(r.PathValue("round"), &round)
		if time.Now().Unix() < genesis+round-1 {
			w.WriteHeader(http.StatusTooEarly)
			return
		}
		signature := fmt.Appendf(nil, "signature of %d", round)
		_, _ = fmt.Fprintf(w, `{"round":%d,"signature":"%x","randomness":"%x"}`, round, signature, sha256.Sum256(signature))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// Early birds come in by the published draw, over two instances, and everybody can
// check it: each fan by a proof, anyone by the bundle.
func TestDrawProvesItself(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Config{}).URL()
	var nodes [2]*instance
	for i := range nodes {
		nodes[i] = startInstance(t, "--redis", redis)
	}
	s := nodes[0]
	s.create("gala", facts{"order": "draw", "state": "lobby", "beacon": facts{"url": beacons(t)}})
	before, _ := s.public("gala")["draw"].(map[string]any)
	require.NotEmpty(t, before["commitment"], "committed before anybody comes")
	require.NotContains(t, before, "seed")

	early := make(map[draw.Hash]*person)
	for i := range 40 {
		p := join(t, nodes[i%2], "gala")
		early[draw.Leaf("gala", p.entry)] = p
		me := p.me(nodes[(i+1)%2])
		require.Equal(t, "lobby", me["state"])
		require.NotContains(t, me, "position")
		require.NotContains(t, me, "eta_s")
	}
	_, _, joined := call(t, http.MethodPost, s.url+"/v1/events/gala/entries", nil, nil)
	require.EqualValues(t, 41, joined["waiting"], "who has just come is counted")
	var sockets []*live
	for _, p := range early {
		sockets = append(sockets, p.open(nodes[len(sockets)%2]))
	}
	s.patch("gala", facts{"state": "open", "rate_per_s": 0.1})
	late := join(t, nodes[1], "gala")
	for _, socket := range sockets { // all of them learn their place soon: alone, each hears every 4 s
		for socket.next(20*time.Second, "event")["state"] != "open" {
			continue
		}
	}
	opened := time.Now()
	for _, socket := range sockets {
		socket.next(20*time.Second, "position", "admitted")
	}
	require.Less(t, time.Since(opened), 3*time.Second)
	s.patch("gala", facts{"rate_per_s": 20})

	status, _, raw := request{method: http.MethodGet, path: "/v1/events/gala/draw"}.send(t, nodes[1])
	require.Equal(t, http.StatusOK, status, "%s", raw)
	bundle, err := draw.ReadBundle(bytes.NewReader(raw))
	require.NoError(t, err)
	require.NoError(t, bundle.Verify())
	require.Equal(t, before["commitment"], bundle.Commitment.String())
	require.NotNil(t, bundle.Beacon)
	require.Len(t, bundle.Line, 41)

	// The order of coming in is the draw's, and latecomers are behind.
	admitted := func(p *person) time.Time {
		var at time.Time
		until(t, 30*time.Second, "let in", func() bool {
			text, _ := p.me(s)["admitted_at"].(string)
			at, _ = time.Parse(time.RFC3339, text)
			return !at.IsZero()
		})
		return at
	}
	var last time.Time
	for place, leaf := range bundle.Line {
		p := early[leaf]
		if p == nil {
			continue // the socket's
		}
		at := admitted(p)
		require.False(t, at.Before(last), "place %d came in before the one ahead", place+1)
		last = at
		if place%10 == 0 {
			status, _, raw := request{method: http.MethodGet, path: "/v1/events/gala/draw/me", header: bearerOf(p.token)}.send(t, s)
			require.Equal(t, http.StatusOK, status, "%s", raw)
			var proof draw.Proof
			require.NoError(t, json.Unmarshal(raw, &proof))
			require.Equal(t, leaf, proof.Leaf)
			require.NoError(t, proof.Check(bundle.Root))
		}
	}
	require.False(t, admitted(late).Before(last))
	request{method: http.MethodGet, path: "/v1/events/gala/draw/me", header: bearerOf(late.token)}.refused(t, s, http.StatusNotFound, "not_found")
	request{method: http.MethodGet, path: "/v1/events/demo/draw"}.refused(t, s, http.StatusNotFound, "not_found")

	// The command checks it from the service, and from the file; a wrong one fails.
	path := filepath.Join(t.TempDir(), "bundle.json")
	code, out, errs := runCommand(t, nil, "verify", "--draw", "--target", s.url, "--event", "gala", "--save", path)
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "41 entrants")
	code, _, errs = runCommand(t, nil, "verify", "--draw", "--bundle", path, "--commitment", bundle.Commitment.String())
	require.Equal(t, exitOK, code, errs)
	bundle.Line[3], bundle.Line[30] = bundle.Line[30], bundle.Line[3]
	raw, err = json.Marshal(bundle)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	code, _, errs = runCommand(t, nil, "verify", "--draw", "--bundle", path)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "stands there, whose place is")
}

// An embedded store ends with its process; the draw that it published does not: after a
// crash it is the same, and whoever comes back stands where it put them.
func TestDrawSurvivesAnEmbeddedRestart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startInstance(t, "--data", data)
	s.create("gala", facts{"order": "draw", "state": "lobby"})
	s.create("later", facts{"order": "draw", "state": "lobby"})
	var people []*person
	for range 12 {
		people = append(people, join(t, s, "gala"))
	}
	early := join(t, s, "later")
	s.patch("gala", facts{"state": "open", "rate_per_s": 0})
	until(t, 30*time.Second, "drawn and open", func() bool { return s.public("gala")["state"] == "open" })
	until(t, 30*time.Second, "kept", func() bool {
		kept, err := readKept(filepath.Join(data, "events.json"))
		return err == nil && slices.ContainsFunc(kept, func(k keptEvent) bool {
			return k.State == waitroom.Open && k.Draw.Listed() && k.Draw.Published.Seed != nil
		}) &&
			slices.ContainsFunc(kept, func(k keptEvent) bool { return k.Settings.ID == "later" && k.Draw != nil })
	})
	published := func() (bundle, commitment any) {
		_, _, raw := request{method: http.MethodGet, path: "/v1/events/gala/draw"}.send(t, s)
		return string(raw), s.public("later")["draw"].(map[string]any)["commitment"]
	}
	bundle, commitment := published()
	place := make(map[string]float64)
	for _, p := range people {
		place[p.entry], _ = p.me(s)["position"].(float64)
	}
	s.signal(syscall.SIGKILL)
	<-s.done
	s = startInstance(t, "--data", data)
	until(t, 30*time.Second, "open again", func() bool { return s.public("gala")["state"] == "open" })
	again, committed := published()
	require.Equal(t, bundle, again)
	require.Equal(t, commitment, committed)
	for i := range people { // the last first
		require.Equal(t, "waiting", people[len(people)-1-i].me(s)["state"])
	}
	require.Equal(t, "lobby", early.me(s)["state"])
	s.patch("gala", facts{"rate_per_s": 20})
	slices.SortFunc(people, func(a, b *person) int { return cmp.Compare(place[a.entry], place[b.entry]) })
	last := ""
	for _, p := range people { // positions only shrink, so what they show now says less than this
		var at string
		until(t, 20*time.Second, "let in", func() bool { at, _ = p.me(s)["admitted_at"].(string); return at != "" })
		require.LessOrEqual(t, last, at, "by the places of the draw")
		last = at
	}
}
