package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// eventBody is the public event, without the time: that is appended after the
// rest was hashed for the ETag.
type eventBody struct {
	ID    waitroom.EventID `json:"id"`
	Name  string           `json:"name"`
	Mode  string           `json:"mode"`
	Order string           `json:"order"`
	State waitroom.State   `json:"state"`
	// Reason and Since are why, and since when, the state is what it is, or an open event
	// lets in fewer than its rate.
	Reason string `json:"reason,omitempty"`
	Since  *stamp `json:"since,omitempty"`

	LobbyOpensAt *stamp      `json:"lobby_opens_at,omitempty"`
	OpensAt      *stamp      `json:"opens_at,omitempty"`
	ClosesAt     *stamp      `json:"closes_at,omitempty"`
	Party        *partySize  `json:"party,omitempty"`
	Groups       []groupBody `json:"groups,omitempty"`
	Lanes        []laneBody  `json:"lanes,omitempty"`
	Waiting      int64       `json:"waiting"`
	RatePerS     float64     `json:"rate_per_s"`
	PassThrough  bool        `json:"pass_through,omitempty"`
	SeatsLeft    *int64      `json:"seats_left,omitempty"`
	Message      string      `json:"message,omitempty"`
	// Draw is what is published of the draw so far.
	Draw *waitroom.Drawn `json:"draw,omitempty"`
	// Log is the signed head of the admission log, so that whoever reads the event
	// can hold the service to it.
	Log json.RawMessage `json:"log,omitempty"`
}

// event answers what everybody may know, from memory.
func (s *Server) event(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	var head json.RawMessage
	if s.deps.AdmissionLog != nil {
		head, _ = s.deps.AdmissionLog.Head(id)
	}
	reason, since := s.cause(&ev)
	body, err := json.Marshal(eventBody{
		ID: ev.ID, Name: ev.Name, Mode: ev.Mode, Order: ev.Order, State: ev.State, Reason: reason, Since: since,
		LobbyOpensAt: stampOf(ev.LobbyOpensAt), OpensAt: stampOf(ev.OpensAt), ClosesAt: stampOf(ev.ClosesAt),
		Party: partySizeOf(ev.Settings), Groups: groupsOf(ev.Settings), Lanes: lanesOf(ev), Waiting: ev.Waiting, RatePerS: ev.RatePerS, PassThrough: ev.PassThrough, SeatsLeft: s.seatsLeft(c.Request().Context(), ev), Message: ev.Message, Draw: ev.Draw, Log: head,
	})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	h := fnv.New64a()
	_, _ = h.Write(body) // a hash never fails
	if notModified(c, `W/"`+strconv.FormatUint(h.Sum64(), 36)+`"`, "public, max-age=1") {
		return nil
	}
	body = append(body[:len(body)-1], `,"now":`...)
	body = ev.Now.UTC().AppendFormat(body, `"`+stampFormat+`"`)
	return c.Blob(http.StatusOK, mimeJSON, append(body, '}'))
}

// cause is why, and since when, an event is in its state, or lets in fewer than its
// rate while it is open.
func (s *Server) cause(ev *waitroom.Event) (string, *stamp) {
	reason, since := ev.Reason, ev.Since
	if ev.State == waitroom.Open && s.deps.Holding != nil {
		if why, from := s.deps.Holding(ev.ID); why != "" {
			reason, since = why, from
		}
	}
	if since.IsZero() {
		return reason, nil
	}
	return reason, new(stamp(since))
}

// seatsLeft answers from memory. A map that this node has not read yet is read by
// one caller in a while, for a moment at most: the event is told without it
// rather than late.
func (s *Server) seatsLeft(ctx context.Context, ev waitroom.Event) *int64 {
	const every, most = 100 * time.Millisecond, 250 * time.Millisecond
	if !sells(ev.Settings) || s.deps.Tickets == nil {
		return nil
	}
	n, ok := s.deps.Tickets.SeatsLeft(string(ev.ID))
	if last, now := s.warmed.Load(), time.Now().UnixNano(); !ok && now-last > int64(every) && s.warmed.CompareAndSwap(last, now) {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		if _, _, err := s.deps.Tickets.Map(ctx, string(ev.ID)); err == nil {
			n, ok = s.deps.Tickets.SeatsLeft(string(ev.ID))
		}
	}
	if !ok {
		return nil
	}
	return &n
}

