package pages_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	shared.close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

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

func (b *browser) start() {
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

// page is one tab.
type page struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the tab is its context
}

// newVisitor opens a tab in a profile of its own. Without Chromium the test is
// skipped, or fails under CI=true.
func newVisitor(t *testing.T) page {
	t.Helper()
	shared.once.Do(shared.start)
	if errors.Is(shared.fault, errNoBrowser) && os.Getenv("CI") != "true" {
		t.Skip(shared.fault)
	}
	require.NoError(t, shared.fault, "start chromium")
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	return page{t, ctx}
}

// tab opens another tab of the same visitor.
func (p page) tab() page {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	p.t.Cleanup(cancel)
	require.NoError(p.t, chromedp.Do(ctx))
	return page{p.t, ctx}
}

func (p page) open(address string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Navigate(address)))
}

// run evaluates an expression for its effect.
func (p page) run(expression string) {
	p.t.Helper()
	_, err := evaluate[int](p, "{"+expression+"}; 0")
	require.NoError(p.t, err, expression)
}

func evaluate[T any](p page, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// value evaluates an expression.
func value[T any](p page, expression string) T {
	p.t.Helper()
	v, err := evaluate[T](p, expression)
	require.NoError(p.t, err, expression)
	return v
}

// until waits for an expression to become true.
func (p page) until(expression string) {
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
func (p page) fail(why string) {
	p.t.Helper()
	text, err := evaluate[string](p, "location.href + '\\n' + document.body.innerText + '\\n' + JSON.stringify(window.faults)")
	require.FailNow(p.t, why, "the page shows: %s (%v)", text, err)
}

func (p page) panel(name string) {
	p.t.Helper()
	p.until("document.getElementById('main').dataset.panel === '" + name + "'")
}

func (p page) click(id string) {
	p.t.Helper()
	p.run("document.getElementById('" + id + "').click()")
}

func (p page) text(id string) string {
	p.t.Helper()
	return value[string](p, "document.getElementById('"+id+"').textContent")
}

func (p page) reads(id, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.getElementById(%q).textContent === %q", id, text))
}

// noFaults checks that nothing was thrown and that no rule of the page's
// Content-Security-Policy was broken since it was opened.
func (p page) noFaults() {
	p.t.Helper()
	require.Empty(p.t, value[[]string](p, "window.faults"), "faults on the page")
}
