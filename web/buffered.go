package web

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// numberBody is what somebody is told of their request for a number.
type numberBody struct {
	RequestID  string           `json:"request_id"`
	Status     string           `json:"status"` // queued, processing, numbered
	EntryID    waitroom.EntryID `json:"entry_id"`
	PlaceToken string           `json:"place_token,omitempty"`
	Seq        *int64           `json:"seq,omitempty"`
	Winner     *bool            `json:"winner,omitempty"`
}

const (
	statusQueued     = "queued"
	statusProcessing = "processing"
	statusNumbered   = "numbered"
	// askForNumber is when to ask again for a number that is not known yet.
	askForNumber = time.Second
)

// enqueue takes a request for a number. Where the event says at once, the answer
// waits for the number a while; the way to it is the same.
func (s *Server) enqueue(c echo.Context, ev waitroom.Event, who waitroom.JoinRequest) error {
	key := c.Request().Header.Get("Idempotency-Key")
	if key != "" && !isName(key) {
		return wrongField("Idempotency-Key", "must be 1 to 128 of letters, digits, - _ and .")
	}
	ctx := c.Request().Context()
	n, err := s.deps.Line.Enqueue(ctx, waitroom.EnqueueRequest{JoinRequest: who, RequestID: key})
	if err != nil {
		return s.guessed(c, ev, s.whenOpen(c, ev.ID, err))
	}
	s.setCookie(c, placeCookie+string(ev.ID), n.Receipt, placeCookieAge)
	if ev.AtOnce && n.Seq == 0 {
		if who.Receipt = n.Receipt; who.Subject != "" {
			who.Receipt = ""
		}
		n = s.awaitNumber(ctx, who, n)
	}
	return writeNumber(c, n, statusQueued)
}

// awaitNumber asks for a number until it is known, or for a moment.
func (s *Server) awaitNumber(ctx context.Context, who waitroom.JoinRequest, n waitroom.Numbering) waitroom.Numbering {
	const most, first, longest = 2 * time.Second, 10 * time.Millisecond, 160 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for wait := first; ; wait = min(2*wait, longest) {
		select {
		case <-ctx.Done():
			return n
		case <-time.After(wait):
		}
		if now, err := s.deps.Line.Numbering(ctx, who); err == nil && now.Seq > 0 {
			now.Receipt = n.Receipt
			return now
		}
	}
}

// numbering tells somebody where their request stands.
func (s *Server) numbering(c echo.Context, id waitroom.EventID) error {
	r := c.Request()
	who := waitroom.JoinRequest{Event: id}
	var err error
	if who.Subject, err = s.subject(r, id); err != nil {
		return err
	}
	if who.Subject == "" {
		if who.Receipt = placeToken(r, id); who.Receipt == "" {
			return waitroom.ErrTokenRequired
		}
	}
	n, err := s.deps.Line.Numbering(r.Context(), who)
	if err != nil {
		return foreign(err)
	}
	return writeNumber(c, n, statusProcessing)
}

func writeNumber(c echo.Context, n waitroom.Numbering, waiting string) error {
	body := numberBody{RequestID: n.RequestID, Status: waiting, EntryID: n.Entry, PlaceToken: n.Receipt}
	if n.Seq == 0 {
		setRetryAfter(c.Response().Header(), askForNumber)
		return writeJSON(c, http.StatusAccepted, body)
	}
	body.Status, body.Seq, body.Winner = statusNumbered, &n.Seq, &n.Winner
	return writeJSON(c, http.StatusOK, body)
}
