package pay

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onProviders runs a test on the sandbox itself and on its HTTP form.
func onProviders(t *testing.T, test func(t *testing.T, p Provider, s *Sandbox)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		s := NewSandbox(SandboxConfig{Delay: 50 * time.Millisecond})
		test(t, s, s)
	})
	t.Run("over HTTP", func(t *testing.T) {
		t.Parallel()
		s := NewSandbox(SandboxConfig{Delay: 50 * time.Millisecond})
		test(t, serve(t, s.Handler()), s)
	})
}

func serve(t *testing.T, h http.Handler) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := NewClient(ClientConfig{URL: srv.URL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func asked(key, method string) ChargeRequest {
	return ChargeRequest{Key: key, AmountCents: 5000, Currency: "EUR", Method: method}
}

// Each method does what it says, at both forms, once per key.
func TestSandboxMethods(t *testing.T) {
	t.Parallel()
	onProviders(t, func(t *testing.T, p Provider, s *Sandbox) {
		t.Helper()
		ctx := t.Context()
		for _, m := range []string{"", MethodApprove, MethodDelay, MethodTwice} {
			c, err := p.Charge(ctx, asked("k-"+m, m))
			require.NoError(t, err, m)
			require.Equal(t, ChargeCaptured, c.Status, m)
			again, err := p.Charge(ctx, asked("k-"+m, m))
			require.NoError(t, err)
			require.Equal(t, c, again, "the same key, the same answer")
			found, err := p.Find(ctx, "k-"+m)
			require.NoError(t, err)
			require.Equal(t, c, found)
		}
		c, err := p.Charge(ctx, asked("no", MethodDecline))
		require.NoError(t, err, "a decline is an answer")
		require.Equal(t, ChargeDeclined, c.Status)
		require.Equal(t, "card_declined", c.Reason)

		_, err = p.Charge(ctx, asked("down", MethodDown))
		require.ErrorIs(t, err, ErrDown)
		_, err = p.Find(ctx, "down")
		require.ErrorIs(t, err, ErrNotFound)

		gone, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err = p.Charge(gone, asked("vanish", MethodVanish))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c, err = p.Find(ctx, "vanish")
		require.NoError(t, err)
		require.Equal(t, ChargeCaptured, c.Status, "charged, and never answered")

		require.Equal(t, Books{
			Captured: 5, CapturedCents: 25000, Declined: 1, ChargeCalls: 11, FindCalls: 6, Repeated: 4,
		}, s.Audit())
	})
}

func TestSandboxRefusals(t *testing.T) {
	t.Parallel()
	onProviders(t, func(t *testing.T, p Provider, s *Sandbox) {
		t.Helper()
		ctx := t.Context()
		_, err := p.Charge(ctx, asked("a/b c", MethodApprove))
		require.NoError(t, err, "keys may hold anything")
		_, err = p.Find(ctx, "a/b c")
		require.NoError(t, err)
		other := asked("a/b c", MethodApprove)
		other.AmountCents++
		_, err = p.Charge(ctx, other)
		require.ErrorIs(t, err, ErrRefused, "the key of another charge")
		_, err = p.Charge(ctx, ChargeRequest{Key: "zero", Currency: "EUR"})
		require.ErrorIs(t, err, ErrRefused)
		_, err = p.Charge(ctx, asked("no", MethodDecline))
		require.NoError(t, err)

		back := RefundRequest{Key: "r1", ChargeKey: "a/b c", AmountCents: 5000, Currency: "EUR"}
		r, err := p.Refund(ctx, back)
		require.NoError(t, err)
		again, err := p.Refund(ctx, back)
		require.NoError(t, err)
		require.Equal(t, r, again)
		for name, bad := range map[string]RefundRequest{
			"nothing left":    {Key: "r2", ChargeKey: "a/b c", AmountCents: 1, Currency: "EUR"},
			"key of another":  {Key: "r1", ChargeKey: "a/b c", AmountCents: 1, Currency: "EUR"},
			"never charged":   {Key: "r3", ChargeKey: "nobody", AmountCents: 1, Currency: "EUR"},
			"declined":        {Key: "r4", ChargeKey: "no", AmountCents: 1, Currency: "EUR"},
			"negative amount": {Key: "r5", ChargeKey: "a/b c", AmountCents: -1, Currency: "EUR"},
		} {
			_, err := p.Refund(ctx, bad)
			require.ErrorIs(t, err, ErrRefused, name)
		}
		captured, refunded := s.Recount()
		require.EqualValues(t, 5000, captured)
		require.EqualValues(t, 5000, refunded)
		c, err := p.Find(ctx, "a/b c")
		require.NoError(t, err)
		require.EqualValues(t, 5000, c.RefundedCents)
	})
}

// A hundred calls at once with one key are one charge.
func TestSandboxChargesOncePerKey(t *testing.T) {
	t.Parallel()
	onProviders(t, func(t *testing.T, p Provider, s *Sandbox) {
		t.Helper()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _, _ = p.Charge(t.Context(), asked("k", MethodApprove)) })
		}
		all.Wait()
		require.EqualValues(t, 1, s.Audit().Captured)
		require.EqualValues(t, 100, s.Audit().ChargeCalls)
	})
}

