package main

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/natstest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// audited has the service recount an event, and wants every sum to balance; flags
// of real stores have it recounted from them, too.
func (s *instance) audited(event string, flags ...string) ticket.Books {
	s.t.Helper()
	asks := [][]string{{"audit", "--event", event, "--json", "--target", s.url, "--operator-token", operatorToken}}
	if len(flags) > 0 {
		asks = append(asks, append([]string{"audit", "--event", event, "--json"}, flags...))
	}
	var books ticket.Books
	for _, ask := range asks {
		status, stdout, stderr := runCommand(s.t, nil, ask...)
		require.NoError(s.t, json.Unmarshal([]byte(stdout), &books), "%s%s", stdout, stderr)
		require.Empty(s.t, books.Failed(), ask)
		require.Equal(s.t, exitOK, status)
		require.Greater(s.t, len(books.Sums), 15)
	}
	return books
}

// The audit says what is wrong, and ends with 1; a wrong call ends with 2.
func TestAuditCommand(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startInstance(t, "--data", data)
	s.create("hall", hall(nil))
	b := newBuyer(t, s, "hall")
	id := b.held(s, map[string]any{"quantity": 2})
	status, _, _ := b.pay(s, id, "pay", "approve")
	require.Equal(t, http.StatusAccepted, status)
	b.becomes(s, id, "paid")
	until(t, 10*time.Second, "all is published", func() bool { return s.audited("hall").Counts["outbox published"] == 3 })
	var names []string
	for _, sum := range s.audited("hall").Sums {
		names = append(names, sum.Name)
	}
	for _, want := range []string{"broker", "broker_committed", "tokens_granted"} {
		require.True(t, slices.Contains(names, want), "%s in %v", want, names)
	}

	s.create("gate-only", nil)
	status, stdout, stderr := runCommand(t, nil, "audit", "--event", "gate-only", "--target", s.url, "--operator-token", operatorToken)
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "line admitted 0, line inside 0, line waiting 0")
	require.Contains(t, stdout, "nothing is sold")
	status, stdout, stderr = runCommand(t, nil, "audit", "--event", "hall", "--data", data)
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "the books balance")
	require.Regexp(t, `(?m)^seats_sold +2 +2 +pass`, stdout)
	require.Contains(t, stdout, "seats sold 2")
	require.NotContains(t, stdout, "\nbroker ", "the embedded store is in another process")

	db, err := sql.Open("sqlite", filepath.Join(data, "waitroom.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE seats SET status = 'free' WHERE event = 'hall' AND status = 'sold'`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	for _, from := range [][]string{{"--data", data}, {"--target", s.url, "--operator-token", operatorToken}} {
		status, stdout, _ = runCommand(t, nil, append([]string{"audit", "--event", "hall"}, from...)...)
		require.Equal(t, exitFailed, status)
		require.Regexp(t, `(?m)^seats_sold +2 +0 +FAIL`, stdout)
		require.Contains(t, stdout, "1 sums do not balance")
	}

	for _, c := range []struct {
		status int
		says   string
		args   []string
	}{
		{exitUsage, "event", []string{"--data", data}},
		{exitUsage, "operator-token", []string{"--event", "hall", "--target", s.url}},
		{exitFailed, "token_invalid", []string{"--event", "hall", "--target", s.url, "--operator-token", "wrong-token"}},
		{exitFailed, "not_found", []string{"--event", "nothing", "--target", s.url, "--operator-token", operatorToken}},
		{exitFailed, "neither sold nor", []string{"--event", "nothing", "--data", data}},
		{exitFailed, "no database", []string{"--event", "hall", "--data", filepath.Join(data, "elsewhere")}},
	} {
		status, stdout, stderr := runCommand(t, nil, append([]string{"audit"}, c.args...)...)
		require.Equal(t, c.status, status, "%v: %s%s", c.args, stdout, stderr)
		require.Contains(t, stderr, c.says)
	}
}