// notModified sets the ETag and answers 304 to whoever has that version already.
func notModified(c echo.Context, etag, cache string) bool {
	h := c.Response().Header()
	h.Set("ETag", etag)
	h.Set("Cache-Control", cache)
	for candidate := range strings.SplitSeq(c.Request().Header.Get("If-None-Match"), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || candidate != "" && strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(etag, "W/") {
			c.Response().WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

// placeBody is what a person is told of their own place. Fields that do not apply
// are absent, never zero.
type placeBody struct {
	EntryID  waitroom.EntryID    `json:"entry_id"`
	State    waitroom.EntryState `json:"state"`
	Lane     string              `json:"lane,omitempty"`
	Position *int64              `json:"position,omitempty"`
	Ahead    *int64              `json:"ahead,omitempty"`
	Waiting  *int64              `json:"waiting,omitempty"`
	EtaS     *int64              `json:"eta_s,omitempty"`
	EtaP90S  *int64              `json:"eta_p90_s,omitempty"`
	// EventState is the event's, for whoever waits; Reason and Since say why, and since
	// when, nobody is let in in it, or fewer than its rate.
	EventState  waitroom.State `json:"event_state,omitempty"`
	Reason      string         `json:"reason,omitempty"`
	Since       *stamp         `json:"since,omitempty"`
	PlaceToken  string         `json:"place_token,omitempty"`
	EntryToken  string         `json:"entry_token,omitempty"`
	AdmittedAt  *stamp         `json:"admitted_at,omitempty"`
	ExpiresAt   *stamp         `json:"expires_at,omitempty"`
	RedirectURL string         `json:"redirect_url,omitempty"`
	// Party is there for the members of a party, of which only the buyer has an entry token.
	Party *partyBody `json:"party,omitempty"`
}

// join takes a place, or finds the one that the caller has.
func (s *Server) join(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	said, err := joinBodyOf(c)
	if err != nil {
		return err
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	req, err := s.joinRequestIn(c.Request(), &ev)
	if err == nil {
		err = s.mayGuess(c, id, said.code)
	}
	if err != nil {
		return err
	}
	req.Code = said.code
	if req.Groups, err = ev.ChooseLane(said.lane, req.Groups); err != nil {
		return err
	}
	switch ev.Mode {
	case waitroom.ModeInstant:
		return waitroom.ErrWrongMode
	case waitroom.ModeBuffered:
		return s.enqueue(c, ev, req)
	}
	place, err := s.deps.Line.Join(c.Request().Context(), req)
	if err != nil {
		return s.guessed(c, ev, s.whenOpen(c, id, err))
	}
	s.setCookie(c, placeCookie+string(id), place.Receipt, placeCookieAge)
	status := http.StatusOK
	if place.Created {
		status = http.StatusCreated
	}
	body, wait, err := s.placeBodyIn(c, &ev, place, 0)
	if err != nil {
		return err
	}
	setRetryAfter(c.Response().Header(), wait)
	return writeJSON(c, status, body)
}

// joinRequest says who joins. A place token that is damaged or of another event is
// as good as none: its holder joins anew.
func (s *Server) joinRequest(r *http.Request, id waitroom.EventID) (waitroom.JoinRequest, error) {
	ev, err := s.deps.View.Event(r.Context(), id)
	if err != nil {
		return waitroom.JoinRequest{Event: id, Mobile: isPhone(r)}, err
	}
	return s.joinRequestIn(r, &ev)
}

// joinRequestIn is joinRequest for whoever has the event.
func (s *Server) joinRequestIn(r *http.Request, ev *waitroom.Event) (waitroom.JoinRequest, error) {
	req := waitroom.JoinRequest{Event: ev.ID, Mobile: isPhone(r)}
	var err error
	req.Subject, req.Groups, err = s.knownIn(r, ev)
	if err != nil || req.Subject != "" {
		return req, err
	}
	req.Receipt = cookie(r, placeCookie+string(ev.ID))
	if said := bearer(r); said != "" {
		if _, _, err := s.deps.Line.ReadReceipt(ev.ID, said); err == nil {
			req.Receipt = said
		}
	}
	return req, nil
}

// headerMobile is Sec-CH-UA-Mobile as net/http keeps it.
const headerMobile = "Sec-Ch-Ua-Mobile"

// isPhone guesses whether the page may lose its socket in a pocket.
func isPhone(r *http.Request) bool {
	return r.Header.Get(headerMobile) == "?1" || strings.Contains(r.UserAgent(), "Mobi")
}

// whenOpen adds to "not open yet" when that will be.
func (s *Server) whenOpen(c echo.Context, id waitroom.EventID, err error) error {
	if !errors.Is(err, waitroom.ErrNotOpen) {
		return err
	}
	ev, viewErr := s.deps.View.Event(c.Request().Context(), id)
	if viewErr != nil {
		return err
	}
	opens := cmp.Or(ev.LobbyOpensAt, ev.OpensAt)
	if opens == nil {
		return err
	}
	const longest = time.Hour // schedules change
	return After(err, min(max(opens.Sub(ev.Now), time.Second), longest))
}

// leave gives the place up. The cookie stays: it says who may come back.
func (s *Server) leave(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	r := c.Request()
	subject, err := s.subject(r, id)
	if err != nil && !errors.Is(err, waitroom.ErrNoEvent) {
		return err
	}
	if subject != "" {
		place, err := s.deps.Line.PlaceOf(r.Context(), id, subject)
		if err != nil {
			return err
		}
		if place.Party != nil { // whose place is all of theirs: only a part in it can be left
			return s.leaveParty(c)
		}
		return s.giveUp(c, id, place.Entry)
	}
	token := placeToken(r, id)
	if token == "" {
		return waitroom.ErrTokenRequired
	}
	entry, _, err := s.deps.Line.ReadReceipt(id, token)
	if err != nil {
		return foreign(err)
	}
	return s.giveUp(c, id, entry)
}

func (s *Server) giveUp(c echo.Context, id waitroom.EventID, entry waitroom.EntryID) error {
	if err := s.deps.Line.Leave(c.Request().Context(), id, entry); err != nil {
		return err
	}
	return noContent(c)
}

// live hands the connection to the hub, with the bare writer: what the hub takes
// over, Echo must not hold on to.
func (s *Server) live(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	s.deps.Hub.ServeLive(c.Response().Writer, c.Request(), id, placeToken(c.Request(), id))
	return nil
}

// redirectURL is where an admitted person goes: back to the address they came
// from if that host is allowed, else where the event says, else to its shop page.
func (s *Server) redirectURL(c echo.Context, id waitroom.EventID, ev *waitroom.Event) string {
	if back, ok := s.rules.returnAddress(c.QueryParam("return_to")); ok {
		return back
	}
	return cmp.Or(ev.RedirectURL, "/e/"+string(id)+"/shop")
}
