package pay

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Promise 10: a webhook counts once, whatever is repeated, out of order, of another
// kind or of somebody else's payment, and only with a good signature of now.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := NewSandbox(SandboxConfig{})
		d := newDesk(t, newBooks(), box)
		d.books.add("p1", MethodApprove)
		hooks := Webhooks{Secret: "whsec", Read: ReadWebhook, Worker: d.worker}
		take := func(body, secret string, age time.Duration) error {
			return hooks.Take(context.Background(), Sign(secret, []byte(body), time.Now().Add(-age)), []byte(body))
		}
		captured := `{"type":"charge.answered","charge":{"key":"p1","status":"captured","amount_cents":5000,"currency":"EUR"}}`
		require.ErrorIs(t, take(captured, "other", 0), ErrSignature)
		require.ErrorIs(t, take(captured, "whsec", 5*time.Minute+2*time.Second), ErrSignature)
		require.ErrorIs(t, take(captured, "whsec", -6*time.Minute), ErrSignature)
		good := Sign("whsec", []byte(captured), time.Now())
		for _, bad := range []string{"", "t=1", "v1=00", good + "0", good[:20], "t=x," + good[13:]} {
			require.ErrorIs(t, hooks.Take(context.Background(), bad, []byte(captured)), ErrSignature, bad)
		}
		require.ErrorIs(t, hooks.Take(context.Background(), good, []byte(captured+" ")), ErrSignature, "another body")
		require.ErrorIs(t, Webhooks{Read: ReadWebhook}.Take(context.Background(), Sign("", nil, time.Now()), nil), ErrSignature, "no secret takes nothing")
		require.Empty(t, d.books.outcomes())

		// Another sum is not believed: the provider's own books are.
		other := `{"type":"charge.answered","charge":{"key":"p2","status":"captured","amount_cents":1,"currency":"EUR"}}`
		d.books.add("p2", MethodApprove)
		require.NoError(t, take(other, "whsec", 0))
		require.Equal(t, ticket.PaymentRequested, d.books.state("p2"), "the provider knows of none")
		_, err := box.Charge(t.Context(), ChargeRequest{Key: "p2", AmountCents: 1, Currency: "EUR"})
		require.NoError(t, err)
		require.NoError(t, take(other, "whsec", 0))
		require.Equal(t, ticket.PaymentRequested, d.books.state("p2"), "the provider has another sum, too")
		require.Empty(t, d.books.outcomes())
		d.books.add("p3", MethodApprove)
		_, err = box.Charge(t.Context(), ChargeRequest{Key: "p3", AmountCents: 5000, Currency: "EUR"})
		require.NoError(t, err)
		require.NoError(t, take(strings.Replace(other, "p2", "p3", 1), "whsec", 0))
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p3"), "as the provider says when it is asked")

		for _, body := range []string{
			`{"type":"charge.answered","charge":{"key":"p1","status":"pending"}}`,
			captured, captured, // again
			`{"type":"charge.answered","charge":{"key":"p1","status":"declined"}}`, // older, and late
			`{"type":"something.else"}`, `not JSON`, `{"type":"charge.answered","charge":{}}`,
		} {
			require.NoError(t, take(body, "whsec", time.Minute), body)
		}
		require.NoError(t, hooks.Take(context.Background(), "v1=00,"+good, []byte(captured)), "one of two secrets")
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p1"))
		require.Len(t, d.books.outcomes(), 2)
	})
}
