package drand

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// network answers as drand does, wrong in one way or not at all.
func network(t *testing.T, fault string) *Network {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"public_key":"aa","period":3,"genesis_time":1692803367,"hash":"bb","schemeID":"bls-unchained-g1-rfc9380"}`))
	})
	mux.HandleFunc("GET /public/{round}", func(w http.ResponseWriter, r *http.Request) {
		signature := []byte("signature of " + r.PathValue("round"))
		sum := sha256.Sum256(signature)
		randomness, round := fmt.Sprintf(`,"randomness":"%x"`, sum), r.PathValue("round")
		switch fault {
		case "not yet":
			w.WriteHeader(http.StatusTooEarly)
			return
		case "another round":
			round += "1"
		case "forged":
			signature = append(signature, '!')
		case "quicknet":
			randomness = ""
		case "no JSON":
			round = "<"
		}
		_, _ = fmt.Fprintf(w, `{"round":%s,"signature":"%s","previous_signature":"00"%s}`, round, hex.EncodeToString(signature), randomness)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return New(s.URL+"/", s.Client())
}

func TestRounds(t *testing.T) {
	t.Parallel()
	n := network(t, "")
	genesis := time.Unix(1692803367, 0)
	for after, want := range map[time.Duration]uint64{
		-time.Hour: 1, 0: 1, time.Millisecond: 2, 3 * time.Second: 2, 3*time.Second + 1: 3, time.Minute: 21,
	} {
		round, err := n.RoundAt(t.Context(), genesis.Add(after))
		require.NoError(t, err)
		require.Equal(t, want, round, after)
	}
	for _, kind := range []string{"", "quicknet"} {
		b, err := network(t, kind).Round(t.Context(), 21)
		require.NoError(t, err)
		require.NoError(t, b.Check())
		require.EqualValues(t, 21, b.Round)
	}
	for fault, want := range map[string]string{
		"not yet": "answered 425", "another round": "was given 211", "forged": "not its signature's hash", "no JSON": "invalid character",
	} {
		_, err := network(t, fault).Round(t.Context(), 21)
		require.ErrorContains(t, err, want)
	}
}
