package load

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/challenge"
)

// door stands before a fake and lets strangers join with the solution of a puzzle that
// it gave out, each once; the first solution of all comes too late.
type door struct {
	next   http.Handler
	puzzle *challenge.Challenger
	kind   string

	mu    sync.Mutex
	given map[string]bool // nonces
	late  bool
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/events/e/challenge":
		offer, err := d.puzzle.Offer("e", waitroom.ChallengeSettings{Kind: d.kind}, r.Host)
		if err != nil {
			panic(err)
		}
		d.mu.Lock()
		d.given[nonce(offer)] = true
		d.mu.Unlock()
		_, _ = w.Write(offer)
	case r.Method != http.MethodPost || r.URL.Path != "/v1/events/e/entries" || r.Header.Get("Authorization")+r.Header.Get("Cookie") != "":
		d.next.ServeHTTP(w, r)
	case r.Header.Get("X-Challenge") == "":
		problem(w, http.StatusForbidden, "challenge_required")
	case !d.takes(r.Header.Get("X-Challenge")):
		problem(w, http.StatusForbidden, "challenge_failed")
	default:
		d.next.ServeHTTP(w, r)
	}
}

func (d *door) takes(solution string) bool {
	raw, err := base64.StdEncoding.DecodeString(solution)
	if err != nil || !bytes.Contains(raw, []byte(`"derivedKey":"`)) {
		return false
	}
	var p struct {
		Challenge json.RawMessage `json:"challenge"`
	}
	_ = json.Unmarshal(raw, &p) // has no nonce then
	d.mu.Lock()
	defer d.mu.Unlock()
	ours := d.given[nonce(p.Challenge)]
	delete(d.given, nonce(p.Challenge))
	late := !d.late
	d.late = true
	return ours && !late
}

func nonce(puzzle []byte) string {
	var p struct {
		Parameters struct{ Nonce string } `json:"parameters"`
	}
	_ = json.Unmarshal(puzzle, &p) // is empty then
	return p.Parameters.Nonce
}

// People of a crowd solve what the event wants solved, once more where it was refused;
// where they cannot, they are not served, and the report says why.
func TestPeopleSolveChallenges(t *testing.T) {
	t.Parallel()
	for kind, joined := range map[string]int64{waitroom.ChallengeALTCHA: 30, "turnstile": 0} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f, _ := newFake(t, honest, usual)
			puzzle, err := challenge.New(challenge.Config{Key: bytes.Repeat([]byte("k"), 32), Effort: 2}, nil, zap.NewNop(), prometheus.NewRegistry())
			require.NoError(t, err)
			srv := httptest.NewServer(&door{next: f.routes(), puzzle: puzzle, kind: kind, given: make(map[string]bool)})
			t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
			c := crowdFor(srv.URL)
			c.Crowd.Users = 30
			r := runOn(t, c)
			require.Equal(t, joined, r.Counts.Joined)
			if joined == 0 {
				require.False(t, r.OK)
				require.Zero(t, r.Counts.Solved)
				require.Contains(t, r.Notes, `a challenge was not solved: challenge of kind "", not this package's puzzle`)
				return
			}
			require.True(t, r.OK, r.Why)
			require.Equal(t, joined+1, r.Counts.Solved, "one was solved twice")
			require.Equal(t, joined+1, r.LatencyMS[mChallenge].Count)
			require.Zero(t, r.Counts.Failed)
			var table bytes.Buffer
			require.NoError(t, r.WriteTable(&table))
			require.Contains(t, table.String(), "challenges solved 31")
		})
	}
}
