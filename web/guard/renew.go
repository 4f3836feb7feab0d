package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// renewBatch is how many verdicts one question renews, the service's own bound.
const renewBatch = 1000

// use notes that somebody has come by on a verdict.
func (v *verdicts) use(last *verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.used) < remembered && last.used.CompareAndSwap(false, true) {
		v.used = append(v.used, last)
	}
}

// Run keeps the verdicts of whoever comes by fresh, a thousand people in one question
// and four times in Config.Fresh, until ctx ends; it then returns nil. Without it each
// person is asked about apart, in a request of theirs. While the service does not
// answer, verdicts age as ever. It needs the site key, and is not for a second call.
func (g *Guard) Run(ctx context.Context) error {
	const times = 4
	if g.cfg.SiteKey == "" {
		return errors.New("guard: site key: needed to keep verdicts fresh")
	}
	tick := time.NewTicker(g.cfg.Fresh / times)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.verdicts.renew(ctx)
		}
	}
}

// renew asks about everybody who has come by since the last time, as long as the
// service answers.
func (v *verdicts) renew(ctx context.Context) {
	v.mu.Lock()
	used := v.used
	v.used = nil
	v.mu.Unlock()
	for len(used) > 0 && ctx.Err() == nil {
		n := min(len(used), renewBatch)
		if err := v.confirm(ctx, used[:n]); err != nil {
			break
		}
		used = used[n:]
	}
	for _, last := range used { // not asked about: they age
		last.used.Store(false)
	}
}

// confirm asks which of these pass no longer.
func (v *verdicts) confirm(ctx context.Context, batch []*verdict) error {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	question := struct {
		JTIs []string `json:"jtis"`
	}{make([]string, len(batch))}
	for i, last := range batch {
		question.JTIs[i] = last.who.Token
	}
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	asked := time.Now()
	status, _, answer, err := v.call(ctx, http.MethodPost, "/v1/events/"+v.cfg.Event+"/sessions/check",
		map[string]string{"Authorization": "Bearer " + v.cfg.SiteKey, "Content-Type": "application/json"}, body)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the service answered %d %q", status, refusalCode(answer))
	}
	var said struct {
		Refused map[string]string `json:"refused"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return err
	}
	for _, last := range batch {
		now := &verdict{id: last.id, who: last.who, until: asked.Add(v.cfg.Fresh)}
		if code, refused := said.Refused[last.who.Token]; refused {
			refuse, known := refusals[code]
			if !known || refuse.Status >= http.StatusInternalServerError {
				last.used.Store(false) // nobody knows: it ages
				continue
			}
			now.refuse = refuse
		}
		v.kept.Add(now.id, now)
	}
	return nil
}
