package web

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// Line is what fans and the gate do with the line.
type Line interface {
	Join(ctx context.Context, req waitroom.JoinRequest) (waitroom.Place, error)
	PlaceOf(ctx context.Context, event waitroom.EventID, subject string) (waitroom.Place, error)
	Leave(ctx context.Context, event waitroom.EventID, entry waitroom.EntryID) error
	ReadReceipt(event waitroom.EventID, token string) (waitroom.EntryID, waitroom.Seq, error)
	Enter(ctx context.Context, event waitroom.EventID, pass waitroom.Pass) (waitroom.Grant, error)
	Complete(ctx context.Context, event waitroom.EventID, jti string) error
	Use(ctx context.Context, event waitroom.EventID, jti, id string) error
	Credit(p waitroom.Pass) string
	ReadCredit(event waitroom.EventID, token string) (jti string, err error)
	MakeGood(ctx context.Context, req waitroom.JoinRequest, credit string) (waitroom.Place, error)
	Issue(ctx context.Context, req waitroom.IssueRequest) (waitroom.Issued, error)
	Enqueue(ctx context.Context, req waitroom.EnqueueRequest) (waitroom.Numbering, error)
	Numbering(ctx context.Context, req waitroom.JoinRequest) (waitroom.Numbering, error)
	Parties
}

// Operations are what operators do with events.
type Operations interface {
	Create(ctx context.Context, s waitroom.Settings, state waitroom.State, by string) (waitroom.Event, error)
	Patch(ctx context.Context, event waitroom.EventID, patch []byte, by string) (waitroom.Event, error)
	Delete(ctx context.Context, event waitroom.EventID, by string) error
	Event(ctx context.Context, event waitroom.EventID) (waitroom.Event, error)
	Events(ctx context.Context) ([]waitroom.Event, error)
	Admit(ctx context.Context, event waitroom.EventID, req waitroom.AdmitRequest) ([]waitroom.Grant, error)
	Block(ctx context.Context, event waitroom.EventID, entry waitroom.EntryID, by string) error
	BlockSubject(ctx context.Context, event waitroom.EventID, subject, by string) error
	Revoke(ctx context.Context, event waitroom.EventID, jti, by string) error
	AddCodes(ctx context.Context, req waitroom.CodesRequest) (added int, err error)
	Audit(ctx context.Context, event waitroom.EventID, after string, limit int) ([]waitroom.AuditRecord, error)
	Note(ctx context.Context, event waitroom.EventID, deed waitroom.AuditRecord) error
}

// View is this node's memory of the lines. Place, PlaceOf and Enter ask the line
// about whoever they do not know.
type View interface {
	Enter(ctx context.Context, event waitroom.EventID, pass waitroom.Pass) (waitroom.Grant, error)
	Check(ctx context.Context, event waitroom.EventID, jtis []string) []error
	Place(ctx context.Context, event waitroom.EventID, receipt string) (waitroom.Place, error)
	PlaceOf(ctx context.Context, event waitroom.EventID, subject string) (waitroom.Place, error)
	Shown(event waitroom.EventID, entry waitroom.EntryID, seq waitroom.Seq, position int64) int64
	Event(ctx context.Context, event waitroom.EventID) (waitroom.Event, error)
	Position(event waitroom.EventID, seq waitroom.Seq) (int64, bool)
	Estimate(event waitroom.EventID, seq waitroom.Seq, position int64) (eta, p90 time.Duration, ok bool)
}

// Passes makes and reads entry tokens.
type Passes interface {
	Mint(grant waitroom.Grant) (string, error)
	Verify(token string, event waitroom.EventID) (waitroom.Pass, error)
	JWKS() []byte
}

// Tickets sells.
type Tickets interface {
	Put(ctx context.Context, event string, c ticket.Catalogue) error
	Remove(ctx context.Context, event string) error
	Import(ctx context.Context, event string, sheet ticket.Sheet) (ticket.Imported, error)
	Export(ctx context.Context, event string) (ticket.Sheet, error)
	Block(ctx context.Context, event string, block, release []string) ([]ticket.PlaceChange, error)
	Map(ctx context.Context, event string) (*ticket.Map, string, error)
	SeatsLeft(event string) (int64, bool)
	Reserve(ctx context.Context, req ticket.ReserveRequest) (ticket.Answer, error)
	Pay(ctx context.Context, req ticket.PayRequest) (ticket.Answer, error)
	Cancel(ctx context.Context, event, id, person string) error
	Bought(ctx context.Context, event, jti string) (bool, error)
	Reservation(ctx context.Context, event, id, person string) (ticket.Reservation, error)
}

