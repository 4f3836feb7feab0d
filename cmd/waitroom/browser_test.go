package main

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// The whole way in a browser: the number falls over the socket, a refresh and a
// second tab keep the place, the shop sells, and the payment's outcome comes to the
// page.
func TestBrowserJourney(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	_, _ = s.ops(http.MethodPatch, "/demo", map[string]any{"state": "paused"})
	ahead := join(t, s, "demo")

	v := browsertest.NewVisitor(t)
	v.Open(s.url + "/")
	v.Panel("join")
	v.Click("join")
	v.Panel("wait")
	v.Reads("position", "2")
	look(t, "waiting", v.Screenshot())

	v.Open(s.url + "/e/demo") // a refresh
	v.Reads("position", "2")
	other := v.Tab()
	other.Open(s.url + "/")
	other.Reads("position", "2")
	_, _, body := call(t, http.MethodGet, s.url+"/v1/events/demo", nil, nil)
	require.EqualValues(t, 2, body["waiting"], "three pages, one place")

	status, _, _ := call(t, http.MethodDelete, s.url+"/v1/events/demo/entries/me", nil, map[string]string{"Authorization": "Bearer " + ahead.token})
	require.Equal(t, http.StatusNoContent, status)
	v.Reads("position", "1")

	_, _ = s.ops(http.MethodPatch, "/demo", map[string]any{"state": "open"})
	v.Panel("turn")
	v.Click("enter")
	v.Until("location.pathname === '/e/demo/shop'")
	v.Panel("choose")
	v.Click("best")
	v.Panel("hold")
	v.Click("pay")
	v.Panel("paid")
	look(t, "paid", v.Screenshot())
	require.NotEmpty(t, v.Text("paid-order"))
	require.Empty(t, browsertest.Value[string](v, "location.search"), "no token ever stands in an address")
}

// Slots and courses are chosen from a list, also on the smallest of screens; a clash
// of times is said, and what costs nothing is confirmed instead of paid.
func TestBrowserChoosesFromAList(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	for _, event := range []map[string]any{
		{"id": "shots", "rate_per_s": 50, "tickets": map[string]any{"kind": "slots", "per_user": 1, "price_cents": 0, "items": []map[string]any{
			{"id": "s1", "name": "Hall 1", "capacity": 3, "starts_at": "2026-12-05T09:00:00Z", "ends_at": "2026-12-05T09:15:00Z"},
			{"id": "s2", "name": "A hall with a rather long name on the third floor", "capacity": 0, "starts_at": "2026-12-05T09:15:00Z", "ends_at": "2026-12-05T09:30:00Z"},
			{"id": "s3", "name": "Hall 1", "capacity": 1, "starts_at": "2026-12-05T09:30:00Z", "ends_at": "2026-12-05T09:45:00Z"},
		}}},
		{"id": "term", "rate_per_s": 50, "tickets": map[string]any{"kind": "courses", "per_user": 2, "price_cents": 2500, "items": []map[string]any{
			{"id": "math", "name": "Mathematics", "capacity": 30, "meetings": []string{"mon 10:00-12:00", "wed 10:00-12:00"}},
			{"id": "art", "name": "Art", "capacity": 20, "price_cents": 0, "meetings": []string{"wed 11:00-13:00"}},
			{"id": "gym", "name": "Gymnastics", "capacity": 10, "meetings": []string{"fri 08:00-09:00", "2026-12-12 09:00-17:00"}},
		}}},
	} {
		status, body := s.ops(http.MethodPost, "", event)
		require.Equal(t, http.StatusCreated, status, "%v", body)
	}
	v := browsertest.NewVisitor(t)
	v.Resize(320, 720)
	into := func(event string) {
		t.Helper()
		v.Open(s.url + "/e/" + event)
		v.Panel("join")
		v.Click("join")
		v.Panel("turn")
		v.Click("enter")
		v.Panel("choose")
		v.Until("document.querySelectorAll('#item-list input').length === 3")
	}
	tick := func(id string) { v.Run(`document.querySelector('#item-list input[value="` + id + `"]').click()`) }
	fits := func() {
		t.Helper()
		require.LessOrEqual(t, browsertest.Value[int](v, "document.documentElement.scrollWidth"), 320, "nothing to scroll sideways")
	}

	into("shots")
	require.True(t, browsertest.Value[bool](v, `document.querySelector('#item-list input[value="s2"]').disabled`), "a full one cannot be chosen")
	tick("s1")
	tick("s3")
	v.Reads("note", "You can choose one.")
	v.Reads("sum", "free of charge")
	fits()
	look(t, "slots", v.Screenshot())
	v.Click("reserve")
	v.Panel("hold")
	v.Reads("pay", "Confirm")
	fits()
	look(t, "slot-held", v.Screenshot())
	v.Click("pay")
	v.Panel("paid")
	fits()
	look(t, "slot-confirmed", v.Screenshot())

	into("term")
	tick("math")
	tick("art")
	v.Reads("sum", "€25")
	v.Click("reserve")
	v.Until("document.getElementById('note').textContent.startsWith('One of these takes place at the same time')")
	fits()
	look(t, "courses-clash", v.Screenshot())
	tick("art")
	tick("gym")
	v.Reads("sum", "€50")
	v.Click("reserve")
	v.Panel("hold")
	v.Click("pay")
	v.Panel("paid")
	look(t, "courses-paid", v.Screenshot())
	v.NoFaults()
}

// A browser that was closed and opened again finds its place.
func TestBrowserReopened(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	_, _ = s.ops(http.MethodPatch, "/demo", map[string]any{"state": "paused"})
	profile := t.TempDir()
	v, quit := browsertest.Launch(t, profile)
	v.Open(s.url + "/")
	v.Panel("join")
	v.Click("join")
	v.Reads("position", "1")
	quit()
	join(t, s, "demo")

	v, _ = browsertest.Launch(t, profile)
	v.Open(s.url + "/")
	v.Panel("wait")
	v.Reads("position", "1")
}

// look checks that a screen shows something, and keeps it where SCREENSHOTS says.
func look(t *testing.T, name string, screen []byte) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(screen))
	require.NoError(t, err)
	require.Greater(t, colours(img), 50, "an empty page has few colours")
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), screen, 0o600))
	}
}

func colours(img image.Image) int {
	seen := map[[3]uint32]bool{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 3 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r, g, b}] = true
		}
	}
	return len(seen)
}

// A fan's way through a draw: no place in the lobby, one at the opening, and a check
// of it in the browser against the real service's proof.
func TestBrowserChecksItsDraw(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("gala", facts{"order": "draw", "state": "lobby", "rate_per_s": 0.01})
	for range 5 {
		join(t, s, "gala")
	}
	v := browsertest.NewVisitor(t)
	v.Open(s.url + "/e/gala")
	v.Panel("join")
	v.Run("Math.random = () => 0.01") // its turn to ask after the draw is soon
	v.Click("join")
	v.Panel("wait")
	v.Reads("wait-title", "You are in the draw")
	require.True(t, browsertest.Value[bool](v, "document.getElementById('position-box').hidden"), "no place before the draw")
	s.patch("gala", facts{"state": "open"})
	v.Until("!document.getElementById('drawn').hidden")
	v.Click("drawn-check")
	v.Until("/^Place [1-6] of 6, checked: the draw was fair\\.$/.test(document.getElementById('drawn-said').textContent)")
}
