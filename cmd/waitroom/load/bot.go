package load

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// botConnections bounds the connections of a worker's bots, so that what they do
// takes none from its people.
const botConnections = 64

// Bots is what the bots did and got, apart from the people's figures.
type Bots struct {
	Count int64 `json:"count"`
	Calls int64 `json:"calls"`
	// Refused had no place and no token for an answer: 4xx, or 503.
	Refused int64 `json:"refused"`
	// Places were given to them.
	Places int64 `json:"places"`
	// Refusals by code.
	Refusals Trouble `json:"refusals"`
}

func (b *Bots) add(o Bots) {
	b.Count += o.Count
	b.Calls += o.Calls
	b.Refused += o.Refused
	b.Places += o.Places
	b.Refusals.add(o.Refusals)
}

// loop is a bot: it calls whatever might give it something, in a closed loop, without
// a token, heeding no answer, until the worker's people are done: then ctx ends.
func (w *worker) loop(ctx context.Context, i int) {
	event := "/v1/events/" + w.spec.Config.Event
	calls := []call{
		{method: http.MethodPost, path: event + "/entries"},
		{method: http.MethodPost, path: event + "/tokens"},
		{method: http.MethodGet, path: event},
		{method: http.MethodGet, path: event + "/entries/me"},
	}
	w.mu.Lock()
	w.botted.Count++
	w.mu.Unlock()
	for n := i; ctx.Err() == nil; n++ {
		k := calls[n%len(calls)]
		k.from = w.addressOf(i)
		if k.method == http.MethodPost {
			k.key = "bot-" + strconv.FormatInt(w.spec.Start.UnixMilli(), 10) + "-" + strconv.Itoa(i) + "-" + strconv.Itoa(n)
		}
		a, err := w.bots.once(ctx, i+n, k, 1)
		if ctx.Err() != nil {
			return
		}
		w.bookBot(k, a, err)
	}
}

// bookBot books one answer to a bot. What breaks a promise towards people does so
// towards bots: nobody without a token is told of a place.
func (w *worker) bookBot(k call, a answer, err error) {
	if strings.HasSuffix(k.path, "/entries/me") && err == nil {
		w.tally.check(promisePlace, a.status/100 != 2, "without a token entries/me answered http %d: %.200s", a.status, a.body)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.botted.Calls++
	switch {
	case err != nil:
		w.botted.Refusals.count("no_answer", err.Error())
	case a.status >= 500 && a.status != http.StatusServiceUnavailable:
		w.server.count("bot_"+statusKind(a.status), k.method+" "+k.path)
	case a.status >= 400:
		w.botted.Refused++
		w.botted.Refusals.count(strconv.Itoa(a.status)+" "+a.code(), k.method+" "+k.path)
	case a.status == http.StatusCreated:
		w.botted.Places++
	}
}
