package main

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
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

// A queue that is full, of a stream that an operator has made small: whoever it does not
// take is refused, with a time to come again, and does not hear "processing"; when
// somebody has been numbered it takes them.
func TestBufferedQueueIsFull(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn, err := natsbroker.Connect(server.URL(), zap.NewNop())
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: keyPrefix + "-requests", Subjects: []string{keyPrefix + ".requests.*"}, Retention: jetstream.WorkQueuePolicy, Duplicates: time.Minute,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
	})
	require.NoError(t, err)
	secret := strings.Repeat("secret of the site ", 3)
	stores := append(realServers.flags(t), "--queue", server.URL(), "--identity-secret", secret)
	s := startInstance(t, append(stores, "--roles", "line,admission,ticket")...)
	s.create("small", facts{"mode": "buffered", "winners": []int{2}, "identity": "jwt"})
	as := func(subject string) map[string]string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": subject, "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(secret))
		require.NoError(t, err)
		return bearerOf(token)
	}
	entries := s.url + "/v1/events/small/entries"
	status, _, body := call(t, http.MethodPost, entries, nil, as("ann"))
	require.Equal(t, http.StatusAccepted, status, body)
	status, header, body := call(t, http.MethodPost, entries, nil, as("bob"))
	require.Equal(t, http.StatusServiceUnavailable, status, body)
	require.Equal(t, "unavailable", body["code"])
	require.NotEmpty(t, header.Get("Retry-After"))
	for who, want := range map[string]int{"ann": http.StatusAccepted, "bob": http.StatusNotFound} {
		status, _, body := call(t, http.MethodGet, entries+"/me", nil, as(who))
		require.Equal(t, want, status, "%s: %v", who, body)
	}
	startInstance(t, append(stores, "--roles", "worker")...)
	for i, who := range []string{"ann", "bob"} {
		until(t, 30*time.Second, who+" has a number", func() bool {
			status, _, body := call(t, http.MethodPost, entries, nil, as(who))
			require.NotEqual(t, http.StatusNotFound, status)
			return status == http.StatusOK && body["seq"] == float64(i+1) && body["winner"] == (i == 1)
		})
	}
}
