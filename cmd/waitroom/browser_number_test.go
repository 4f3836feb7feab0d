package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// Mode buffered in a browser: people ask and hear "processing" while nobody numbers them;
// a reload, a second tab and a store that is away and comes back change nothing; then
// each hears the number that they asked first for, and one has won. A store that lost
// everything has their pages ask again, and the numbers are the same.
func TestBrowserGetsItsNumber(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t, redistest.Config{AOF: "always"})
	stores := []string{"--redis", store.URL(), "--database", sqltest.Postgres(t), "--limits", "off"}
	s := startInstance(t, append(stores, "--roles", "line,admission,ticket")...)
	s.create("thousand", facts{"name": "Every second wins", "mode": "buffered", "winners": []int{2}})

	asks := func() browsertest.Page {
		v := browsertest.NewVisitor(t)
		v.Resize(360, 780)
		v.Open(s.url + "/e/thousand")
		v.Panel("join")
		v.Reads("join", "Ask for a number")
		looks(t, v, "number-ask")
		v.Click("join")
		v.Panel("number")
		v.Reads("number-title", "In the queue")
		return v
	}
	lost := asks()
	won := asks()
	won.Reads("link", "Live")
	looks(t, won, "number-processing")
	won.Open(s.url + "/e/thousand") // a reload
	won.Reads("number-title", "In the queue")
	other := won.Tab()
	other.Open(s.url + "/e/thousand")
	other.Reads("number-title", "In the queue")

	store.Kill(t)
	won.Until("!document.getElementById('away').hidden")
	looks(t, won, "number-away")
	require.Equal(t, "In the queue", won.Text("number-title"))
	store.Restart(t)
	won.Until("document.getElementById('away').hidden")
	won.Reads("number-title", "In the queue")

	startInstance(t, append(stores, "--roles", "worker")...)
	lost.Reads("number", "1")
	lost.Reads("number-title", "Your number did not win")
	looks(t, lost, "number-lost")
	for _, v := range []browsertest.Page{won, other} {
		v.Reads("number", "2")
		v.Reads("number-title", "You have won")
	}
	looks(t, won, "number-won")
	won.Open(s.url + "/e/thousand")
	won.Reads("number", "2")
	for _, v := range []browsertest.Page{lost, won, other} {
		v.NoFaults()
	}
	_, _, body := call(t, http.MethodGet, s.url+"/v1/events/thousand", nil, nil)
	require.Equal(t, "open", body["state"])

	rdb := store.Client(t)
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	until(t, 30*time.Second, "the instances have planted their events anew", func() bool {
		return rdb.Exists(t.Context(), plantedKey).Val() == 1
	})
	won.Open(s.url + "/e/thousand")
	won.Reads("number", "2")
}

// looks looks at a page on a phone, in light and in dark: nothing is to scroll sideways.
func looks(t *testing.T, v browsertest.Page, name string) {
	t.Helper()
	require.LessOrEqual(t, browsertest.Value[int](v, "document.documentElement.scrollWidth"), 360, name)
	for _, scheme := range []string{"light", "dark"} {
		v.Scheme(scheme)
		v.Until("document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)")
		look(t, fmt.Sprint(name, "-", scheme), v.Screenshot())
	}
}
