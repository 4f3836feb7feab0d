package load

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// probePlace joins again with the same place token, once, on the side: the answer is
// the same place, never further back than what was on the screen when it was asked.
func (u *user) probePlace(ctx context.Context) {
	if !u.sampled || u.screen.asked {
		return
	}
	u.screen.asked = true
	n, target, entry, shown := u.fact.User, u.target, u.fact.Entry, u.screen.position
	k := call{method: http.MethodPost, path: u.path("/entries"), bearer: u.place, key: u.newKey("rejoin")}
	u.probes.Go(func() {
		a, err := u.tryAt(ctx, target, k, 1)
		if err != nil || again(a) {
			return // booked; nothing is known of the place
		}
		var p place
		err = decode(a.body, &p)
		u.tally.check(promisePlace, err == nil && a.status == http.StatusOK && p.EntryID == entry,
			"user %d: joined again with its place token: http %d, entry %q, was %q", n, a.status, p.EntryID, entry)
		if p.EntryID == entry && p.waits() && p.Position != nil {
			u.tally.check(promisePlace, *p.Position <= shown,
				"user %d, entry %s: position %d after joining again, was %d", n, entry, *p.Position, shown)
		}
	})
}

// probeGrant checks the token's signature and asks for it again, at another instance where there is one: the
// same bytes. An instance may be a moment behind; a second later it may not.
func (u *user) probeGrant(ctx context.Context) {
	if !u.sampled {
		return
	}
	n, target, entry, token := u.fact.User, u.target+1, u.fact.Entry, u.token
	if known, err := u.genuine(ctx, token); known {
		u.tally.check(promiseGrant, err == nil, "user %d, entry %s: entry token: %v", n, entry, err)
	} else {
		u.tally.note(promiseGrant, "some signatures are not checked: the JWKS was not to be had")
	}
	k := call{method: http.MethodGet, path: u.path("/entries/me"), bearer: u.place}
	for attempt := 1; ; attempt++ {
		a, err := u.tryAt(ctx, target, k, 1)
		if err != nil || again(a) {
			return
		}
		var p place
		err = decode(a.body, &p)
		if p.waits() && attempt == 1 {
			if pause(ctx, time.Second) != nil {
				return
			}
			continue
		}
		u.tally.check(promiseGrant, err == nil && a.status == http.StatusOK && p.EntryToken == token,
			"user %d, entry %s: asked again for the token: http %d, state %q, other bytes than the first", n, entry, a.status, p.State)
		return
	}
}

// untoldLimit is far beyond any push that is only late.
const untoldLimit = 15 * time.Second

// stillWaiting ends the wait at the run's limit; the sampled see that their place
// is still theirs.
func (u *user) stillWaiting(ctx context.Context) string {
	if !u.sampled {
		return endWaiting
	}
	sent := u.clock.now()
	a, err := u.tryAt(ctx, u.target, call{method: http.MethodGet, path: u.path("/entries/me"), bearer: u.place}, 1)
	if err != nil || again(a) {
		return endWaiting
	}
	var p place
	err = decode(a.body, &p)
	u.tally.check(promiseKept, err == nil && a.status == http.StatusOK && p.EntryID == u.fact.Entry && (p.waits() || p.inside()),
		"user %d, entry %s: at the end http %d, entry %q, state %q", u.fact.User, u.fact.Entry, a.status, p.EntryID, p.State)
	switch {
	case p.waits():
		u.fact.Waiting = sent
	case p.inside():
		t, err := parseToken(p.EntryToken)
		untold := err == nil && u.link.sock != nil && time.Since(time.Unix(t.claims.IAT, 0)) > untoldLimit
		u.tally.check(promiseGrant, !untold, "user %d, entry %s: admitted in second %d and never told on its open socket", u.fact.User, u.fact.Entry, t.claims.IAT)
	}
	return endWaiting
}

// replayable is a call with a key and its first answer.
type replayable struct {
	call   call
	answer answer
}

