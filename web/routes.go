package web

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/limit"
	"github.com/waitroom-dev/waitroom/web/operators"
)

// The routes that something beside the table below needs to know.
const (
	routeLive     = "/v1/events/:event/live"
	routeOps      = "/v1/ops"
	routeOpsLive  = "/v1/ops/events/:event/live"
	routeSheet    = "/v1/ops/events/:event/catalogue"
	routeAudit    = "/v1/ops/events/:event/audit"
	routeSession  = "/v1/ops/session"
	routeBooks    = "/v1/ops/events/:event/books"
	routeGate     = "/v1/gate/:event"
	routeGateRest = "/v1/gate/:event/*"
	routeEnter    = "/v1/gate/:event/enter"
	gatePrefix    = "/v1/gate/"
)

// routes is the whole table.
func (s *Server) routes(e *echo.Echo) {
	get := func(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) {
		e.GET(path, h, m...)
		e.HEAD(path, h, m...)
	}

	// Pages.
	get("/", s.page("index.html"))
	get("/e/:event", s.page("index.html"))
	get("/e/:event/shop", s.page("shop.html"))
	get("/console", s.page("console.html"))
	get("/assets/*", s.asset)

	// Fans.
	get("/v1/events/:event", s.event)
	if s.deps.AdmissionLog != nil {
		get("/v1/events/:event/log", s.limited(limit.Browse, s.admissionLog))
	}
	e.POST("/v1/events/:event/entries", s.challenged(limit.Join, s.limited(limit.Join, s.join)))
	get("/v1/events/:event/entries/me", s.limited(limit.Poll, s.me))
	e.DELETE("/v1/events/:event/entries/me", s.leave)
	get("/v1/events/:event/draw", s.limited(limit.Browse, s.draw))
	get("/v1/events/:event/draw/me", s.limited(limit.Poll, s.drawProof))
	get("/v1/events/:event/party", s.limited(limit.Poll, s.party(s.deps.Line.Party)))
	e.POST("/v1/events/:event/party", s.limited(limit.Join, s.party(s.deps.Line.MakeParty)))
	e.POST("/v1/events/:event/party/members", s.challenged(limit.Join, s.limited(limit.Join, s.joinParty)))
	e.DELETE("/v1/events/:event/party/members/me", s.limited(limit.Join, s.leaveParty))
	e.PUT("/v1/events/:event/party/buyer", s.limited(limit.Join, s.party(s.deps.Line.BuyForParty)))
	e.POST("/v1/events/:event/tokens", s.challenged(limit.Issue, s.limited(limit.Issue, s.issue)))
	get("/v1/events/:event/challenge", s.challenge)
	e.GET(routeLive, s.live)

	// The protected site.
	e.POST(routeEnter, s.enter)
	for _, path := range []string{routeGate, routeGateRest} {
		e.Any(path, s.gate)
	}
	e.POST("/v1/events/:event/sessions/check", s.check, s.site)
	e.POST("/v1/events/:event/sessions/:jti/complete", s.complete, s.site)
	e.POST("/v1/events/:event/sessions/:jti/use", s.use, s.site)
	e.PUT("/v1/events/:event/load", s.report, s.site)
	get("/.well-known/jwks.json", s.jwks)

	// Tickets.
	if s.deps.Tickets != nil {
		get("/v1/events/:event/seats", s.seatMap)
		e.POST("/v1/events/:event/reservations", s.limited(limit.Booking, s.reserve))
		get("/v1/events/:event/reservations/:id", s.reservation)
		e.DELETE("/v1/events/:event/reservations/:id", s.cancel)
		e.POST("/v1/events/:event/credits", s.limited(limit.Join, s.credit))
		e.POST("/v1/events/:event/reservations/:id/payment", s.limited(limit.Booking, s.pay))
	}

	if len(s.deps.Webhooks) > 0 {
		e.POST("/v1/payments/webhooks/:provider", s.webhook)
	}

	// Operators.
	get("/v1/ops/events", s.opsEvents, s.may(operators.Viewer))
	e.POST("/v1/ops/events", s.opsCreate, s.may(operators.Runner))
	get("/v1/ops/events/:event", s.opsEvent, s.may(operators.Viewer))
	e.PATCH("/v1/ops/events/:event", s.opsPatch, s.may(operators.Runner))
	e.DELETE("/v1/ops/events/:event", s.opsDelete, s.may(operators.Owner))
	e.POST("/v1/ops/events/:event/admit", s.opsAdmit, s.may(operators.Runner))
	e.POST("/v1/ops/events/:event/block", s.opsBlock, s.may(operators.Runner))
	e.POST("/v1/ops/events/:event/revoke", s.opsRevoke, s.may(operators.Runner))
	e.POST("/v1/ops/events/:event/codes", s.opsCodes, s.may(operators.Runner))
	get(routeAudit, s.opsAudit, s.may(operators.Viewer))
	if s.deps.Tickets != nil {
		get(routeSheet, s.opsExport, s.may(operators.Viewer))
		e.PUT(routeSheet, s.opsImport, s.may(operators.Runner))
		e.POST("/v1/ops/events/:event/seats", s.opsSeats, s.may(operators.Runner))
	}
	if s.deps.Books != nil {
		get(routeBooks, s.opsBooks, s.may(operators.Viewer))
		e.POST("/v1/ops/events/:event/replay", s.opsReplay, s.may(operators.Runner))
	}
	get("/v1/ops/events/:event/metrics", s.opsMetrics, s.may(operators.Viewer))
	e.GET(routeOpsLive, s.opsLive, s.may(operators.Viewer))
	if s.deps.Operators != nil {
		get(routeSession, s.whoAmI, s.may(operators.Viewer))
		e.POST(routeSession, s.signIn)
		e.DELETE(routeSession, s.signOut)
		get("/v1/ops/operators", s.opsOperators, s.may(operators.Owner))
		get("/v1/ops/operators/audit", s.opsOperatorsAudit, s.may(operators.Owner))
		e.POST("/v1/ops/operators", s.opsAddOperator, s.may(operators.Owner))
		e.DELETE("/v1/ops/operators/:name", s.opsRevokeOperator, s.may(operators.Owner))
	}
	get("/v1/ops/profiles/:name", s.profile, s.may(operators.Viewer))

	// Running it.
	get("/healthz", s.healthz)
	get("/readyz", s.readyz)
	get("/metrics", s.exposition)
	get("/openapi.json", s.openAPI)
}