// Books recounts what an event has sold, and has its messages tried again.
type Books interface {
	Books(ctx context.Context, event waitroom.EventID) (ticket.Books, error)
	// Replay puts messages that were given up back to be published, and tells how many.
	Replay(ctx context.Context, event waitroom.EventID) (int, error)
}

// Load takes the site's own report of how busy it is, 0 to 1.
type Load interface {
	// ReportLane is told of the whole event where the lane is empty.
	ReportLane(ctx context.Context, event waitroom.EventID, lane string, usage float64) error
}

// Draws are the orders that were drawn, for anybody to check.
type Draws interface {
	Bundle(ctx context.Context, ev waitroom.Event) (draw.Bundle, error)
	Proof(ctx context.Context, ev waitroom.Event, entry waitroom.EntryID) (draw.Proof, error)
}

// AdmissionLog is who was let in and why, sealed for anybody to check.
type AdmissionLog interface {
	// Page is a page of the log as JSON; full when it will not grow any more.
	Page(ctx context.Context, event waitroom.EventID, from int64, most int) (page []byte, full bool, err error)
	// Head is the newest sealed head as JSON, from memory; false before there is one.
	Head(event waitroom.EventID) ([]byte, bool)
}

// Sample tells an operator how an event does right now, as one JSON object.
type Sample func(ctx context.Context, event waitroom.EventID) ([]byte, error)

// Hub serves what stays open. It answers or takes the connection over; it checks
// the origin and the event itself. ServeOps is called for operators only, and ends when
// ended says that the token or session counts no more.
type Hub interface {
	ServeLive(w http.ResponseWriter, r *http.Request, event waitroom.EventID, receipt string)
	ServeOps(w http.ResponseWriter, r *http.Request, event waitroom.EventID, ended func(context.Context) bool)
}

// Check is one thing that /readyz asks.
type Check struct {
	// Name stands in the answer, such as "store".
	Name string
	// Ping returns an error while the thing does not answer.
	Ping func(ctx context.Context) error
}

// Deps are the parts that the HTTP side speaks to.
type Deps struct {
	Line       Line
	Operations Operations
	View       View
	Passes     Passes
	// Tickets may be nil on a node that sells nothing; its calls are then unknown routes.
	Tickets Tickets
	// Webhooks take what payment providers tell by themselves, by provider: a signature
	// and the body that it signs. Empty on a node that does not pay.
	Webhooks map[string]func(ctx context.Context, signature string, body []byte) error
	// Books may be nil on a node without the database; its call is then an unknown route.
	Books Books
	Load  Load
	Draws Draws
	// Holding answers from memory why an open event lets in fewer than its rate, such as
	// database_busy, and since when (zero: not known); "" is for no reason that a fan has
	// to know. Optional.
	Holding func(event waitroom.EventID) (reason string, since time.Time)
	// AdmissionLog may be nil: nothing is published then, and its call is an unknown route.
	AdmissionLog AdmissionLog
	// Limiter may be nil: nobody is limited.
	Limiter Limiter
	// Operators may be nil: there is the configured operator token then, and no other.
	Operators Operators
	// Challenges may be nil: nobody has to solve any.
	Challenges Challenges
	Sample     Sample
	Hub        Hub
	// Pages holds index.html, shop.html, console.html and assets/.
	Pages fs.FS
	// Ready is asked by /readyz.
	Ready []Check
	// InWork, if it is there, counts the requests that are being worked on, sockets apart.
	InWork *atomic.Int64
	// Listener is what Run serves on; Run closes it.
	Listener   net.Listener
	Log        *zap.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

func (d Deps) validate() error {
	var errs []error
	for name, missing := range map[string]bool{
		"line": d.Line == nil, "operations": d.Operations == nil, "view": d.View == nil,
		"passes": d.Passes == nil, "draws": d.Draws == nil, "load": d.Load == nil, "sample": d.Sample == nil,
		"hub": d.Hub == nil, "pages": d.Pages == nil, "log": d.Log == nil,
		"registerer": d.Registerer == nil, "gatherer": d.Gatherer == nil,
	} {
		if missing {
			errs = append(errs, errors.New("web needs "+name))
		}
	}
	return errors.Join(errs...)
}
