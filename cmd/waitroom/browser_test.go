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
