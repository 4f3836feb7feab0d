package main

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// asksForANumber asks again with the same key, at one instance and the other, until it
// is known that the request waits or has its number; it gives the place token.
func asksForANumber(event, key string, at ...*instance) string {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for try := range 100 {
		req, err := http.NewRequest(http.MethodPost, at[try%len(at)].url+"/v1/events/"+event+"/entries", http.NoBody)
		if err != nil {
			return ""
		}
		req.Header.Set("Idempotency-Key", key)
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusAccepted || res.StatusCode == http.StatusOK {
				for _, c := range res.Cookies() {
					return c.Value
				}
			}
		}
		<-time.After(50 * time.Millisecond)
	}
	return ""
}

// The promises hold in the modes without a line, too, when the instance that leads is
// killed in the midst of a crowd: instant gives out none over and none twice, buffered
// has no hole and one winner, and what was answered is so on the other instance.
func TestModesOutliveTheirLeader(t *testing.T) {
	t.Parallel()
	database := sqltest.Postgres(t)
	flags := []string{"--redis", redistest.Start(t, redistest.Config{}).URL(), "--database", database, "--limits", "off"}
	a := startInstance(t, flags...)
	until(t, 20*time.Second, "the first leads", func() bool { return a.metrics("demo")["leading"] == true })
	b := startInstance(t, flags...)
	const tokens, asking, numbers = 300, 450, 150
	a.create("drop", instantEvent(tokens, nil))
	a.create("lot", facts{"mode": "buffered", "winners": []int{numbers}})

	places := make([]string, numbers)
	var lot sync.WaitGroup
	for i := range places {
		lot.Go(func() {
			at := []*instance{a, b}
			if i%2 == 1 {
				at = []*instance{b, a}
			}
			places[i] = asksForANumber("lot", "key-"+strconv.Itoa(i), at...)
		})
	}
	people := crowdAsks(t, asking, "drop", 60, func() { a.signal(syscall.SIGKILL) }, a, b)
	lot.Wait()

	// Strangers whose answer died with the instance come again as others: their tokens
	// are held by nobody until they expire. Of those who heard, none is over or twice.
	heard := 0
	for _, p := range people {
		if p.status != http.StatusConflict {
			heard++
		}
	}
	require.LessOrEqual(t, heard, tokens)
	require.GreaterOrEqual(t, heard, 60)
	holders := judged(t, people, heard)
	sameAgain(t, holders[:20], "drop", b)
	archived(t, database, "drop", holders)
	require.EqualValues(t, tokens, b.ev("drop")["inside"])
	seqs, won := make(map[float64]bool), 0
	for i, place := range places {
		require.NotEmpty(t, place, "%d has an answer", i)
		var body map[string]any
		until(t, 30*time.Second, "everybody has a number", func() bool {
			var status int
			status, _, body = call(t, http.MethodGet, b.url+"/v1/events/lot/entries/me", nil, bearerOf(place))
			return status == http.StatusOK
		})
		seqs[body["seq"].(float64)] = true
		if body["winner"] == true {
			won++
		}
	}
	require.Len(t, seqs, numbers)
	for n := range seqs {
		require.LessOrEqual(t, n, float64(numbers), "no hole")
	}
	require.Equal(t, 1, won)
	require.NotContains(t, strings.ToLower(b.logs()), "panic")
}
