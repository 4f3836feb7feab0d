package web

import (
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
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// me tells a person where they stand, where no socket gets through: from memory, as
// long as they wait. Its ETag carries the position that it shows, so that whoever
// sends it back is shown no greater one, whichever node answers.
func (s *Server) me(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	if ev, err := s.deps.View.Event(c.Request().Context(), id); err == nil && ev.Mode == waitroom.ModeBuffered {
		return s.numbering(c, id)
	}
	place, err := s.placeOf(c, id)
	if err != nil {
		return err
	}
	body, wait, err := s.placeBody(c, place, shownBefore(c.Request(), place.Seq))
	if err != nil {
		return err
	}
	setRetryAfter(c.Response().Header(), wait)
	doc, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode place: %w", err)
	}
	if notModified(c, placeTag(place.Seq, body.Position, doc), "no-store") {
		return nil
	}
	return c.Blob(http.StatusOK, mimeJSON, doc)
}

func (s *Server) placeOf(c echo.Context, id waitroom.EventID) (waitroom.Place, error) {
	r := c.Request()
	subject, err := s.subject(r, id)
	if err != nil && !errors.Is(err, waitroom.ErrNoEvent) { // which the token's check comes before
		return waitroom.Place{}, err
	}
	if subject != "" {
		return s.deps.View.PlaceOf(r.Context(), id, subject)
	}
	token := placeToken(r, id)
	if token == "" {
		return waitroom.Place{}, waitroom.ErrTokenRequired
	}
	place, err := s.deps.View.Place(r.Context(), id, token)
	return place, foreign(err)
}

// placeTag names an answer: W/"seq.position.hash". Whoever makes one up shows
// nobody else anything.
func placeTag(seq waitroom.Seq, position *int64, doc []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(doc) // a hash never fails
	b := append(make([]byte, 0, 64), `W/"`...)
	b = append(strconv.AppendInt(b, int64(seq), 36), '.')
	if position != nil {
		b = strconv.AppendInt(b, *position, 36)
	}
	b = append(b, '.')
	return string(append(strconv.AppendUint(b, h.Sum64(), 36), '"'))
}

