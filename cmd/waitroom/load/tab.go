package load

import (
	"context"
	"errors"
	"os"
	"time"
)

// tab is a user's second tab: a socket of its own for the same place, read on the
// side. Its user tells it what came of the first one.
type tab struct {
	*worker
	user  int
	entry string
	sock  *socket
	shown int64       // the least position so far: at first the first tab's
	token string      // what this tab was given
	first chan string // capacity 1: the entry token in the first tab's hand
	over  chan struct{}
}

// openTab opens the page a second time.
func (u *user) openTab(ctx context.Context) string {
	if u.link.sock == nil || u.screen.position == 0 {
		return "" // there is no first page to compare with
	}
	t := &tab{worker: u.worker, user: u.fact.User, entry: u.fact.Entry, shown: u.screen.position, first: make(chan string, 1), over: make(chan struct{})}
	var err error
	u.live.calls.Add(1)
	if doErr := u.crew.do(ctx, func() { t.sock, err = u.greet(ctx) }); doErr != nil {
		return ""
	}
	if err != nil {
		u.bookRefusedSocket(ctx, err)
		return ""
	}
	u.live.tabs.Add(1)
	u.tab = t
	u.probes.Go(func() { t.watch(ctx) })
	return ""
}

// tell has the tab know what the first one was given, or that its user is done.
func (t *tab) tell(token string) {
	if t != nil {
		t.first <- token
	}
}

// end has the tab closed at its next look.
func (t *tab) end() {
	if t != nil {
		close(t.over)
	}
}

// tabLook is how often a tab looks what became of the first one.
const tabLook = time.Second

// watch reads the tab until both are told of the same turn, or one of them is gone.
func (t *tab) watch(ctx context.Context) {
	defer t.sock.farewell()
	patience := min(untoldLimit, t.spec.Config.Checks.Patience)
	var first string
	var since time.Time
	for {
		b, err := t.sock.next(time.Now().Add(tabLook))
		select {
		case first = <-t.first:
			since = time.Now()
		default:
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if gone := t.hear(b); gone {
				return
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return // a page that is closed for good reason opens again; the first tab shows that
		}
		switch {
		case first != "" && t.token != "":
			t.tally.check(promiseGrant, first == t.token, "user %d, entry %s: two tabs were given different entry tokens", t.user, t.entry)
			return
		case first != "" && time.Since(since) > patience && !t.late.busy():
			t.tally.check(promiseGrant, false, "user %d, entry %s: admitted on one tab, and %v later not on the other", t.user, t.entry, patience)
			return
		case first != "":
			continue // its user may be done, and this tab is still to be told
		}
		select {
		case <-t.over:
			return
		default:
		}
	}
}

// hear takes one message in; gone says that the service closes the tab.
func (t *tab) hear(b []byte) (gone bool) {
	m, err := parseMessage(b)
	if err != nil {
		t.serverFault("bad_message", "%v: %.200s", err, b)
		return false
	}
	t.live.messages.Add(1)
	switch m.Type {
	case typePosition:
		t.live.positions.Add(1)
		if m.Position < 1 || m.Position > t.shown {
			t.tally.check(promisePlace, false, "user %d, entry %s: position %d on a second tab after %d was shown",
				t.user, t.entry, m.Position, t.shown)
			return false
		}
		t.shown = m.Position
	case typeAdmitted:
		t.token = m.EntryToken
	case typeBye:
		return true
	}
	return false
}
