package load

import (
	"context"
	"net/http"
	"time"
)

// loseNetwork drops the socket without a word, for less than any sensible grace.
func (u *user) loseNetwork(context.Context) string {
	u.link.drop()
	u.link.backAt = time.Now().Add(time.Second + time.Duration(u.rng.Int64N(int64(4*time.Second))))
	u.absent()
	return ""
}

// absent notes that what the user does not hear now is the user's own doing.
func (u *user) absent() {
	u.screen.shown = 0
	u.fact.Prompt = false
	u.link.absent = true
}

// reload loads the page again: the socket closes, the page joins with the cookie, and
// shows the place that it had, never further back.
func (u *user) reload(ctx context.Context) string {
	if u.link.sock != nil {
		u.link.sock.farewell()
		u.link.sock = nil
	}
	u.link.etag = "" // a new page has no answer yet
	u.absent()
	a, err := u.ask(ctx, call{method: http.MethodPost, path: u.path("/entries"), cookie: u.place, key: u.newKey("reload")})
	if err != nil {
		return endGone
	}
	var p place
	err = decode(a.body, &p)
	kept := err == nil && a.status == http.StatusOK && p.EntryID == u.fact.Entry
	u.tally.check(promisePlace, kept, "user %d: loaded the page again with its cookie: http %d, entry %q, was %q",
		u.fact.User, a.status, p.EntryID, u.fact.Entry)
	if !kept {
		u.live.failed.Add(1)
		return endGone
	}
	u.live.reloads.Add(1)
	switch {
	case p.inside() && p.EntryToken != "":
		u.admit(p.turn(), false)
	case p.waits() && p.Position != nil:
		u.show(*p.Position)
	}
	u.screen.shown = 0 // until the socket is there again
	return ""
}

// giveUp leaves the line. What was answered holds: a moment later the place is over,
// on every instance, and no turn comes of it.
func (u *user) giveUp(ctx context.Context) string {
	u.link.drop()
	u.gap()
	if u.leave(ctx); !u.fact.LeftOK {
		return endLeft
	}
	u.live.leftLine.Add(1)
	n, target, entry := u.fact.User, u.target, u.fact.Entry
	k := call{method: http.MethodGet, path: u.path("/entries/me"), bearer: u.place}
	u.probes.Go(func() {
		if pause(ctx, leftAfter) != nil {
			return
		}
		for i := range min(2, len(u.spec.Config.Targets)) {
			a, err := u.tryAt(ctx, target+i, k, 1)
			if err != nil || again(a) {
				continue // booked; nothing is known of the place
			}
			var p place
			err = decode(a.body, &p)
			back := err == nil && a.status == http.StatusOK && (p.waits() || p.inside())
			u.tally.check(promiseKept, !back, "user %d, entry %s: left the line, answered 204, and %v later is %s", n, entry, leftAfter, p.State)
		}
	})
	return endLeft
}

// leftAfter is what instances get to hear of somebody who left.
const leftAfter = 2 * time.Second
