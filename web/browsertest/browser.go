// Package browsertest gives a test a visitor with a real Chromium: one headless
// browser a test binary, and for each visitor a profile of its own.
//
// A machine without Chromium skips the tests that ask for one, and says so; with
// CI=true in the environment that is a failure.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// errNoBrowser means that this machine has no Chromium.
var errNoBrowser = errors.New("no chromium on this machine")

// shared is one browser for all tests; each gets a profile of its own in it.
var shared browser

type browser struct {
	once  sync.Once
	ctx   context.Context //nolint:containedctx // the browser is its context
	end   func()
	fault error
}

func (b *browser) start(more ...chromedp.ExecAllocatorOption) {
	name := ""
	for _, candidate := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(candidate); err == nil {
			name = path
			break
		}
	}
	if name == "" {
		b.fault = errNoBrowser
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.WindowSize(1100, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-timer-throttling", true))
	options = append(options, more...)
	allocated, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(allocated, chromedp.WithErrorf(func(string, ...any) {}))
	b.ctx, b.fault = ctx, chromedp.Do(ctx)
	b.end = func() {
		_ = chromedp.Cancel(ctx) // waits until it is gone; a browser that is gone already will do
		endBrowser()
		endAllocator()
	}
}

func (b *browser) close() {
	if b.end != nil {
		b.end()
	}
}

// Close ends the shared browser; TestMain calls it after the last test.
func Close() { shared.close() }

// Page is one tab.
type Page struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the tab is its context
}

// NewVisitor opens a tab in a profile of its own. Without Chromium the test is
// skipped, or fails under CI=true.
func NewVisitor(t *testing.T) Page {
	t.Helper()
	shared.once.Do(func() { shared.start() })
	shared.need(t)
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	return Page{t, ctx}
}

// need skips the test where there is no Chromium, and fails where it did not start.
func (b *browser) need(t *testing.T) {
	t.Helper()
	if errors.Is(b.fault, errNoBrowser) && os.Getenv("CI") != "true" {
		t.Skip(b.fault)
	}
	require.NoError(t, b.fault, "start chromium")
}

// Launch starts a browser of its own on a profile directory, and gives its first
// tab; quit ends the browser as its owner would, and the profile stays.
func Launch(t *testing.T, profile string) (p Page, quit func()) {
	t.Helper()
	var own browser
	own.start(chromedp.UserDataDir(profile))
	own.need(t)
	var once sync.Once
	quit = func() { once.Do(own.close) }
	t.Cleanup(quit)
	return Page{t, own.ctx}, quit
}

// Tab opens another tab of the same visitor.
func (p Page) Tab() Page {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	p.t.Cleanup(cancel)
	require.NoError(p.t, chromedp.Do(ctx))
	return Page{p.t, ctx}
}

// Open goes to an address and waits until the document is there.
func (p Page) Open(address string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Navigate(address)))
}

// Run evaluates an expression for its effect.
func (p Page) Run(expression string) {
	p.t.Helper()
	_, err := evaluate[int](p, "{"+expression+"}; 0")
	require.NoError(p.t, err, expression)
}

func evaluate[T any](p Page, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// Value evaluates an expression.
func Value[T any](p Page, expression string) T {
	p.t.Helper()
	v, err := evaluate[T](p, expression)
	require.NoError(p.t, err, expression)
	return v
}

// Until waits for an expression to become true.
func (p Page) Until(expression string) {
	p.t.Helper()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for {
		// Between two documents there is nothing to ask: that is a no.
		if yes, err := evaluate[bool](p, "Boolean("+expression+")"); err == nil && yes {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			p.fail("never became true: " + expression)
		case <-p.ctx.Done():
			p.fail("the tab ended before: " + expression)
		}
	}
}

// fail ends the test with what stands on the page.
func (p Page) fail(why string) {
	p.t.Helper()
	text, err := evaluate[string](p, "location.href + '\\n' + document.body.innerText + '\\n' + JSON.stringify(window.faults)")
	require.FailNow(p.t, why, "the page shows: %s (%v)", text, err)
}

// Panel waits until a page shows this one of its panels.
func (p Page) Panel(name string) {
	p.t.Helper()
	p.Until("document.getElementById('main').dataset.panel === '" + name + "'")
}

// Click clicks the element with this id.
func (p Page) Click(id string) {
	p.t.Helper()
	p.Run("document.getElementById('" + id + "').click()")
}

// Text is what the element with this id reads.
func (p Page) Text(id string) string {
	p.t.Helper()
	return Value[string](p, "document.getElementById('"+id+"').textContent")
}

// Reads waits until the element with this id reads exactly this.
func (p Page) Reads(id, text string) {
	p.t.Helper()
	p.Until(fmt.Sprintf("document.getElementById(%q).textContent === %q", id, text))
}

// NoFaults checks that nothing was thrown and that no rule of the page's
// Content-Security-Policy was broken since it was opened.
func (p Page) NoFaults() {
	p.t.Helper()
	require.Empty(p.t, Value[[]string](p, "window.faults"), "faults on the page")
}

// Resize makes the tab's view as large as a screen of that many pixels.
func (p Page) Resize(width, height int64) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.EmulateViewport(width, height)))
}

// Scheme has the tab prefer "light" or "dark".
func (p Page) Scheme(name string) {
	p.t.Helper()
	prefers := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, prefers)
		return err
	})))
}

// Screenshot is what the tab shows, as a PNG.
func (p Page) Screenshot() []byte {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	return png
}

// Press gives a key to the focused element.
func (p Page) Press(key string) {
	p.t.Helper()
	p.Run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: '" + key + "', bubbles: true, cancelable: true }))")
}

// Type gives the keys of a keyboard to the tab, one after the other, as a hand would:
// what a browser does by itself at a key, it does. Keys without a sign are those of
// chromedp's package kb.
func (p Page) Type(keys string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.KeyEvent(keys)))
}

// Focused is the data-id, else the id, of the focused element.
func (p Page) Focused() string {
	p.t.Helper()
	return Value[string](p, "document.activeElement.dataset.id ?? document.activeElement.id")
}