// The whole way of a sale over each broker: the payment worker hears of it there, a
// node without the database tells the buyer, and the audit finds every message.
func TestBrokers(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"nats": func(t *testing.T) string { t.Helper(); return natstest.Start(t).URL() },
		"kafka": func(t *testing.T) string {
			t.Helper()
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
			require.NoError(t, err)
			t.Cleanup(cluster.Close)
			return "kafka://" + cluster.ListenAddrs()[0] + "/sales?partitions=3"
		},
		"another redis": func(t *testing.T) string { t.Helper(); return redistest.Start(t, redistest.Config{}).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := append(realServers.flags(t), "--broker", url(t))
			seller := startInstance(t, append(flags, "--roles", "admission,ticket,worker")...)
			front := startInstance(t, append(flags, "--roles", "line")...)
			seller.create("hall", hall(nil))
			b := newBuyer(t, seller, "hall")
			l := b.open(front)
			id := b.held(seller, map[string]any{"quantity": 2})
			status, _, _ := b.pay(seller, id, "pay", "approve")
			require.Equal(t, http.StatusAccepted, status)
			told := l.next(20*time.Second, "reservation")
			require.Equal(t, "paid", told["status"])
			require.Equal(t, id, told["reservation_id"])
			until(t, 10*time.Second, "all is published", func() bool {
				return seller.audited("hall", flags...).Counts["outbox published"] == 3
			})
			_, _, replayed := runCommand(t, nil, "event", "replay", "hall", "--target", seller.url, "--operator-token", operatorToken)
			require.Empty(t, replayed)
		})
	}
}

// A payment provider that is not there is noticed at the start; the sale goes on.
func TestUnreachableProviderIsNoticed(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--payments", "http://127.0.0.1:1")
	require.Contains(t, s.logs(), "payment provider does not answer")
}

// A sandbox tells of each charge by a signed webhook, and one that is told twice
// changes nothing; one that is signed otherwise is refused.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	number, err := redistest.FreePort(t.Context())
	require.NoError(t, err)
	port := strconv.Itoa(number)
	secret := "whsec-of-this-test"
	box := startProcess(t, []string{"WAITROOM_WEBHOOK_SECRET=" + secret}, "sandbox", "--addr", "127.0.0.1:0", "--log-format", "json",
		"--webhook", "http://127.0.0.1:"+port+"/v1/payments/webhooks/sandbox")
	s := startInstance(t, "--addr", "127.0.0.1:"+port, "--payments", box.url, "--webhook-secret", secret)
	s.create("hall", hall(nil))
	b := newBuyer(t, s, "hall")
	id := b.held(s, map[string]any{"quantity": 2})
	status, _, _ := b.pay(s, id, "pay", "twice")
	require.Equal(t, http.StatusAccepted, status)
	b.becomes(s, id, "paid")
	declined := newBuyer(t, s, "hall")
	other := declined.held(s, map[string]any{"quantity": 1})
	status, _, _ = declined.pay(s, other, "pay", "decline")
	require.Equal(t, http.StatusAccepted, status)
	declined.becomes(s, other, "payment_failed")
	until(t, 10*time.Second, "two webhooks of one charge and one of another", func() bool {
		return strings.Count(box.logs(), "webhook taken") == 3
	})
	s.audited("hall")
	body := map[string]any{"type": "charge.answered"}
	status, _, refused := call(t, http.MethodPost, s.url+"/v1/payments/webhooks/sandbox", body, map[string]string{"Stripe-Signature": "t=1,v1=00"})
	require.Equal(t, http.StatusUnauthorized, status)
	require.Equal(t, "token_invalid", refused["code"])
	status, _, _ = call(t, http.MethodPost, s.url+"/v1/payments/webhooks/stripe", body, nil)
	require.Equal(t, http.StatusNotFound, status)
	require.NotContains(t, s.logs(), secret)
}
