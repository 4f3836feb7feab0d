package main

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/natsbroker"
	"github.com/waitroom-dev/waitroom/ticket/natstest"
)

// System D, scaled: 200 people ask at once, each with a key and half of them twice,
// and the 100th wins; the process that numbers them is killed in the middle, and the
// other goes on. The requests wait in the store, or in NATS.
func TestBufferedNumberingExactWinner(t *testing.T) {
	t.Parallel()
	t.Run("store", func(t *testing.T) {
		t.Parallel()
		numbersTheCrowd(t, realServers.flags(t))
	})
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		server := natstest.Start(t)
		numbersTheCrowd(t, append(realServers.flags(t), "--queue", server.URL()))
		conn, err := natsbroker.Connect(server.URL(), zap.NewNop())
		require.NoError(t, err)
		defer conn.Close()
		js, err := jetstream.New(conn)
		require.NoError(t, err)
		stream, err := js.Stream(t.Context(), keyPrefix+"-requests")
		require.NoError(t, err)
		require.GreaterOrEqual(t, stream.CachedInfo().State.LastSeq, uint64(401), "everybody waited there")
	})
}

func numbersTheCrowd(t *testing.T, flags []string) {
	t.Helper()
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	const people = 200
	for _, mode := range []facts{{}, {"at_once": true}} {
		id := "queued"
		if mode["at_once"] != nil {
			id = "at-once"
		}
		set := facts{"mode": "buffered", "winners": []int{100}}
		maps.Copy(set, mode)
		b.create(id, set)
		until(t, 10*time.Second, "both know the event", func() bool {
			status, _, _ := call(t, http.MethodGet, a.url+"/v1/events/"+id, nil, nil)
			return status == http.StatusOK
		})
		if id == "queued" { // someone watches
			status, _, body := call(t, http.MethodPost, b.url+"/v1/events/"+id+"/entries", nil, map[string]string{"Idempotency-Key": "watcher"})
			require.Equal(t, http.StatusAccepted, status, body)
			require.Equal(t, "queued", body["status"])
			require.Equal(t, "watcher", body["request_id"])
		}
		var mu sync.Mutex
		tokens := make(map[string]string)
		var wg sync.WaitGroup
		for i := range people + people/2 {
			wg.Go(func() {
				key := "key-" + strconv.Itoa(i%people)
				status, _, body := call(t, http.MethodPost, b.url+"/v1/events/"+id+"/entries", nil, map[string]string{"Idempotency-Key": key})
				if status != http.StatusAccepted && status != http.StatusOK {
					t.Errorf("%d %v", status, body)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				tokens[key], _ = body["place_token"].(string)
			})
		}
		if id == "queued" {
			a.signal(syscall.SIGKILL) // it may be the one that numbers
			<-a.done
		}
		wg.Wait()
		require.Len(t, tokens, people)
		seqs, winners := make(map[float64]bool), 0
		for _, token := range tokens {
			var body map[string]any
			until(t, 30*time.Second, "everybody has a number", func() bool {
				var status int
				status, _, body = call(t, http.MethodGet, b.url+"/v1/events/"+id+"/entries/me", nil, bearerOf(token))
				if status == http.StatusAccepted {
					require.Equal(t, "processing", body["status"])
				}
				return status == http.StatusOK
			})
			seq := body["seq"].(float64)
			require.False(t, seqs[seq], "a number is given once")
			seqs[seq] = true
			require.Equal(t, seq == 100, body["winner"])
			if body["winner"] == true {
				winners++
			}
		}
		require.Equal(t, 1, winners)
		all := people
		if id == "queued" {
			all++ // the watcher
		}
		for n := range seqs {
			require.True(t, n >= 1 && n <= float64(all))
		}
		if id == "queued" {
			a = b
		}
	}
}

// The result is pushed to the socket of whoever waits for it.
func TestBufferedResultIsPushed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flags []string) {
		t.Helper()
		s := startInstance(t, flags...)
		s.create("push", facts{"mode": "buffered", "winners": []int{1}})
		// Asked for while the numberer is busy elsewhere or not: the result comes by the
		// socket, or was there before it opened.
		status, _, body := call(t, http.MethodPost, s.url+"/v1/events/push/entries", nil, nil)
		require.Equal(t, http.StatusAccepted, status, body)
		p := &person{t: t, event: "push", token: body["place_token"].(string)}
		l := p.open(s)
		result := l.next(20*time.Second, "result")
		require.EqualValues(t, 1, result["seq"])
		require.Equal(t, true, result["winner"])
		request{"POST", "/v1/events/push/tokens", "", nil}.refused(t, s, 409, "wrong_mode")
	})
}