// route is one line of the table.
type route struct{ method, path string }

func tableOf(e *echo.Echo) map[route]bool {
	table := make(map[route]bool)
	for _, r := range e.Routes() {
		table[route{r.Method, r.Path}] = true
	}
	return table
}

// checkRoute answers what is not in the table before anything else is looked at,
// such as the size of a body that nobody will read. A browser's question about
// another origin is not in it either, and comes next.
func (s *Server) checkRoute(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if method := c.Request().Method; !s.table[route{method, c.Path()}] && method != http.MethodOptions {
			return c.Handler()(c) // the router's own: not found, or not by this method
		}
		return next(c)
	}
}

// anyMethod lets the gate be asked with methods that the router has never heard
// of: it answers all of them the same.
func anyMethod(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := c.Request(); methodOf(c) == methodOther && strings.HasPrefix(r.URL.Path, gatePrefix) {
			r.Method = http.MethodGet
		}
		return next(c)
	}
}

// isGateVerdict tells whether a request is a proxy's question, whose method, body
// and origin are somebody else's.
func isGateVerdict(c echo.Context) bool {
	return c.Path() == routeGate || c.Path() == routeGateRest
}

// isLive tells whether a connection stays open, and is the hub's.
func isLive(c echo.Context) bool { return c.Path() == routeLive || c.Path() == routeOpsLive }

// eventID is the event in the address. One that cannot be an event's id is
// answered as an address that is not there.
func eventID(c echo.Context) (waitroom.EventID, error) {
	id := c.Param("event")
	if !isEventID(id) {
		return "", errNotFound
	}
	return waitroom.EventID(id), nil
}

func isEventID(id string) bool {
	const most = 64
	if id == "" || len(id) > most {
		return false
	}
	for i := range len(id) {
		b := id[i]
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' {
			return false
		}
	}
	return true
}

// isName tells whether an id from outside is a short one of letters, digits, "-",
// "_" and ".", as all of ours are.
func isName(id string) bool {
	const most = 128
	if id == "" || len(id) > most {
		return false
	}
	for i := range len(id) {
		b := id[i]
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' && b != '_' && b != '.' {
			return false
		}
	}
	return true
}

// noContent is the answer to a deed that leaves nothing to say.
func noContent(c echo.Context) error { return c.NoContent(http.StatusNoContent) }