// probeReplay sends the same call again: the same bytes, marked as replayed.
func (u *user) probeReplay(ctx context.Context, k replayable, p *purchase) {
	if !u.sampled {
		return
	}
	a, err := u.tryAt(ctx, u.target+1, k.call, 2)
	if err != nil || again(a) {
		return
	}
	u.tally.check(promiseSeat, a.status == k.answer.status && bytes.Equal(a.body, k.answer.body),
		"user %d: reservation %s again with its key: http %d %.200s", u.fact.User, p.ID, a.status, a.body)
	u.tally.check(promiseSeat, a.header.Get("Idempotency-Replayed") == "true",
		"user %d: reservation %s again with its key: no Idempotency-Replayed", u.fact.User, p.ID)
}

// probeSecondPurchase tries to buy with a token that has bought: 409 token_used.
func (u *user) probeSecondPurchase(ctx context.Context) {
	if !u.sampled {
		return
	}
	a, err := u.tryAt(ctx, u.target+1, call{
		method: http.MethodPost, path: u.path("/reservations"), entry: u.token, key: u.newKey("second"), body: `{"quantity":1}`,
	}, 1)
	if err != nil || again(a) {
		return
	}
	u.tally.check(promiseSeat, a.status == http.StatusConflict && a.code() == "token_used",
		"user %d, entry %s: bought a second time with one token: http %d %.200s", u.fact.User, u.fact.Entry, a.status, a.body)
}

// probeShare tries to take more than one person may have: it is refused, and what
// was refused spends nothing, which the real purchase right after it shows.
func (u *user) probeShare(ctx context.Context) {
	share := u.spec.Config.Checks.PerUser
	if !u.sampled || share < 1 {
		return
	}
	a, err := u.tryAt(ctx, u.target, call{
		method: http.MethodPost, path: u.path("/reservations"), entry: u.token, key: u.newKey("share"),
		body: fmt.Sprintf(`{"quantity":%d}`, share+1),
	}, 1)
	if err != nil || again(a) {
		return
	}
	u.tally.check(promiseSeat, a.status != http.StatusCreated,
		"user %d, entry %s: reserved %d though a person may have %d", u.fact.User, u.fact.Entry, share+1, share)
}

// kept is a reservation to look at again when the run ends.
type kept struct {
	user      int
	id, token string
	status    string
}

// askForKept looks again at the sampled reservations: what was answered is there.
func (w *worker) askForKept(ctx context.Context) {
	for _, k := range w.kept {
		path := "/v1/events/" + w.spec.Config.Event + "/reservations/" + k.id
		a, err := w.tryAt(ctx, k.user, call{method: http.MethodGet, path: path, entry: k.token}, 1)
		if err != nil || again(a) {
			continue
		}
		var r reservation
		err = decode(a.body, &r)
		w.tally.check(promiseKept, err == nil && a.status == http.StatusOK && (r.Status == k.status || k.status != statusPaid),
			"user %d: reservation %s was %s, at the end http %d, %q", k.user, k.id, k.status, a.status, r.Status)
	}
}

// genuine checks a token's signature by the service's public keys. They are fetched
// when a token names one that is not known, as after a change of keys. known is false
// if they were not to be had: then nothing is said of the token.
func (w *worker) genuine(ctx context.Context, token string) (known bool, err error) {
	p, err := parseToken(token)
	if err != nil {
		return true, err
	}
	w.mu.Lock()
	keys := w.keys
	w.mu.Unlock()
	if keys[p.kid] == nil {
		a, err := w.tryAt(ctx, 0, call{method: http.MethodGet, path: "/.well-known/jwks.json"}, 1)
		if err != nil || a.status != http.StatusOK {
			return false, err
		}
		if keys, err = parseKeys(a.body); err != nil {
			return true, err
		}
		w.mu.Lock()
		w.keys = keys
		w.mu.Unlock()
	}
	return true, keys.verify(p)
}
