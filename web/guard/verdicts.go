package guard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// verdict is the service's word about a token, and until when it holds here.
type verdict struct {
	who    Person
	refuse *RefusedError // nil: passes
	until  time.Time
}

// verdicts asks the service and keeps its answers for a moment.
type verdicts struct {
	cfg    Config
	kept   *lru.Cache[sum, verdict]
	asking singleflight.Group // one question at a time about one token
}

func newVerdicts(cfg Config) (*verdicts, error) {
	kept, err := lru.New[sum, verdict](remembered)
	return &verdicts{cfg: cfg, kept: kept}, err
}

// of is who holds a signed token, if the service says that it is good.
func (v *verdicts) of(ctx context.Context, token string, c claims) (Person, error) {
	id := sha256.Sum256([]byte(token))
	last, known := v.kept.Get(id)
	if known && time.Now().Before(last.until) {
		return last.answer()
	}
	asked, err, _ := v.asking.Do(string(id[:]), func() (any, error) { return v.ask(ctx, token, c) })
	if err == nil {
		now := asked.(verdict) //nolint:forcetypeassert // Do gives back what ask gave
		v.kept.Add(id, now)
		return now.answer()
	}
	if v.cfg.Open && (!known || last.refuse == nil) && time.Now().Before(c.ExpiresAt.Time) {
		return Person{User: c.Subject, Entry: last.who.Entry, Token: c.ID}, nil
	}
	return Person{}, fmt.Errorf("%w: %w", refusals["unavailable"], err)
}

func (v verdict) answer() (Person, error) {
	if v.refuse != nil {
		return Person{}, v.refuse
	}
	return v.who, nil
}

// ask gives the service's verdict; an error means that there is none.
func (v *verdicts) ask(ctx context.Context, token string, c claims) (verdict, error) {
	// Others wait for this answer too: who asked first may go.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.cfg.Timeout)
	defer cancel()
	asked := time.Now()
	status, header, code, err := v.call(ctx, http.MethodGet, "/v1/gate/"+v.cfg.Event,
		map[string]string{"X-Entry-Token": token})
	if err != nil {
		return verdict{}, err
	}
	now := verdict{until: asked.Add(v.cfg.Fresh)}
	switch status {
	case http.StatusNoContent:
		now.who = Person{User: header.Get("X-Waitroom-User"), Entry: header.Get("X-Waitroom-Entry"), Token: c.ID}
	case http.StatusUnauthorized, http.StatusForbidden:
		refuse, known := refusals[code]
		if !known || refuse.Status >= http.StatusInternalServerError {
			return verdict{}, fmt.Errorf("the service answered %d %q", status, code)
		}
		now.refuse = refuse
	default:
		return verdict{}, fmt.Errorf("the service answered %d", status)
	}
	return now, nil
}

// spend uses a token up. The key makes a repeated call one use.
func (g *Guard) spend(ctx context.Context, who Person) error {
	const tries = 2
	header := map[string]string{"Authorization": "Bearer " + g.cfg.SiteKey, "Idempotency-Key": rand.Text()}
	var status int
	var code string
	var err error
	for range tries { // the answer may be lost on its way; the token is not
		asked, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
		status, _, code, err = g.verdicts.call(asked, http.MethodPost,
			"/v1/events/"+g.cfg.Event+"/sessions/"+who.Token+"/use", header)
		cancel()
		if err == nil && status < http.StatusInternalServerError || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", refusals["unavailable"], err)
	}
	switch {
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

// call asks the service; code is the one of a refusal.
func (v *verdicts) call(ctx context.Context, method, path string, header map[string]string) (status int, _ http.Header, code string, _ error) {
	const most = 64 << 10
	req, err := http.NewRequestWithContext(ctx, method, v.cfg.Asked+path, nil)
	if err != nil {
		return 0, nil, "", err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := v.cfg.Client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return 0, nil, "", err
	}
	var problem struct {
		Code string `json:"code"`
	}
	if res.StatusCode >= http.StatusBadRequest {
		_ = json.Unmarshal(body, &problem) // a proxy's own page has no code
	}
	return res.StatusCode, res.Header, problem.Code, nil
}
