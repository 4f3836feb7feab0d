package pay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// The sandbox's HTTP form:
//
//	POST /v1/charges        Idempotency-Key, {"amount_cents","currency","method"}
//	                        201 captured, 402 declined; both with the charge
//	GET  /v1/charges/{key}  200 with the charge, 404
//	POST /v1/refunds        Idempotency-Key, {"charge_key","amount_cents","currency"}; 201
//	GET  /v1/audit          200 with the books
//	PUT  /v1/down           {"down":true}; 204
//	GET  /healthz           200, also while it is down
//
// A refusal is 422, and a provider that is down 503. MethodVanish holds the
// connection for at most vanishFor, then cuts it without an answer.

const (
	vanishFor = time.Minute
	// maxBody is the largest request and answer that either side reads.
	maxBody = 64 << 10
	keyHead = "Idempotency-Key"
)

type chargeBody struct {
	AmountCents int64  `json:"amount_cents"`
	Currency    string `json:"currency"`
	Method      string `json:"method"`
}

type refundBody struct {
	ChargeKey   string `json:"charge_key"`
	AmountCents int64  `json:"amount_cents"`
	Currency    string `json:"currency"`
}

type downBody struct {
	Down bool `json:"down"`
}

type errorBody struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Handler serves the sandbox over HTTP. It has no authentication: it is for tests.
func (s *Sandbox) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", s.serveCharge)
	mux.HandleFunc("GET /v1/charges/{key}", s.serveFind)
	mux.HandleFunc("POST /v1/refunds", s.serveRefund)
	mux.HandleFunc("GET /v1/audit", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.Audit()) })
	mux.HandleFunc("PUT /v1/down", s.serveDown)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (s *Sandbox) serveCharge(w http.ResponseWriter, r *http.Request) {
	var b chargeBody
	if !read(w, r, &b) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), vanishFor)
	defer cancel()
	c, err := s.Charge(ctx, ChargeRequest{Key: r.Header.Get(keyHead), AmountCents: b.AmountCents, Currency: b.Currency, Method: b.Method})
	switch {
	case err != nil:
		refuse(w, err)
	case c.Status == ChargeDeclined:
		reply(w, http.StatusPaymentRequired, c)
	default:
		reply(w, http.StatusCreated, c)
	}
}

func (s *Sandbox) serveFind(w http.ResponseWriter, r *http.Request) {
	c, err := s.Find(r.Context(), r.PathValue("key"))
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, c)
}

func (s *Sandbox) serveRefund(w http.ResponseWriter, r *http.Request) {
	var b refundBody
	if !read(w, r, &b) {
		return
	}
	done, err := s.Refund(r.Context(), RefundRequest{Key: r.Header.Get(keyHead), ChargeKey: b.ChargeKey, AmountCents: b.AmountCents, Currency: b.Currency})
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusCreated, done)
}

func (s *Sandbox) serveDown(w http.ResponseWriter, r *http.Request) {
	var b downBody
	if !read(w, r, &b) {
		return
	}
	s.SetDown(b.Down)
	w.WriteHeader(http.StatusNoContent)
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		reply(w, http.StatusBadRequest, errorBody{Code: "bad_json", Detail: err.Error()})
		return false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		reply(w, http.StatusBadRequest, errorBody{Code: "bad_json", Detail: "more than one value"})
		return false
	}
	return true
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone: nobody is left to tell
}

func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrNotFound):
		reply(w, http.StatusNotFound, errorBody{Code: "not_found", Detail: err.Error()})
	case errors.Is(err, ErrRefused):
		reply(w, http.StatusUnprocessableEntity, errorBody{Code: "refused", Detail: err.Error()})
	case errors.Is(err, ErrDown):
		reply(w, http.StatusServiceUnavailable, errorBody{Code: "down", Detail: err.Error()})
	default:
		panic(http.ErrAbortHandler) // the time of a vanishing call is over: no answer
	}
}
