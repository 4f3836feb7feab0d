package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/limit"
	"github.com/waitroom-dev/waitroom/web/operators"
)

// Operators knows the named operators and the console's sessions.
type Operators interface {
	Identify(ctx context.Context, token string) (operators.Operator, error)
	Session(ctx context.Context, id string) (operators.Operator, error)
	SignIn(ctx context.Context, o operators.Operator) (id string, ends time.Time, err error)
	SignOut(ctx context.Context, id string) error
	Add(ctx context.Context, name string, role operators.Role, life time.Duration, by string) (operators.Operator, string, error)
	Revoke(ctx context.Context, name, by string) error
	Trail(ctx context.Context, after string, most int) ([]waitroom.AuditRecord, error)
	List(ctx context.Context) ([]operators.Operator, error)
}

const (
	operatorCookie = "waitroom_operator"
	operatorKey    = "web.operator"
)

// attempts is how often an address may show a token that is none, before none that it
// shows is looked at for a moment.
var attempts = waitroom.Rule{N: 30, Per: time.Minute}

// may lets through operators whose role is at least this one.
func (s *Server) may(need operators.Role) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			o, err := s.operatorOf(c)
			if err != nil {
				return err
			}
			if !o.Role.May(need) {
				return ErrForbidden
			}
			c.Set(operatorKey, o)
			return next(c)
		}
	}
}

// by is who does it, for the audit trail.
func by(c echo.Context) string {
	o, _ := c.Get(operatorKey).(operators.Operator)
	return o.Name
}

// operatorOf is the operator who calls: by a Bearer, or else by the console's cookie,
// which counts for our own pages only.
func (s *Server) operatorOf(c echo.Context) (operators.Operator, error) {
	r := c.Request()
	if bearer(r) != "" {
		return s.tokenOf(c)
	}
	session := cookie(r, operatorCookie)
	if session == "" || s.deps.Operators == nil {
		return operators.Operator{}, waitroom.ErrTokenRequired
	}
	if !s.rules.ownPage(r) {
		return operators.Operator{}, ErrForbidden
	}
	return s.deps.Operators.Session(r.Context(), session)
}

// noOperator tells whether whoever was an operator when they called is none by now. While
// the store is away nobody is told so.
func (s *Server) noOperator(ctx context.Context, c echo.Context) bool {
	r := c.Request()
	token := bearer(r)
	var err error
	switch session := cookie(r, operatorCookie); {
	case s.deps.Operators == nil || token != "" && secret(r, s.cfg.OperatorToken) == nil:
		return false
	case token != "":
		_, err = s.deps.Operators.Identify(ctx, token)
	default:
		_, err = s.deps.Operators.Session(ctx, session)
	}
	return errors.Is(err, waitroom.ErrTokenInvalid) || errors.Is(err, waitroom.ErrTokenExpired)
}

// tokenOf is the operator of a Bearer. Wrong ones are counted.
func (s *Server) tokenOf(c echo.Context) (operators.Operator, error) {
	err := secret(c.Request(), s.cfg.OperatorToken)
	if err == nil {
		return operators.Static(s.cfg.OperatorToken), nil
	}
	if !errors.Is(err, waitroom.ErrTokenInvalid) {
		return operators.Operator{}, err
	}
	const nowhere = waitroom.EventID("") // attempts belong to no event
	if err := s.mayGuess(c, nowhere, "a token"); err != nil {
		return operators.Operator{}, err
	}
	if s.deps.Operators != nil {
		o, known := s.deps.Operators.Identify(c.Request().Context(), bearer(c.Request()))
		if !errors.Is(known, waitroom.ErrTokenInvalid) {
			return o, known
		}
	}
	if s.deps.Limiter == nil {
		return operators.Operator{}, err
	}
	verdict := s.deps.Limiter.Allow(c.Request().Context(), limit.Request{
		Call: limit.Guess, Addr: limit.ClientAddr(c.Request(), s.cfg.TrustedProxies),
	}, limit.Rules{Guesses: attempts})
	if !verdict.OK {
		s.guesses.until.Add(s.guesser(c, nowhere), time.Now().Add(verdict.RetryAfter))
		err = After(fmt.Errorf("%w: %s", ErrRateLimited, verdict.Which), verdict.RetryAfter)
	}
	return operators.Operator{}, err
}

// ownPage tells whether a request comes from a page of ours, or from no page at all.
// Origins that may use the fans' API may not use an operator's cookie, which a browser
// sends along from any host of the same site.
func (r rules) ownPage(req *http.Request) bool {
	switch req.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
	default:
		return false
	}
	origin := req.Header.Get("Origin")
	if origin == "" || origin == r.origins[0] {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, req.Host)
}

