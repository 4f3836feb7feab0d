package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/waitroom-dev/waitroom/ticket/pay"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "sk_test_verysecret"

func client(t *testing.T, url string) *Client {
	t.Helper()
	c, err := New(Config{URL: url, Key: secret, Timeout: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

var asked = pay.ChargeRequest{Key: "p'1", AmountCents: 5000, Currency: "EUR", Method: "pm_card_visa"}

// answering serves one answer to every call.
func answering(t *testing.T, status int, body string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return client(t, s.URL)
}

// Promises 2 and 3: what each answer means for a charge.
func TestAnswers(t *testing.T) {
	t.Parallel()
	failed := func(kind, code, decline string) string {
		return fmt.Sprintf(`{"error":{"type":%q,"code":%q,"decline_code":%q,"message":"no"}}`, kind, code, decline)
	}
	got := func(status string) string {
		return fmt.Sprintf(`{"id":"pi_1","status":%q,"amount":5000,"currency":"eur","metadata":{"waitroom_payment":"p'1"}}`, status)
	}
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   pay.ChargeStatus
		is     error
	}{
		{"succeeded", 200, got("succeeded"), pay.ChargeCaptured, nil},
		{"processing", 200, got("processing"), pay.ChargePending, nil},
		{"canceled", 200, got("canceled"), pay.ChargeDeclined, nil},
		{"a declined card", 402, failed("card_error", "card_declined", "insufficient_funds"), pay.ChargeDeclined, nil},
		{"a wrong amount", 400, failed("invalid_request_error", "amount_too_small", ""), "", pay.ErrRefused},
		{"a key of another charge", 400, failed("idempotency_error", "", ""), "", nil},
		{"still running", 409, failed("idempotency_error", "idempotency_key_in_use", ""), "", nil},
		{"too many", 429, failed("invalid_request_error", "rate_limit", ""), "", nil},
		{"out of order", 500, failed("api_error", "", ""), "", nil},
		{"a proxy", 502, "<html>", "", nil},
		{"nonsense", 200, "<html>", "", nil},
		{"a wrong key", 401, failed("invalid_request_error", "", ""), "", pay.ErrDown},
	} {
		charge, err := answering(t, c.status, c.body).Charge(t.Context(), asked)
		require.Equal(t, c.want, charge.Status, c.name)
		if c.want != "" {
			require.NoError(t, err, c.name)
			require.Equal(t, "p'1", charge.Key, c.name)
			require.EqualValues(t, 5000, charge.AmountCents)
			require.Equal(t, "EUR", charge.Currency)
			continue
		}
		require.Error(t, err, c.name)
		require.NotContains(t, err.Error(), secret)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, c.name)
		} else {
			require.NotErrorIs(t, err, pay.ErrRefused, "%s: it says nothing", c.name)
			require.NotErrorIs(t, err, pay.ErrNotSent, c.name)
		}
	}
	declined, err := answering(t, 402, failed("card_error", "card_declined", "lost_card")).Charge(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, "lost_card", declined.Reason)

	_, err = client(t, "http://127.0.0.1:1").Charge(t.Context(), asked)
	require.ErrorIs(t, err, pay.ErrNotSent)
	gone := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-gone:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(gone) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = client(t, hung.URL).Charge(ctx, asked)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, pay.ErrNotSent, "it may have been charged")

	_, err = New(Config{})
	require.ErrorContains(t, err, "key")
	_, err = New(Config{Key: secret, URL: "ftp://x"})
	require.ErrorContains(t, err, "url")
}

// shop is a Stripe with books, in the fewest lines.
type shop struct {
	mu      sync.Mutex
	answers map[string][]byte // by idempotency key
	intents []map[string]any
	refunds int
	behind  bool // the search finds nothing yet
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if again := s.answers[key]; key != "" && again != nil {
		_, _ = w.Write(again)
		return
	}
	var answer any
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/payment_intents":
		amount, _ := strconv.Atoi(r.FormValue("amount"))
		i := map[string]any{
			"id": fmt.Sprint("pi_", len(s.intents)), "status": "succeeded", "amount": amount, "currency": r.FormValue("currency"),
			"metadata": map[string]string{metaKey: r.FormValue("metadata[" + metaKey + "]")},
		}
		s.intents = append(s.intents, i)
		answer = i
	case "GET /v1/payment_intents/search":
		var data []any
		for _, i := range s.intents {
			meta, _ := i["metadata"].(map[string]string)
			if !s.behind && r.URL.Query().Get("query") == "metadata['"+metaKey+"']:'"+meta[metaKey]+"'" {
				data = append(data, i)
			}
		}
		answer = map[string]any{"data": data}
	case "POST /v1/refunds":
		if s.refunds > 0 {
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]any{"error": failure{Type: "invalid_request_error", Code: "charge_already_refunded"}}
			break
		}
		s.refunds++
		answer = map[string]any{"id": "re_1"}
	}
	raw, _ := json.Marshal(answer)
	if key != "" && r.URL.Path != "/v1/refunds" {
		s.answers[key] = raw
	}
	_, _ = w.Write(raw)
}