func TestSandboxDownAndBooksOverHTTP(t *testing.T) {
	t.Parallel()
	s := NewSandbox(SandboxConfig{})
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	c, err := NewClient(ClientConfig{URL: srv.URL})
	require.NoError(t, err)
	defer c.Close()
	put := func(body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL+"/v1/down", strings.NewReader(body))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Equal(t, http.StatusNoContent, put(`{"down":true}`))
	for name, call := range map[string]func() error{
		"charge": func() error { _, err := c.Charge(t.Context(), asked("k", "")); return err },
		"find":   func() error { _, err := c.Find(t.Context(), "k"); return err },
		"refund": func() error { _, err := c.Refund(t.Context(), RefundRequest{Key: "k"}); return err },
	} {
		require.ErrorIs(t, call(), ErrDown, name)
	}
	require.Equal(t, http.StatusNoContent, put(`{"down":false}`))
	require.Equal(t, http.StatusBadRequest, put(`{"up":true}`), "unknown fields are refused")
	require.Equal(t, http.StatusBadRequest, put(`{"down":true}{"down":true}`))
	require.Equal(t, http.StatusBadRequest, put(`{"down":`+strings.Repeat(" ", 70<<10)+`true}`))
	_, err = c.Charge(t.Context(), asked("k", ""))
	require.NoError(t, err)
	b, err := c.Audit(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.Audit(), b)
}

// What the client makes of answers that are no sandbox's: never a charge, never
// "not found", and "not sent" only when there was no connection.
func TestClientAgainstStrangers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		not    []error
	}{
		"a proxy's 404":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no route", http.StatusNotFound) }, []error{ErrNotFound, ErrNotSent, ErrRefused}},
		"a gateway's 502": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, []error{ErrNotFound, ErrNotSent, ErrRefused}},
		"bad key, 401":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, []error{ErrNotFound, ErrNotSent, ErrRefused}},
		"a redirect":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, []error{ErrNotSent, ErrRefused}},
		"not JSON":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, []error{ErrNotSent, ErrRefused}},
		"cut off":         {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []error{ErrNotSent, ErrRefused}},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id":%q}`, bytes.Repeat([]byte("x"), 100<<10))
		}, []error{ErrNotSent, ErrRefused}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, c.answer)
			_, chargeErr := p.Charge(t.Context(), asked("k", ""))
			_, findErr := p.Find(t.Context(), "k")
			for _, err := range []error{chargeErr, findErr} {
				require.Error(t, err)
				for _, not := range c.not {
					require.NotErrorIs(t, err, not)
				}
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		srv := httptest.NewServer(http.NotFoundHandler())
		url := srv.URL
		srv.Close()
		p, err := NewClient(ClientConfig{URL: url})
		require.NoError(t, err)
		_, err = p.Charge(t.Context(), asked("k", ""))
		require.ErrorIs(t, err, ErrNotSent)
	})
	t.Run("bad address", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{"", "localhost:80", "ftp://host", "http://", ":"} {
			_, err := NewClient(ClientConfig{URL: bad})
			require.Error(t, err, bad)
		}
	})
}
