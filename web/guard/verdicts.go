package guard

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// verdict is the service's word about a token, and until when it holds here.
type verdict struct {
	id     sum
	who    Person
	refuse *RefusedError // nil: passes
	until  time.Time
	used   atomic.Bool // it is in verdicts.used
}

// verdicts asks the service and keeps its answers for a moment.
type verdicts struct {
	cfg    Config
	kept   *lru.Cache[sum, *verdict]
	asking singleflight.Group // one question at a time about one token

	mu   sync.Mutex // guards used
	used []*verdict // whose people have come by since Run asked last; not more than are kept
}

func newVerdicts(cfg Config) (*verdicts, error) {
	kept, err := lru.New[sum, *verdict](remembered)
	return &verdicts{cfg: cfg, kept: kept}, err
}

// of is who holds a signed token, if the service says that it is good.
func (v *verdicts) of(ctx context.Context, token string, id sum, c *claims) (Person, error) {
	last, known := v.kept.Get(id)
	if known && time.Now().Before(last.until) {
		if last.refuse == nil && !last.who.Unchecked && !last.used.Load() {
			v.use(last)
		}
		return last.answer()
	}
	asked, err, _ := v.asking.Do(string(id[:]), func() (any, error) { return v.ask(ctx, token, id, c) })
	if err == nil {
		now := asked.(*verdict) //nolint:forcetypeassert // Do gives back what ask gave
		v.kept.Add(id, now)
		return now.answer()
	}
	if v.cfg.Open && (!known || last.refuse == nil) && time.Now().Before(c.ExpiresAt.Time) {
		who := Person{User: c.Subject, Token: c.ID, Unchecked: true}
		if known {
			who.Entry = last.who.Entry
		}
		return who, nil
	}
	return Person{}, fmt.Errorf("%w: %w", refusals["unavailable"], err)
}

func (v *verdict) answer() (Person, error) {
	if v.refuse != nil {
		return Person{}, v.refuse
	}
	return v.who, nil
}

// ask gives the service's verdict; an error means that there is none.
func (v *verdicts) ask(ctx context.Context, token string, id sum, c *claims) (*verdict, error) {
	// Others wait for this answer too: who asked first may go.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.cfg.Timeout)
	defer cancel()
	asked := time.Now()
	status, header, body, err := v.call(ctx, http.MethodGet, "/v1/gate/"+v.cfg.Event,
		map[string]string{"X-Entry-Token": token}, nil)
	if err != nil {
		return nil, err
	}
	now := &verdict{id: id, until: asked.Add(v.cfg.Fresh)}
	switch status {
	case http.StatusNoContent:
		now.who = Person{User: header.Get("X-Waitroom-User"), Entry: header.Get("X-Waitroom-Entry"), Token: c.ID, Unchecked: header.Get("X-Waitroom-Unchecked") != ""}
	case http.StatusUnauthorized, http.StatusForbidden:
		code := refusalCode(body)
		refuse, known := refusals[code]
		if !known || refuse.Status >= http.StatusInternalServerError {
			return nil, fmt.Errorf("the service answered %d %q", status, code)
		}
		now.refuse = refuse
	default:
		return nil, fmt.Errorf("the service answered %d", status)
	}
	return now, nil
}

// spend uses a token up. The key makes a repeated call one use.
func (g *Guard) spend(ctx context.Context, who Person) error {
	const tries = 2
	header := map[string]string{"Authorization": "Bearer " + g.cfg.SiteKey, "Idempotency-Key": rand.Text()}
	var status int
	var answer []byte
	var err error
	for range tries { // the answer may be lost on its way; the token is not
		asked, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
		status, _, answer, err = g.verdicts.call(asked, http.MethodPost,
			"/v1/events/"+g.cfg.Event+"/sessions/"+who.Token+"/use", header, nil)
		cancel()
		if err == nil && status < http.StatusInternalServerError || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", refusals["unavailable"], err)
	}
	switch code := refusalCode(answer); {
	case status == http.StatusNoContent:
		return nil
	case code == "token_used":
		return refusals["token_used"]
	case status == http.StatusNotFound, code == "token_revoked": // the session ended since
		return refusals["token_expired"]
	default:
		return fmt.Errorf("%w: the service answered %d %q", refusals["unavailable"], status, code)
	}
}

// call asks the service.
func (v *verdicts) call(ctx context.Context, method, path string, header map[string]string, body []byte) (status int, _ http.Header, answer []byte, _ error) {
	const most = 128 << 10
	req, err := http.NewRequestWithContext(ctx, method, v.cfg.Asked+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := v.cfg.Client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	answer, err = io.ReadAll(io.LimitReader(res.Body, most))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return 0, nil, nil, err
	}
	return res.StatusCode, res.Header, answer, nil
}

// refusalCode is the code of a refusal; a proxy's own page has none.
func refusalCode(answer []byte) string {
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(answer, &problem)
	return problem.Code
}