// Promise 1: a charge and a refund count once.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := &shop{answers: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c := client(t, server.URL)
	ask := asked
	ask.Key = "p1"
	_, err := c.Find(t.Context(), "p1")
	require.ErrorIs(t, err, pay.ErrNotFound)
	for range 3 {
		charge, err := c.Charge(t.Context(), ask)
		require.NoError(t, err)
		require.Equal(t, pay.Charge{ID: "pi_0", Key: "p1", Status: pay.ChargeCaptured, AmountCents: 5000, Currency: "EUR"}, charge)
	}
	require.Len(t, s.intents, 1)
	charge, err := c.Find(t.Context(), "p1")
	require.NoError(t, err)
	require.Equal(t, pay.ChargeCaptured, charge.Status)
	refund := pay.RefundRequest{Key: "p1:refund", ChargeKey: "p1", AmountCents: 5000, Currency: "EUR"}
	s.behind = true
	_, err = c.Refund(t.Context(), refund)
	require.ErrorContains(t, err, "not found yet")
	require.NotErrorIs(t, err, pay.ErrRefused, "it comes again")
	s.behind = false
	for range 2 { // the second time Stripe says that it was done already
		_, err = c.Refund(t.Context(), refund)
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.refunds)
}

// Promise 1, against Stripe's own published mock: it checks each call against the
// API's specification, and answers one that does not fit with 400.
func TestStripesOwnMock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it is built first")
	}
	bin := filepath.Join(t.TempDir(), "stripe-mock")
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile", ".ci/tools.mod", "-o", bin, "github.com/stripe/stripe-mock")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "%s", out)
		t.Skipf("cannot be built here: %s", out)
	}
	number, err := redistest.FreePort(t.Context())
	require.NoError(t, err)
	port := strconv.Itoa(number)
	mock := exec.Command(bin, "-http-port", port) // built just now, killed below
	require.NoError(t, mock.Start())
	t.Cleanup(func() {
		_ = mock.Process.Kill()
		_ = mock.Wait()
	})
	c := client(t, "http://"+net.JoinHostPort("127.0.0.1", port))
	var charge pay.Charge
	for deadline := time.Now().Add(30 * time.Second); ; {
		if charge, err = c.Charge(t.Context(), asked); err == nil || time.Now().After(deadline) {
			break
		}
		require.ErrorIs(t, err, pay.ErrNotSent)
		<-time.After(50 * time.Millisecond)
	}
	require.NoError(t, err)
	require.NotEmpty(t, charge.ID)
	_, err = c.Find(t.Context(), "p1")
	require.ErrorIs(t, err, pay.ErrNotFound, "the mock keeps nothing: its intent is not ours")
	var made struct{ ID, Object string }
	require.NoError(t, c.call(t.Context(), http.MethodPost, "/v1/refunds", "k", map[string][]string{"payment_intent": {"pi_1"}, "amount": {"100"}}, &made))
	require.Equal(t, "refund", made.Object)
	err = c.call(t.Context(), http.MethodPost, "/v1/refunds", "k", map[string][]string{"amount": {"a lot"}}, &made)
	require.ErrorIs(t, err, pay.ErrRefused, "the mock does check")
}

// Promise 4: events of ours are read, others passed over.
func TestReadWebhook(t *testing.T) {
	t.Parallel()
	event := func(kind, status string) []byte {
		return fmt.Appendf(nil, `{"type":%q,"data":{"object":{"id":"pi_1","status":%q,"amount":5000,"currency":"eur","metadata":{"waitroom_payment":"p1"}}}}`, kind, status)
	}
	for _, c := range []struct {
		kind, status string
		want         pay.ChargeStatus
	}{
		{"payment_intent.succeeded", "succeeded", pay.ChargeCaptured},
		{"payment_intent.payment_failed", "requires_payment_method", pay.ChargeDeclined},
		{"payment_intent.payment_failed", "processing", pay.ChargePending},
		{"payment_intent.canceled", "canceled", pay.ChargeDeclined},
		{"payment_intent.created", "requires_payment_method", ""},
		{"charge.refunded", "succeeded", ""},
	} {
		got, ok, err := ReadWebhook(event(c.kind, c.status))
		require.NoError(t, err)
		require.Equal(t, c.want != "", ok, c.kind)
		require.Equal(t, c.want, got.Status, c.kind)
	}
	_, ok, err := ReadWebhook([]byte(`{"type":"payment_intent.succeeded","data":{"object":{"status":"succeeded"}}}`))
	require.NoError(t, err)
	require.False(t, ok, "not one of ours")
	_, _, err = ReadWebhook([]byte("{"))
	require.Error(t, err)
}