// shownBefore is the position that the caller was last shown at this sequence, by
// the tag of that answer; 0 is none.
func shownBefore(r *http.Request, seq waitroom.Seq) int64 {
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		tag = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`), `"`)
		of, rest, _ := strings.Cut(tag, ".")
		shown, _, _ := strings.Cut(rest, ".")
		if of != strconv.FormatInt(int64(seq), 36) {
			continue
		}
		if n, err := strconv.ParseInt(shown, 36, 64); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// placeBody is a place as this node sees it, and when to ask again. The position is
// not above the one that was shown before (0: none was).
func (s *Server) placeBody(c echo.Context, p waitroom.Place, before int64) (placeBody, time.Duration, error) {
	ev, err := s.deps.View.Event(c.Request().Context(), p.Event)
	if err != nil { // the place is safe all the same, and its holder must learn it
		s.log.Warn("event not in view", zap.String("event", string(p.Event)), zap.Error(err))
		return s.placeBodyIn(c, &waitroom.Event{}, p, before)
	}
	return s.placeBodyIn(c, &ev, p, before)
}

// placeBodyIn is placeBody for whoever has the event; without an id it is not in view.
func (s *Server) placeBodyIn(c echo.Context, ev *waitroom.Event, p waitroom.Place, before int64) (body placeBody, wait time.Duration, err error) {
	body = placeBody{EntryID: p.Entry, State: p.State, PlaceToken: p.Receipt}
	if ev.ID != "" {
		body.Party = partyBodyOf(p.Party, ev)
		body.Waiting, body.Lane = new(ev.WaitingWith(p.Seq)), ev.LaneOf(p.Seq)
	}
	wait = polledRarely
	switch p.State {
	case waitroom.EntryWaiting:
		s.setCause(&body, ev)
		wait = withinGrace(c.Request(), ev, s.setPosition(c.Request().Context(), &body, p, before))
	case waitroom.EntryAdmitted, waitroom.EntryEntered:
		if p.Party == nil || p.Party.Buys { // another member's is the token
			if body.EntryToken, err = s.deps.Passes.Mint(p.Grant); err != nil {
				return body, 0, fmt.Errorf("mint entry token: %w", err)
			}
		}
		ends := p.Grant.ClaimBy
		if p.State == waitroom.EntryEntered {
			ends = p.Grant.SessionEnds
		}
		body.AdmittedAt, body.ExpiresAt = new(stamp(p.Grant.AdmittedAt)), new(stamp(ends))
		body.RedirectURL = s.redirectURL(c, p.Event, ev)
	case waitroom.EntryLobby:
		s.setCause(&body, ev)
		if n, ok := s.deps.View.Position(p.Event, p.Seq); ok && body.Waiting != nil { // who has just come counts
			body.Waiting = new(max(*body.Waiting, n))
		}
		wait = withinGrace(c.Request(), ev, polledFar)
	case waitroom.EntryCompleted, waitroom.EntryExpired, waitroom.EntryLeft, waitroom.EntryBlocked:
		wait = 0 // nothing will change by asking
	}
	return body, wait, nil
}

// setCause tells whoever waits the event's state, and why the line stands or is slow,
// where it does.
func (s *Server) setCause(body *placeBody, ev *waitroom.Event) {
	body.EventState = ev.State // "" while the event is not in view
	reason, since := s.cause(ev)
	if ev.State != waitroom.Open || reason != ev.Reason {
		body.Reason, body.Since = reason, since
	}
}

// How often a page without a socket asks: as often as it would be told by one. Near
// is whoever comes in within ten times polledNear, since a person's limit has to
// last for a second tab too; who is inside asks polledRarely.
const (
	polledNear   = time.Second
	polledFar    = 5 * time.Second
	polledRarely = 20 * time.Second
)

// withinGrace lets whoever only polls ask three times in the grace of the event,
// so that one answer that is lost costs no place.
func withinGrace(r *http.Request, ev *waitroom.Event, wait time.Duration) time.Duration {
	const asks = 3
	grace := time.Duration(ev.Grace)
	if isPhone(r) {
		grace = time.Duration(ev.GraceMobile)
	}
	if grace == 0 { // the event is not in view
		return wait
	}
	return min(wait, max(grace/asks, time.Second))
}

// setPosition adds where in the line somebody is, and says when to ask again.
func (s *Server) setPosition(ctx context.Context, body *placeBody, p waitroom.Place, before int64) time.Duration {
	position, ok := s.position(ctx, p)
	if !ok { // this node's memory is more than a moment away from the store's
		return polledNear
	}
	if !p.Created { // a place that was just taken has not been shown
		position = s.deps.View.Shown(p.Event, p.Entry, p.Seq, position)
	}
	if before > 0 {
		position = min(position, before)
	}
	body.Position, body.Ahead = &position, new(position-1)
	if body.Waiting != nil {
		body.Waiting = new(max(*body.Waiting, position))
	}
	eta, p90, ok := s.deps.View.Estimate(p.Event, p.Seq, position)
	if ok {
		body.EtaS, body.EtaP90S = new(wholeSeconds(eta)), new(wholeSeconds(p90))
	}
	return askAgain(position, eta, ok)
}

// position asks this node's memory, and waits a moment for it where the store is
// ahead: a place that was just put back by its receipt comes with the next look at
// the feed.
func (s *Server) position(ctx context.Context, p waitroom.Place) (int64, bool) {
	const looks, between = 8, 25 * time.Millisecond
	for look := 0; ; look++ {
		position, ok := s.deps.View.Position(p.Event, p.Seq)
		if ok || look == looks {
			return position, ok
		}
		select {
		case <-ctx.Done():
			return 0, false
		case <-time.After(between):
		}
	}
}

// askAgain is when somebody at a position should ask next: sooner the nearer.
func askAgain(position int64, eta time.Duration, known bool) time.Duration {
	wait := time.Duration(min(position, 1<<20)) * 5 * time.Millisecond
	if known {
		wait = eta / 10
	}
	return min(max(wait, polledNear), polledFar)
}