// operatorBody is an operator as the ops API shows them.
type operatorBody struct {
	Name      string         `json:"name"`
	Role      operators.Role `json:"role"`
	CreatedAt *stamp         `json:"created_at,omitempty"`
	CreatedBy string         `json:"created_by,omitempty"`
	ExpiresAt *stamp         `json:"expires_at,omitempty"`
	// Token is there once, in the answer that makes it.
	Token string `json:"token,omitempty"`
}

func operatorBodyOf(o operators.Operator) operatorBody {
	b := operatorBody{Name: o.Name, Role: o.Role, CreatedBy: o.CreatedBy}
	if !o.CreatedAt.IsZero() {
		b.CreatedAt, b.ExpiresAt = new(stamp(o.CreatedAt)), new(stamp(o.ExpiresAt))
	}
	return b
}

// signIn begins a session of the console for whoever shows a token.
func (s *Server) signIn(c echo.Context) error {
	o, err := s.tokenOf(c)
	if err != nil {
		return err
	}
	id, ends, err := s.deps.Operators.SignIn(c.Request().Context(), o)
	if err != nil {
		return err
	}
	s.setOperatorCookie(c, id, time.Until(ends))
	body := operatorBodyOf(o)
	body.ExpiresAt = new(stamp(ends))
	return writeJSON(c, http.StatusOK, body)
}

// whoAmI tells the console whose session it has.
func (s *Server) whoAmI(c echo.Context) error {
	o, _ := c.Get(operatorKey).(operators.Operator)
	return writeJSON(c, http.StatusOK, operatorBodyOf(o))
}

// signOut ends the session of the cookie, if there is one.
func (s *Server) signOut(c echo.Context) error {
	if id := cookie(c.Request(), operatorCookie); id != "" {
		if err := s.deps.Operators.SignOut(c.Request().Context(), id); err != nil {
			return err
		}
	}
	s.setOperatorCookie(c, "", -1)
	return noContent(c)
}

// setOperatorCookie keeps the session where no script and no other site gets at it; an
// age below zero takes it away.
func (s *Server) setOperatorCookie(c echo.Context, id string, age time.Duration) {
	most := int(age.Seconds())
	if age < 0 {
		most = -1
	}
	http.SetCookie(c.Response(), &http.Cookie{ //nolint:gosec // Secure wherever the service is reached by https; a browser drops such a cookie elsewhere
		Name: operatorCookie, Value: id, Path: routeOps, MaxAge: most, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(s.cfg.PublicURL, "https:") || c.Scheme() == "https",
	})
}

// opsOperators lists the operators.
func (s *Server) opsOperators(c echo.Context) error {
	list, err := s.deps.Operators.List(c.Request().Context())
	if err != nil {
		return err
	}
	bodies := make([]operatorBody, len(list))
	for i, o := range list {
		bodies[i] = operatorBodyOf(o)
	}
	return writeJSON(c, http.StatusOK, struct {
		Operators []operatorBody `json:"operators"`
	}{bodies})
}

// opsAddOperator makes an operator, and tells their token this once.
func (s *Server) opsAddOperator(c echo.Context) error {
	var name, role, life string
	if err := required(c, field{"name", &name, "a name"}, field{"role", &role, "viewer, operator or owner"}, field{"expires_in", &life, "a duration like 720h"}); err != nil {
		return err
	}
	var lasts time.Duration
	if life != "" {
		var err error
		if lasts, err = time.ParseDuration(life); err != nil || lasts == 0 {
			return wrongField("expires_in", "must be a duration like 720h")
		}
	}
	o, token, err := s.deps.Operators.Add(c.Request().Context(), name, operators.Role(role), lasts, by(c))
	if err != nil {
		return err
	}
	body := operatorBodyOf(o)
	body.Token = token
	return writeJSON(c, http.StatusCreated, body)
}

// opsRevokeOperator ends an operator's token and sessions.
func (s *Server) opsRevokeOperator(c echo.Context) error {
	if err := s.deps.Operators.Revoke(c.Request().Context(), c.Param("name"), by(c)); err != nil {
		return err
	}
	return noContent(c)
}

// opsOperatorsAudit tells who made and revoked operators.
func (s *Server) opsOperatorsAudit(c echo.Context) error {
	limit, err := auditLimit(c)
	if err != nil {
		return err
	}
	records, err := s.deps.Operators.Trail(c.Request().Context(), c.QueryParam("after"), limit)
	if err != nil {
		return err
	}
	return writeAudit(c, records)
}
